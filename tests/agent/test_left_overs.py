"""What must not be left over: partial texts, foreign cancellations, calls without results."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.agent.parts import add
from treadle import (
    Agent,
    Interrupt,
    InvalidInput,
    MemoryStore,
    Message,
    Middleware,
    ModelError,
    RunContext,
    Text,
    ToolAbort,
    ToolAborted,
    ToolCall,
    ToolResult,
    tool,
)
from treadle.testing import FunctionModel, ScriptedModel, calls


@tool
async def ask() -> Interrupt:
    """Ask."""
    return Interrupt("human")


@tool
async def abort() -> str:
    """Abort."""
    raise ToolAbort("fire")


@tool
async def hang() -> str:
    """Hang."""
    await asyncio.get_running_loop().create_future()
    return ""


@pytest.mark.parametrize("way", [ask, abort, hang])
async def test_a_preamble_is_there_once(way: Any) -> None:
    """Text that was streamed before a call is part of its message, and of no other."""
    model = ScriptedModel([calls(("1", way.name, {}), text="Let me look.")])
    run = Agent("a", model, tools=[way]).start("x")
    async for event in run:
        if event.type == "tool.started" and way is hang:
            break
    if way is hang:
        result = await run.cancel()
    elif way is abort:
        with pytest.raises(ToolAborted) as caught:
            await run
        result = caught.value.result
    else:
        result = await run

    assert result is not None
    assert [m.role for m in result.messages] == ["user", "assistant", "tool"]


async def cancelled_elsewhere() -> None:
    """Wait for a task that somebody else cancels."""
    task = asyncio.ensure_future(asyncio.sleep(5))
    await asyncio.sleep(0)
    task.cancel()
    await task


@pytest.mark.parametrize("several", [False, True])
async def test_a_tool_that_waits_for_something_cancelled(several: bool) -> None:
    """Its call failed; nobody cancelled the run."""

    @tool
    async def waits() -> str:
        """Wait."""
        await cancelled_elsewhere()
        return ""

    requests: list[tuple[str, str, dict[str, Any]]] = [("1", "waits", {}), ("2", "waits", {})]
    requests = requests[: 1 + several]
    result = await Agent("a", ScriptedModel([calls(*requests), "ok"]), tools=[waits]).run("x")

    assert result.output == "ok"
    assert all("was cancelled" in found.text for found in result.tool_results)
    assert len(result.tool_results) == len(requests)


async def test_a_model_that_waits_for_something_cancelled() -> None:
    """The run failed; it was not cancelled."""

    async def answer(request: object) -> str:
        await cancelled_elsewhere()
        return ""

    with pytest.raises(ModelError, match="was cancelled"):
        await Agent("a", FunctionModel(answer)).run("x")


async def test_a_lone_tool_that_swallows_the_cancellation() -> None:
    """BS-50: no further model call is made, and the caller hears of it."""
    started = asyncio.Event()

    @tool
    async def stubborn() -> str:
        """Do not care."""
        started.set()
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            return "late"
        return ""

    model = ScriptedModel([calls(("1", "stubborn", {})), "never"])
    task = asyncio.ensure_future(Agent("a", model, tools=[stubborn]).run("x"))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert len(model.requests) == 1


async def test_results_of_middleware_belong_to_their_call() -> None:
    """Whatever ID they carry."""

    class Other(Middleware):
        async def before_tool(
            self, ctx: RunContext, call: ToolCall, arguments: dict[str, Any]
        ) -> ToolResult:
            return ToolResult("other", "other", (Text("instead"),))

    model = ScriptedModel([calls(("c1", "ask", {})), "ok"])
    result = await Agent("a", model, tools=[ask], middleware=[Other()]).run("x")

    assert [found.call_id for found in result.messages[2].tool_results] == ["c1"]


async def test_a_history_built_by_hand() -> None:
    """A call without a result gets one that says so; a result without a call is refused."""
    call = ToolCall.of("look up", {}, id="c")
    dangling = [Message.user("a"), Message("assistant", (call,)), Message.user("b")]
    model = ScriptedModel(["ok"])
    await Agent("a", model).run("x", history=dangling)

    sent = model.requests[0].messages
    assert [m.role for m in sent] == ["user", "assistant", "tool", "user", "user"]
    assert (sent[1].tool_calls[0].name, sent[2].tool_results[0].synthetic) == (
        "look_up_a973a279",
        True,
    )
    orphan = [Message.user("a"), Message("tool", (ToolResult("c", "t"),))]
    with pytest.raises(InvalidInput, match="result for call 'c'"):
        await Agent("a", ScriptedModel(["ok"])).run("x", history=orphan)


async def test_an_observer_that_exits() -> None:
    """It is logged like any other failure of an observer."""

    class Exits:
        def on_event(self, event: object) -> None:
            raise SystemExit(3)

    assert (await Agent("a", ScriptedModel(["ok"])).run("x", observers=[Exits()])).output == "ok"


def test_agents_can_be_kept_in_sets() -> None:
    """Each is itself and no other."""
    first, second = Agent("a", tools=[ask]), Agent("a", tools=[ask])

    assert len({first, second, first}) == 2


async def _by_run(agent: Agent[Any, Any]) -> None:
    await agent.run("x")


async def _by_start(agent: Agent[Any, Any]) -> None:
    run = agent.start("x")
    async for _ in run:
        pass
    await run


async def _by_stream(agent: Agent[Any, Any]) -> None:
    async for _ in agent.stream("x"):
        pass


STORE = MemoryStore()


async def _stored(agent: Agent[Any, Any]) -> None:
    await agent.run("x", store=STORE, conversation="c")


@pytest.mark.parametrize("way", [_by_run, _by_start, _by_stream, _stored])
async def test_a_finished_run_leaves_no_garbage(
    way: Callable[[Agent[Any, Any]], Awaitable[None]],
) -> None:
    """All of it goes when it ends: the collector has nothing to find, and pauses nobody."""
    script = [calls(("1", "add", {"a": 1, "b": 2}), ("2", "add", {"a": 1, "b": 2})), "done"]

    agent = Agent("a", ScriptedModel(script * 6), tools=[add])

    async def once() -> None:
        await way(agent)
        await asyncio.sleep(0)  # what was called back meanwhile

    await once()
    gc.collect()
    gc.disable()
    before = {id(item) for item in gc.get_objects()}  # what earlier tests may let go of meanwhile
    try:
        for _ in range(5):
            await once()
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        found = [item for item in gc.garbage if id(item) not in before]
        left = [item for item in found if type(item).__module__.startswith("treadle")]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
    assert left == []
