"""Streamed replies, folded chunk by chunk."""

from __future__ import annotations

import json
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.providers.openai.parts import ASKED, END, HOST, folded, payload
from tests.servers import delta, reply
from treadle.errors import (
    BadReply,
    ContextOverflow,
    IncompleteReply,
    ModelError,
    Overloaded,
    RateLimited,
)
from treadle.messages import Audio, Image
from treadle.ports.model import ModelDelta, ReasoningPiece, TextPiece
from treadle.providers.openai.chat_reply import decode_reply
from treadle.providers.openai.chat_stream import ChatFold
from treadle.usage import Usage


def deltas_of(*chunks: Any) -> list[ModelDelta]:
    """Return what watchers see."""
    return ChatFold(HOST, ASKED).feed([payload(chunk) for chunk in chunks])


def piece(name: str | None = None, arguments: str | None = None, **fields: Any) -> dict[str, Any]:
    """Return a piece of a tool call."""
    function = {"name": name, "arguments": arguments}
    return {"function": {k: v for k, v in function.items() if v is not None}, **fields}


def test_text_comes_in_pieces_and_whole() -> None:
    """Each piece is seen once; the reply has them joined."""
    chunks = [
        delta(role="assistant", content=""),
        delta(content="Zü"),
        delta(content="rich ✅"),
        END,
    ]
    assert deltas_of(*chunks) == [TextPiece("Zü"), TextPiece("rich ✅")]
    assert folded(*chunks).message.text == "Zürich ✅"


def test_a_stream_and_a_whole_reply_are_the_same() -> None:
    """Reasoning, text, calls, citations, usage and IDs."""
    message: dict[str, Any] = {
        "reasoning_content": "hm",
        "content": "yes",
        "annotations": [{"a": 1}],
        "tool_calls": [{"index": 0, "id": "c1", "type": "function", **piece("ls", '{"a":1}')}],
    }
    whole = reply(finish="tool_calls", **message)
    head = {"id": "chatcmpl-1", "model": "m-1"}
    parts: list[Any] = [
        {**delta(reasoning_content="h"), **head},
        delta(reasoning_content="m"),
        delta(content="y"),
        delta(content="es", annotations=[{"a": 1}]),
        delta(tool_calls=[{"index": 0, "id": "c1", "type": "function", **piece("ls", '{"a"')}]),
        delta(tool_calls=[{"index": 0, **piece(None, ":1}")}]),
        delta("tool_calls"),
        {"choices": [], "usage": whole["usage"]},
        b"[DONE]",
    ]
    assert folded(*parts) == decode_reply(payload(whole), HOST, ASKED)


def test_reasoning_comes_in_pieces() -> None:
    """From either field, from details that have no field beside them, from content blocks."""
    assert deltas_of(delta(reasoning="a"), delta(reasoning_content="b")) == [
        ReasoningPiece("a"),
        ReasoningPiece("b"),
    ]
    details = [
        delta(reasoning_details=[{"type": "reasoning.text", "index": 0, "text": "1", "id": "r"}]),
        delta(reasoning_details=[{"type": "reasoning.text", "index": 0, "text": "2"}]),
        delta(reasoning_details=[{"type": "reasoning.text", "index": 0, "signature": "s"}]),
        delta(content="yes"),
        END,
    ]
    assert deltas_of(*details) == [ReasoningPiece("1"), ReasoningPiece("2"), TextPiece("yes")]
    [thought, _] = folded(*details).message.parts
    assert thought.provider
    assert thought.provider["openai_chat"]["reasoning_details"] == [
        {"type": "reasoning.text", "index": 0, "text": "12", "id": "r", "signature": "s"}
    ]
    twice = delta(reasoning="a", reasoning_details=[{"type": "reasoning.text", "text": "a"}])
    assert deltas_of(twice) == [ReasoningPiece("a")]
    blocks = [
        delta(content=[{"type": "thinking", "thinking": [{"type": "text", "text": "h"}]}]),
        delta(content=[{"type": "thinking", "thinking": [{"type": "text", "text": "m"}]}, 3]),
        delta(content=[{"type": "text", "text": "yes"}]),
        END,
    ]
    assert deltas_of(*blocks) == [ReasoningPiece("h"), ReasoningPiece("m"), TextPiece("yes")]
    message = folded(*blocks).message
    assert (message.reasoning, message.text) == ("hm", "yes")


