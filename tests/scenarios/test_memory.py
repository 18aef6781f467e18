"""Runs that are over are gone: nothing holds them, and memory does not grow."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
import weakref
from pathlib import Path
from typing import Any

import pytest

from tests.scenarios.provider import saying
from tests.servers import delta, serve, stream
from treadle import Agent, ModelError, Overloaded, Retry, ToolError, tool
from treadle.providers import OpenAI
from treadle.testing import FakeClock, ScriptedModel, calls, chunks, raises

RUNS, SETTLED = 2_000, 500
MEGABYTE = 1_000_000
Refs = list[weakref.ref[Any]]


class Large(str):
    """A text that can be watched."""


def script(number: int) -> ScriptedModel:
    """A model for one run; an error that is raised again would keep all its tracebacks."""
    calling = calls(("1", "keeps", {"n": 1}))
    ways: list[list[Any]] = [
        [calling, "ok"],
        [calling, chunks(["o", "k"])],
        [calling, raises(ModelError("no"), "Half ")],
        [raises(Overloaded("busy")), calls(("1", "nothing", {}), ("2", "keeps", {"n": 0})), "ok"],
    ]
    return ScriptedModel(ways[number % len(ways)])


def resident() -> int:
    """The bytes of memory that this process holds."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


async def one_run(number: int, refs: Refs, retry: Retry) -> None:
    """Make an agent with a tool of its own, run it in one of several ways, and forget it."""
    big = Large("x" * (MEGABYTE if number % 5 == 4 else 10_000))

    async def keeps(n: int) -> str:
        """Return something large, or fail."""
        if not n:
            raise ToolError("no")
        return big

    kept = tool(max_output=2 * MEGABYTE)(keeps)
    agent = Agent("a", script(number), tools=[kept], retry=retry)
    run = agent.start("x")
    refs += map(weakref.ref, (agent, run, keeps, big))
    try:
        match number % 5:
            case 0:
                await run
            case 1:
                assert [event async for event in run]
                await run
            case 2:
                async for _ in run:
                    break
                await run.cancel("enough")
            case 3:
                async for _ in agent.stream("x"):
                    break
                await run.cancel("enough")
            case _:
                result = await agent.run("x", model=script(0))
                assert len(result.tool_results[0].text) == MEGABYTE
                refs.append(weakref.ref(result.state))
                await run
    except ModelError as error:
        refs.append(weakref.ref(error))


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is read from /proc")
async def test_two_thousand_runs() -> None:
    """BS-68: agents, runs, tools, errors and results of a megabyte are freed; no task is left."""
    refs: Refs = []
    retry = Retry(clock=FakeClock(), jitter=0)
    before = 0
    for number in range(RUNS):
        if number == SETTLED:
            gc.collect()
            before = resident()
        await one_run(number, refs, retry)
    await asyncio.sleep(0)
    gc.collect()
    grown = resident() - before

    assert len(refs) > 4 * RUNS
    assert [ref() for ref in refs if ref() is not None] == []
    assert len(asyncio.all_tasks()) == 1
    assert grown < 10 * MEGABYTE


def open_files() -> int:
    """How many descriptors this process has open."""
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="descriptors are read from /proc")
async def test_runs_over_the_network() -> None:
    """BS-68: whole, streamed, left early, refused and broken off: no connection is left behind."""
    answers = (
        saying("ok", streamed=True),
        stream(delta(content="half"), end="reset"),
        stream(delta(content="half"), end="hang"),
    )
    refs: Refs = []
    threads = threading.active_count()
    async with serve(*answers * 40) as server:
        model = OpenAI("m", base_url=server.url)

        async def go(leave: bool) -> None:
            agent = Agent("a", model, retry=Retry(attempts=1))
            run = agent.start("x")
            refs.extend((weakref.ref(agent), weakref.ref(run)))
            async for event in run:
                if leave and event.type == "text.delta":
                    await run.cancel("enough")

        for number in range(12):
            await go(leave=number % 3 == 2)
        files = open_files()
        for number in range(108):
            await go(leave=number % 3 == 2)
        await asyncio.sleep(0.01)
        gc.collect()

        assert [ref() for ref in refs if ref() is not None] == []
        assert open_files() <= files + 2
        assert server.connections <= 81
        assert threading.active_count() == threads
