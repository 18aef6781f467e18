"""A lock between processes: a file that one of them holds at a time."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

if sys.platform == "win32":
    import msvcrt

    def _try(number: int) -> bool:
        try:
            msvcrt.locking(number, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

    def _wait(number: int) -> None:
        while True:
            try:
                msvcrt.locking(number, msvcrt.LK_LOCK, 1)  # tries for ten seconds
            except OSError:
                continue
            return

else:
    import fcntl

    def _try(number: int) -> bool:
        try:
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _wait(number: int) -> None:
        fcntl.flock(number, fcntl.LOCK_EX)


@contextmanager
def locked(path: Path, *, on_wait: Callable[[], None]) -> Generator[None]:
    """Hold the lock file `path`; the system frees it when the process dies.

    `on_wait` is called once when another process, or another thread of this one, has it.

    Raises:
        OSError: the file cannot be made, or its file system has no locks.
    """
    number = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        if not _try(number):
            on_wait()
            _wait(number)
        yield
    finally:
        os.close(number)
