"""Small parts that the tests of worker processes share."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.tools.parts import asked, results_of, run_calls
from treadle import Tool, ToolResult, tool


def apart(function: Any, **options: Any) -> Tool:
    """A tool of this function, in a process of its own."""
    return tool(isolation="process", **options)(function)


async def result_of(made: Tool, **arguments: Any) -> ToolResult:
    """The result of one call."""
    return results_of(await run_calls([made], asked("1", made.name, **arguments)))[0]


def is_alive(pid: int) -> bool:
    """Whether a process is there, and no zombie that nobody has asked for."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


async def becomes(true: Callable[[], bool], seconds: float = 5.0) -> bool:
    """Whether it is so before long."""
    until = time.monotonic() + seconds
    while not true() and time.monotonic() < until:  # noqa: ASYNC110 no event tells of a process
        await asyncio.sleep(0.005)
    return true()


async def gone(pids: list[int]) -> bool:
    """Whether they all go away, within a generous second."""
    return await becomes(lambda: not any(map(is_alive, pids)), 1.0)
