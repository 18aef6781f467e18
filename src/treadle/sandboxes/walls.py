"""What the launcher does around a command in a sandbox.

This runs in the launcher: it uses nothing but the standard library.
"""

from __future__ import annotations

import ctypes
import os
import resource
from _thread import start_new_thread
from contextlib import suppress
from typing import Literal

from treadle.sandboxes import landlock
from treadle.sandboxes.modes import Modes
from treadle.tools.builtin.launcher import NoWalls, Plan, Walls, cause, launch, tell

NEW_MOUNTS = 0x20000
READ_ONLY, REMOUNT, BIND, EVERYWHERE, PRIVATE = 1, 32, 4096, 16384, 1 << 18

Around = Literal["bubblewrap", "landlock", "local"]
OWN_PROCESSES = 3
"""How many of bubblewrap's own count among those of the command."""


class SandboxPlan(Plan):
    """What to run, and the walls around it.

    `argv` has what bubblewrap is told, or the command itself. `nproc` bounds the processes of the
    command by the kernel, None where it cannot. `counted` says whether the kernel counts them
    apart from the user's others. `scratch` is where a folder for temporary files is made, if one
    is. `files` are given to bubblewrap as (path, content), `devices` are what it shows.
    """

    walls: Around
    nproc: int | None
    counted: bool
    filter: bytes
    seccomp: int
    asked: dict[int, str]
    network: bool
    readable: list[str]
    writable: list[str]
    scratch: str | None
    files: list[tuple[str, bytes]]
    devices: list[str]


def main(plan: SandboxPlan) -> None:
    """Run a command inside its walls."""
    try:
        folder = _make_folder(plan)
    except OSError as error:
        tell(f"not_started no folder for its temporary files: {cause(error)}")
        return
    try:
        launch(plan, _walls(plan))
    finally:
        if folder is not None:
            _remove(folder)


def _walls(plan: SandboxPlan) -> Walls:
    if plan["walls"] == "bubblewrap":
        return Bubblewrap(plan)
    _bound_processes(plan)
    return NoWalls() if plan["walls"] == "local" else Landlock(plan)


class Landlock:
    """Walls of the kernel's own, around a process that stays where it is."""

    def __init__(self, plan: SandboxPlan) -> None:
        self._plan = plan
        self._asking, self._asking_end = os.pipe()
        self._heard, self._heard_end = os.pipe()

    def enter(self, plan: Plan) -> None:
        """Give up all that the command may not have."""
        own = self._plan
        os.chdir(plan["folder"])
        landlock.drop_privileges()
        landlock.confine(own["readable"], own["writable"], network=own["network"])
        listener = landlock.filter_calls(own["filter"], own["seccomp"])
        os.write(self._asking_end, b"%d\n" % listener)
        os.close(self._heard_end)
        os.read(self._heard, 1)  # the kernel's questions are heard from now on

    def watch(self, child: int) -> list[int]:
        """Answer what the kernel asks; nothing stands around the command."""
        os.close(self._asking_end)
        told = os.read(self._asking, 20)
        if told:  # else it has not come so far, and tells why
            listener = landlock.descriptor_of(child, int(told))
            folders = [each for each in self._plan["writable"] if os.path.isdir(each)]
            modes = Modes(listener, self._plan["asked"], folders)  # of no device
            start_new_thread(modes.serve, ())
        os.close(self._heard_end)
        return []

    def ask_to_end(self) -> None:
        """Ask nobody: the launcher sees all there is."""

    def end(self, code: int) -> str:
        """Return the code as it stands."""
        return f"exited {code}"


class Bubblewrap:
    """bubblewrap: new namespaces, with a file system made of what is needed."""

    def __init__(self, plan: SandboxPlan) -> None:
        self._plan = plan
        self._told = b""
        self._status, self._status_end = os.pipe()
        self._gate, self._gate_end = os.pipe()

    def enter(self, plan: Plan) -> None:
        """Have bubblewrap told what it cannot be told before."""
        own = self._plan
        if os.getuid() == 0:
            _protect_modes(own["devices"])
        options = ["--seccomp", _held(own["filter"])]
        options += ["--json-status-fd", _kept(self._status_end), "--block-fd", _kept(self._gate)]
        for path, content in own["files"]:
            options += ["--perms", "0644", "--ro-bind-data", _held(content), path]
        plan["argv"][1:1] = options

    def watch(self, child: int) -> list[int]:
        """Bound the processes of the command, before it begins."""
        os.close(self._status_end)
        os.close(self._gate)
        while b"\n" not in self._told and (piece := os.read(self._status, 4096)):
            self._told += piece
        inner = _number(self._told, b'"child-pid"')
        if inner is None:  # it could not set up its walls, and has told why
            return []
        nproc = self._plan["nproc"]
        if nproc is not None:
            most = nproc + OWN_PROCESSES + (0 if self._plan["counted"] else _threads_of_user())
            with suppress(OSError):  # it has just gone, and tells why
                resource.prlimit(inner, resource.RLIMIT_NPROC, (most, most))
        with suppress(OSError):
            os.write(self._gate_end, b"\n")
        return [child, inner]

    def ask_to_end(self) -> None:
        """Ask nobody: the launcher sees all there is."""

    def end(self, code: int) -> str:  # noqa: ARG002 bubblewrap's own says less
        """Return what bubblewrap says of the command; it says nothing when that has not begun."""
        os.set_blocking(self._status, False)
        with suppress(BlockingIOError):
            while piece := os.read(self._status, 4096):
                self._told += piece
        found = _number(self._told, b'"exit-code"')
        return "not_started" if found is None else f"exited {found}"


