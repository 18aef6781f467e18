"""Changes of modes, owners and times, made for a command where it may write, and nowhere else.

Landlock knows nothing of these calls. So the kernel asks here about each; a file is opened before
it is looked at where it lies, and what is changed is the open file.

This runs in the launcher: it uses nothing but the standard library.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import stat
import struct
from contextlib import suppress

RECEIVE, SEND, STILL_VALID = 0xC0502100, 0xC0182101, 0x40082102
QUESTION, ANSWER = struct.Struct("<QIIiIQ6Q"), struct.Struct("<QqiI")
AT_FDCWD, NO_FOLLOW, EMPTY_PATH = -100, 0x100, 0x1000
MOST_PATH = 4096
OWN = "/proc/self/"
"""What each process means itself by; so do some functions of the C library."""
TIMES_SIZE = 32
SETUID, SETGID = 0o4000, 0o2000
UNCHANGED = 0xFFFFFFFF
_LIBC = ctypes.CDLL(None, use_errno=True)


class Modes:
    """Answers what the kernel asks about a command, on the descriptor `listener`.

    `calls` are the names of the system calls by their numbers, `roots` where it may write.
    """

    def __init__(self, listener: int, calls: dict[int, str], roots: list[str]) -> None:
        self._listener = listener
        self._calls = calls
        self._roots = [os.path.realpath(root) for root in roots]

    def serve(self) -> None:
        """Answer until there is nobody left who could ask."""
        while True:
            asked = bytearray(QUESTION.size)
            try:
                fcntl.ioctl(self._listener, RECEIVE, asked)
            except OSError as error:
                if error.errno in (errno.ENOENT, errno.EINTR):  # who asked has just gone
                    continue
                return
            identity, pid, _, number, _, _, *arguments = QUESTION.unpack(asked)
            try:
                self._change(identity, pid, self._calls.get(number, ""), arguments)
                failure = 0
            except OSError as error:
                failure = error.errno or errno.EPERM
            except Exception:  # noqa: BLE001 whatever was asked, somebody waits for the answer
                failure = errno.EPERM
            with suppress(OSError):  # who asked has just gone
                fcntl.ioctl(self._listener, SEND, ANSWER.pack(identity, 0, -failure, 0))

    def _change(self, identity: int, pid: int, call: str, arguments: list[int]) -> None:
        """Do what a call asks for.

        Raises:
            OSError: it may not be, or fails; with the number that the command is told.
        """
        where, path, rest, flags = _parts(call, arguments)
        descriptor = _open(pid, where, path, flags)
        try:
            self._check(descriptor)
            times = _memory(pid, rest[0], TIMES_SIZE) if call == "utimensat" and rest[0] else None
            fcntl.ioctl(self._listener, STILL_VALID, struct.pack("<Q", identity))
            file = f"/proc/self/fd/{descriptor}"
            if "chmod" in call:
                os.chmod(file, _mode(descriptor, rest[0]))
            elif "chown" in call:
                _same_owner(descriptor, rest[0], rest[1])
            elif _LIBC.utimensat(AT_FDCWD, file.encode(), times, 0) != 0:
                raise OSError(ctypes.get_errno(), "utimensat")
        finally:
            os.close(descriptor)

    def _check(self, descriptor: int) -> None:
        lies = os.readlink(f"/proc/self/fd/{descriptor}")
        if not any(lies == root or lies.startswith(f"{root}/") for root in self._roots):
            raise OSError(errno.EPERM, "outside")
        if os.fstat(descriptor).st_uid != os.geteuid():
            raise OSError(errno.EPERM, "of somebody else")


def _parts(call: str, arguments: list[int]) -> tuple[int, int, list[int], int]:
    """Return the folder, the address of the path (0 for none), the rest and the flags of a call."""
    if call in ("fchmod", "fchown"):
        return _signed(arguments[0]), 0, arguments[1:3], 0
    if call in ("chmod", "chown", "lchown"):
        return AT_FDCWD, arguments[0], arguments[1:3], NO_FOLLOW if call == "lchown" else 0
    flags = {"fchmodat": 0, "fchownat": arguments[4], "fchmodat2": arguments[3]}
    return _signed(arguments[0]), arguments[1], arguments[2:4], flags.get(call, arguments[3])


def _open(pid: int, where: int, path: int, flags: int) -> int:
    """Open what a process means, as it would; return a descriptor that only stands for it."""
    base = f"/proc/{pid}/cwd" if where == AT_FDCWD else f"/proc/{pid}/fd/{where}"
    name = os.fsdecode(_text(pid, path)) if path else ""
    if path and not name and not flags & EMPTY_PATH:
        raise OSError(errno.ENOENT, "an empty path")
    if not os.path.exists(base):
        raise OSError(errno.EBADF, "descriptor")
    if not name:
        return os.open(base, os.O_PATH | os.O_CLOEXEC)
    if name.startswith(OWN):
        name = f"/proc/{pid}/{name.removeprefix(OWN)}"
    options = os.O_PATH | os.O_CLOEXEC | (os.O_NOFOLLOW if flags & NO_FOLLOW else 0)
    if name.startswith("/"):
        return os.open(name, options)
    folder = os.open(base, os.O_PATH | os.O_CLOEXEC)
    try:
        return os.open(name, options, dir_fd=folder)
    finally:
        os.close(folder)


def _mode(descriptor: int, mode: int) -> int:
    """Return the mode; no file is to run as somebody else."""
    is_folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
    if mode & SETUID or (mode & SETGID and not is_folder):
        raise OSError(errno.EPERM, "setuid")
    return mode & 0o7777


def _same_owner(descriptor: int, user: int, group: int) -> None:
    """Accept what changes nothing."""
    found = os.fstat(descriptor)
    if user & UNCHANGED not in (UNCHANGED, found.st_uid):
        raise OSError(errno.EPERM, "another owner")
    if group & UNCHANGED not in (UNCHANGED, found.st_gid):
        raise OSError(errno.EPERM, "another group")


def _signed(value: int) -> int:
    return ctypes.c_int(value & UNCHANGED).value


def _text(pid: int, address: int) -> bytes:
    """Return the path at an address of a process."""
    found = b""
    while len(found) < MOST_PATH:  # page by page: the next one may not be there
        size = 4096 - (address + len(found)) % 4096
        piece = _memory(pid, address + len(found), size)
        found += piece
        if b"\0" in piece:
            return found.partition(b"\0")[0]
    raise OSError(errno.ENAMETOOLONG, "path")


def _memory(pid: int, address: int, size: int) -> bytes:
    descriptor = os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
    try:
        found = os.pread(descriptor, size, address)
    except OSError as error:
        raise OSError(errno.EFAULT, "address") from error
    finally:
        os.close(descriptor)
    return found
