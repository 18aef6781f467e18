"""A shell command, run by a launcher that ends all it has started."""

from __future__ import annotations

import asyncio
import marshal
import os
import re
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from subprocess import PIPE, Popen
from typing import Any

from msgspec import Struct

from treadle.errors import ToolError
from treadle.ports.command_runner import Command, CommandEnd, Ending
from treadle.tools.builtin.excerpt import Excerpt
from treadle.tools.builtin.launcher import SHELL, Plan
from treadle.tools.threads import THREADS

END_SECONDS = 15.0
"""How long the launcher may take to end everything, on a machine that is very busy."""

DRAIN_SECONDS = 1.0
"""How long to wait for output after that: somebody else may hold it open."""

PASSED_ON = ("HOME", "LANG", "LANGUAGE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER")
SECRET = re.compile("KEY|TOKEN|SECRET|PASS|CREDENTIAL|AUTH", re.IGNORECASE)

PROGRAM = "treadle.tools.builtin.launcher"
PACKAGES = ("treadle", "treadle.tools", "treadle.tools.builtin")
MODULES = ("treadle.tools.builtin.processes", PROGRAM)

BEGIN = """
import marshal, sys, types
sent = marshal.load(sys.stdin.buffer)
for name in sent["packages"]:
    sys.modules[name] = types.ModuleType(name)
for name, code in sent["modules"]:
    package, _, short = name.rpartition(".")
    sys.modules[name] = module = types.ModuleType(name)
    setattr(sys.modules[package], short, module)
    exec(code, module.__dict__)
module.main(sent["plan"])
"""
"""What the launcher begins with: its modules come with the plan, from memory. So what a command
has written over their files is not run."""


OPTIONS: dict[str, Any] = {
    "cwd": "/",
    "env": {},
    "stdin": PIPE,
    "stdout": PIPE,
    "stderr": PIPE,
    "start_new_session": True,
}
"""How the launcher is started: with nothing of this process but its pipes."""


class Launch(Struct, frozen=True):
    """A plan, and the modules and packages of the program that follows it; the last has `main`."""

    plan: Plan
    packages: tuple[str, ...] = PACKAGES
    modules: tuple[str, ...] = MODULES


class Unconfined:
    """Runs commands without a sandbox: they can do whatever this process may.

    Of the environment they get only what every program needs, no keys or tokens.
    """

    async def run(self, command: Command) -> CommandEnd:
        """Run a command; when this returns or is cancelled, no process of it is left."""
        plan = Plan(
            argv=[*SHELL, command.text],
            env=environment(),
            folder=command.folder,
            rlimits=[],
            processes=None,
            memory=None,
        )
        return await launch(command, lambda: Launch(plan))


async def launch(command: Command, prepare: Callable[[], Launch]) -> CommandEnd:
    """Run what `prepare` says, which is called in a thread, as a command.

    Its `ValueError` and `OSError` are told as why the command was not started.
    """
    loop = asyncio.get_running_loop()
    began = loop.time()
    try:
        message = await THREADS.run(lambda: _message(prepare()))
        transport, listener = await _start(command.max_output)
    except (OSError, ValueError, ToolError) as error:
        return CommandEnd(ending="not_started", reason=str(error))
    lifeline = transport.get_pipe_transport(0)
    if not isinstance(lifeline, asyncio.WriteTransport):
        transport.close()
        return CommandEnd(ending="not_started", reason="its launcher takes no input")
    try:
        lifeline.write(message)
        with suppress(TimeoutError):
            async with asyncio.timeout(command.seconds):
                await listener.exited.wait()
    finally:
        if not lifeline.is_closing():
            lifeline.abort()  # the launcher hears that, and ends all there is
        await _wait(listener.exited, END_SECONDS)
        await _wait(listener.closed, DRAIN_SECONDS)
        transport.close()
    return listener.end(loop.time() - began)


