"""Tools hang one after another; each is gone within a second of its timeout, nothing is left.

`make hangs` does it a thousand times.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from itertools import cycle, islice
from pathlib import Path

import pytest

from tests.tools import hanging
from tests.tools.hanging import HANGS
from treadle import Agent, Limits, ToolFinished, ToolProgress
from treadle.testing import ScriptedModel, calls
from treadle.tools.processes import PROCESSES

pytestmark = pytest.mark.e2e

TIMES = int(os.environ.get("TREADLE_HANGS", "200"))


def children() -> set[int]:
    """The processes that this one has begun, zombies included.

    Those of a thread that ends meanwhile go over to another one: all are looked at again.
    """
    while True:
        found: set[int] = set()
        try:
            for thread in Path("/proc/self/task").iterdir():
                found.update(map(int, (thread / "children").read_text().split()))
        except (FileNotFoundError, ProcessLookupError):
            continue
        return found


def held() -> tuple[set[int], int, int]:
    """What there is of processes, descriptors, and threads that look after processes."""
    threads = [each for each in threading.enumerate() if each.name == "treadle-process"]
    return children(), len(os.listdir("/proc/self/fd")), len(threads)


async def test_hangs_in_a_row() -> None:
    """One run, one call after another, all kinds of hanging in turn."""
    PROCESSES.close()
    before = held()
    ways = list(islice(cycle(HANGS), TIMES))
    script = [calls((f"c{n}", "hang", {"how": how})) for n, how in enumerate(ways)]
    agent = Agent("a", ScriptedModel([*script, "done"]), tools=[hanging.hang])
    run = agent.start("x", limits=Limits(max_turns=TIMES + 1, max_tool_calls=TIMES))
    hung: dict[str, tuple[int, float]] = {}
    longest, began = 0.0, time.perf_counter()
    async for event in run:
        if isinstance(event, ToolProgress):
            hung[event.call_id] = int(str(event.progress)), time.perf_counter()
        elif isinstance(event, ToolFinished) and event.call_id in hung:
            pid, at = hung[event.call_id]
            longest = max(longest, time.perf_counter() - at)
            assert pid not in PROCESSES.pids
            assert pid not in children()
    result = await run
    took = time.perf_counter() - began
    print(f"{TIMES} hangs in {took:.1f} s; the longest was gone after {longest:.3f} s")

    texts = {found.text for found in result.tool_results}
    assert len(result.tool_results) == TIMES
    assert texts == {"Tool 'hang' timed out after 0.02 s."}
    assert len(hung) > TIMES * 0.9  # it did begin; a busy machine may be slow to tell
    assert longest < 1.0
    await asyncio.to_thread(PROCESSES.close)
    assert held() == before
