"""What the launcher does around a command in a container.

The container is made before it is started, so that it can be removed whatever happens in between.
What came of the command is asked of the engine: the exit code of its client may be its own.
This runs in the launcher: it uses nothing but the standard library.
"""

from __future__ import annotations

import json
import os
import select
import signal
import time
from contextlib import suppress
from subprocess import DEVNULL, PIPE, Popen, TimeoutExpired, run

from treadle.tools.builtin import processes
from treadle.tools.builtin.launcher import GRACE_SECONDS, Plan, launch, tell

LABEL = "treadle.owner"
MAKE_SECONDS, MAKE_STEP = 60.0, 0.2
ASK_SECONDS = 5.0
TELL_SECONDS = 0.5
REMOVE_SECONDS = 6.0
NEVER = "0001-01-01"
"""How the engine writes the time of what has not happened."""
GUARD = ("/bin/sh", "-c", 'exec >/dev/null 2>&1; read nothing; exec "$@"', "guard")
MOST_TOLD = 800
NOT_FOUND = (126, 127)
"""What the container's first process ends with, saying why, if it cannot start the shell."""


class ContainerPlan(Plan):
    """What to run, and in which container.

    `client` is the engine's program with what it is always told, `argv` what it is told to make the
    container. `env` is that of the client: `argv` names what the command gets of it. `holds` is the
    memory in bytes that the engine bounds.
    """

    client: list[str]
    holds: int | None


def main(plan: ContainerPlan) -> None:
    """Run a command in a container of its own, and remove that."""
    container = Container(plan)
    failure = container.make()
    if failure is not None:
        container.remove()
        tell(failure)
        return
    plan["argv"] = [*plan["client"], "start", "--attach", container.name]
    try:
        launch(plan, container)
    finally:
        left = container.remove()
        if left is not None:
            tell(f"stopped its container {container.name} may still be there: {left}")


class Container:
    """A container around a command; the child of this program is only the engine's client."""

    def __init__(self, plan: ContainerPlan) -> None:
        self.name = f"treadle-{os.urandom(8).hex()}"
        self._plan = plan
        self._client = plan["client"]
        self._removal = [*self._client, "rm", "--force", "--volumes", self.name]
        self._told, self._told_end = os.pipe()
        self._alone, self._not_alone = os.pipe()
        self._running: int | None = None

    def make(self) -> str | None:
        """Make the container; return what came of the command when it cannot be."""
        options = ["--name", self.name, "--label", f"{LABEL}={owner()}"]
        argv = [*self._client, "create", *options, *self._plan["argv"]]
        lifeline = select.poll()
        lifeline.register(0, select.POLLIN)
        patience = MAKE_SECONDS
        with Popen(argv, env=self._plan["env"], stdin=DEVNULL, stdout=DEVNULL, stderr=PIPE) as made:  # noqa: S603 the developer names the program
            while patience > 0:
                with suppress(TimeoutExpired):
                    told = _line(made.communicate(timeout=MAKE_STEP)[1])
                    if lifeline.poll(0):
                        return "timed_out"
                    return f"not_started {told}" if made.returncode else None
                patience -= MAKE_STEP
                if lifeline.poll(0):  # who waits no more waits for this only
                    patience = min(patience, REMOVE_SECONDS)
            made.kill()
        return f"not_started its engine made no container within {MAKE_SECONDS:.0f} seconds"

    def enter(self, plan: Plan) -> None:
        """Have the client tell its own troubles apart from the command's output."""
        os.chdir(plan["folder"])
        os.dup2(self._told_end, 2)

    def watch(self, child: int) -> list[int]:
        """Start what removes the container should this program be killed."""
        self._running = child
        os.close(self._told_end)
        duplicate = (os.POSIX_SPAWN_DUP2, self._alone, 0)
        argv = [*GUARD, *self._removal]
        guard = os.posix_spawn(argv[0], argv, {}, file_actions=[duplicate], setsid=True)
        os.close(self._alone)
        return [guard]

    def ask_to_end(self) -> None:
        """Ask the command to end, and let the client tell what it says to that."""
        if self._running is None:
            return
        wait = f"{GRACE_SECONDS:.0f}"
        self._ask([*self._client, "stop", "-t", wait, self.name], GRACE_SECONDS + ASK_SECONDS)
        until = time.monotonic() + TELL_SECONDS
        while processes.living([self._running]) and time.monotonic() < until:
            time.sleep(processes.POLL_SECONDS)  # noqa: TID251 a program of its own, which has no clock

    def end(self, code: int) -> str:
        """Return what came of the command, as the engine has it."""
        self._running = None
        told = self._hear()
        asked = self._ask([*self._client, "inspect", "--format", "{{json .State}}", self.name])
        if isinstance(asked, str):
            return f"stopped its engine cannot say what came of it: {told or asked}"
        state = json.loads(asked)
        if state["StartedAt"].startswith(NEVER):
            return f"not_started {_line(state['Error'].encode()) or told}"
        if state["Running"]:
            return f"stopped the client of its engine ended with {code}: {told}"
        if state["OOMKilled"] and state["ExitCode"] == 128 + signal.SIGKILL:
            return f"stopped it held more than {self._plan['holds']} bytes of memory"
        if told and state["ExitCode"] in NOT_FOUND:
            return f"not_started {told}"
        return f"exited {state['ExitCode']}"

    def remove(self) -> str | None:
        """Remove the container with all that runs in it; return why that failed, if it did."""
        asked = self._ask(self._removal, REMOVE_SECONDS)
        return asked if isinstance(asked, str) and "No such container" not in asked else None

    def _ask(self, argv: list[str], seconds: float = ASK_SECONDS) -> bytes | str:
        """Return what the engine answers, or as text why it does not."""
        try:
            asked = run(argv, env={}, capture_output=True, timeout=seconds, check=False)  # noqa: S603 as above
        except TimeoutExpired:
            return f"no answer within {seconds:.0f} seconds"
        except OSError as error:
            return str(error)
        return asked.stdout if asked.returncode == 0 else _line(asked.stderr) or "no reason told"

    def _hear(self) -> str:
        """Return what the client has told of its own."""
        os.set_blocking(self._told, False)
        with suppress(BlockingIOError):
            return _line(os.read(self._told, 4 * MOST_TOLD))
        return ""


def owner() -> str:
    """Return what this process is known by, as long as it lives."""
    return f"{_machine()}/{os.getpid()}/{_began(os.getpid())}"


def is_left(label: str, *, running: bool) -> bool:
    """Return whether the process that a label names has gone.

    One that cannot be seen from here may live, so what it has running is never left.
    """
    machine, pid, began = label.rsplit("/", 2) if label.count("/") > 1 else ("", "", label)
    if not pid.isdecimal():
        return False
    if machine == _machine():
        return _began(int(pid)) != began
    return not running and machine.partition("/")[0] != _machine().partition("/")[0]


def _machine() -> str:
    """Return what tells which processes can be seen: this start of the system, and from where."""
    with suppress(OSError), open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return f"{file.read().strip()}/{os.readlink('/proc/self/ns/pid')}"
    return "/"


def _began(pid: int) -> str:
    """Return when a process began, as far as the system tells that; "" when there is none."""
    with suppress(OSError):
        if _machine() == "/":
            os.kill(pid, 0)
            return "once"
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(") ")[2].split()[19]
    return ""


def _line(told: bytes) -> str:
    return " ".join(told.decode(errors="replace").split())[:MOST_TOLD]
