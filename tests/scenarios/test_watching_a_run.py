"""What a run tells of itself: events in order, and an end that is stored before it is told."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.scenarios.provider import kinds_of, provider, saying, watch
from treadle import (
    Agent,
    AuthenticationFailed,
    Interrupt,
    Limits,
    MemoryStore,
    Message,
    ModelFinished,
    RunFinished,
    RunPaused,
    Tool,
    ToolFinished,
    ToolStarted,
    Usage,
    tool,
)
from treadle.events import TERMINAL
from treadle.journal import RunEnded, RunSuspended
from treadle.ports.model import ModelReply, ModelRequest
from treadle.testing import FakeClock, FunctionModel, ScriptedModel, calls, raises, reply


@tool
async def add(a: int, b: int) -> int:
    """Add."""
    return a + b


ADDING = calls(("c", "add", {"a": 1, "b": 1}))


async def test_a_model_streams_only_for_somebody() -> None:
    """B26, C25: `run` asks for a whole reply, a watched run for a stream."""
    answers = (saying("a", streamed=False), saying("b", streamed=True))
    async with provider(*answers) as line:
        agent = Agent("a", line.model)
        await agent.run("x")
        await watch(agent)

    assert [body.get("stream", False) for body in line.requests] == [False, True]


async def endings(agent: Agent, store: MemoryStore, *, cancel: bool = False) -> tuple[Any, Any]:
    """Run in a stored conversation; return the last event, and the journal's last entry then."""
    run = agent.start("x", conversation="c", store=store)
    last = entry = None
    async for event in run:
        last = event
        if cancel and isinstance(event, ToolStarted):
            await run.cancel("enough")
        if isinstance(event, TERMINAL):
            entry = (await store.read("c"))[-1].entries[-1]
    return last, entry


@pytest.mark.parametrize("way", ["answer", "paused", "cancelled", "failed"])
async def test_the_end_is_stored_before_it_is_told(way: str) -> None:
    """S68, B30: the terminal event and what the journal has are one outcome, for each way out."""

    @tool
    async def asks() -> Interrupt:
        """Ask."""
        return Interrupt("human")

    @tool
    async def blocks() -> str:
        """Block."""
        await FakeClock.forever()
        return "never"

    scripts: dict[str, list[Any]] = {
        "answer": ["ok"],
        "paused": [calls(("1", "asks", {}))],
        "cancelled": [calls(("1", "blocks", {}))],
        "failed": [raises(AuthenticationFailed("no"))],
    }
    agent = Agent("a", ScriptedModel(scripts[way]), tools=[asks, blocks])
    last, entry = await endings(agent, MemoryStore(), cancel=way == "cancelled")

    if way == "paused":
        assert isinstance(last, RunPaused)
        assert isinstance(entry, RunSuspended)
        assert last.reason == entry.reason == "human"
    else:
        assert isinstance(last, RunFinished)
        assert isinstance(entry, RunEnded)
        assert last.stop_reason == entry.stop_reason == way
        assert last.usage == entry.usage
        assert (last.error, entry.error) == (("no", "no") if way == "failed" else (None, None))


async def test_a_cancelled_caller_still_settles() -> None:
    """B30: the end is written although the task that ran it was cancelled."""
    store = MemoryStore()
    entered = asyncio.Event()

    async def answer(request: object) -> str:
        entered.set()
        await FakeClock.forever()
        return "never"

    agent = Agent("a", FunctionModel(answer), store=store)
    caller = asyncio.ensure_future(agent.run("x", conversation="c"))
    await entered.wait()
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller

    entry = (await store.read("c"))[-1].entries[-1]
    assert isinstance(entry, RunEnded)
    assert entry.stop_reason == "cancelled"


async def test_the_terminal_event_has_the_counts() -> None:
    """B29, B177, B266: usage with tokens and calls, and turns; the same as in the result."""
    spent = Usage(input_tokens=5, cache_read_tokens=2, output_tokens=1, requests=1)
    asked = calls(("c", "add", {"a": 1, "b": 1}), usage=spent)
    run = Agent("a", ScriptedModel([asked, reply("ok", usage=spent)]), tools=[add]).start("x")
    events = [event async for event in run]
    result = await run

    last = events[-1]
    assert isinstance(last, RunFinished)
    assert (last.usage, last.turns) == (result.usage, result.turns)
    assert (last.usage.cache_read_tokens, last.usage.tool_calls) == (4, 1)
    told = [event.usage for event in events if isinstance(event, ModelFinished)]
    assert told[0] + told[1] == Usage(10, 4, 0, 2, requests=2)