def launch_and_wait(launch: Launch, command: Command) -> CommandEnd:
    """Run a command that says little, and wait for it in this thread.

    Raises:
        OSError: the launcher could not be started.
        ValueError: the program of the launcher cannot be sent to it.
    """
    message = _message(launch)
    with Popen(_launcher(), **OPTIONS) as process:  # noqa: S603 nothing of it comes from outside
        try:
            listener = _Listener(command.max_output)
            if process.stdin and process.stdout and process.stderr:
                process.stdin.write(message)
                process.stdin.flush()
                process.wait(command.seconds + END_SECONDS)
                listener.pipe_data_received(1, process.stdout.read())
                listener.pipe_data_received(2, process.stderr.read())
        finally:
            process.kill()
    return listener.end(0.0)


def environment() -> dict[str, str]:
    """Return the part of this process's environment that commands get: no keys, no tokens."""
    return {
        name: value
        for name, value in os.environ.items()
        if (name in PASSED_ON or name.startswith("LC_")) and not SECRET.search(name)
    }


class _Listener(asyncio.SubprocessProtocol):
    """What the launcher tells: the command's output, and in its own what came of the command."""

    def __init__(self, most: int) -> None:
        self._output = Excerpt(most)
        self._told = Excerpt(4000)
        self._open = 2
        self.exited = asyncio.Event()
        self.closed = asyncio.Event()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """Take in output."""
        (self._told if fd == 2 else self._output).add(data)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:  # noqa: ARG002 asyncio asks for it
        """Note that nobody can write any more."""
        self._open -= fd in (1, 2)
        if not self._open:
            self.closed.set()

    def process_exited(self) -> None:
        """Note that the launcher has ended, and with it all that it had started."""
        self.exited.set()

    def end(self, seconds: float) -> CommandEnd:
        """Return what came of the command."""
        ending, _, rest = self._told.text().strip().rpartition("\n")[2].partition(" ")
        output = self._output.text()
        known = ENDINGS.get(ending)
        if known is None:
            reason = self._told.text().strip() or "its launcher was ended"
            return CommandEnd(ending="stopped", output=output, seconds=seconds, reason=reason)
        if known == "not_started" and not rest:  # the sandbox says why, in place of the command
            return CommandEnd(ending=known, seconds=seconds, reason=output.strip())
        code = int(rest) if known == "exited" else -1
        reason = "" if known == "exited" else rest
        return CommandEnd(
            ending=known, exit_code=code, output=output, seconds=seconds, reason=reason
        )


ENDINGS: dict[str, Ending] = {
    "exited": "exited",
    "timed_out": "timed_out",
    "stopped": "stopped",
    "not_started": "not_started",
}


async def _start(most: int) -> tuple[asyncio.SubprocessTransport, _Listener]:
    return await asyncio.get_running_loop().subprocess_exec(
        lambda: _Listener(most), *_launcher(), **OPTIONS
    )


async def _wait(event: asyncio.Event, seconds: float) -> None:
    """Wait for an event, but not for ever."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()


def _message(launch: Launch) -> bytes:
    modules = [(name, _code(name)) for name in launch.modules]
    return marshal.dumps(
        {"packages": launch.packages, "modules": modules, "plan": dict(launch.plan)}
    )


@cache
def _launcher() -> tuple[str, ...]:
    """Return the launcher's program and arguments.

    It is the interpreter itself, not the link to it in a folder that a command may change.

    Raises:
        ValueError: this program has none.
    """
    if not sys.executable:
        raise ValueError("this program has no Python interpreter that could start it")
    return (os.path.realpath(sys.executable), "-I", "-S", "-c", BEGIN)


@cache
def _code(name: str) -> Any:
    """Return a module's code, as it was when it was first asked for."""
    found = find_spec(name)
    loader: Any = None if found is None else found.loader
    code = None if loader is None else loader.get_code(name)
    if code is None:
        raise ValueError(f"the module {name} has no code that could be sent to it")
    return code
