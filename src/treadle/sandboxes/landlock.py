"""Landlock: a process gives up all files but some, sockets, and signals to others.

This runs in the launcher: it uses nothing but the standard library.
"""

from __future__ import annotations

import ctypes
import os
import stat
import struct
from contextlib import suppress

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
VERSION_ONLY = 1
PATH_BENEATH = 1
LEAST_VERSION = 6
"""The first that keeps signals and abstract sockets in: Linux 6.12."""

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR, TRUNCATE, IOCTL_DEV = 1, 2, 4, 8, 1 << 14, 1 << 15
EVERYTHING = (1 << 16) - 1
OF_A_FILE = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
READING = EXECUTE | READ_FILE | READ_DIR
WRITING = EVERYTHING & ~(1 << 6 | 1 << 11 | IOCTL_DEV)  # no devices
EVERY_TCP, EVERY_SCOPE = 3, 3

SET_FILTER, NEW_LISTENER = 1, 1 << 3
PIDFD_GETFD = 438
PR_SET_NO_NEW_PRIVS, PR_CAPBSET_DROP, PR_SET_SECUREBITS = 38, 24, 28
NO_ROOT_LOCKED = 0b11
CAPABILITIES = 64
_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.syscall.restype = ctypes.c_long


def version() -> int:
    """Return the version of Landlock here, 0 where there is none."""
    return max(0, _LIBC.syscall(CREATE_RULESET, None, ctypes.c_long(0), VERSION_ONLY))


def confine(readable: list[str], writable: list[str], *, network: bool) -> None:
    """Give up all but these paths, for this process and all that it starts.

    Paths that are not there are left out.

    Raises:
        OSError: the kernel refuses.
    """
    found = version()
    if found < LEAST_VERSION:
        raise OSError(0, f"version {LEAST_VERSION} is needed, here is {found}", "Landlock")
    attributes = struct.pack("<QQQ", EVERYTHING, 0 if network else EVERY_TCP, EVERY_SCOPE)
    rules = _call(CREATE_RULESET, attributes, len(attributes), 0)
    for paths, access in ((readable, READING), (writable, WRITING)):
        for path in paths:
            _allow(rules, path, access)
    _call(RESTRICT_SELF, rules, 0)
    os.close(rules)


def drop_privileges() -> None:
    """Give up what a process of root may do beyond others, and never get it back.

    Raises:
        OSError: the kernel refuses.
    """
    _prctl(PR_SET_NO_NEW_PRIVS, 1)
    if os.geteuid() == 0:
        for capability in range(CAPABILITIES):
            with suppress(OSError):  # beyond the last, and for root in a container
                _prctl(PR_CAPBSET_DROP, capability)
        with suppress(OSError):
            _prctl(PR_SET_SECUREBITS, NO_ROOT_LOCKED)
    header = struct.pack("<II", 0x20080522, 0)
    if _LIBC.capset(header, bytes(24)) != 0:
        raise _failed("capset")


def filter_calls(program: bytes, number: int) -> int:
    """Put a filter of system calls over this process and all that it starts.

    Returns a descriptor on which the kernel asks about calls; `number` is that of `seccomp` here.

    Raises:
        OSError: the kernel refuses.
    """
    held = ctypes.create_string_buffer(program, len(program))
    wanted = struct.pack("@HP", len(program) // 8, ctypes.addressof(held))
    return _call(number, SET_FILTER, NEW_LISTENER, wanted)


def descriptor_of(process: int, number: int) -> int:
    """Return a descriptor for what another process has open under a number.

    Raises:
        OSError: the kernel refuses.
    """
    other = os.pidfd_open(process)
    try:
        return _call(PIDFD_GETFD, other, number, 0)
    finally:
        os.close(other)


def _allow(rules: int, path: str, access: int) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:  # it is not there, or not for this user
        return
    try:
        if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            access &= OF_A_FILE
        rule = struct.pack("<Qi", access, descriptor)
        _call(ADD_RULE, rules, PATH_BENEATH, rule, 0)
    finally:
        os.close(descriptor)


def _call(number: int, *arguments: int | bytes) -> int:
    words = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
    result = _LIBC.syscall(ctypes.c_long(number), *words)
    if result < 0:
        raise _failed(f"system call {number}")
    return result


def _prctl(option: int, value: int) -> None:
    rest = (ctypes.c_ulong(0), ctypes.c_ulong(0), ctypes.c_ulong(0))
    if _LIBC.prctl(option, ctypes.c_ulong(value), *rest) != 0:
        raise _failed("prctl")


def _failed(what: str) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number), what)
