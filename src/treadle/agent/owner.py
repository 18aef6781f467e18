"""Who owns a conversation: a run, and the process that works on it."""

from __future__ import annotations

import os
from pathlib import Path

_PROC = Path("/proc")


def owner_here(run_id: str) -> str:
    """Return the name under which this process owns a conversation for a run."""
    return f"{run_id}@{_here[0]}"


def is_dead(owner: str) -> bool:
    """Whether the owner is a process of this machine that has ended for certain.

    False also when that cannot be known: another machine, another container, no `/proc`. It reads
    a file.
    """
    place, _, process = owner.rpartition("@")[2].rpartition("/")
    here, _, _ = _here[0].rpartition("/")
    if not place or place != here:
        return False
    pid, _, started = process.partition("-")
    return pid.isdecimal() and bool(started) and _started(int(pid)) != started


def _this_process(pid: int) -> str:
    """Return machine, boot and process namespace, then PID and start time: unique, and checkable.

    Where there is no `/proc` a process cannot be told to be dead: the place is left empty.
    """
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text().strip()
        space = os.readlink(_PROC / "self/ns/pid").strip("pid:[]")
    except OSError:
        return f"/{pid}-"
    return f"{boot}/{space}/{pid}-{_started(pid)}"


def _started(pid: int) -> str:
    """Return when a process started, in ticks since boot; "" when it is gone or a zombie."""
    try:
        text = (_PROC / str(pid) / "stat").read_text()
    except OSError:
        return ""
    state, *fields = text.rpartition(")")[2].split()
    return "" if state in "ZX" else fields[18]


_here = [_this_process(os.getpid())]


def _forked() -> None:
    _here[0] = _this_process(os.getpid())


os.register_at_fork(after_in_child=_forked)
