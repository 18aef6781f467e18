"""What is seen of child runs: their events in the stream of the run, and whose they are."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from tests.agent.nested import Tree, asking, playing
from treadle import Agent, Event, TextDelta
from treadle.events import AgentEntered, AgentLeft, RunFinished, RunPaused
from treadle.ports.model import ModelReply, ModelRequest, TextPiece
from treadle.testing import reply


async def test_events_tell_whose_they_are() -> None:
    """One sequence, each with agent and path; a child's spans hang under its call's."""
    tree = Tree()
    events: list[Any] = [event async for event in tree.boss.start("go")]

    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert len([e for e in events if isinstance(e, RunFinished | RunPaused)]) == 1
    assert isinstance(events[-1], RunFinished)
    agents = {(event.path, event.agent) for event in events}
    assert agents == {
        ("", "boss"),
        ("expert#1", "expert"),
        ("writer#1", "writer"),
        ("expert#1/critic#1", "critic"),
    }
    for entered in (event for event in events if isinstance(event, AgentEntered)):
        started = next(
            e for e in events if e.type == "tool.started" and e.call_id == entered.call_id
        )
        assert entered.parent_id == started.span_id
        above = entered.path.rpartition("/")[0]
        assert started.path == above
        inside = [event for event in events if event.path == entered.path]
        spans = {entered.span_id} | {event.span_id for event in inside}
        assert all(event.parent_id in spans for event in inside if event.span_id != entered.span_id)
        assert isinstance(inside[-1], AgentLeft)
        assert inside[-1].span_id == entered.span_id


async def test_text_that_nobody_read_stays_with_whose_it_is() -> None:
    """Deltas are joined by who said them."""

    class Chatting:
        """A model that says one word again and again, and lets others speak in between."""

        def __init__(self, word: str) -> None:
            self.word = word

        async def complete(self, request: ModelRequest) -> ModelReply:
            raise AssertionError("it streams")

        async def stream(self, request: ModelRequest) -> AsyncIterator[TextPiece | ModelReply]:
            for _ in range(5_000):
                yield TextPiece(self.word)
                await asyncio.sleep(0)
            yield reply(self.word * 5_000)

    experts = [Agent(name, Chatting(name)) for name in ("one", "two")]
    model = playing(asking(("a", "one"), ("b", "two")), "done")
    run = Agent("boss", model, tools=experts).start("go")
    await run
    said: dict[str, str] = {}
    async for event in run:
        if isinstance(event, TextDelta):
            said[event.path] = said.get(event.path, "") + event.text

    assert said == {"one#1": "one" * 5_000, "two#1": "two" * 5_000, "": "done"}


async def test_observers_see_the_children() -> None:
    """They get what readers get."""
    seen: list[str] = []

    class Watching:
        def on_event(self, event: Event) -> None:
            seen.append(f"{event.path} {type(event).__name__}")

    await Tree().boss.run("go", observers=[Watching()])

    assert "expert#1/critic#1 AgentLeft" in seen
    assert seen[-1] == " RunFinished"
