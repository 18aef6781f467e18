"""A process that does one lane's work on order and says what it cost.

Orders come as JSON lines on standard input, reports leave as JSON lines on standard output, and the
process ends when its input does. Only one worker of a benchmark has an order at any time.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from resource import RUSAGE_SELF, getpagesize, getrusage

import msgspec

from benchmarks.work import Gate, Lane

Job = Callable[[int], Awaitable[Sequence[float] | None]]
"""Work that is done so many times; it may return figures of its own."""


class Order(msgspec.Struct, frozen=True):
    """One piece of work to do, once."""

    job: str
    count: int


class Report(msgspec.Struct, frozen=True):
    """What one order cost this process.

    `count` is the order's, `cpu` and `wall` are seconds, `figures` is what the job itself returned.
    """

    count: int
    cpu: float
    wall: float
    figures: Sequence[float] = ()


class Jobs(msgspec.Struct, frozen=True):
    """What a worker can do, and what it does at the end."""

    by_name: Mapping[str, Job]
    close: Callable[[], Awaitable[None]]


def work_for(lane: Callable[[str], Lane]) -> None:
    """Be the worker of a lane: the whole program of a lane's module.

    The lane is made with the provider's address inside the event loop that does all its work, so
    that one pool of connections serves every order.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("provider", help="address of the provider, for example http://127.0.0.1:1")
    provider: str = parser.parse_args().provider
    work(lambda: lane_jobs(lane(provider)))


def work(make_jobs: Callable[[], Jobs]) -> None:
    """Take orders until standard input ends."""
    decoder = msgspec.json.Decoder(Order)
    with asyncio.Runner() as runner:
        jobs = runner.run(_made(make_jobs))
        for line in sys.stdin.buffer:
            order = decoder.decode(line)
            report = runner.run(_measure(jobs.by_name[order.job], order.count))
            sys.stdout.buffer.write(msgspec.json.encode(report) + b"\n")
            sys.stdout.buffer.flush()
        runner.run(_closed(jobs))


def lane_jobs(lane: Lane) -> Jobs:
    """Return what can be ordered from a lane."""

    async def memory(runs: int) -> Sequence[float]:
        return [await bytes_per_run(lane, runs)]

    return Jobs(
        by_name={
            "ask": lane.ask,
            "tool_runs": lane.tool_runs,
            "chat": lane.chat,
            "stored_chat": lane.stored_chat,
            "kept_chat": lane.kept_chat,
            "burst": lambda chunks: lane.stream(chunks, paced=False),
            "paced": lambda chunks: lane.stream(chunks, paced=True),
            "crowd": lambda runs: lane.crowd(runs, None),
            "memory": memory,
        },
        close=lane.close,
    )


async def bytes_per_run(lane: Lane, runs: int) -> float:
    """Return the memory of one run in its last tool call, with `runs` of them there at once.

    Counted is what the process holds more than before, as the system sees it. One run goes first,
    so that what is made once is there already.
    """
    await lane.tool_runs(1)
    gc.collect()
    gate = Gate(runs)
    before = resident_bytes()
    async with asyncio.TaskGroup() as group:
        group.create_task(lane.crowd(runs, gate))
        await gate.all_there()
        held = resident_bytes() - before
        gate.open()
    return held / runs


def resident_bytes() -> int:
    """Return the memory this process holds now (where only a peak is known: at its peak)."""
    statm = Path("/proc/self/statm")
    if statm.exists():
        return int(statm.read_text().split()[1]) * getpagesize()
    unit = 1 if sys.platform == "darwin" else 1024
    return getrusage(RUSAGE_SELF).ru_maxrss * unit


async def _measure(job: Job, count: int) -> Report:
    """Do a job with no garbage left from before, and measure this process while it does."""
    gc.collect()
    wall = time.perf_counter()
    cpu = time.process_time()
    figures = await job(count)
    return Report(
        count=count,
        cpu=time.process_time() - cpu,
        wall=time.perf_counter() - wall,
        figures=figures or (),
    )


async def _made(make_jobs: Callable[[], Jobs]) -> Jobs:
    return make_jobs()


async def _closed(jobs: Jobs) -> None:
    await jobs.close()
