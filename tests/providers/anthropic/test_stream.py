"""Streams, also from servers that are not quite as documented."""

from __future__ import annotations

from typing import Any

import pytest

from tests.providers.anthropic.parts import (
    ASKED,
    BEGIN,
    STOP,
    decoded,
    delta,
    ending,
    folded,
    message,
    payload,
    start,
    text,
)
from treadle.errors import BadReply, IncompleteReply, Overloaded
from treadle.messages import Citation, Hosted, Reasoning
from treadle.ports.model import ReasoningPiece, TextPiece
from treadle.providers.anthropic.stream import MessagesFold
from treadle.usage import Usage

USE: dict[str, Any] = {"type": "tool_use", "id": "toolu_1", "name": "ls", "input": {}}
PING = {"type": "ping"}


def pieces(*events: Any) -> tuple[MessagesFold, list[Any]]:
    """Return the fold and what it yielded."""
    fold = MessagesFold("anthropic", ASKED)
    return fold, fold.feed([payload(event) for event in events])


def test_text_comes_in_pieces() -> None:
    """Each as it arrives; the reply is what it would be whole."""
    said = ("a", "", "b\u2028", "c")
    events = (BEGIN, start(), PING, *map(text, said), {"type": "content_block_stop", "index": 0})
    fold, deltas = pieces(*events, ending(), STOP)
    assert deltas == [TextPiece("a"), TextPiece("b\u2028"), TextPiece("c")]
    assert (fold.done, fold.spoke, fold.is_whole, fold.partial) == (True, True, True, "ab\u2028c")
    whole = decoded("ab\u2028c", usage={"input_tokens": 10, "output_tokens": 7})
    assert fold.finish() == whole


def test_blocks_of_every_kind() -> None:
    """Thoughts with their signature, calls piece by piece, steps, citations."""
    cited = {"type": "page_location", "cited_text": "x", "document_title": "D"}
    found = folded(
        BEGIN,
        start(0, type="thinking", thinking="", signature=""),
        delta("thinking", 0, thinking="h"),
        delta("thinking", 0, thinking="m", estimated_tokens=3),
        delta("signature", 0, signature="sig"),
        start(1, citations=[]),
        text("said", 1),
        delta("citations", 1, citation=cited),
        start(2, type="server_tool_use", id="s", name="web_search", input={}),
        delta("input_json", 2, partial_json='{"q"'),
        delta("input_json", 2, partial_json=":1}"),
        start(3, type="web_search_tool_result", tool_use_id="s", content=[]),
        start(4, **USE),
        delta("input_json", 4, partial_json=""),
        delta("input_json", 4, partial_json='{ "a'),
        delta("input_json", 4, partial_json='": 1}'),
        start(5, **{**USE, "id": "toolu_2"}),
        start(6, type="compaction", content=None),
        delta("compaction", 6, content="sum", encrypted_content="e"),
        ending("tool_use"),
        STOP,
    )
    parts = found.message.parts
    assert parts[0] == Reasoning("hm", "sig", provider={"anthropic": {"@host": "anthropic"}})
    assert found.message.citations == (Citation(title="D", text="x", start=0, end=4),)
    assert [
        part.provider["anthropic"].get("input") for part in parts if isinstance(part, Hosted)
    ] == [
        {"q": 1},
        None,
        None,
    ]
    assert [call.raw for call in found.message.tool_calls] == ['{ "a": 1}', "{}"]
    assert parts[-1] == Hosted(
        "compaction",
        {
            "anthropic": {
                "@host": "anthropic",
                "type": "compaction",
                "content": "sum",
                "encrypted_content": "e",
            }
        },
    )


def test_usage_grows() -> None:
    """The last counts are totals; what they leave out is as it was at the beginning."""
    usage = {"input_tokens": 5, "cache_read_input_tokens": 2, "output_tokens": 1}
    begin = {"type": "message_start", "message": message(stop=None, usage=usage)}
    end = ending(usage={"output_tokens": 9, "input_tokens": None})
    assert folded(begin, start(), text("a"), end, STOP).usage == Usage(
        input_tokens=7, cache_read_tokens=2, output_tokens=9, requests=1
    )


def test_invalid_arguments_stay_as_they_are() -> None:
    """Fine-grained streaming does not promise JSON."""
    cut = folded(
        BEGIN, start(**USE), delta("input_json", partial_json='{"a": "'), ending("max_tokens")
    )
    assert (cut.message.tool_calls[0].raw, cut.finish_reason) == ('{"a": "', "length")
    dirty = folded(
        BEGIN,
        start(**USE),
        delta("input_json", partial_json='{"a": "\\u00'),
        delta("input_json", partial_json='00"}'),
        ending(),
    )
    assert dirty.message.tool_calls[0].raw == '{"a": "\\ufffd"}'
    hosted = folded(
        BEGIN,
        start(type="server_tool_use", id="s", name="x", input={}),
        delta("input_json", partial_json='{"a'),
        ending(),
    )
    [step] = hosted.message.parts
    assert step.provider is not None
    assert step.provider["anthropic"]["input"] == {"not_a_json_object": '{"a'}


