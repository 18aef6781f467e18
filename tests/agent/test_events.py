"""The events of a run: one sequence, for readers and observers who may be late, slow or broken."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable

import pytest

from tests.agent.parts import add, text_of
from treadle import (
    Agent,
    AuthenticationFailed,
    ModelFinished,
    ModelRequest,
    Reasoning,
    ReasoningDelta,
    TextDelta,
)
from treadle.events import TERMINAL, AnyEvent
from treadle.testing import FunctionModel, ScriptedModel, calls, chunks, raises


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
    assert by_span[root] == {"run.started", "answer.stored", "run.finished"}
    assert {"tool.requested", "tool.started", "tool.finished"} in by_span.values()


async def test_reasoning_and_text_are_two_channels() -> None:
    """S67: deltas on both, then the stored answer, then one terminal event."""
    model = ScriptedModel([chunks([Reasoning("hm"), "he", "llo"])])
    events = [event async for event in Agent("a", model).start("x")]

    assert [event.text for event in events if isinstance(event, TextDelta)] == ["he", "llo"]
    assert [event.text for event in events if isinstance(event, ReasoningDelta)] == ["hm"]
    assert [event.type for event in events[-2:]] == ["answer.stored", "run.finished"]
    assert sum(isinstance(event, TERMINAL) for event in events) == 1


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

    assert text_of(events) == "ab" * 20_000
    assert len(events) < 6_000
    assert [event.type for event in events if not isinstance(event, TextDelta)] == [
        "run.started",
        "model.started",
        "model.finished",
        "answer.stored",
        "run.finished",
    ]


async def test_joined_deltas_keep_their_channels_and_their_order() -> None:
    """Reasoning that nobody read never becomes part of the text."""
    pieces = [Reasoning("r")] * 3_000 + ["a"] * 3_000 + [Reasoning("s")] * 5 + ["b"] * 5
    run = Agent("a", ScriptedModel([chunks(pieces)])).start("x")
    await run

    deltas = [event async for event in run if isinstance(event, TextDelta | ReasoningDelta)]

    assert text_of(deltas) == "a" * 3_000 + "b" * 5
    assert "".join(event.text for event in deltas) == "r" * 3_000 + "a" * 3_000 + "sssssbbbbb"
    assert [event.seq for event in deltas] == sorted(event.seq for event in deltas)


async def test_two_readers_see_the_same() -> None:
    """Each has its own place."""
    release = asyncio.Event()

    async def answer(request: ModelRequest) -> str:
        await release.wait()
        return "ok"

    run = Agent("a", FunctionModel(answer)).start("x")
    first, second = aiter(run), aiter(run)
    release.set()
    seen = [[event.type async for event in reader] for reader in (first, second)]

    assert seen[0] == seen[1]
    assert (seen[0][0], seen[0][-1]) == ("run.started", "run.finished")


async def test_stream_raises_what_ended_the_run() -> None:
    """The terminal event comes first, then the error."""
    events = Agent("a", ScriptedModel([raises(AuthenticationFailed("no"))])).stream("x")
    seen: list[str] = []

    async def watch() -> None:
        async for event in events:
            seen.append(event.type)  # noqa: PERF401 what came before the error counts

    with pytest.raises(AuthenticationFailed):
        await watch()

    assert seen[-1] == "run.finished"
    assert seen.count("run.finished") == 1


async def test_a_failing_observer_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """Its error is logged; the others get every event, async ones too."""
    seen: list[str] = []

    class Broken:
        """Raises."""

        def on_event(self, event: AnyEvent) -> None:
            """Raise."""
            raise ValueError("broken observer")

    class Careful:
        """Takes notes."""

        def on_event(self, event: AnyEvent) -> Awaitable[None]:
            """Take a note, in its own time."""
            return self.note(event.type)

        async def note(self, kind: str) -> None:
            """Take a note."""
            await asyncio.sleep(0)
            seen.append(kind)

    with caplog.at_level(logging.ERROR):
        result = await Agent("a", ScriptedModel(["hi"])).run("x", observers=[Broken(), Careful()])

    assert result.output == "hi"
    assert seen == [
        "run.started",
        "model.started",
        "text.delta",
        "model.finished",
        "answer.stored",
        "run.finished",
    ]
    assert caplog.text.count("ValueError: broken observer") == len(seen)
