"""Streamed replies, event by event."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.providers.openai.responses_parts import (
    ASKED,
    CALL,
    HOST,
    THOUGHT,
    ended,
    event,
    folded,
    payload,
    response,
    said,
    text_delta,
)
from treadle.errors import BadReply, ContextOverflow, IncompleteReply, ModelError, Overloaded
from treadle.messages import Citation, Hosted, Reasoning, Text
from treadle.ports.model import ModelReply, ReasoningPiece, TextPiece
from treadle.providers.openai.responses_stream import ResponsesFold

CREATED = event("created", response=response(status="in_progress"))
BARE_END = event("completed", response={"status": "completed"})


def added(item: dict[str, Any], output_index: int = 0) -> dict[str, Any]:
    """Return the event of an item that begins."""
    return event("output_item.added", output_index=output_index, item=item)


def done(item: dict[str, Any], output_index: int = 0) -> dict[str, Any]:
    """Return the event of an item that is finished."""
    return event("output_item.done", output_index=output_index, item=item)


def arguments(delta: str, output_index: int = 0, **fields: Any) -> dict[str, Any]:
    """Return an event with more arguments."""
    kind = "function_call_arguments.delta"
    return event(kind, output_index=output_index, delta=delta, **fields)


def test_text_comes_in_pieces() -> None:
    """The last event has the whole reply and what it cost."""
    usage = {"input_tokens": 7, "output_tokens": 2}
    begun = added(said(status="in_progress"))
    pieces = [text_delta(piece) for piece in ("he", "l", "", "lo")]
    deltas, found = folded(CREATED, begun, *pieces, ended(said("hello"), usage=usage))
    assert deltas == [TextPiece("he"), TextPiece("l"), TextPiece("lo")]
    assert (found.message.text, found.usage.input_tokens) == ("hello", 7)
    assert (found.response_id, found.finish_reason) == ("resp_1", "stop")


def test_a_poor_last_event_is_made_up_for() -> None:
    """Servers that do not repeat the reply: the items count, else the pieces."""
    thoughts = [
        event("reasoning_summary_text.delta", output_index=0, summary_index=place, delta=text)
        for place, text in enumerate(("a", "b"))
    ]
    note = {"type": "url_citation", "url": "https://x", "start_index": 0, "end_index": 2}
    events = [
        added({**THOUGHT, "summary": []}),
        *thoughts,
        added(said(), 1),
        text_delta("so", 1),
        event("output_text.annotation.added", output_index=1, content_index=0, annotation=note),
        text_delta(" it", 1, 1),
        added({**CALL, "arguments": ""}, 2),
        arguments('{"path"', 2),
        arguments(': "."}', 2),
    ]
    deltas, found = folded(*events, BARE_END)
    assert deltas[:2] == [ReasoningPiece("a"), ReasoningPiece("\n\nb")]
    assert found.message.reasoning == "a\n\nb"
    texts = [part for part in found.message.parts if isinstance(part, Text)]
    assert [text.text for text in texts] == ["so", " it"]
    assert texts[0].citations == (Citation("https://x", start=0, end=2),)
    assert [call.raw for call in found.message.tool_calls] == [CALL["arguments"]]
    _, finished = folded(*events, done({**THOUGHT, "encrypted_content": "bb"}), BARE_END)
    [thought] = [part for part in finished.message.parts if isinstance(part, Reasoning)]
    assert (thought.provider or {})["openai_responses"]["encrypted_content"] == "bb"


def test_calls_of_servers_that_number_nothing() -> None:
    """BS-04, BS-05: items are known by their IDs, or are the last one; numbers may repeat."""
    first, second = ({**CALL, "id": name, "call_id": name, "arguments": ""} for name in "ab")
    started = [event("output_item.added", item=item) for item in (first, second)]
    pieces = [
        event("function_call_arguments.delta", item_id=item_id, delta=text)
        for item_id, text in (("a", "{"), ("b", '{"x"'), ("a", "}"), ("b", ": 1}"))
    ]
    _, found = folded(*started, *pieces, BARE_END)
    assert [(call.id, call.raw) for call in found.message.tool_calls] == [
        ("a", "{}"),
        ("b", '{"x": 1}'),
    ]
    events = [added(first), arguments("{}"), added(second), arguments('{"x": 1}')]
    _, again = folded(*events, BARE_END)
    assert [call.raw for call in again.message.tool_calls] == ["{}", '{"x": 1}']
    lone = event("function_call_arguments.delta", delta="{}")
    _, last = folded(event("output_item.added", item=first), lone, BARE_END)
    assert [call.raw for call in last.message.tool_calls] == ["{}"]


def test_ids_that_change_with_every_event_do_not_matter() -> None:
    """Some gateways hide theirs so; the number of the item counts."""
    events = [added({**CALL, "id": "x1", "arguments": ""}), arguments("{}", item_id="x2")]
    _, found = folded(*events, done({**CALL, "id": "x3", "arguments": "{}"}), BARE_END)
    assert len(found.message.tool_calls) == 1


def test_whole_texts_are_one_piece() -> None:
    """Where no pieces came before them: at the end of a text, an item, or of all."""
    finished = event("output_text.done", output_index=0, content_index=0, text="so")
    for events in ((finished,), (done(said("so")),), ()):
        deltas, found = folded(CREATED, *events, ended(said("so")))
        assert deltas == [TextPiece("so")]
        assert found.message.text == "so"


def test_refusals_and_full_thoughts_are_heard() -> None:
    """BS-27: a refusal is text that a watcher sees."""
    thought = event("reasoning_text.delta", output_index=0, content_index=0, delta="hm")
    refusal = event("refusal.delta", output_index=1, content_index=0, delta="No.")
    deltas, found = folded(thought, refusal, BARE_END)
    assert deltas == [ReasoningPiece("hm"), TextPiece("No.")]
    assert (found.message.text, found.finish_reason) == ("No.", "refusal")


def test_steps_of_hosted_tools() -> None:
    """As they are when they are finished, in their order; what they tell meanwhile is passed by."""
    search = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
    code = event("code_interpreter_call_code.delta", output_index=1, delta="print()")
    _, found = folded(
        added({**search, "status": "in_progress"}),
        event("web_search_call.searching", output_index=0, item_id="ws_1"),
        done(search),
        code,
        event("image_generation_call.partial_image", output_index=2, partial_image_b64="aGk="),
        BARE_END,
    )
    steps = [part for part in found.message.parts if isinstance(part, Hosted)]
    assert [(step.name, step.provider["openai_responses"].get("code")) for step in steps] == [
        ("web_search", None),
        ("code_interpreter", "print()"),
    ]


def test_anything_unknown_is_passed_by() -> None:
    """Events of kinds to come, empty ones, fields of odd types."""
    odd = [{"type": "keepalive"}, event("dance.delta", delta="x"), {}, b"  ", {"type": 7}]
    odd += [event("output_item.added", item="x"), text_delta("a") | {"delta": None}]
    deltas, found = folded(*odd, text_delta("so"), *odd, ended(said("so")))
    assert (deltas, found.message.text) == ([TextPiece("so")], "so")


@pytest.mark.parametrize(
    ("problem", "kind", "retryable"),
    [
        ({"type": "error", "code": "server_error", "message": "oops"}, Overloaded, True),
        (
            {"type": "error", "error": {"code": "context_length_exceeded", "message": "oops"}},
            ContextOverflow,
            False,
        ),
        ({"error": {"message": "oops", "code": 400}}, ModelError, False),
        ({"error": {"message": "oops", "code": "503"}}, Overloaded, True),
        (
            event(
                "failed",
                response=response(
                    status="failed", error={"code": "server_error", "message": "oops"}
                ),
            ),
            Overloaded,
            True,
        ),
    ],
)
def test_an_error_is_raised(problem: Any, kind: type[ModelError], retryable: bool) -> None:
    """BS-19: typed, with the text so far."""
    with pytest.raises(kind, match="oops") as caught:
        folded(text_delta("half"), problem)
    error = caught.value
    assert (type(error), error.retryable, error.partial) == (kind, retryable, "half")


def test_a_reply_that_was_cut_off() -> None:
    """Its last event says why."""
    details = {"reason": "max_output_tokens"}
    whole = response(said("ha", status="incomplete"), status="incomplete")
    _, found = folded(
        text_delta("ha"), event("incomplete", response={**whole, "incomplete_details": details})
    )
    assert (found.message.text, found.finish_reason) == ("ha", "length")


@pytest.mark.parametrize(
    ("events", "partial"),
    [((), ""), ((CREATED,), ""), ((CREATED, text_delta("half")), "half"), ((b"[DONE]",), "")],
)
def test_a_stream_that_ends_early_is_incomplete(events: tuple[Any, ...], partial: str) -> None:
    """BS-18, BS-20: it may be tried again."""
    with pytest.raises(IncompleteReply) as caught:
        folded(*events)
    assert (caught.value.partial, caught.value.retryable) == (partial, True)


def test_the_end_mark_of_other_servers_is_one() -> None:
    """After all the pieces, instead of a last event."""
    _, found = folded(CREATED, text_delta("so"), b"[DONE]")
    assert (found.message.text, found.finish_reason) == ("so", "stop")


@pytest.mark.parametrize("chunk", [b"{nonsense", b"[1]", b'"x"'])
def test_what_is_no_event_is_a_bad_reply(chunk: bytes) -> None:
    """With the text so far; half of one at the end is none."""
    fold = ResponsesFold(HOST, ASKED)
    fold.feed([payload(text_delta("half"))])
    assert fold.feed_last([chunk]) == []
    with pytest.raises(BadReply) as caught:
        fold.feed([chunk])
    assert caught.value.partial == "half"


def test_odd_characters() -> None:
    """BS-16: NUL is replaced, halves of a surrogate pair find each other."""
    halves = [
        json.dumps(text_delta("x")).replace('"x"', f'"{half}"').encode()
        for half in ("\\ud83d", "\\ude00!")
    ]
    deltas, found = folded(text_delta("a"), text_delta("b\0"), *halves, text_delta("c"), BARE_END)
    text = "ab\ufffd\U0001f600!c"
    assert "".join(d.text for d in deltas if isinstance(d, TextPiece)) == text
    assert found.message.text == text


def test_a_stream_means_what_it_says_whole() -> None:
    """Parts, order and opaque data are those of the reply in one piece."""
    items = (THOUGHT, {"type": "web_search_call", "id": "ws"}, said("so", phase="final"), CALL)
    events = [done(item, place) for place, item in enumerate(items)]
    _, streamed = folded(CREATED, *events, event("completed", response=response()))
    _, whole = folded(ended(*items))
    assert isinstance(streamed, ModelReply)
    assert streamed == whole