@pytest.mark.parametrize(
    "events",
    [
        (start(None), text("a", None), text("b", None)),
        (text("a"), text("b")),
        (text("a", None), text("b", None)),
        (start(0, type="text", text="a"), text("b")),
        (start(7), text("a", 7), text("b", 7)),
        ({"type": "message_start", "message": message("ab", stop=None)},),
        (message("ab"),),
    ],
)
def test_servers_that_leave_out_beginnings_and_indexes(events: tuple[Any, ...]) -> None:
    """Or say at the beginning what others say later."""
    fold, deltas = pieces(*events, ending(), STOP)
    assert "".join(piece.text for piece in deltas) == "ab"
    assert fold.finish().message.text == "ab"


def test_a_server_that_numbers_every_block_0() -> None:
    """A new beginning is a new block."""
    found = folded(
        BEGIN,
        start(0, type="thinking", thinking=""),
        delta("thinking", thinking="hm"),
        start(),
        text("a"),
        start(**USE),
        delta("input_json", partial_json='{"a":1}'),
        start(**USE),
        delta("input_json", partial_json='{"a":2}'),
        ending("tool_use"),
    ).message
    assert (found.reasoning, found.text) == ("hm", "a")
    assert [(call.id, call.raw) for call in found.tool_calls] == [
        ("toolu_1", '{"a":1}'),
        ("toolu_1", '{"a":2}'),
    ]


def test_kinds_that_do_not_fit_begin_a_block() -> None:
    """Nothing is lost of what a server says in the wrong place."""
    found = folded(BEGIN, start(), text("a"), delta("thinking", thinking="hm"), text("b"), ending())
    assert (found.message.text, found.message.reasoning) == ("ab", "hm")


@pytest.mark.parametrize(
    "event",
    [
        PING,
        {"type": "new_event", "index": 3},
        {"no": "type"},
        {"type": "content_block_start"},
        {"type": "content_block_start", "index": "x", "content_block": {"type": "new"}},
        {"type": "content_block_delta", "index": 0},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "new_delta", "x": 1}},
        {"type": "content_block_delta", "index": 0, "delta": {}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "citations_delta"}},
        {"type": "content_block_stop"},
        {"type": "message_delta"},
        {"type": "message_delta", "delta": 3, "usage": []},
        {"type": "message_start"},
        {"type": "message_start", "message": {"content": 3}},
        b"",
        b" ",
    ],
)
def test_events_that_nobody_knows(event: Any) -> None:
    """Never raise, and never hide what else was said."""
    assert folded(BEGIN, start(), text("a"), event, text("b"), ending(), STOP).message.text == "ab"


def test_half_characters_meet() -> None:
    """A character of two halves may come in two events; a half that stays alone is replaced."""
    halves = (b'"\\ud83d"', b'"\\ude00"', b'"x"', b'"\\ud83d"', b'"y\\u0000"', b'"\\ud83d"')
    begin = b'{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":'
    fold, deltas = pieces(BEGIN, start(), *(begin + half + b"}}" for half in halves), ending())
    assert fold.finish().message.text == "\U0001f600x\ufffdy\ufffd\ufffd"
    assert "".join(piece.text for piece in deltas) == "\U0001f600x\ufffdy\ufffd"


def test_errors_in_a_stream() -> None:
    """Typed, with the text so far."""
    fold, _ = pieces(BEGIN, start(), text("so far"))
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    with pytest.raises(Overloaded) as caught:
        fold.feed([payload(error)])
    assert (caught.value.partial, caught.value.status, caught.value.retryable) == (
        "so far",
        529,
        True,
    )


@pytest.mark.parametrize("events", [(), (BEGIN,), (BEGIN, start(), text("so far")), (PING,)])
def test_a_stream_that_ends_early(events: tuple[Any, ...]) -> None:
    """Is incomplete; trying again may help."""
    fold, _ = pieces(*events)
    with pytest.raises(IncompleteReply) as caught:
        fold.finish()
    assert (caught.value.partial, caught.value.retryable) == (fold.partial, True)


def test_the_end_may_be_said_in_either_way() -> None:
    """By the stop reason, by the last event, or as OpenAI's servers do."""
    for end in (ending(), STOP, b"[DONE]"):
        assert folded(BEGIN, start(), text("a"), end).message.text == "a"
    assert folded(BEGIN, ending()).message.parts == ()
    with pytest.raises(IncompleteReply):
        folded(BEGIN, STOP)


def test_nonsense() -> None:
    """Is no event, with the text so far; half of one at the end is forgiven."""
    fold, _ = pieces(BEGIN, start(), text("so far"))
    with pytest.raises(BadReply) as caught:
        fold.feed([b"<html>"])
    assert caught.value.partial == "so far"
    assert fold.feed_last([b'{"type":"content_bl']) == []
    with pytest.raises(BadReply):
        fold.feed([b"[1]"])


def test_thoughts_are_pieces() -> None:
    """For whoever watches."""
    _, deltas = pieces(BEGIN, start(type="thinking", thinking=""), delta("thinking", thinking="hm"))
    assert deltas == [ReasoningPiece("hm")]
