"""Streamed replies, folded chunk by chunk."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.providers.gemini.parts import (
    ASKED,
    SIGNED,
    THIRD,
    VERTEX,
    chunk,
    folded,
    payload,
    whole,
)
from treadle.errors import BadReply, IncompleteReply, Overloaded, RateLimited
from treadle.messages import Audio, Reasoning, Text
from treadle.ports.model import ReasoningPiece, TextPiece
from treadle.providers.gemini.stream import GeminiFold


def test_text_comes_in_pieces_and_whole() -> None:
    """Each piece is seen once; the reply has them joined."""
    fold = GeminiFold(THIRD, ASKED)
    pieces = [chunk("Zü"), chunk("rich"), chunk(" ✅", finish="STOP")]
    assert fold.feed(map(payload, pieces)) == [TextPiece("Zü"), TextPiece("rich"), TextPiece(" ✅")]
    assert fold.is_whole
    assert fold.finish().message.text == fold.partial == "Zürich ✅"


def test_thoughts_come_in_pieces() -> None:
    """They are one part of reasoning, whatever chunks they came in."""
    fold = GeminiFold(THIRD, ASKED)
    thought = {"text": "h", "thought": True}
    chunks = [
        chunk(thought),
        chunk(thought, "a"),
        chunk({"text": "b"}),
        chunk(thought, finish="STOP"),
    ]
    assert fold.feed(map(payload, chunks)) == [
        *[ReasoningPiece("h")] * 2,
        TextPiece("a"),
        TextPiece("b"),
        ReasoningPiece("h"),
    ]
    kinds = [(type(part), getattr(part, "text", "")) for part in fold.finish().message.parts]
    assert kinds == [(Reasoning, "hh"), (Text, "ab"), (Reasoning, "h")]


def test_a_signature_at_the_end_stays_by_itself() -> None:
    """A signed part is not joined with one that is not."""
    signed = {"text": "", "thoughtSignature": SIGNED}
    message = folded(chunk("a"), chunk("b"), chunk(signed, finish="STOP")).message
    assert [type(part) for part in message.parts] == [Text, Reasoning]
    message = folded(chunk("a"), chunk({**signed, "text": "b"}, finish="STOP")).message
    assert [part.text for part in message.parts if isinstance(part, Text)] == ["a", "b"]


def text_part(text: str, extra: dict[str, Any]) -> dict[str, Any]:
    """Return a part of text, thought or signed text."""
    return {"text": text, **extra}


def call_part(name: str, args: dict[str, Any]) -> dict[str, Any]:
    """Return a call."""
    return {"functionCall": {"name": name, "args": args}}


EXTRAS: list[dict[str, Any]] = [{}, {"thought": True}, {"thoughtSignature": SIGNED}]
ARGUMENTS = st.dictionaries(st.text(max_size=3), st.integers() | st.text(max_size=3), max_size=2)
PARTS = st.lists(
    st.builds(text_part, st.text(max_size=6), st.sampled_from(EXTRAS))
    | st.builds(call_part, st.sampled_from(["f", "g"]), ARGUMENTS)
    | st.just({"executableCode": {"code": "1", "language": "PYTHON"}})
    | st.just({"inlineData": {"mimeType": "audio/L16;rate=24000", "data": "c25k"}}),
    min_size=1,
    max_size=8,
)


@given(parts=PARTS, cuts=st.sets(st.integers(1, 7)))
def test_a_stream_and_a_whole_reply_are_the_same(
    parts: list[dict[str, Any]], cuts: set[int]
) -> None:
    """However the parts are spread over chunks."""
    usage = {"promptTokenCount": 1, "candidatesTokenCount": 2, "totalTokenCount": 3}
    chunks: list[dict[str, Any]] = []
    for place, part in enumerate(parts):
        if not chunks or place in cuts:
            chunks.append(chunk(usageMetadata=usage))
        chunks[-1]["candidates"][0]["content"]["parts"].append(part)
    chunks[-1]["candidates"][0]["finishReason"] = "STOP"
    assert folded(*chunks) == whole(chunk(*parts, finish="STOP", usageMetadata=usage))


def test_sound_comes_in_pieces() -> None:
    """Raw samples have no head: they are one sound."""
    piece = {"inlineData": {"mimeType": "audio/L16;codec=pcm;rate=24000", "data": "c25k"}}
    [sound] = folded(chunk(piece), chunk(piece, finish="STOP")).message.parts
    assert isinstance(sound, Audio)
    assert sound.content == b"sndsnd"


def call(**function: Any) -> dict[str, Any]:
    """Return a chunk with a piece of a call."""
    return chunk({"functionCall": function})


def test_arguments_come_in_pieces() -> None:
    """On Vertex AI, each at its place in the whole; a text grows."""
    chunks = [
        call(name="book", id="c1", willContinue=True),
        call(
            partialArgs=[{"jsonPath": "$.city", "stringValue": "Zü", "willContinue": True}],
            willContinue=True,
        ),
        call(
            partialArgs=[
                {"jsonPath": "$.city", "stringValue": "rich"},
                {"jsonPath": "$.days[0].from", "numberValue": 3},
                {"jsonPath": "$.days[1]['to.o']", "boolValue": True},
                {"jsonPath": "$.none", "nullValue": "NULL_VALUE"},
                {"jsonPath": "$.days[99999999].x", "boolValue": True},
            ],
            willContinue=True,
        ),
        call(),
        call(name="other", args={"a": 1}),
        chunk(finish="STOP"),
    ]
    first, second = folded(*chunks, dialect=VERTEX).message.tool_calls
    assert (first.name, first.id) == ("book", "c1")
    assert first.arguments == {
        "city": "Zürich",
        "days": [{"from": 3}, {"to.o": True}],
        "none": None,
    }
    assert (second.name, second.arguments) == ("other", {"a": 1})


def test_a_call_that_never_ended_is_a_call() -> None:
    """What came of it is there; the finish reason says that the reply is whole."""
    chunks = [call(name="f", willContinue=True), chunk("a", finish="MAX_TOKENS")]
    reply = folded(*chunks)
    assert [one.name for one in reply.message.tool_calls] == ["f"]
    assert reply.finish_reason == "length"


def test_the_last_counts_are_the_reply_s() -> None:
    """Each chunk has totals so far; a chunk without any changes nothing."""
    counts = {"promptTokenCount": 5, "candidatesTokenCount": 1, "totalTokenCount": 6}
    more = {**counts, "candidatesTokenCount": 4, "thoughtsTokenCount": 2, "totalTokenCount": 11}
    reply = folded(
        chunk("a", usageMetadata=counts),
        chunk("b", usageMetadata=more),
        chunk(finish="STOP", usageMetadata={"trafficType": "ON_DEMAND"}),
    )
    assert (reply.usage.output_tokens, reply.usage.total_tokens) == (6, 11)


def test_metadata_comes_with_any_chunk() -> None:
    """Grounding that is told of again is not there twice."""
    grounding = {
        "groundingChunks": [{"web": {"uri": "https://a"}}],
        "groundingSupports": [
            {"segment": {"endIndex": 2, "text": "ab"}, "groundingChunkIndices": [0]}
        ],
    }
    grounded = chunk("b")
    grounded["candidates"][0]["groundingMetadata"] = grounding
    end = chunk(finish="STOP")
    end["candidates"][0]["groundingMetadata"] = grounding
    [citation] = folded(chunk("a"), grounded, end).message.citations
    assert (citation.url, citation.start, citation.end) == ("https://a", 0, 2)


@pytest.mark.parametrize("chunks", [[], [chunk("hel")], [chunk("hel"), chunk("lo")]])
def test_a_stream_that_ends_early_is_incomplete(chunks: list[Any]) -> None:
    """With the text so far, and it may be tried again."""
    with pytest.raises(IncompleteReply) as caught:
        folded(*chunks)
    said = [one["candidates"][0]["content"]["parts"][0]["text"] for one in chunks]
    assert caught.value.partial == "".join(said)
    assert caught.value.retryable


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"code": 503, "message": "busy", "status": "UNAVAILABLE"}, Overloaded),
        ({"code": 429, "message": "slow", "status": "RESOURCE_EXHAUSTED"}, RateLimited),
    ],
)
def test_an_error_in_a_stream_is_that_error(error: Any, kind: type[Exception]) -> None:
    """With the text so far."""
    fold = GeminiFold(THIRD, ASKED)
    fold.feed([payload(chunk("hel"))])
    for event in ({"error": error}, [{"error": error}]):
        with pytest.raises(kind) as caught:
            fold.feed([payload(event)])
        assert getattr(caught.value, "partial", "") == "hel"


def test_a_prompt_that_is_refused_ends_the_stream() -> None:
    """It is no answer, and it is whole."""
    reply = folded({"promptFeedback": {"blockReason": "SAFETY"}})
    assert (reply.finish_reason, reply.provider_finish) == ("content_filter", "SAFETY")


def test_what_is_no_event_is_a_bad_reply() -> None:
    """With the text so far; a last event that was cut off is left out."""
    fold = GeminiFold(THIRD, ASKED)
    fold.feed([payload(chunk("a")), b"", b"  "])
    with pytest.raises(BadReply) as caught:
        fold.feed([b"<html>"])
    assert caught.value.partial == "a"
    assert fold.feed_last([b'{"candida']) == []


def test_the_end_mark_of_gateways() -> None:
    """Nothing comes after it."""
    fold = GeminiFold(THIRD, ASKED)
    fold.feed([payload(chunk("a")), b"[DONE]"])
    assert fold.done
    assert fold.finish().message.text == "a"


def test_text_is_clean() -> None:
    """Half of a surrogate pair waits for the other half, NUL is shown, also after plain text."""
    pieces = [
        payload(chunk("a")),
        b'{"candidates":[{"content":{"parts":[{"text":"b\\ud83d"}]}}]}',
        b'{"candidates":[{"content":{"parts":[{"text":"\\ude00c\\u0000"}]}}]}',
        payload(chunk("d")),
        b'{"candidates":[{"content":{"parts":[{"text":"\\ud83d"}]},"finishReason":"STOP"}]}',
    ]
    assert folded(*pieces).message.text == "ab😀c\ufffdd\ufffd"
    call = payload(chunk({"functionCall": {"name": "f", "args": {"a": "\0x"}}}, finish="STOP"))
    assert folded(call).message.tool_calls[0].arguments == {"a": "\ufffdx"}


def test_unknown_events_and_fields_never_raise() -> None:
    """Whatever is new is skipped or kept."""
    events: list[Any] = [
        {"somethingNew": 1},
        {**chunk("a"), "somethingNew": 1},
        chunk({"text": "b", "somethingNew": 1}),
        {"candidates": [{"somethingNew": 1}]},
        {"candidates": None},
        chunk(finish="STOP"),
    ]
    reply = folded(*events)
    assert reply.message.text == "ab"
    [_, extra] = reply.message.parts
    assert json.dumps(extra.provider) == json.dumps(
        {"gemini": {"@host": THIRD.host, "somethingNew": 1}}
    )
