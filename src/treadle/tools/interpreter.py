"""A fresh interpreter in a session of its own, killed with all that it began."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from contextlib import suppress

from treadle.tools.family import descendants

GONE_SECONDS = 5.0
"""How long the system may take to end a process that was killed; most take a millisecond."""

PROGRAM = "import sys; sys.path[:] = {}; from treadle.tools.process_child import main; main({}, {})"


class Interpreter:
    """A process that serves calls on a channel, and dies when its lifeline is closed.

    Args:
        path: Where it finds modules.
        channel: A descriptor of its end of a stream in both directions.
        lifeline: A descriptor of the reading end of a pipe.

    Raises:
        OSError: it cannot be started.
    """

    def __init__(self, path: list[str], channel: int, lifeline: int) -> None:
        output = 2 if _is_open(2) else subprocess.DEVNULL
        program = PROGRAM.format(path, channel, lifeline)
        self._child = subprocess.Popen(  # noqa: S603 this very interpreter
            [sys.executable, *_interpreter_options(), "-c", program],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            pass_fds=(channel, lifeline),
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        """The process ID, which is also that of its session and group."""
        return self._child.pid

    def wait(self, seconds: float) -> int | None:
        """Return its exit code, or the negative number of its signal; None when it goes on."""
        with suppress(subprocess.TimeoutExpired):
            return self._child.wait(seconds)
        return None

    def kill(self) -> None:
        """End it and its children, and wait until it is gone."""
        _kill_family(self._child.pid)
        self.wait(GONE_SECONDS)

    def forget(self) -> None:
        """Look after it no more: this is a forked child, and it is the parent's."""
        self._child.returncode = 0


def above_standard(descriptor: int) -> int:
    """Return a descriptor above 2, in place of this one: a program may have closed its own."""
    if descriptor > 2:
        return descriptor
    raised = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 3)
    os.close(descriptor)
    return raised


def _kill_family(pid: int) -> None:
    """Kill a process group, and of its leader's children those that have left it.

    The group is stopped first, so that no child is begun in between. A daemon that has also
    left its parent is not found.
    """
    with suppress(OSError):
        os.killpg(pid, signal.SIGSTOP)
    for each in descendants(pid):
        with suppress(OSError):
            os.kill(each, signal.SIGKILL)
    with suppress(OSError):
        os.killpg(pid, signal.SIGKILL)


def _interpreter_options() -> list[str]:
    """Return the options that make another interpreter behave as this one does."""
    flags = sys.flags
    options = ["-I"] * flags.isolated
    options += ["-E"] * (flags.ignore_environment and not flags.isolated)
    options += ["-s"] * (flags.no_user_site and not flags.isolated)
    options += ["-S"] * flags.no_site + ["-B"] * sys.dont_write_bytecode
    options += ["-O"] * flags.optimize + ["-b"] * flags.bytes_warning
    if flags.utf8_mode:
        options += ["-X", "utf8"]
    return options + [part for option in sys.warnoptions for part in ("-W", option)]


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True