async def test_one_observer_sees_what_a_stream_sees() -> None:
    """B166, B171, B172: there is one kind of event, for whoever listens."""
    seen: list[str] = []

    class Watching:
        """Takes notes."""

        def on_event(self, event: Any) -> None:
            """Take a note."""
            seen.append(event.type)

    agent = Agent("a", ScriptedModel([ADDING, "ok"]), tools=[add])
    streamed = kinds_of(await watch(agent, observers=[Watching()]))

    assert streamed[-1] == "run.finished"
    assert seen == streamed


async def test_events_of_calls_tell_their_stage() -> None:
    """S17, B61: lookup, arguments, execution and time, each in its own call; the others run."""

    @tool
    async def breaks() -> str:
        """Break."""
        raise RuntimeError("oops")

    @tool(timeout=0.001)
    async def hangs() -> str:
        """Hang."""
        await FakeClock.forever()
        return "never"

    asked = reply(
        *calls(("1", "nope", {}), ("2", "add", {"a": "x"}), ("3", "breaks", {})).message.parts,
        *calls(("4", "hangs", {}), ("5", "add", {"a": 1, "b": 2})).message.parts,
    )
    events = await watch(Agent("a", ScriptedModel([asked, "ok"]), tools=[add, breaks, hangs]))

    finished = {e.call_id: e.stage for e in events if isinstance(e, ToolFinished)}
    assert finished == {
        "1": "lookup",
        "2": "arguments",
        "3": "execution",
        "4": "timeout",
        "5": None,
    }


async def test_several_interrupts_are_one_pause() -> None:
    """B69: the first reason counts, the batch is whole, and the limit does not come in between."""

    @tool
    async def asks(reason: str) -> Interrupt:
        """Ask."""
        return Interrupt(reason)

    asked = calls(("1", "asks", {"reason": "one"}), ("2", "asks", {"reason": "two"}))
    model = ScriptedModel([asked, "never"])
    run = Agent("a", model, tools=[asks], limits=Limits(max_turns=1)).start("x")
    events = [event async for event in run]
    result = await run

    assert (result.stop_reason, result.reason, len(model.requests)) == ("paused", "one", 1)
    assert [found.text for found in result.tool_results] == ["one", "two"]
    assert sum(isinstance(event, RunPaused) for event in events) == 1


@pytest.mark.parametrize("deep", [False, True])
async def test_what_watchers_do_to_arguments_changes_no_call(deep: bool) -> None:
    """B73: an event has a copy, however deep, of what the tool gets."""
    got: list[Any] = []
    told = asyncio.Event()

    class Meddles:
        """Changes what it is shown."""

        def on_event(self, event: Any) -> None:
            """Change it."""
            if isinstance(event, ToolStarted):
                event.arguments["n"] = 99
                if deep:
                    event.arguments["items"].append("forged")
                told.set()

    async def take(arguments: dict[str, Any]) -> str:
        """Wait until the watcher had its turn."""
        await told.wait()
        got.append(arguments)
        return "ok"

    taking = Tool.from_schema("take", "Take.", {"properties": {"items": {}, "n": {}}}, take)
    model = ScriptedModel([calls(("c", "take", {"items": ["a"], "n": 1})), "ok"])
    result = await Agent("a", model, tools=[taking]).run("x", observers=[Meddles()])

    assert got == [{"items": ["a"], "n": 1}]
    assert result.messages[1].tool_calls[0].arguments == {"items": ["a"], "n": 1}


async def test_every_failed_run_tells_its_kind() -> None:
    """B277-B279: the error that ended it comes out as itself, with what there was."""

    class Broken(AuthenticationFailed):
        """One of the caller's own."""

    class Mine:
        """A model that raises it."""

        async def complete(self, request: ModelRequest) -> ModelReply:
            """Raise."""
            raise Broken("mine")

    with pytest.raises(AuthenticationFailed) as caught:
        await Agent("a", Mine()).run("x")

    assert type(caught.value) is Broken
    assert caught.value.result.messages == [Message.user("x")]
