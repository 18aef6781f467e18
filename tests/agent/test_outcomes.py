"""S68: however a run ends, its last event, its result and its journal tell the same."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.agent.parts import add, check_answered
from treadle import (
    Agent,
    AuthenticationFailed,
    Finish,
    Interrupt,
    MemoryStore,
    ModelFinished,
    Run,
    RunFinished,
    RunPaused,
    ToolFinished,
    ToolStarted,
    tool,
)
from treadle.events import TERMINAL, AnyEvent
from treadle.fold import fold
from treadle.journal import RunSuspended
from treadle.run_record import RunRecord
from treadle.testing import FakeClock, ScriptedModel, calls, raises


@tool
async def ask() -> Interrupt:
    """Ask a human."""
    return Interrupt("needs a human")


@tool
async def submit() -> Finish:
    """Submit."""
    return Finish("submitted")


@tool
async def block() -> None:
    """Never return."""
    await FakeClock.forever()


def start(store: MemoryStore, *script: Any) -> Run[Any]:
    """Start a run of this script in a conversation of the store."""
    model = ScriptedModel(script)
    agent = Agent("a", model, tools=[add, ask, block, submit], store=store)
    return agent.start("x", conversation="c")


async def record_of(store: MemoryStore, run: Run[Any]) -> RunRecord:
    """The run as the journal tells it; the history there is valid."""
    view = fold((batch.revision, batch.entries) for batch in await store.read("c"))
    check_answered(view.messages)
    return view.runs[run.id]


async def check_goes_on(store: MemoryStore) -> None:
    """The next run of the conversation answers."""
    agent = Agent("a", ScriptedModel(["on"]), store=store)
    assert (await agent.run("go on", conversation="c")).output == "on"


def last_of(events: list[AnyEvent]) -> AnyEvent:
    """The last event, which is the only terminal one."""
    assert [isinstance(event, TERMINAL) for event in events].index(True) == len(events) - 1
    return events[-1]


@pytest.mark.parametrize(
    ("last_reply", "output"), [("three", "three"), (calls(("2", "submit", {})), "submitted")]
)
async def test_success(last_reply: Any, output: str) -> None:
    """S68: an answer, by the model or by a tool, is told as one."""
    store = MemoryStore()
    run = start(store, calls(("1", "add", {"a": 1, "b": 2})), last_reply)

    last = last_of([event async for event in run])
    result = await run
    record = await record_of(store, run)

    assert isinstance(last, RunFinished)
    assert (last.stop_reason, last.error) == ("answer", None)
    assert (last.usage, last.turns) == (result.usage, result.turns)
    assert (result.stop_reason, result.output) == ("answer", output)
    assert (record.status, record.stop_reason, record.error) == ("answered", "answer", None)
    assert record.usage == result.usage
    assert (await store.head("c")).status == "answered"
    await check_goes_on(store)


async def test_interruption_by_a_tool() -> None:
    """S68: a pause is told as one, with its reason, and is no end."""
    store = MemoryStore()
    run = start(store, calls(("1", "ask", {}), ("2", "add", {"a": 1, "b": 2})))

    last = last_of([event async for event in run])
    result = await run
    record = await record_of(store, run)

    assert isinstance(last, RunPaused)
    assert (last.reason, last.usage) == ("needs a human", result.usage)
    assert (result.stop_reason, result.reason) == ("paused", "needs a human")
    assert (record.status, record.stop_reason) == ("paused", None)
    entry = (await store.read("c"))[-1].entries[-1]
    assert isinstance(entry, RunSuspended)
    assert (entry.reason, entry.turns) == ("needs a human", 1)
    assert (await store.head("c")).status == "paused"
    await check_goes_on(store)


async def test_cancellation_while_a_tool_blocks() -> None:
    """S68: the call is answered as cancelled, and the run is told as stopped by somebody."""
    store = MemoryStore()
    run = start(store, calls(("1", "add", {"a": 1, "b": 2}), ("2", "block", {})))
    events: list[AnyEvent] = []
    async with asyncio.TaskGroup() as group:
        async for event in run:
            events.append(event)
            if isinstance(event, ToolStarted) and event.name == "block":
                group.create_task(run.cancel("enough"))

    last = last_of(events)
    result = await run
    record = await record_of(store, run)

    assert isinstance(last, RunFinished)
    assert (last.stop_reason, last.error) == ("cancelled", None)
    stages = {event.name: event.stage for event in events if isinstance(event, ToolFinished)}
    assert stages == {"add": None, "block": "cancelled"}
    assert (result.stop_reason, result.reason) == ("cancelled", "enough")
    assert [found.is_error for found in result.messages[-1].tool_results] == [False, True]
    assert (record.status, record.stop_reason, record.error) == ("stopped", "cancelled", None)
    assert record.usage == result.usage
    assert (await store.head("c")).status == "stopped"
    await check_goes_on(store)


async def test_model_failure() -> None:
    """S68: the error is raised, told by the last event and by the model's, and journaled."""
    store = MemoryStore()
    script = calls(("1", "add", {"a": 1, "b": 2})), raises(AuthenticationFailed("bad key"))
    run = start(store, *script)

    events = [event async for event in run]
    last = last_of(events)
    with pytest.raises(AuthenticationFailed, match="bad key") as caught:
        await run
    result = caught.value.result
    record = await record_of(store, run)

    assert isinstance(last, RunFinished)
    assert (last.stop_reason, last.error) == ("failed", "bad key")
    errors = [event.error for event in events if isinstance(event, ModelFinished)]
    assert errors == [None, "bad key"]
    assert (result.stop_reason, result.run_id) == ("failed", run.id)
    assert [found.text for found in result.tool_results] == ["3"]
    assert (record.status, record.stop_reason, record.error) == ("failed", "failed", "bad key")
    assert record.usage == result.usage
    assert (await store.head("c")).status == "stopped"
    await check_goes_on(store)
