"""Where compaction meets failures: nothing known is lost, and each error says what it is."""

from __future__ import annotations

from typing import Any

import pytest

from tests.compaction.histories import PNG, problems_of
from treadle import (
    Agent,
    Compaction,
    ContextCompacted,
    ContextOverflow,
    ContextTooSmall,
    Conversation,
    Image,
    Limits,
    MemoryStore,
    Message,
    ModelReply,
    ModelRequest,
    Usage,
    tool,
)
from treadle.compaction.turns import NOTE
from treadle.testing import FunctionModel, calls

WINDOW = 4_000


@tool
def look(number: int) -> str:
    """Look at a thing."""
    return f"see https://example.org/things/{number} " + "word " * 200


class Noted:
    """Calls `look` 60 times, then answers. Notes come from a list, and then fail."""

    def __init__(self, *notes: str) -> None:
        self.notes = list(notes)
        self.times = 0
        self.asked: list[ModelRequest] = []

    def __call__(self, request: ModelRequest) -> Any:
        if not request.tools:
            if self.notes:
                return self.notes.pop(0)
            raise ContextOverflow("too long for me", provider="p", model="m")
        self.asked.append(request)
        self.times += 1
        if self.times > 60:
            return "done"
        return calls((f"c{self.times}", "look", {"number": self.times}))


async def run_of(model: Any, said: Any = "go", **options: Any) -> tuple[Any, list[Any]]:
    history = options.pop("history", None)
    options.setdefault("limits", Limits(max_turns=200))
    agent = Agent("a", model=FunctionModel(model), tools=[look], **options)
    run = agent.start(said, history=history)
    events = [event async for event in run if isinstance(event, ContextCompacted)]
    return await run, events


@pytest.mark.parametrize(
    ("strategy", "note"),
    [("summary", "The code is 4711."), ("checkpoint", '{"pinned_facts": ["The code is 4711."]}')],
)
async def test_a_note_that_fails_does_not_take_the_earlier_one_with_it(
    strategy: Any, note: str
) -> None:
    model = Noted(*[note] * 3)
    result, events = await run_of(model, compaction=Compaction(window=WINDOW, strategy=strategy))
    assert result.output == "done"
    assert events[0].error is None
    assert len([each for each in events if each.error]) > 3
    assert [NOTE in m.text for m in result.messages].count(True) == 1
    assert "4711" in next(m.text for m in result.messages if NOTE in m.text)
    for request in model.asked:
        assert await problems_of(request) == []


async def test_a_checkpoint_keeps_references_where_no_model_can_be_asked() -> None:
    model = Noted()
    result, events = await run_of(model, compaction=Compaction(window=WINDOW))
    assert all("too long for me" in each.error for each in events)
    said = str([(m.text, m.tool_results) for m in result.messages])
    assert [n for n in range(1, 61) if f"https://example.org/things/{n}" not in said] == []


@pytest.mark.parametrize("strategy", ["summary", "checkpoint", "aggressive", "drop_oldest"])
async def test_after_an_overflow_one_message_may_have_made_room_for_a_note(strategy: Any) -> None:
    """The history has as many messages as before; it is shorter nevertheless."""
    refused = 0

    def answer(request: ModelRequest) -> Any:
        nonlocal refused
        if not request.tools:
            return '{"rolling_summary": "pasted"}'
        if any(len(m.text) > 10_000 for m in request.messages):
            refused += 1
            raise ContextOverflow("too long", provider="p", model="m")
        return "ok"

    result, events = await run_of(
        answer,
        "question",
        history=[Message.user("paste " * 6_000)],
        compaction=Compaction(window=20_000, strategy=strategy),
    )
    assert (result.output, refused, len(events)) == ("ok", 1, 1)


async def test_a_refusal_that_nothing_helps_says_that_it_was_one() -> None:
    """A short request in a large window: the error must not say that it fills it."""

    def answer(_: ModelRequest) -> Any:
        raise ContextOverflow("too long", provider="p", model="m")

    with pytest.raises(ContextTooSmall, match="was refused as too long") as error:
        await run_of(answer, compaction=Compaction(window=100_000))
    assert isinstance(error.value.__cause__, ContextOverflow)


