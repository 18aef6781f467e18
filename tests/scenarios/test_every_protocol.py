"""Streams of every protocol that are split, odd or broken off: BS-16 to BS-22."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from tests.scenarios.every_line import (
    connect,
    frame,
    on,
    on_every,
    saying,
    stream,
    streamed,
)
from tests.scenarios.every_protocol import ANTHROPIC, CHAT, RESPONSES, Api, Call, Reply, Wire
from tests.scenarios.provider import ask, kinds_of, patient, watch
from tests.servers import End, whole
from treadle import (
    Agent,
    AnswerStored,
    IncompleteReply,
    MemoryStore,
    ModelRetried,
    ModelSettings,
    ModelTimeout,
    RunFinished,
    TextDelta,
    tool,
)
from treadle.events import AnyEvent
from treadle.journal import RunEnded
from treadle.values import is_array, is_object

HARD = "Zürich ✅ 東京"
LOOKS = "✅ a\u2028b\u2029c\u0085d\x0be\x0cf"
HALF = Reply(texts=("Hello ", "wor"))
HELLO = Reply(texts=("Hello ", "world"))
ends = pytest.mark.parametrize("end", ["done", "close", "reset", "hang"])


def patience(end: End) -> ModelSettings:
    """How long silence is borne: not for ever where a server falls silent."""
    return ModelSettings(timeout=0.4 if end == "hang" else None)


def read(events: Sequence[AnyEvent]) -> str:
    """The text that a reader has who forgets, at each retry, what the failed attempt said."""
    texts: list[str] = []
    for event in events:
        if isinstance(event, ModelRetried):
            texts.clear()
        elif isinstance(event, TextDelta):
            texts.append(event.text)
    return "".join(texts)


def answer_of(events: Sequence[AnyEvent]) -> str:
    """The stored answer, which is also what a reader has."""
    [stored] = [event.text for event in events if isinstance(event, AnswerStored)]
    assert stored == read(events)
    return stored


def lines(event: Wire | bytes, end: bytes) -> bytes:
    """An event whose lines end so."""
    return frame(event).replace(b"\n", end)


@on_every
async def test_a_character_split_between_writes(api: Api) -> None:
    """BS-16: cut in two at every place, and byte by byte, the text is the same."""
    reply = Reply(texts=(HARD,))
    events = [frame(event) for event in streamed(api, reply)]
    [place] = [place for place, event in enumerate(api.begun(reply)) if _says(event, HARD)][:1]
    chunk = events[place]
    cuts = [
        stream(*events[:place], chunk[:at], chunk[at:], *events[place + 1 :])
        for at in range(1, len(chunk))
    ]
    body = b"".join(events[: place + 1])
    single = stream(*(body[at : at + 1] for at in range(len(body))), *events[place + 1 :])
    async with connect(api, single, *cuts) as line:
        agent = Agent("a", line.model)
        answers = {answer_of(await watch(agent)) for _ in range(len(cuts) + 1)}

    assert answers == {HARD}
    assert len(line.requests) == len(chunk)


def _says(event: Wire, text: str) -> bool:
    """Whether an event is the delta with this text."""
    return text in json.dumps(event, ensure_ascii=False) and "output_item" not in str(
        event.get("type")
    )


@on_every
async def test_arguments_split_between_writes(api: Api) -> None:
    """BS-16: byte by byte, a call has its arguments as they were meant."""
    seen: list[str] = []

    @tool
    async def note(text: str) -> str:
        """Note."""
        seen.append(text)
        return text

    call = Call("c1", "note", json.dumps({"text": HARD}, ensure_ascii=False))
    reply = Reply(calls=(call,))
    body = b"".join(map(frame, api.begun(reply)[len(api.silent) :]))
    split = (body[at : at + 1] for at in range(len(body)))
    single = stream(*api.begun(reply)[: len(api.silent)], *split, *api.ended(reply), *api.end)
    async with connect(api, single, saying(api, "ok", streamed=True)) as line:
        await watch(Agent("a", line.model, tools=[note]))

    assert seen == line.results() == [HARD]


@on_every
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"], ids=["LF", "CRLF", "CR"])
async def test_characters_that_look_like_line_ends(api: Api, end: bytes) -> None:
    """BS-17: whatever the charset it is UTF-8, and only CR, LF and CRLF end a line."""
    events = [lines(event, end) for event in streamed(api, Reply(texts=(LOOKS,)))]
    plain = stream(*events)
    ended = [piece for event in events for piece in event.partition(end[:1])]
    parted = stream(*(piece for piece in ended if piece))  # CR and LF in different writes
    wrong = replace(plain, headers={"Content-Type": "text/event-stream; charset=ISO-8859-1"})
    async with connect(api, plain, parted, wrong, replace(plain, headers={})) as line:
        agent = Agent("a", line.model)
        found = [answer_of(await watch(agent)) for _ in range(4)]

    assert found == [LOOKS] * 4
    assert plain.headers == {"Content-Type": "text/event-stream"}


@on_every
async def test_events_that_say_nothing(api: Api) -> None:
    """BS-18: at the beginning they are no text, and the usage at the end counts."""
    async with connect(api, stream(*api.silent, *streamed(api, HELLO))) as line:
        events = await watch(Agent("a", line.model))

    last = events[-1]
    assert isinstance(last, RunFinished)
    assert answer_of(events) == "Hello world"
    assert (last.usage.input_tokens, last.usage.output_tokens) == (25, 15)


@on_every
async def test_a_stream_of_nothing(api: Api) -> None:
    """BS-18: it is asked for again, and in the end it is an error and no empty answer."""
    retry, clock = patient()
    async with connect(api, stream(*api.silent, *api.end)) as line:
        with pytest.raises(IncompleteReply, match="empty"):
            await watch(Agent("a", line.model, retry=retry))

    assert (len(line.requests), len(clock.sleeps)) == (3, 2)


@on_every
@ends
async def test_a_dropped_stream(api: Api, end: End) -> None:
    """BS-20 (a), (b): without a reason it is no answer; it is asked for again, and replaced."""
    retry, _ = patient()
    broken = stream(*api.begun(HALF), end=end)
    async with connect(api, broken, stream(*streamed(api, HELLO)), settings=patience(end)) as line:
        events = await watch(Agent("a", line.model, retry=retry))

    last = events[-1]
    assert isinstance(last, RunFinished)
    assert answer_of(events) == "Hello world"
    assert (len(line.requests), last.usage.requests) == (2, 2)
    assert line.requests[0] == line.requests[1]


@on_every
@ends
async def test_a_stream_that_is_dropped_for_ever(api: Api, end: End) -> None:
    """BS-20: half an answer is never stored as one, and the next run is one that servers take."""
    store = MemoryStore()
    retry, _ = patient(2)
    broken = stream(*api.begun(HALF), end=end)
    answers = (broken, broken, saying(api, "fine", streamed=True))
    async with connect(api, *answers, settings=patience(end)) as line:
        agent = Agent("a", line.model, retry=retry, store=store)
        with pytest.raises(ModelTimeout if end == "hang" else IncompleteReply) as caught:
            await watch(agent, conversation="c")
        result = await ask(agent, "y", streamed=True, conversation="c")

    entries = [entry for batch in await store.read("c") for entry in batch.entries]
    kept = caught.value.result.messages[-1]
    assert (kept.text, kept.incomplete, caught.value.partial) == ("Hello wor", True, "Hello wor")
    reasons = [entry.stop_reason for entry in entries if isinstance(entry, RunEnded)]
    assert (reasons, result.output) == (["failed", "answer"], "fine")


@on_every
@ends
async def test_a_reason_without_an_end_mark(api: Api, end: End) -> None:
    """BS-20 (c): the reply is whole, whatever becomes of the connection.

    The last event of Responses and the last chunk of Gemini are the reason, and no mark follows.
    """
    answer = stream(*api.begun(HELLO), api.ended(HELLO)[0], end=end)
    async with connect(api, answer, settings=patience(end)) as line:
        events = await watch(Agent("a", line.model))

    assert (answer_of(events), len(line.requests)) == ("Hello world", 1)


@on_every
async def test_comments_unknown_events_and_fields(api: Api) -> None:
    """BS-21: signs of life and what is new say nothing, and cost no event of ours."""
    unknown: Wire = {"type": "brand.new", "delta": {"type": "new_delta", "colour": "red"}}
    noise = [b": PROCESSING\n\n", b":\n", b"event: ping\n\n", b"colour: red\n\n", b"id: 1\n\n"]
    if api is ANTHROPIC:
        noise.append(frame({"type": "ping"}))
    if api in (ANTHROPIC, RESPONSES):  # the events of the others have no type
        noise.append(frame(unknown))
    known = [{**event, "colour": {"red": [1]}} for event in (*api.begun(HELLO), *api.ended(HELLO))]
    pieces = [piece for event in known for piece in (*noise, frame(event))]
    async with connect(api, stream(*pieces, *api.end)) as line:
        events = await watch(Agent("a", line.model))

    deltas = ["text.delta"] * 2
    ends = ["model.finished", "answer.stored", "run.finished"]
    assert answer_of(events) == "Hello world"
    assert kinds_of(events) == ["run.started", "model.started", *deltas, *ends]


@on(CHAT, RESPONSES, ANTHROPIC)
@pytest.mark.parametrize("is_stream", [True, False], ids=["streamed", "whole"])
async def test_unknown_fields_at_any_depth(api: Api, is_stream: bool) -> None:
    """BS-21: they are no reason to fail, and go into no further request.

    A part of Gemini's goes back with every field that it came with, for both directions have one
    form there.
    """

    @tool
    async def look() -> str:
        """Look."""
        return "rain"

    said = Reply(thought="hm", texts=("Let me ", "look."), calls=(Call("c1", "look"),))
    replies = (said, Reply(texts=HELLO.texts, number=2))
    streams = [map(strange, (*api.begun(reply), *api.ended(reply))) for reply in replies]
    answers = [stream(*events, *api.end) for events in streams]
    if not is_stream:
        answers = [whole(strange(api.body(reply))) for reply in replies]
    async with connect(api, *answers, saying(api, "ok", streamed=is_stream)) as line:
        agent = Agent("a", line.model, tools=[look])
        first = await ask(agent, "x", streamed=is_stream)
        await ask(agent, "y", streamed=is_stream, history=first.messages)

    assert (first.output, line.results()) == ("Hello world", ["rain"])


def strange(wire: Any) -> Any:
    """What a server said, with a field more in each of its objects but the arguments of calls."""
    if is_array(wire):
        return [strange(item) for item in wire]
    if not is_object(wire):
        return wire
    fields = {name: item if name == "input" else strange(item) for name, item in wire.items()}
    return {**fields, "colour": {"red": [1]}}


@on_every
async def test_data_lines_in_every_form(api: Api) -> None:
    """BS-21: JSON over several lines, no space after the colon, fields in front, no last line."""
    reply = Reply(texts=("Hello ", "world"), calls=())
    events = [*api.begun(reply), *api.ended(reply)]
    joined = [b"id: 1\nretry: 10\n" + _over_lines(event, b"data: ") for event in events]
    tight = [_over_lines(event, b"data:") for event in events]
    unended = [*map(frame, events[:-1]), frame(events[-1]).rstrip(b"\n")]
    async with connect(api, *(stream(*pieces) for pieces in (joined, tight, unended))) as line:
        agent = Agent("a", line.model)
        found = [answer_of(await watch(agent)) for _ in range(3)]

    assert found == ["Hello world"] * 3


def _over_lines(event: Wire, field: bytes) -> bytes:
    """An event whose JSON is broken into lines between its tokens."""
    body = json.dumps(event, indent=1).encode()
    return b"".join(field + line + b"\n" for line in body.splitlines()) + b"\n"


@on_every
@ends
async def test_a_second_attempt_replaces_the_first(api: Api, end: End) -> None:
    """BS-22: text, reasoning and half a call of the first are forgotten; the tool runs once."""
    ran: list[str] = []

    @tool
    async def run(code: str) -> str:
        """Run."""
        ran.append(code)
        return "1"

    call = Call("c1", "run", '{"code":"print(1)"}')
    half = Reply(thought="Hm, ", texts=HALF.texts, calls=(call,), half=True)
    good = Reply(texts=HELLO.texts, calls=(call,), number=2)
    answers = [stream(*api.begun(half), end=end), stream(*streamed(api, good))]
    retry, _ = patient()
    done = saying(api, "done", streamed=True)
    async with connect(api, *answers, done, settings=patience(end)) as line:
        events = await watch(Agent("a", line.model, tools=[run], retry=retry))

    kinds = kinds_of(events)
    assert ran == ["print(1)"]
    assert kinds.index("text.delta") < kinds.index("model.retried") < kinds.index("tool.started")
    assert kinds.index("reasoning.delta") < kinds.index("model.retried")
    assert read(events) == "Hello worlddone"
    last = json.dumps(line.requests[-1])
    assert last.count("Hello wor") == last.count("Hello world") == 1
    assert ("Hm, " in last, line.results()) == (False, ["1"])


@on_every
async def test_a_server_that_cannot_stream(api: Api) -> None:
    """B158: streaming may be missing; an answer in one piece is one delta of each kind."""
    async with connect(api, saying(api, "hello", thought="hm", streamed=False)) as line:
        events = await watch(Agent("a", line.model))

    assert answer_of(events) == "hello"
    assert kinds_of(events)[2:4] == ["reasoning.delta", "text.delta"]