def test_chunks_without_choices_may_come_anywhere() -> None:
    """BS-18: Azure's first chunk and the usage at the end."""
    made = folded(
        {"choices": [], "prompt_filter_results": [{}], "id": "", "model": ""},
        {**delta(content="a"), "id": "x", "model": "m-2"},
        {"choices": None},
        delta(content="b"),
        END,
        {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 2}},
        b"[DONE]",
    )
    assert (made.message.text, made.response_id, made.model) == ("ab", "x", "m-2")
    assert (made.usage.input_tokens, made.usage.output_tokens) == (7, 2)


@pytest.mark.parametrize(
    "chunks",
    [
        [],
        [b"[DONE]"],
        [{"choices": [], "prompt_filter_results": []}, {"choices": [], "usage": {}}, b"[DONE]"],
        [delta(role="assistant"), b"[DONE]"],
    ],
)
def test_a_stream_of_nothing_is_no_answer(chunks: list[Any]) -> None:
    """BS-18: it is tried again."""
    with pytest.raises(IncompleteReply, match="empty") as caught:
        folded(*chunks)
    assert caught.value.retryable


def test_the_last_usage_counts() -> None:
    """BS-65: servers repeat the running total, and some put it elsewhere."""
    running: list[Any] = [
        {**delta(content="a"), "usage": {"prompt_tokens": 7, "completion_tokens": 1}},
        {**delta(content="b"), "usage": {"prompt_tokens": 7, "completion_tokens": 2, "cost": 0.5}},
        {**END, "usage": None},
        {"choices": [], "usage": {}},
    ]
    assert folded(*running).usage == Usage(7, 0, 0, 2, 0, 1, 0, Decimal("0.5"))
    groq = {**END, "x_groq": {"usage": {"prompt_tokens": 3, "completion_tokens": 4}}}
    assert folded(delta(content="a"), groq).usage == Usage(3, 0, 0, 4, 0, 1)
    moonshot = {"choices": [{"delta": {}, "finish_reason": "stop", "usage": {"prompt_tokens": 3}}]}
    assert folded(delta(content="a"), moonshot).usage == Usage(3, requests=1)


@pytest.mark.parametrize(
    ("error", "kind", "retryable"),
    [
        (
            {"message": "context too long", "type": "BadRequestError", "code": 400},
            ContextOverflow,
            False,
        ),
        ({"message": "no", "type": "BadRequestError", "code": 400}, ModelError, False),
        ({"message": "busy", "code": "503"}, Overloaded, True),
        ({"message": "slow down", "code": "rate_limit_exceeded"}, RateLimited, True),
        ({"message": "x", "type": "invalid_request_error", "status_code": 400}, ModelError, False),
        ("boom", ModelError, False),
    ],
)
def test_an_error_in_a_stream_is_that_error(
    error: Any, kind: type[ModelError], retryable: bool
) -> None:
    """BS-19: with the code inside, and the text so far."""
    chunks: list[Any] = [{"error": error}, {"choices": [{"delta": {}, "error": error}]}]
    for chunk in chunks:
        with pytest.raises(ModelError) as caught:
            folded(delta(content="half"), chunk)
        assert (type(caught.value), caught.value.retryable) == (kind, retryable)
        assert caught.value.partial == "half"


def test_an_end_without_a_reason_is_incomplete() -> None:
    """BS-20: half an answer is no answer; with a reason or an end mark it is whole."""
    with pytest.raises(IncompleteReply, match="half") as caught:
        folded(delta(content="half"))
    assert (caught.value.partial, caught.value.retryable) == ("half", True)
    assert folded(delta(content="a"), END).finish_reason == "stop"
    assert folded(delta(content="a"), b"[DONE]").finish_reason == "stop"
    assert folded(delta(content="a"), b" [DONE] ").finish_reason == "stop"
    assert folded(delta("stop", content="a")).message.text == "a"


def test_the_limit_is_a_reason() -> None:
    """BS-13: the call that was cut is there, and the reason says so."""
    made = folded(
        delta(tool_calls=[piece("write", '{"path":"x', index=0, id="1")]), delta("length")
    )
    assert made.finish_reason == "length"
    assert made.message.tool_calls[0].raw == '{"path":"x'


def test_a_refusal_is_seen_and_named() -> None:
    """BS-27: its words are shown, and the reply is none."""
    chunks = [delta(refusal="N"), delta(refusal="o.", content=None), END]
    assert deltas_of(*chunks) == [TextPiece("N"), TextPiece("o.")]
    made = folded(*chunks)
    assert (made.finish_reason, made.message.text) == ("refusal", "No.")


