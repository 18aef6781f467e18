"""Keep a process on one core, where the system can."""

from __future__ import annotations

import os
import sys


def split_cores() -> tuple[int | None, int | None]:
    """Return the core for the client and the one for the provider, None where there is no choice.

    The two are different wherever this process may use more than one.
    """
    if sys.platform != "linux":
        return None, None
    cores = sorted(os.sched_getaffinity(0))
    return cores[-1], cores[0]


def pin(core: int | None) -> None:
    """Keep this process and its children on `core`; None leaves them where they are."""
    if core is not None and sys.platform == "linux":
        os.sched_setaffinity(0, {core})