def _protect_modes(devices: list[str]) -> None:
    """Have devices seen as on a disk that cannot be written, by this process and what it starts.

    They can be written all the same, but their mode, which root could change, is on that disk.
    Root in a container may not do this; its devices are the container's.
    """
    libc = ctypes.CDLL(None)
    if libc.unshare(NEW_MOUNTS) != 0:
        return
    libc.mount(None, b"/", None, ctypes.c_ulong(EVERYWHERE | PRIVATE), None)
    for device in map(os.fsencode, devices):
        if libc.mount(device, device, None, ctypes.c_ulong(BIND), None) == 0:
            libc.mount(None, device, None, ctypes.c_ulong(BIND | REMOUNT | READ_ONLY), None)


def _bound_processes(plan: SandboxPlan) -> None:
    """Let the kernel bound how many processes this user has, from now on: that many more."""
    nproc = plan["nproc"]
    if nproc is not None:
        plan["rlimits"].append((resource.RLIMIT_NPROC, nproc + _threads_of_user()))


def _threads_of_user() -> int:
    """Return how many threads the user of this process has."""
    count, user = 0, os.getuid()
    for name in os.listdir("/proc") if os.path.isdir("/proc") else []:
        with suppress(OSError):  # it has just gone
            if name.isdecimal() and os.stat(f"/proc/{name}").st_uid == user:
                count += len(os.listdir(f"/proc/{name}/task"))
    return count


def _held(content: bytes) -> str:
    """Return a descriptor that gives this content."""
    read_end, write_end = os.pipe()
    os.write(write_end, content)
    os.close(write_end)
    return _kept(read_end)


def _kept(descriptor: int) -> str:
    """Have the next program keep a descriptor; return its number."""
    os.set_inheritable(descriptor, True)  # noqa: FBT003 its only form
    return str(descriptor)


def _number(told: bytes, name: bytes) -> int | None:
    """Return the number of this name in what bubblewrap tells."""
    digits = told.partition(name)[2].lstrip(b": ")
    count = len(digits) - len(digits.lstrip(b"0123456789"))
    return int(digits[:count]) if count else None


def _make_folder(plan: SandboxPlan) -> str | None:
    """Make a folder for temporary files, which is the command's home, too."""
    if plan["scratch"] is None:
        return None
    folder = os.path.join(plan["scratch"], f"treadle-{os.urandom(8).hex()}")
    os.mkdir(folder, 0o700)
    plan["env"].update(HOME=folder, TMPDIR=folder)
    plan["writable"].append(folder)
    return folder


def _remove(folder: str) -> None:
    """Remove a folder with all that is in it, as far as that goes.

    What lies deeper is moved up first, so no path is too long, however deep folders are nested.
    """
    with suppress(OSError):
        os.chmod(folder, 0o700)
        waiting = _folders_left(folder)
        while waiting:
            path = waiting.pop()
            with suppress(OSError):
                os.chmod(path, 0o700)
                for below in _folders_left(path):
                    os.chmod(below, 0o700)  # else it cannot be moved
                    waiting.append(os.path.join(folder, os.urandom(8).hex()))
                    os.rename(below, waiting[-1])
                os.rmdir(path)
        os.rmdir(folder)


def _folders_left(folder: str) -> list[str]:
    """Remove the files in a folder; return the folders in it."""
    with os.scandir(folder) as entries:
        found = list(entries)
    for entry in found:
        if not entry.is_dir(follow_symlinks=False):
            with suppress(OSError):
                os.unlink(entry.path)
    return [entry.path for entry in found if entry.is_dir(follow_symlinks=False)]
