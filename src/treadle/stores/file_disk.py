"""Files that survive a crash: whole or not there, on the disk when that is said."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import random
import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from treadle.errors import StoreUnavailable
from treadle.ids import new_stamp

_SAFE = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789_-")
_RESERVED = {"con", "prn", "aux", "nul", *(f"{n}{i}" for n in ("com", "lpt") for i in range(10))}
_LONGEST = 150
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_FORBIDDEN = {errno.EROFS, errno.EACCES, errno.EPERM}


def file_name(name: str) -> str:
    """Return a name for the file of an ID: another for each, also where case does not count."""
    escaped = "".join(chr(b) if b in _SAFE else f"%{b:02x}" for b in name.encode())
    if escaped in _RESERVED:
        escaped = f"%{ord(escaped[0]):02x}{escaped[1:]}"
    if len(escaped) <= _LONGEST:
        return escaped
    return f"{escaped[:80]}~{hashlib.sha256(name.encode()).hexdigest()}"


@contextmanager
def locked(path: Path, *, alone: bool, patience: float) -> Generator[int]:
    """Open a file that exists and lock it, for one writer or for readers; give its descriptor.

    A lock is of the file, not of its name: when the name means another file by the time that the
    lock is there, it begins anew.

    Raises:
        FileNotFoundError: there is none.
        StoreUnavailable: others have kept it locked.
    """
    fd = _open_locked(path, alone, patience)
    while not _is_still(path, fd):
        _unlock(fd)
        fd = _open_locked(path, alone, patience)
    try:
        yield fd
    finally:
        _unlock(fd)


def write_at(fd: int, end: int, data: bytes) -> None:
    """Make this the end of the file, in place of what is behind `end`; all of it or nothing."""
    try:
        if os.fstat(fd).st_size != end:
            os.ftruncate(fd, end)
        _write_all(fd, data, end)
        sync(fd)
    except OSError:
        cut_at(fd, end)
        raise


def write_new(path: Path, data: bytes) -> None:
    """Write a file whole, in place of one that is there."""
    beside = path.with_name(f".{path.name[:40]}.{new_stamp()}")
    try:
        write_fresh(beside, data)
        os.replace(beside, path)
    except OSError:
        beside.unlink(missing_ok=True)
        raise


def write_fresh(path: Path, data: bytes) -> None:
    """Write a file that is not there yet, to the disk."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        _write_all(fd, data, 0)
        sync(fd)
    finally:
        os.close(fd)


def replace_quickly(path: Path, data: bytes) -> None:
    """Write a small file whole, in place of one that is there; a loss of power may undo it."""
    with prepared(path, data) as beside:
        os.replace(beside, path)


@contextmanager
def prepared(path: Path, data: bytes) -> Generator[Path]:
    """Give a small file, not yet on the disk, that may take the place of `path` by its name."""
    beside = path.with_name(f".{path.name}.{new_stamp()}")
    try:
        beside.write_bytes(data)
        yield beside
    finally:
        beside.unlink(missing_ok=True)


def cut_at(fd: int, end: int) -> None:
    """Take away what is behind `end`, as far as the disk allows."""
    with suppress(OSError):
        os.ftruncate(fd, end)


def sync(fd: int) -> None:
    """Wait until the disk has it."""
    if sys.platform == "darwin":
        fcntl.fcntl(fd, fcntl.F_FULLFSYNC)  # past the cache of the drive
    else:
        os.fdatasync(fd)


def sync_folder(path: Path) -> None:
    """Wait until the disk has the names in it."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def failure(error: OSError, root: Path) -> StoreUnavailable:
    """Return our error for one of the operating system."""
    tells = "the system refused"
    if error.errno in _FULL:
        tells = "the disk is full; make room"
    elif error.errno in _FORBIDDEN:
        tells = "it is read-only; check its permissions, and those of its folder"
    return StoreUnavailable(f"Store {root}: {tells} ({error}). Nothing was written.")


def _open_locked(path: Path, alone: bool, patience: float) -> int:
    fd = os.open(path, (os.O_RDWR if alone else os.O_RDONLY) | os.O_CLOEXEC)
    how = fcntl.LOCK_EX if alone else fcntl.LOCK_SH
    deadline = time.monotonic() + patience
    pause = 0.0005
    while True:
        try:
            fcntl.flock(fd, how | fcntl.LOCK_NB)
        except BlockingIOError as error:
            if time.monotonic() < deadline:
                threading.Event().wait(random.uniform(pause / 2, pause))  # noqa: S311 not a secret
                pause = min(pause * 1.5, 0.01)
                continue
            os.close(fd)
            raise StoreUnavailable(
                f"{path}: another process has kept it locked for {patience:g} s; end that one. "
                "Nothing was written."
            ) from error
        except BaseException:
            os.close(fd)
            raise
        return fd


def _unlock(fd: int) -> None:
    # Not by closing alone: a child that was forked meanwhile has the file open, too.
    fcntl.flock(fd, fcntl.LOCK_UN)
    os.close(fd)


def _is_still(path: Path, fd: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(fd))
    except FileNotFoundError:
        _unlock(fd)
        raise


def _write_all(fd: int, data: bytes, start: int) -> None:
    left = memoryview(data)
    while left:
        written = os.pwrite(fd, left, start)
        left, start = left[written:], start + written
