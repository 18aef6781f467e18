"""Several calls in one reply: beside each other where they may, their results in order."""

from __future__ import annotations

import asyncio

import pytest

from tests.tools.parts import asked, results_of, run_calls
from treadle import Agent, RunContext, State, ToolFinished, Usage, tool
from treadle.testing import ScriptedModel, calls


async def test_results_come_in_the_order_of_the_calls() -> None:
    """S20: the second finishes first; events tell so, the model sees request order, usage adds."""
    fast_is_done = asyncio.Event()

    @tool
    async def slow(ctx: RunContext) -> str:
        """Wait for the other."""
        await fast_is_done.wait()
        ctx.add_usage(Usage(input_tokens=5))
        return "slow"

    @tool
    async def fast(ctx: RunContext) -> str:
        """Be quick."""
        ctx.add_usage(Usage(input_tokens=7))
        fast_is_done.set()
        return "fast"

    model = ScriptedModel([calls(("1", "slow", {}), ("2", "fast", {})), "done"])
    run = Agent("a", model, tools=[slow, fast]).start("x")

    finished = [event.name async for event in run if isinstance(event, ToolFinished)]
    result = await run

    assert finished == ["fast", "slow"]
    assert [found.text for found in results_of(result)] == ["slow", "fast"]
    assert result.usage.input_tokens == 12


@pytest.mark.parametrize(("most", "expected"), [(None, 3), (1, 1), (5, 5)])
async def test_how_many_run_at_once(most: int | None, expected: int) -> None:
    """S21: three at most unless said otherwise; one is strictly one."""
    now = peak = 0

    @tool
    async def work() -> str:
        """Work."""
        nonlocal now, peak
        now += 1
        peak = max(peak, now)
        await asyncio.sleep(0.002)
        now -= 1
        return "ok"

    requests = [asked(str(n), "work") for n in range(8)]
    result = await run_calls([work], *requests, max_parallel_tools=most)

    assert peak == expected
    assert [found.text for found in results_of(result)] == ["ok"] * 8


async def test_a_serial_call_is_a_barrier() -> None:
    """A sync tool runs alone, after what came before it and before what comes after."""
    log: list[str] = []

    @tool
    async def beside(n: int) -> None:
        """Run beside others."""
        log.append(f"+{n}")
        await asyncio.sleep(0.001)
        log.append(f"-{n}")

    @tool
    def alone(n: int) -> None:
        """Run alone."""
        log.extend((f"+{n}", f"-{n}"))

    names = ["beside", "beside", "alone", "beside"]
    await run_calls([beside, alone], *(asked(str(n), name, n=n) for n, name in enumerate(names)))

    assert log == ["+0", "+1", "-0", "-1", "+2", "-2", "+3", "-3"]


async def test_parallel_writes_to_one_key() -> None:
    """The second writer gets a clear error result, or a reducer merges them."""

    @tool
    async def write(ctx: RunContext, n: int) -> str:
        """Write."""
        ctx.state.session.set("items", [n])
        await asyncio.sleep(0)
        return "ok"

    def joined(old: list[int], new: list[int]) -> list[int]:
        return old + new

    requests = asked("1", "write", n=1), asked("2", "write", n=2)
    clash = await run_calls([write], *requests)
    state = State(reducers={"session::items": joined})
    merged = await run_calls([write], *requests, state=state)

    assert [found.is_error for found in results_of(clash)] == [False, True]
    assert "session::items" in results_of(clash)[1].text
    assert clash.state.get("session::items") == [1]
    assert sorted(merged.state.get("session::items")) == [1, 2]
    assert [found.is_error for found in results_of(merged)] == [False, False]
