"""A shell command in a process group of its own, of which nothing is left when it ends."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from asyncio.subprocess import DEVNULL, PIPE, STDOUT
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from msgspec import Struct

from treadle.errors import ToolError
from treadle.tools.outcome import middle_left_out
from treadle.tools.threads import THREADS

MOST_OUTPUT = 65_536
GRACE_SECONDS = 1.0
POLL_SECONDS = 0.01
DEAD = (b"Z", b"X", b"x")

SHELL = "/bin/sh"
PASSED_ON = ("HOME", "LANG", "LANGUAGE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER")
SECRET = re.compile("KEY|TOKEN|SECRET|PASS|CREDENTIAL|AUTH", re.IGNORECASE)

GUARD = 'read -r group && { read -r line || kill -9 "-$group"; }'
"""What the guard runs: told a group, it waits for one more line. A dead parent never sends it."""


class CommandEnd(Struct, frozen=True):
    """What a command printed, and its exit code: -9 for signal 9, None when it was out of time."""

    output: str
    exit_code: int | None


async def run_command(command: str, folder: str, seconds: float) -> CommandEnd:
    """Run `sh -c command` in a folder, without input, its two outputs merged.

    When it ends, is out of time or is cancelled, its whole process group gets TERM and, a second
    later, KILL; KILL also when this process dies. A process that left the group is not found.

    Raises:
        ToolError: it could not be started.
    """
    async with _started(command, folder) as (transport, listener):
        try:
            async with asyncio.timeout(seconds):
                await listener.exited.wait()
        except TimeoutError:
            exit_code = None
        else:
            exit_code = transport.get_returncode()
    return CommandEnd(listener.output.text(), exit_code)


def environment() -> dict[str, str]:
    """Return the part of this process's environment that commands get: no keys, no tokens."""
    return {
        name: value
        for name, value in os.environ.items()
        if (name in PASSED_ON or name.startswith("LC_")) and not SECRET.search(name)
    }


class Excerpt:
    """The head and the tail of a text that arrives in pieces, within a number of bytes."""

    __slots__ = ("_head", "_most", "_size", "_tail")

    def __init__(self, most: int) -> None:
        self._most = most
        self._size = 0
        self._head = bytearray()
        self._tail = bytearray()

    def add(self, piece: bytes) -> None:
        """Take in the next piece."""
        self._size += len(piece)
        room = self._most // 2 - len(self._head)
        self._head += piece[:room]
        self._tail += piece[room:]
        if len(self._tail) > self._most:  # now and then, not for every piece
            del self._tail[: -self._most // 2]

    def text(self) -> str:
        """Return the whole text, or its head, a note of what is left out, and its tail."""
        if self._size <= self._most:
            return (self._head + self._tail).decode(errors="replace")
        note = middle_left_out(self._size)
        head = self._head.decode(errors="ignore")
        tail = self._tail[-(self._most // 2 - len(note)) :].decode(errors="ignore")
        return f"{head}{note}{tail}"


class _Listener(asyncio.SubprocessProtocol):
    """What a command tells: its output, its exit, and that nobody can write to it any more."""

    def __init__(self) -> None:
        self.output = Excerpt(MOST_OUTPUT)
        self.exited = asyncio.Event()
        self.closed = asyncio.Event()

    def pipe_data_received(self, fd: int, data: bytes) -> None:  # noqa: ARG002 asyncio asks for it
        """Take in output."""
        self.output.add(data)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:  # noqa: ARG002 as above
        """Note that all who had the output open are gone."""
        self.closed.set()

    def process_exited(self) -> None:
        """Note that the shell has ended; others in its group may still run."""
        self.exited.set()


@asynccontextmanager
async def _started(
    command: str, folder: str
) -> AsyncGenerator[tuple[asyncio.SubprocessTransport, _Listener]]:
    """Start a command; at the end of the block nothing of its group is left."""
    async with _guard() as guard:
        starting = asyncio.ensure_future(_spawn(_Listener(), "-c", command, folder=folder))
        try:
            transport, listener = await asyncio.shield(starting)
        except asyncio.CancelledError:  # it may run already, and nobody else knows of it
            await asyncio.wait([starting])
            if starting.exception() is None:
                transport, listener = starting.result()
                await _end(transport.get_pid(), listener)
                transport.close()
            raise
        group = transport.get_pid()
        guard.write(b"%d\n" % group)
        try:
            yield transport, listener
        finally:
            try:
                await _end(group, listener)
            finally:
                transport.close()


@asynccontextmanager
async def _guard() -> AsyncGenerator[asyncio.WriteTransport]:
    """Start a process that kills the group it is told of when this process dies meanwhile."""
    transport, listener = await _spawn(_Listener(), "-c", GUARD, folder="/", stdin=PIPE)
    lifeline = transport.get_pipe_transport(0)
    if not isinstance(lifeline, asyncio.WriteTransport):
        transport.close()
        raise ToolError("The command could not be started: its guard takes no input.")
    try:
        yield lifeline
    finally:
        lifeline.write(b"\n\n")  # one for a group that it was never told
        await _wait(listener.exited, GRACE_SECONDS)
        transport.close()


async def _spawn(
    listener: _Listener, *arguments: str, folder: str, stdin: int = DEVNULL
) -> tuple[asyncio.SubprocessTransport, _Listener]:
    loop = asyncio.get_running_loop()
    try:
        return await loop.subprocess_exec(
            lambda: listener,
            SHELL,
            *arguments,
            cwd=folder,
            env=environment(),
            stdin=stdin,
            stderr=STDOUT,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        raise ToolError(f"The command could not be started: {error}.") from error


async def _end(group: int, listener: _Listener) -> None:
    """End all that is left of a group: TERM, a moment to clean up, KILL."""
    try:
        if _signal(group, signal.SIGTERM):
            await _leave_time(group)
    finally:
        _signal(group, signal.SIGKILL)  # also when this wait was cancelled
    await _wait(listener.exited, GRACE_SECONDS)
    await _wait(listener.closed, GRACE_SECONDS)  # somebody outside the group may hold it open


async def _leave_time(group: int) -> None:
    """Wait until everybody in the group is gone, but not for long."""
    with suppress(TimeoutError, ToolError):  # no thread may be free to look for them
        async with asyncio.timeout(GRACE_SECONDS):
            while _signal(group, 0) and await THREADS.run(lambda: _lives(group)):  # noqa: ASYNC110 nothing tells of it
                await asyncio.sleep(POLL_SECONDS)


def _lives(group: int) -> bool:
    """Whether anybody in a group is more than dead and not collected yet.

    Orphans are collected by the machine's first process, which in a container may never do it.
    """
    try:
        processes = [name for name in os.listdir("/proc") if name.isdecimal()]
    except OSError:  # not Linux
        return True
    for process in processes:
        with suppress(OSError):  # it may be gone by now
            status = Path("/proc", process, "stat").read_bytes()
            state, _, its_group = status[status.rindex(b")") + 2 :].split()[:3]
            if int(its_group) == group and state not in DEAD:
                return True
    return False


async def _wait(event: asyncio.Event, seconds: float) -> None:
    """Wait for an event, but not for ever."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()


def _signal(group: int, number: int) -> bool:
    """Send a signal to a group; return whether anybody is in it."""
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return False
    except PermissionError:  # some of it runs as somebody else, or is dead and not collected yet
        return True
    return True