def test_a_server_that_breaks_off_is_overloaded() -> None:
    """OpenRouter and others say so by the finish reason."""
    with pytest.raises(Overloaded) as caught:
        folded(delta(content="half"), delta("error"))
    assert caught.value.partial == "half"


def test_speech_and_pictures_come_in_pieces() -> None:
    """Sound grows, pictures are added, Gemini's fields are merged."""
    made = folded(
        delta(audio={"id": "a1", "transcript": "hel"}),
        delta(audio={"data": "c25k", "transcript": "lo"}),
        delta(images=[{"image_url": {"url": "https://x/y"}}], extra_content={"google": 1}),
        delta(executed_tools=[{"a": 1}]),
        END,
    )
    assert made.message.parts == (
        Image.from_url("https://x/y"),
        Audio(content=b"snd", media_type="audio/wav", transcript="hello"),
    )
    assert made.message.provider
    assert made.message.provider["openai_chat"]["extra_content"] == {"google": 1}


def test_only_the_first_of_several_answers_counts() -> None:
    """Somebody asked for n answers."""
    second = {"choices": [{"index": 1, "delta": {"content": "no"}, "finish_reason": None}]}
    assert folded(delta(content="yes"), second, END).message.text == "yes"


def test_what_is_no_chunk_is_a_bad_reply() -> None:
    """The text so far is kept; an event that was cut off at the very end is left out."""
    for chunk in (b"hello", b"[1]", b'{"choices'):
        fold = ChatFold(HOST, ASKED)
        fold.feed([payload(delta(content="half"))])
        with pytest.raises(BadReply) as caught:
            fold.feed([chunk])
        assert caught.value.partial == "half"
        assert fold.feed_last([chunk]) == []
        assert fold.feed_last([b"", b"  "]) == []


def test_halves_of_a_pair_meet() -> None:
    """BS-14: two chunks may share a character; a half that stays alone is replaced."""
    halves = [delta(content="a\ud83d"), delta(content="\ude00b"), delta(content="\ud83d"), END]
    assert folded(*halves).message.text == "a😀b\ufffd"
    assert "".join(d.text for d in deltas_of(*halves) if isinstance(d, TextPiece)) == "a😀b"
    dirty = folded(
        delta(content="ok"),
        delta(content="a\0"),
        delta(reasoning="\ud800", annotations=["\ud800"]),
        delta(tool_calls=[piece("ls", '{"a":"\ud800"}', index=0, id="1")]),
        END,
    )
    json.dumps([str(part) for part in dirty.message.parts], ensure_ascii=False).encode()
    assert dirty.message.text == "oka\ufffd"
    assert dirty.message.tool_calls[0].arguments == {"a": "\ufffd"}


def test_odd_chunks_are_read_as_far_as_they_go() -> None:
    """Fields of the wrong type count as absent; a whole message may stand for a delta."""
    made = folded(
        {"choices": [{"index": "0", "delta": {"content": "a", "role": 3}, "finish_reason": 0}]},
        {"choices": {"delta": {"content": {"type": "text", "text": "b"}}}},
        {"choices": [{"message": {"content": "c"}, "finish_reason": "stop"}], "usage": "?"},
    )
    assert made.message.text == "abc"


KINDS: list[Any] = [
    delta(content="a"),
    delta(content="ü"),
    delta(role="assistant", content=""),
    delta(reasoning="r"),
    delta(tool_calls=[piece("f", '{"a', index=0, id="1")]),
    delta(tool_calls=[piece(None, '":1}', index=0)]),
    delta(refusal="no"),
    {"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 1}},
    {**delta(content="b"), "usage": {"prompt_tokens": 2, "completion_tokens": 2}},
    END,
]
CHUNKS = st.lists(st.sampled_from(KINDS), max_size=12)


@given(chunks=CHUNKS, cuts=st.lists(st.integers(0, 12), max_size=3))
def test_how_chunks_are_batched_does_not_matter(chunks: list[Any], cuts: list[int]) -> None:
    """The same deltas and the same reply, in any batches."""
    payloads = [payload(chunk) for chunk in [*chunks, END]]
    places = sorted({0, *cuts, len(payloads)})
    batched, single = ChatFold(HOST, ASKED), ChatFold(HOST, ASKED)
    batches = [payloads[a:b] for a, b in pairwise(places)]
    seen = [seen for batch in batches for seen in batched.feed(batch)]
    assert seen == [d for one in payloads for d in single.feed([one])]
    assert batched.finish() == single.finish()
