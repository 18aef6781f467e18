"""What bubblewrap is told: the namespaces and the file system of one command."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from msgspec import Struct

from treadle.sandboxes import system
from treadle.tools.builtin.launcher import SHELL

HOME = "/tmp/sandbox-home"  # noqa: S108 of the sandbox's own, which nobody else sees
INSIDE = 1000
"""The user and group that root is inside."""
DEV_BYTES = 65_536


class Mounts(Struct, frozen=True):
    """What a command may read and change, beside the system's programs."""

    readable: list[str]
    writable: list[str]
    folder: str
    tmp_size: int
    network: bool


def arguments(bwrap: str, mounts: Mounts, text: str) -> list[str]:
    """Return the program and its arguments; what is behind a descriptor is put in later."""
    network = [] if mounts.network else ["--unshare-net"]
    return [
        bwrap,
        *("--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-uts"),
        *("--unshare-cgroup-try", *network, "--die-with-parent", "--new-session"),
        *("--cap-drop", "ALL", *_user()),
        *_system(network=mounts.network),
        *_processes(),
        *_devices(mounts.tmp_size),
        *_scratch("/tmp", mounts.tmp_size),  # noqa: S108 of the sandbox's own
        *("--dir", HOME),
        *_binds("--ro-bind", mounts.readable),
        *_binds("--bind", mounts.writable),
        *_binds("--ro-bind", system.own_folders(mounts.writable)),
        *("--remount-ro", "/", "--chdir", mounts.folder),
        *("--", *SHELL, text),
    ]


def accounts() -> list[tuple[str, bytes]]:
    """Return files that know the sandbox's user and nobody else."""
    user, group = (INSIDE, INSIDE) if os.getuid() == 0 else (os.getuid(), os.getgid())
    return [
        ("/etc/passwd", f"user:x:{user}:{group}:user:{HOME}:/bin/sh\n".encode()),
        ("/etc/group", f"user:x:{group}:\n".encode()),
    ]


def _user() -> list[str]:
    return ["--uid", str(INSIDE), "--gid", str(INSIDE)] if os.getuid() == 0 else []


def _system(*, network: bool) -> Iterator[str]:
    for path in system.PROGRAMS:
        if os.path.islink(path):
            yield from ("--symlink", os.readlink(path), path)
        elif os.path.isdir(path):
            yield from ("--ro-bind", path, path)
    for path in system.settings(network=network):
        yield from ("--ro-bind-try", path, path)


def _processes() -> Iterator[str]:
    """Yield a /proc of the sandbox's own processes.

    It also has the settings of the kernel and what only root is told, and root is root there.
    """
    yield from ("--proc", "/proc")
    for path in system.told_to_root():
        yield from ("--ro-bind", os.devnull, path)
    yield from ("--remount-ro", "/proc")


def _devices(size: int) -> Iterator[str]:
    """Yield a /dev that has little in it and takes nothing more, but for shared memory."""
    yield from ("--perms", "0755", "--size", str(DEV_BYTES), "--tmpfs", "/dev")
    for name in system.DEVICES:
        yield from ("--dev-bind", f"/dev/{name}", f"/dev/{name}")
    for name, target in (("fd", ""), ("stdin", "/0"), ("stdout", "/1"), ("stderr", "/2")):
        yield from ("--symlink", f"/proc/self/fd{target}", f"/dev/{name}")
    yield from _scratch("/dev/shm", size)  # noqa: S108 of the sandbox's own
    yield from ("--remount-ro", "/dev")


def _scratch(path: str, size: int) -> tuple[str, ...]:
    return ("--perms", "1777", "--size", str(size), "--tmpfs", path)


def _binds(option: str, paths: Iterable[str]) -> Iterator[str]:
    for path in paths:
        yield from (option, path, path)
