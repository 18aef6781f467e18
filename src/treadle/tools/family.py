"""The processes that descend from this one: counted, weighed and ended.

This runs in the launcher of commands, too: it uses nothing but the standard library. Without
/proc, as on macOS, only the process group of the command is known.
"""

from __future__ import annotations

import os
import signal
import time
from collections import deque
from contextlib import suppress

POLL_SECONDS = 0.005
LONGEST_KILL = 10.0
SEEN = os.path.exists(f"/proc/self/task/{os.getpid()}/children")
"""Whether the system tells who descends from whom."""


def descendants(pid: int, most: int | None = None) -> list[int]:
    """Return the processes below one, the nearest first.

    More than `most` are not looked for: it could take for ever where they fork without end.
    """
    found: list[int] = []
    waiting = deque([pid])
    while waiting and (most is None or len(found) <= most):
        below = _children(waiting.popleft())
        found += below
        waiting += below
    return found


def living(pids: list[int]) -> list[int]:
    """Return those that are more than dead and not collected yet."""
    return [pid for pid in pids if _stat(pid)[:1] not in ([], ["Z"], ["X"], ["x"])]


def count_threads(pids: list[int]) -> int:
    """Return how many threads they have; a dead process that is not collected counts as one."""
    return sum(max(1, int(fields[17])) for fields in map(_stat, pids) if len(fields) > 17)


def count_memory(pids: list[int], enough: int) -> int:
    """Return the bytes of memory that they hold; what they share counts once.

    What is swapped out counts, too, and the tables of the memory that they have asked for.
    Counting exactly is slow, so it is only begun where they may hold more than `enough`.
    """
    held = {pid: _sizes(f"/proc/{pid}/status") for pid in pids}
    if sum(_sum(sizes, "VmRSS", "VmSwap", "VmPTE") for sizes in held.values()) <= enough:
        return 0
    return sum(_sum(_shares(pid, sizes), "Pss", "SwapPss", "VmPTE") for pid, sizes in held.items())


def ask_to_end(root: int, group: int, spared: list[int], seconds: float, most: int | None) -> None:
    """Send TERM to all that descends from `root`, and to the group; give them some time.

    `spared` are those that get none, because the others would die with them. More than `most`
    get no time.
    """
    _signal_all([pid for pid in descendants(root) if pid not in spared], group, signal.SIGTERM)
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        collect()
        if SEEN:
            found = descendants(root, most)
            left = living([pid for pid in found if pid not in spared])
        else:
            found, left = [], _signal_group(group, 0)
        if not left or (most is not None and len(found) > most):
            return
        time.sleep(POLL_SECONDS)  # noqa: TID251 a program of its own, which has no clock


def kill(root: int, group: int) -> None:
    """Kill all that descends from `root`, and the group, until nobody is left.

    Each is killed as soon as its children are known: they may fork faster than they are counted.
    """
    until = time.monotonic() + LONGEST_KILL
    left = True
    while left and time.monotonic() < until:
        _signal_group(group, signal.SIGKILL)  # at one stroke, but for those that have left it
        waiting = deque([root])
        left = False
        while waiting:
            pid = waiting.popleft()
            below = _children(pid)
            waiting += below
            left = left or bool(below)
            if pid != root:
                _signal_all([pid], group, signal.SIGKILL)
        collect()
        if left:
            time.sleep(POLL_SECONDS)  # noqa: TID251 as above


def collect() -> dict[int, int]:
    """Collect the dead children, adopted ones too; return their wait status by process ID."""
    ended: dict[int, int] = {}
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended
        if not pid:
            return ended
        ended[pid] = status


def _children(pid: int) -> list[int]:
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:  # it has just gone
        return []
    return [
        int(child)
        for thread in threads
        for child in _read(f"/proc/{pid}/task/{thread}/children").split()
    ]


def _stat(pid: int) -> list[str]:
    """Return the fields of a process from its state on, none when it is gone."""
    return _read(f"/proc/{pid}/stat").rpartition(") ")[2].split()


def _sizes(path: str) -> dict[str, int]:
    """Return the sizes in a file of the kernel, in bytes."""
    lines = (line.split() for line in _read(path).splitlines())
    return {each[0][:-1]: int(each[1]) * 1024 for each in lines if each[2:] == ["kB"]}


def _sum(sizes: dict[str, int], *names: str) -> int:
    return sum(sizes.get(name, 0) for name in names)


def _shares(pid: int, sizes: dict[str, int]) -> dict[str, int]:
    """Return a process's shares of what it holds, or all of it where nobody may know the shares."""
    whole = {"Pss": sizes.get("VmRSS", 0), "SwapPss": sizes.get("VmSwap", 0)}
    return sizes | whole | _sizes(f"/proc/{pid}/smaps_rollup")


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def _signal_all(pids: list[int], group: int, number: int) -> None:
    for pid in pids:
        with suppress(OSError):  # it has just gone, or runs as somebody else
            os.kill(pid, number)
    if not SEEN:
        _signal_group(group, number)


def _signal_group(group: int, number: int) -> bool:
    """Signal a process group; return whether anybody is in it."""
    try:
        os.killpg(group, number)
    except OSError:
        return False
    return True
