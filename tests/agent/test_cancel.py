"""Cancelling a run stops all that belongs to it, and leaves a history to go on from."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator

import pytest

from tests.agent.parts import Hanging, check_answered, types_of
from treadle import Agent, ModelReply, ModelRequest, RunContext, ToolStarted, tool
from treadle.ports.model import ModelDelta, TextPiece
from treadle.testing import FakeClock, FunctionModel, ScriptedModel, calls


async def test_an_abandoned_stream_cancels_its_run() -> None:
    """Leaving the iteration stops the model."""
    model = Hanging()
    events = Agent("a", model).stream("x")
    async for event in events:
        if event.type == "model.started":
            break
    await model.asked.wait()
    await events.aclose()

    assert model.stopped.is_set()


class HalfSaid:
    """A model that streams half a sentence and hangs."""

    def __init__(self) -> None:
        self.arrived = asyncio.Event()

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Not for this test."""
        raise AssertionError("somebody watches, so the reply is streamed")

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelDelta]:
        """Stream half a sentence."""
        yield TextPiece("Half a ")
        self.arrived.set()
        await FakeClock.forever()


async def test_cancel_keeps_the_partial_text() -> None:
    """What the user saw is in the history, marked; the conversation goes on."""
    model = HalfSaid()
    run = Agent("a", model).start("x")
    await model.arrived.wait()
    result = await run.cancel("user pressed stop")

    assert result is not None
    assert (result.stop_reason, result.reason, result.output) == (
        "cancelled",
        "user pressed stop",
        "Half a ",
    )
    assert result.messages[-1].incomplete
    assert (await run).stop_reason == "cancelled"
    following = ScriptedModel(["ok"])
    assert (await Agent("a", following).run("y", history=result.messages)).output == "ok"


async def test_cancel_before_the_first_step() -> None:
    """The run settles all the same, with its terminal event."""
    model = ScriptedModel(["x"])
    run = Agent("a", model).start("x")
    result = await run.cancel("at once")

    assert result is not None
    assert (result.stop_reason, result.reason) == ("cancelled", "at once")
    assert (await types_of(run))[-1] == "run.finished"
    assert model.requests == []


async def test_cancel_stops_tools_and_answers_their_calls() -> None:
    """BS-50: no task is left, clean-up ran, finished results are kept, every call is answered."""
    started, flags = asyncio.Event(), list[str]()

    @tool
    async def quick() -> str:
        """Finish."""
        return "done"

    @tool
    async def loops() -> str:
        """Loop."""
        try:
            started.set()
            while True:  # noqa: ASYNC110 a tool that is busy for ever
                await asyncio.sleep(0.001)
        finally:
            flags.append("loops")

    @tool
    async def shields() -> str:
        """Take a while to stop."""
        try:
            await FakeClock.forever()
        finally:
            await asyncio.sleep(0.01)
            flags.append("shields")
        return ""

    before = asyncio.all_tasks()
    model = ScriptedModel(
        [calls(("1", "quick", {}), ("2", "loops", {}), ("3", "shields", {})), "ok"]
    )
    agent = Agent("a", model, tools=[quick, loops, shields])
    run = agent.start("x")
    await started.wait()
    result = await run.cancel()

    assert result is not None
    answers = result.messages[-1].tool_results
    assert sorted(flags) == ["loops", "shields"]
    assert answers[0].text == "done"
    assert [found.is_error for found in answers] == [False, True, True]
    assert [found.call_id for found in answers] == ["1", "2", "3"]
    assert asyncio.all_tasks() == before
    assert (await agent.run("y", history=result.messages)).output == "ok"


async def test_cancelling_the_caller_cancels_the_run() -> None:
    """BS-50: `await agent.run()` owns its run."""
    model = Hanging()
    owner = asyncio.ensure_future(Agent("a", model).run("x"))
    await model.asked.wait()
    owner.cancel()
    with pytest.raises(asyncio.CancelledError):
        await owner

    assert model.stopped.is_set()


async def test_cancelling_who_awaits_a_handle_cancels_nothing() -> None:
    """BS-50: the run goes on, to its answer."""
    asked, release = asyncio.Event(), asyncio.Event()

    async def answer(request: ModelRequest) -> str:
        asked.set()
        await release.wait()
        return "ok"

    run = Agent("a", FunctionModel(answer)).start("x")
    waiter = asyncio.ensure_future(run.result())
    await asked.wait()
    waiter.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiter
    assert not run.done
    release.set()

    assert (await run).output == "ok"


async def test_a_tool_that_swallows_the_cancellation() -> None:
    """It ends all the same: no turn is taken after it, and its late result is kept."""
    entered = asyncio.Event()

    @tool
    async def stubborn() -> str:
        """Refuse to stop."""
        entered.set()
        try:
            await FakeClock.forever()
        except asyncio.CancelledError:
            return "not now"
        return ""

    model = ScriptedModel([calls(("1", "stubborn", {})), "never"])
    run = Agent("a", model, tools=[stubborn]).start("x")
    await entered.wait()
    result = await run.cancel()

    assert result is not None
    assert (result.stop_reason, len(model.requests)) == ("cancelled", 1)
    assert result.messages[-1].tool_results[0].text == "not now"


async def test_a_model_that_swallows_the_cancellation() -> None:
    """It ends all the same: what it then says is no answer."""
    asked = asyncio.Event()

    async def stubborn(request: ModelRequest) -> str:
        asked.set()
        try:
            await FakeClock.forever()
        except asyncio.CancelledError:
            return "not now"
        return ""

    run = Agent("a", FunctionModel(stubborn)).start("x")
    await asked.wait()
    result = await run.cancel("enough")

    assert result is not None
    assert (result.stop_reason, result.reason) == ("cancelled", "enough")
    assert (await types_of(run))[-1] == "run.finished"


async def test_cancelling_during_a_sync_tool_returns_at_once() -> None:
    """The thread goes on by itself, told by its context; the run does not wait for it."""
    entered, let_go, left = threading.Event(), threading.Event(), threading.Event()
    told: list[bool] = []

    @tool
    def blocks(ctx: RunContext) -> str:
        """Block."""
        told.append(ctx.cancelled)
        entered.set()
        let_go.wait(5)
        told.append(ctx.cancelled)
        left.set()
        return "late"

    model = ScriptedModel([calls(("1", "blocks", {})), "never"])
    run = Agent("a", model, tools=[blocks]).start("x")
    async for event in run:
        if isinstance(event, ToolStarted):
            break
    await asyncio.to_thread(entered.wait)
    result = await run.cancel()

    assert result is not None
    assert not left.is_set()
    check_answered(result.messages)
    assert result.messages[-1].tool_results[0].is_error
    let_go.set()
    assert await asyncio.to_thread(left.wait, 5)
    assert told == [False, True]
