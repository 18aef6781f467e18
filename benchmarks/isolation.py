"""`python -m benchmarks.isolation`: what a call of a sync tool costs, by where it runs.

Inline, in a thread and in a process of its own, one after another in each round, by the clock;
then how long it takes until a new process has its first answer, and until a hung call is gone.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Awaitable, Callable

from benchmarks.table import Spread, pairwise, spread
from treadle import Agent, Limits, Tool, tool
from treadle.testing import ScriptedModel, calls
from treadle.tools.processes import PROCESSES, ToolProcesses
from treadle.tools.timing import CallExpired

CALLS = 200
MOST_THREADS_WORTH = 8.0
"""How many calls in a thread one in a process may cost."""
LIMITS = Limits(max_tool_calls=CALLS)


def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def spin() -> None:
    """Loop."""
    while True:
        pass


LANES: dict[str, Tool] = {
    "inline": tool(isolation="inline")(add),
    "thread": tool(isolation="thread")(add),
    "process": tool(isolation="process")(add),
}


async def call(made: Tool) -> float:
    """Return the microseconds that one of many calls takes, validation and result included."""
    asked = [(f"c{number}", "add", {"a": number, "b": 1}) for number in range(CALLS)]
    agent = Agent("a", ScriptedModel([calls(*asked), "done"]), tools=[made])
    began = time.perf_counter()
    result = await agent.run("x", limits=LIMITS)
    took = time.perf_counter() - began
    if [found.text for found in result.tool_results] != [str(n + 1) for n in range(CALLS)]:
        raise SystemExit(f"wrong results: {result.tool_results[:3]}")
    return took / CALLS * 1e6


async def first() -> float:
    """Return the milliseconds until a new process has its first answer."""
    processes = ToolProcesses()
    began = time.perf_counter()
    await processes.run(add, (1, 2), {})
    took = time.perf_counter() - began
    await asyncio.to_thread(processes.close)
    return took * 1e3


async def gone() -> float:
    """Return the milliseconds from a timeout until the process is gone and its caller knows."""
    timeout = 0.02
    processes = ToolProcesses()
    await processes.run(add, (1, 2), {})
    began = time.perf_counter()
    try:
        await processes.run(spin, (), {}, timeout=timeout)
    except CallExpired:
        took = time.perf_counter() - began - timeout
    else:
        raise SystemExit("a loop that never ends has ended")
    await asyncio.to_thread(processes.close)
    return took * 1e3


async def measure(rounds: int) -> bool:
    """Print all figures; return whether the target was met."""
    taken: dict[str, list[float]] = {name: [] for name in LANES}
    for made in LANES.values():
        await call(made)  # everything is warm
    for _ in range(rounds):
        for name, made in LANES.items():
            taken[name].append(await call(made))
    for name, values in taken.items():
        print(f"a call, {name}, us: {spread(values)}")
    ratio = pairwise(taken["process"], taken["thread"])
    met = ratio.median <= MOST_THREADS_WORTH
    told = "ok" if met else "MISSED"
    print(f"process / thread: {ratio}, target <= {MOST_THREADS_WORTH:g}: {told}")
    print(f"process / inline: {pairwise(taken['process'], taken['inline'])}")
    print(f"first answer of a new process, ms: {await several(first, rounds)}")
    print(f"gone after a timeout, ms: {await several(gone, rounds)}")
    await asyncio.to_thread(PROCESSES.close)
    return met


async def several(once: Callable[[], Awaitable[float]], rounds: int) -> Spread:
    """Return the spread of one figure."""
    return spread([await once() for _ in range(rounds)])


def main() -> int:
    """Return 1 when the target is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    return not asyncio.run(measure(parser.parse_args().rounds))


if __name__ == "__main__":
    sys.exit(main())
