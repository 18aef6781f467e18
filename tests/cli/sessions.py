"""`treadle` on a terminal of its own, as a person has it."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SECONDS = 20.0
CTRL_C, CTRL_D = "\x03", "\x04"

# Makes the terminal on its input the one that Ctrl-C comes from, and becomes treadle.
PROGRAM = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.executable, [sys.executable, "-m", "treadle", *sys.argv[1:]])
"""


class Session:
    """A program on a terminal, at work in a folder, and what it has shown."""

    def __init__(self, *words: str, folder: Path = ROOT) -> None:
        self._outer, inner = os.openpty()
        self.shown = ""
        self._seen = 0
        self._program = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, *words],
            stdin=inner,
            stdout=inner,
            stderr=inner,
            start_new_session=True,
            env={**os.environ, "TERM": "dumb", "PYTHONPATH": str(ROOT)},
            cwd=folder,
        )
        os.close(inner)

    def type(self, keys: str) -> None:
        """Press these keys, a moment after a prompt as people do: input() needs it."""
        select.select([], [], [], 0.05)
        os.write(self._outer, keys.encode())

    def until(self, text: str) -> str:
        """Wait for a text; return what was shown since the last wait."""
        while (at := self.shown.find(text, self._seen)) < 0:
            ready, _, _ = select.select([self._outer], [], [], SECONDS)
            assert ready, f"{text!r} never came; shown was {self.shown[self._seen :]!r}"
            self.shown += os.read(self._outer, 4096).decode().replace("\r\n", "\n")
        passed = self.shown[self._seen : at]
        self._seen = at + len(text)
        return passed

    def kill(self) -> None:
        """End the program as a loss of power does."""
        self._program.kill()
        self._program.wait()

    def end(self) -> int:
        """Return the exit code."""
        return self._program.wait(SECONDS)

    def close(self) -> None:
        """End the program if it still runs."""
        if self._program.poll() is None:
            self._program.kill()
            self._program.wait()
        os.close(self._outer)


def start(started: list[Session], *words: str, folder: Path = ROOT) -> Session:
    """Start a program on a terminal of its own."""
    session = Session(*words, folder=folder)
    started.append(session)
    return session
