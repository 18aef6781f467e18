"""Processes that begin at once: one that has imported everything forks for each.

Started as `python -m tests.crash.nursery URL` it reads the arguments of a scenario, as a line of
JSON, runs it in a new process, and writes how that ended.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Self

from tests.crash import scenario
from treadle.stores.open import open_store

ROOT = Path(__file__).parents[2]
CRASHED = 1


class Nursery:
    """One that runs scenarios, each in a process of its own, one after another."""

    def __init__(self, log: Path, url: str) -> None:
        self._log = log
        command = [sys.executable, "-m", "tests.crash.nursery", url]
        with log.open("ab") as said:
            self._process = subprocess.Popen(
                command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        self._process.wait()

    def run(self, arguments: Sequence[str]) -> int:
        """Run a scenario and return its exit code, negative for the signal that killed it."""
        asked, told = self._process.stdin, self._process.stdout
        assert asked is not None
        assert told is not None
        asked.write(json.dumps(list(arguments)).encode() + b"\n")
        asked.flush()
        return int(told.readline())

    def said(self) -> str:
        """Return the end of what its processes wrote to their standard error."""
        return self._log.read_text(errors="replace")[-2000:]


def _serve(asked: IO[bytes], told: IO[bytes]) -> None:
    for line in asked:
        child = os.fork()
        if child == 0:
            _live(json.loads(line))
        _, status = os.waitpid(child, 0)
        told.write(b"%d\n" % os.waitstatus_to_exitcode(status))
        told.flush()


def _live(arguments: list[str]) -> None:
    """Be the new process, to its end."""
    code = CRASHED
    try:
        code = scenario.main(arguments)
    except BaseException:  # noqa: BLE001 whatever it is, it must not reach the process that forks
        traceback.print_exc()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    open_store(sys.argv[1])  # what it imports is there from now on; nothing is opened
    _serve(sys.stdin.buffer, sys.stdout.buffer)
