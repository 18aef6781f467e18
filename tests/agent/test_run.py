"""The handle of a run: its events, its end, and cancelling it."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
import time
import weakref
from typing import Any

import pytest

from treadle import (
    Agent,
    AuthenticationFailed,
    Message,
    ModelFinished,
    Reasoning,
    ReasoningDelta,
    RunContext,
    RunFinished,
    TextDelta,
    ToolStarted,
    tool,
)
from treadle.errors import ConfigError
from treadle.events import TERMINAL
from treadle.testing import FakeClock, FunctionModel, ScriptedModel, calls, chunks, raises


@tool
async def add(a: int, b: int) -> int:
    """Add."""
    return a + b


async def types_of(run: Any) -> list[str]:
    """The dotted types of a run's events."""
    return [event.type async for event in run]


async def hang(request: object) -> str:
    """Never answer."""
    await FakeClock.forever()
    return ""


async def test_the_events_of_a_run_with_a_tool() -> None:
    """One sequence, in order, with exactly one terminal event at the end."""
    model = ScriptedModel([calls(("c1", "add", {"a": 1, "b": 2}), text="Let me see."), "3"])
    run = Agent("a", model, tools=[add]).start("x")

    events = [event async for event in run]
    result = await run

    assert [event.type for event in events] == [
        "run.started",
        "model.started",
        "text.delta",
        "model.finished",
        "tool.requested",
        "tool.started",
        "tool.finished",
        "model.started",
        "text.delta",
        "model.finished",
        "answer.stored",
        "run.finished",
    ]
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert {event.run_id for event in events} == {run.id} == {result.run_id}
    assert [event.final for event in events if isinstance(event, ModelFinished)] == [False, True]
    assert sum(isinstance(event, TERMINAL) for event in events) == 1


async def test_spans_form_a_tree() -> None:
    """Model calls and tools are children of the run, each with a span of its own."""
    model = ScriptedModel([calls(("c1", "add", {"a": 1, "b": 2})), "3"])
    events = [event async for event in Agent("a", model, tools=[add]).start("x")]

    root = events[0].span_id
    by_span: dict[str, set[str]] = {}
    for event in events:
        by_span.setdefault(event.span_id, set()).add(event.type)
        assert event.parent_id == (None if event.span_id == root else root)
    assert len(by_span) == 4


async def test_reasoning_and_text_are_two_channels() -> None:
    """S67: deltas on both, then the stored answer, then one terminal event."""
    model = ScriptedModel([chunks([Reasoning("hm"), "he", "llo"])])
    events = [event async for event in Agent("a", model).start("x")]

    assert [event.text for event in events if isinstance(event, TextDelta)] == ["he", "llo"]
    assert [event.text for event in events if isinstance(event, ReasoningDelta)] == ["hm"]
    assert [event.type for event in events[-2:]] == ["answer.stored", "run.finished"]


async def test_a_model_that_cannot_stream_gives_one_delta() -> None:
    """S67: callers need not care."""
    model = ScriptedModel(["hello"], streams=False)
    events = [event async for event in Agent("a", model).start("x")]

    assert [event.text for event in events if isinstance(event, TextDelta)] == ["hello"]


async def test_a_reader_that_stops_reading_changes_nothing() -> None:
    """S69: the run finishes, and a late reader gets the terminal event."""
    model = ScriptedModel([chunks(["x"] * 20_000)])
    run = Agent("a", model).start("x")
    async for _ in run:
        break

    result = await run
    late = [event async for event in run]

    assert len(result.output) == 20_000
    assert [event.type for event in late] == ["run.finished"]


async def test_an_unread_run_keeps_all_text_and_every_lifecycle_event() -> None:
    """Deltas that nobody read are joined; nothing is lost."""
    model = ScriptedModel([chunks(["ab"] * 20_000)])
    run = Agent("a", model).start("x")
    await run

    events = [event async for event in run]

    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == "ab" * 20_000
    assert len(events) < 6_000
    assert [event.type for event in events][-2:] == ["answer.stored", "run.finished"]


async def test_two_readers_see_the_same() -> None:
    """Each has its own place."""
    release = asyncio.Event()

    async def answer(request: object) -> str:
        await release.wait()
        return "ok"

    run = Agent("a", FunctionModel(answer)).start("x")
    first, second = aiter(run), aiter(run)
    release.set()
    seen = [[event.type async for event in reader] for reader in (first, second)]

    assert seen[0] == seen[1]


