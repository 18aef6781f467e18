"""What a command has left behind."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def running(mark: str) -> list[int]:
    """Return the processes that have this in their command line, whatever namespace they are in."""
    found: list[int] = []
    for process in Path("/proc").iterdir():
        if process.name.isdecimal() and int(process.name) != os.getpid():
            with suppress(OSError):  # it may be gone by now
                if mark.encode() in (process / "cmdline").read_bytes():
                    found.append(int(process.name))
    return found