async def test_what_is_dropped_needs_no_room_for_a_note() -> None:
    """Inputs that fit the window stay: no note comes in place of the tool traffic."""
    history: list[Message] = []
    for number in range(7):
        history += [Message.user(f"paste {number} " + "word " * 1_000), Message.assistant("ok")]
    compaction = Compaction(window=10_000, strategy="drop_oldest")
    result, events = await run_of(Noted(), history=history, compaction=compaction)
    assert events
    assert all(each.yielded == () for each in events)
    texts = [m.text for m in result.messages if m.text.startswith("paste")]
    assert texts == [m.text for m in history if m.role == "user"]


class Own:
    """A strategy that gives anything for a note."""

    name, keep_recent, protect, share = "own", 2, ("user",), 1.0

    def __init__(self, note: Any) -> None:
        self._note = note

    async def note(self, gone: Any, ask: Any) -> Any:
        return self._note


@pytest.mark.parametrize("note", [5, b"short", ["short"], Message.user("short")])
async def test_a_note_that_is_no_text_stops_no_run(note: Any) -> None:
    compaction = Compaction(window=WINDOW, strategy=Own(note))
    result, events = await run_of(Noted(), compaction=compaction)
    assert result.output == "done"
    assert f"gave {type(note).__name__} " in events[-1].error


@pytest.mark.parametrize("strategy", ["summary", "checkpoint", "aggressive", "drop_oldest"])
async def test_what_a_user_said_is_no_note_however_it_begins(strategy: Any) -> None:
    """It never goes, with its picture, and what a compaction left is not what a user said."""
    model = Noted(*['{"rolling_summary": "looked"}'] * 100)
    said = [NOTE + "My question is 42.", Image.from_bytes(PNG, "image/png")]
    compaction = Compaction(window=WINDOW, strategy=strategy)
    result, events = await run_of(model, said, compaction=compaction)
    assert len(events) > 2
    for request in model.asked:
        users = [m for m in request.messages if m.role == "user" and not m.advice]
        assert [(m.text, len(m.parts)) for m in users] == [(said[0], 2)]
        assert await problems_of(request) == []
    notes = [m for m in result.messages if m.role == "user" and m.advice]
    assert len(notes) == (strategy != "drop_oldest")


@pytest.mark.parametrize("finish", ["refusal", "stop"])
async def test_what_notes_of_no_use_cost_is_in_the_journal(finish: Any) -> None:
    """A run that paused goes on with all that it has used."""

    def answer(request: ModelRequest) -> Any:
        if request.tools:
            return model(request)
        usage = Usage(input_tokens=11, requests=1)
        return ModelReply(message=Message.assistant("no"), finish_reason=finish, usage=usage)

    model, store = Noted(), MemoryStore()
    limits = Limits(max_turns=40)
    options: Any = {"limits": limits, "on_limit": "pause", "store": store}
    result, events = await run_of(answer, compaction=Compaction(window=WINDOW), **options)
    assert events
    assert result.stop_reason == "paused"
    conversation = await Conversation.open(result.conversation_id, store=store)
    recorded = (await conversation.view()).runs[result.run_id].usage
    assert recorded.input_tokens == result.usage.input_tokens > 0
    assert recorded.input_tokens == sum(each.usage.input_tokens for each in events)


async def test_a_resumed_run_tells_of_what_left_before() -> None:
    """What fills the window is told of the whole run, as it is without a pause."""
    whole, _ = await run_of(Noted(*["short"] * 300), compaction=Compaction(window=WINDOW))
    model, store = Noted(*["short"] * 300), MemoryStore()
    options: Any = {"limits": Limits(max_turns=40), "on_limit": "pause", "store": store}
    paused, _ = await run_of(model, compaction=Compaction(window=WINDOW), **options)
    assert paused.context.compactions > 0
    agent = Agent("a", FunctionModel(model), tools=[look], compaction=Compaction(window=WINDOW))
    resumed = await agent.resume(paused.run_id, store=store, limits=Limits(max_turns=200))
    assert resumed.output == "done"
    assert resumed.context.compactions > paused.context.compactions
    assert resumed.context.compacted > paused.context.compacted
    again = await agent.resume(paused.run_id, store=store)
    assert again.context.compactions == resumed.context.compactions
    assert abs(resumed.context.compactions - whole.context.compactions) <= 1