async def test_stream_raises_what_ended_the_run() -> None:
    """The terminal event comes first, then the error."""
    seen: list[str] = []
    with pytest.raises(AuthenticationFailed):
        async for event in Agent("a", ScriptedModel([raises(AuthenticationFailed("no"))])).stream(
            "x"
        ):
            seen.append(event.type)

    assert seen[-1] == "run.finished"


async def test_an_abandoned_stream_cancels_its_run() -> None:
    """Leaving the iteration stops the model."""
    stopped = asyncio.Event()

    async def answer(request: object) -> str:
        try:
            await FakeClock.forever()
        finally:
            stopped.set()
        return ""

    events = Agent("a", FunctionModel(answer)).stream("x")
    async for _ in events:
        break
    await events.aclose()

    assert stopped.is_set()


async def test_cancel_keeps_the_partial_text() -> None:
    """What the user saw is in the history, marked; the conversation goes on."""
    arrived = asyncio.Event()

    class Slow:
        """Streams half a sentence and hangs."""

        async def complete(self, request: object) -> Any:
            """Not used."""
            raise AssertionError

        async def stream(self, request: object) -> Any:
            """Stream."""
            for piece in ScriptedModel([chunks(["Half a "])])._script[0].pieces:
                from treadle.ports.model import TextPiece

                yield TextPiece(piece)
            arrived.set()
            await FakeClock.forever()

    run = Agent("a", Slow()).start("x")
    await arrived.wait()
    result = await run.cancel("user pressed stop")

    assert result is not None
    assert (result.stop_reason, result.reason, result.output) == (
        "cancelled",
        "user pressed stop",
        "Half a ",
    )
    assert result.messages[-1].incomplete
    assert (await run).stop_reason == "cancelled"
    assert (
        await Agent("a", ScriptedModel(["ok"])).run("y", history=result.messages)
    ).output == "ok"


async def test_cancel_before_the_first_step() -> None:
    """The run settles all the same, with its terminal event."""
    run = Agent("a", ScriptedModel(["x"])).start("x")
    result = await run.cancel("at once")

    assert result is not None
    assert result.stop_reason == "cancelled"
    assert (await types_of(run))[-1] == "run.finished"


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
            while True:
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
    assert [found.text for found in answers][0] == "done"
    assert [found.is_error for found in answers] == [False, True, True]
    assert asyncio.all_tasks() == before
    assert (await agent.run("y", history=result.messages)).output == "ok"


async def test_cancelling_the_caller_cancels_the_run() -> None:
    """BS-50: `await agent.run()` owns its run; awaiting a handle does not."""
    stopped = asyncio.Event()
    entered = asyncio.Event()

    async def answer(request: object) -> str:
        entered.set()
        try:
            await FakeClock.forever()
        finally:
            stopped.set()
        return ""

    agent = Agent("a", FunctionModel(answer))
    owner = asyncio.ensure_future(agent.run("x"))
    await entered.wait()
    owner.cancel()
    with pytest.raises(asyncio.CancelledError):
        await owner
    assert stopped.is_set()

    run = agent.start("x")
    waiter = asyncio.ensure_future(run.result())
    await asyncio.sleep(0)
    waiter.cancel()
    await asyncio.sleep(0)
    assert not run.done
    await run.cancel()


async def test_cancelling_during_a_sync_tool_returns_at_once() -> None:
    """The thread goes on by itself, told by its context; the run does not wait for it."""
    entered, let_go = threading.Event(), threading.Event()

    @tool
    def blocks(ctx: RunContext) -> str:
        """Block."""
        entered.set()
        let_go.wait(5)
        return "late"

    run = Agent("a", ScriptedModel([calls(("1", "blocks", {})), "never"]), tools=[blocks]).start(
        "x"
    )
    async for event in run:
        if isinstance(event, ToolStarted):
            break
    await asyncio.to_thread(entered.wait)
    result = await run.cancel()
    let_go.set()

    assert result is not None
    assert result.messages[-1].tool_results[0].is_error


async def test_a_failing_observer_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """Its error is logged; the others get every event, async ones too."""
    seen: list[str] = []

    class Broken:
        """Raises."""

        def on_event(self, event: object) -> None:
            """Raise."""
            raise ValueError("broken observer")

    class Careful:
        """Takes notes."""

        async def on_event(self, event: Any) -> None:
            """Take a note."""
            await asyncio.sleep(0)
            seen.append(event.type)

    with caplog.at_level(logging.ERROR):
        result = await Agent("a", ScriptedModel(["hi"])).run("x", observers=[Broken(), Careful()])

    assert result.output == "hi"
    assert seen[0] == "run.started"
    assert seen[-1] == "run.finished"
    assert "broken observer" in caplog.text


