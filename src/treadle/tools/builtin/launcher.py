"""The program that starts a command, watches it, and ends all that it has started.

It is a process of its own, between this one and the command: so it can adopt what the command
leaves behind, see what all of it uses together, and end it when this process dies. It uses nothing
but the standard library. It is told by its input what to run, and to end by the input's end.
"""

from __future__ import annotations

import ctypes
import os
import resource
import select
import signal
import sys
from contextlib import suppress
from typing import Protocol, TypedDict

from treadle.tools.builtin import processes

GRACE_SECONDS = 1.0
WATCH_SECONDS = 0.02
HURRY = -10
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
SHORT_OF_MEMORY = "500"
SHELL = ("/bin/sh", "-c", "--")
"""What a command is given to, as the last argument; it may begin with a dash."""
MOST_TOLD = 800
"""Characters: more than that would not fit where it is kept."""


class Plan(TypedDict):
    """What to run. `processes` (threads count) and `memory` (bytes) are for all of it together."""

    argv: list[str]
    env: dict[str, str]
    folder: str
    rlimits: list[tuple[int, int]]
    processes: int | None
    memory: int | None


class Walls(Protocol):
    """What is done around a command, beyond starting it."""

    def enter(self, plan: Plan) -> None:
        """Do what is to do in the new process, right before the command takes its place."""
        ...

    def watch(self, child: int) -> list[int]:
        """Do what is to do outside; return the processes that only stand around the command."""
        ...

    def ask_to_end(self) -> None:
        """Ask what descends from no child of the launcher to end, and give it some time."""
        ...

    def end(self, code: int) -> str:
        """Return what came of the command, by the exit code of the child: `exited 0`."""
        ...


class NoWalls:
    """Nothing around a command."""

    def enter(self, plan: Plan) -> None:
        """Go where it begins."""
        os.chdir(plan["folder"])

    def watch(self, child: int) -> list[int]:  # noqa: ARG002 others need it
        """Return that there is nothing around it."""
        return []

    def ask_to_end(self) -> None:
        """Ask nobody: the launcher sees all there is."""

    def end(self, code: int) -> str:
        """Return the code as it stands."""
        return f"exited {code}"


def main(plan: Plan) -> None:
    """Run a command without walls."""
    launch(plan, NoWalls())


def launch(plan: Plan, walls: Walls) -> None:
    """Run a command and write to the error output what came of it, in one line."""
    adopt_orphans()
    read_end, write_end = os.pipe()
    try:
        child = os.fork()
    except OSError as error:  # there are too many processes, or there is too little memory
        tell(f"not_started {cause(error)}")
        return
    if child == 0:
        _become(plan, walls, write_end)
    os.close(write_end)
    try:
        told = _follow(plan, walls, child, read_end)
    finally:
        processes.kill(os.getpid(), child)
    tell(told)


def tell(told: str) -> None:
    """Write what came of the command, for the process that has started this one."""
    with suppress(OSError):  # nobody may be left to hear it
        os.write(2, f"{told}\n".encode(errors="replace"))


def cause(error: BaseException) -> str:
    """Return what hindered a command, in one line that is not long, whatever was to be run."""
    if isinstance(error, OSError) and error.strerror:
        text = f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    else:
        text = f"{type(error).__name__}: {error}"
    return text.replace("\n", " ")[:MOST_TOLD]


def _follow(plan: Plan, walls: Walls, child: int, failures: int) -> str:
    """Wait until a command begins, and ends; return what came of it."""
    with suppress(OSError):  # only root may, and only root's forks are not bounded by the kernel
        os.setpriority(os.PRIO_PROCESS, 0, HURRY)
    around = walls.watch(child)
    with open(failures, encoding="utf-8", errors="replace") as file:
        failure = file.read()
    if failure:
        return f"not_started {failure}"
    told = _watch(plan, walls, child, around)
    if not told.startswith("stopped"):  # what took too much gets no time to take more
        most = None if plan["processes"] is None else plan["processes"] + len(around)
        walls.ask_to_end()
        processes.ask_to_end(os.getpid(), child, around, GRACE_SECONDS, most)
    return told


def adopt_orphans() -> None:
    """Become the parent of whatever a command leaves behind, where the system knows of that."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _become(plan: Plan, walls: Walls, failures: int) -> None:
    """Turn this new process into the command; what hinders that is written to `failures`."""
    try:
        os.setsid()
        _be_first_to_go()
        for number in (signal.SIGPIPE, signal.SIGXFSZ):  # this interpreter ignores them
            signal.signal(number, signal.SIG_DFL)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.dup2(1, 2)
        for kind, most in plan["rlimits"]:
            _lower(kind, most)
        walls.enter(plan)
        os.execve(plan["argv"][0], plan["argv"], plan["env"])  # noqa: S606 there is no shell in between
    except BaseException as error:  # noqa: BLE001 whatever it is, it must not go on as the launcher
        os.write(failures, cause(error).encode(errors="replace"))
    finally:
        os._exit(127)


def _be_first_to_go() -> None:
    """Have the system end this process with the launcher, and before others when memory is short.

    What the process starts later is short of memory first, too.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        with suppress(OSError), open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
            file.write(SHORT_OF_MEMORY)


def _lower(kind: int, most: int) -> None:
    """Set a limit that cannot be raised again; one that is lower already stays."""
    now = resource.getrlimit(kind)[1]
    most = most if now == resource.RLIM_INFINITY else min(most, now)
    resource.setrlimit(kind, (most, most))


def _watch(plan: Plan, walls: Walls, child: int, around: list[int]) -> str:
    """Wait until the command ends, uses too much, or is to end."""
    poll = select.poll()
    poll.register(0, select.POLLIN)
    bounded = plan["processes"] is not None or plan["memory"] is not None
    if hasattr(os, "pidfd_open"):
        poll.register(os.pidfd_open(child), select.POLLIN)
    wait = None if hasattr(os, "pidfd_open") and not bounded else WATCH_SECONDS * 1000
    while True:
        asked = any(descriptor == 0 for descriptor, _ in poll.poll(wait))
        status = processes.collect().get(child)
        if status is not None:
            code = os.waitstatus_to_exitcode(status)
            return walls.end(code if code >= 0 else 128 - code)
        if asked:
            return "timed_out"
        excess = _excess(plan, around) if bounded else None
        if excess:
            return f"stopped {excess}"


def _excess(plan: Plan, around: list[int]) -> str | None:
    """Say what is too much, if anything is."""
    most = plan["processes"]
    all_there_is = processes.descendants(os.getpid(), None if most is None else most + len(around))
    pids = [pid for pid in all_there_is if pid not in around]
    if most is not None and processes.count_threads(pids) > most:
        return f"it had more than {most} processes and threads"
    memory = plan["memory"]
    if memory is not None and processes.count_memory(pids, memory) > memory:
        return f"it held more than {memory} bytes of memory"
    return None