async def test_a_failed_run_that_nobody_awaits_is_quiet(recwarn: pytest.WarningsRecorder) -> None:
    """The terminal event has the error; no warning about an exception never retrieved."""
    run = Agent("a", ScriptedModel([raises(AuthenticationFailed("no"))])).start("x")
    last = [event async for event in run][-1]
    assert isinstance(last, RunFinished)
    assert (last.stop_reason, last.error) == ("failed", "no")
    del run
    gc.collect()

    assert not recwarn.list


async def test_finished_runs_leave_nothing_behind() -> None:
    """BS-68: agent, run, tool closure and result are free once dropped; no task is left."""
    refs: list[weakref.ref[Any]] = []

    async def once(n: int) -> None:
        big = bytearray(1_000)

        async def keeps(a: int) -> int:
            """Keep something large."""
            return a + len(big)

        model = ScriptedModel([calls(("1", "keeps", {"a": 1})), "ok"])
        agent = Agent("a", model, tools=[tool(keeps)])
        run = agent.start("x")
        if n % 3 == 0:
            await run
        elif n % 3 == 1:
            await types_of(run)
        else:
            await run.cancel()
        refs.extend((weakref.ref(agent), weakref.ref(run), weakref.ref(keeps)))

    for n in range(60):
        await once(n)
    await asyncio.sleep(0)
    gc.collect()

    assert [ref for ref in refs if ref() is not None] == []
    assert len(asyncio.all_tasks()) == 1


def test_start_needs_an_event_loop() -> None:
    """The error says what to call instead."""
    with pytest.raises(ConfigError, match="run_sync"):
        Agent("a", ScriptedModel(["x"])).start("x")


def test_run_sync_many_times_and_from_many_threads() -> None:
    """BS-67: one background loop serves them all."""
    agent = Agent("a", FunctionModel(lambda request: "ok"))
    outputs: list[str] = [agent.run_sync("x").output for _ in range(3)]
    threads = [
        threading.Thread(target=lambda: outputs.append(agent.run_sync("x").output))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=10)

    assert outputs == ["ok"] * 11
    assert [asyncio.run(agent.run("x")).output for _ in range(3)] == ["ok"] * 3


async def test_run_sync_inside_a_running_loop() -> None:
    """As in a notebook: it works, on another thread's loop."""
    agent = Agent("a", FunctionModel(lambda request: "ok"))

    assert agent.run_sync("x").output == "ok"


async def test_run_sync_inside_a_sync_tool() -> None:
    """A tool in a thread may run another agent."""
    inner = Agent("inner", FunctionModel(lambda request: "deep"))

    @tool
    def ask_inner() -> str:
        """Ask."""
        return inner.run_sync("x").output

    agent = Agent("a", ScriptedModel([calls(("1", "ask_inner", {})), "ok"]), tools=[ask_inner])
    result = await asyncio.to_thread(agent.run_sync, "x")

    assert result.tool_results[0].text == "deep"


def test_run_sync_on_its_own_loop_is_refused() -> None:
    """It would wait for itself for ever."""
    inner = Agent("inner", FunctionModel(lambda request: "deep"))

    @tool(isolation="inline")
    def ask_inner() -> str:
        """Ask."""
        return inner.run_sync("x").output

    agent = Agent("a", ScriptedModel([calls(("1", "ask_inner", {})), "ok"]), tools=[ask_inner])
    result = agent.run_sync("x")

    assert "make the tool async" in result.tool_results[0].text


async def test_agents_are_shared_without_crossing() -> None:
    """S8, BS-64: fifty conversations at once see only their own word."""

    def parrot(request: Any) -> str:
        words = {message.text for message in request.messages if message.role == "user"}
        assert len(words) == 1
        return words.pop()

    agent = Agent("a", FunctionModel(parrot))
    before = repr(agent)

    async def talk(word: str) -> list[str]:
        history: list[Message] = []
        said: list[str] = []
        for _ in range(5):
            result = await agent.run(word, history=history)
            history = result.messages
            said.append(result.output)
        return said

    async with asyncio.TaskGroup() as group:
        talks = {word: group.create_task(talk(word)) for word in (f"word-{n}" for n in range(50))}

    assert all(task.result() == [word] * 5 for word, task in talks.items())
    assert repr(agent) == before


async def test_seconds_are_measured() -> None:
    """Wall-clock time of the run, in seconds."""
    started = time.perf_counter()
    result = await Agent("a", ScriptedModel(["hi"])).run("x")

    assert 0 < result.seconds <= time.perf_counter() - started
