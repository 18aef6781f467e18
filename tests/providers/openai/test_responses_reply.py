"""Whole replies as our values."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest

from tests.providers.openai.responses_parts import ASKED, CALL, HOST, THOUGHT, read, response, said
from treadle.errors import BadReply, ContextOverflow, ModelError, Overloaded, RateLimited
from treadle.messages import Audio, Citation, Hosted, Reasoning, Text, ToolCall
from treadle.providers.openai.responses_dialect import PROTOCOL
from treadle.providers.openai.responses_reply import decode_reply
from treadle.usage import Usage


def test_a_reply() -> None:
    """Its parts in order, what it cost, how it ended."""
    usage = {
        "input_tokens": 10,
        "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 2},
        "output_tokens": 7,
        "output_tokens_details": {"reasoning_tokens": 3},
        "total_tokens": 17,
        "cost": 0.25,
    }
    found = read(THOUGHT, said("so"), CALL, usage=usage)
    kinds = [type(part) for part in found.message.parts]
    assert kinds == [Reasoning, Text, ToolCall]
    assert (found.message.reasoning, found.message.text) == ("Hm.", "so")
    [call] = found.message.tool_calls
    assert (call.id, call.provider_id, call.raw) == ("call_1", "call_1", '{"path": "."}')
    assert found.usage == Usage(10, 4, 2, 7, 3, 1, 0, Decimal("0.25"))
    assert (found.response_id, found.model) == ("resp_1", "gpt-5.2-2025")
    assert (found.finish_reason, found.provider_finish) == ("tool_calls", "completed")


@pytest.mark.parametrize(
    ("fields", "reason", "told"),
    [
        ({}, "stop", "completed"),
        ({"status": "incomplete"}, "other", "incomplete"),
        (
            {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}},
            "length",
            "max_output_tokens",
        ),
        (
            {"status": "incomplete", "incomplete_details": {"reason": "content_filter"}},
            "content_filter",
            "content_filter",
        ),
        ({"status": "queued"}, "other", "queued"),
        ({"status": None}, "stop", None),
    ],
)
def test_how_it_ended(fields: dict[str, Any], reason: str, told: str | None) -> None:
    """Whole, cut off, filtered, still being made in the background."""
    found = read(said("so"), **fields)
    assert (found.finish_reason, found.provider_finish) == (reason, told)


def test_a_refusal_is_not_an_answer() -> None:
    """BS-27: its words are text, and why it ended."""
    found = read(said({"type": "refusal", "refusal": "No."}))
    assert (found.message.text, found.finish_reason) == ("No.", "refusal")


def test_sources_are_citations() -> None:
    """Pages with the place in the text that relies on them, and files."""
    notes = [
        {
            "type": "url_citation",
            "url": "https://x",
            "title": "X",
            "start_index": 1,
            "end_index": 3,
        },
        {"type": "file_citation", "file_id": "file_1", "filename": "a.pdf", "index": 2},
        {
            "type": "container_file_citation",
            "container_id": "c1",
            "file_id": "file_2",
            "filename": "b.csv",
            "start_index": 0,
            "end_index": 2,
        },
        {"type": "file_path", "file_id": "file_3", "index": 0},
    ]
    found = read(said({"type": "output_text", "text": "text", "annotations": notes}))
    assert found.message.citations == (
        Citation("https://x", "X", start=1, end=3),
        Citation(title="a.pdf", start=2, end=2),
        Citation(title="b.csv", start=0, end=2),
        Citation(title="file_3"),
    )
    [text] = found.message.parts
    assert (text.provider or {})[PROTOCOL]["annotations"] == notes


def test_reasoning_is_read_wherever_it_is() -> None:
    """A summary in paragraphs, or the thoughts themselves."""
    parts = [{"type": "summary_text", "text": text} for text in ("a", "b")]
    assert read({**THOUGHT, "summary": parts}).message.reasoning == "a\n\nb"
    content = [{"type": "reasoning_text", "text": "all of it"}]
    found = read({"type": "reasoning", "id": "r", "summary": [], "content": content})
    assert found.message.reasoning == "all of it"


def test_anything_unknown_is_kept() -> None:
    """Items and blocks of kinds to come."""
    found = read({"type": "dance", "step": 1}, said({"type": "song", "notes": "do"}), {"x": 1})
    assert [part.name for part in found.message.parts if isinstance(part, Hosted)] == [
        "dance",
        "song",
        "unknown",
    ]


def test_sound_is_read() -> None:
    """With what it says."""
    found = read(said({"type": "output_audio", "data": "aGk=", "transcript": "hi"}))
    assert found.message.parts == (Audio(content=b"hi", media_type="audio/wav", transcript="hi"),)


@pytest.mark.parametrize(
    ("item", "call"),
    [
        ({**CALL, "arguments": ""}, ToolCall("call_1", "ls", "{}", "call_1")),
        ({**CALL, "arguments": None}, ToolCall("call_1", "ls", "{}", "call_1")),
        ({**CALL, "arguments": {"a": 1}}, ToolCall("call_1", "ls", '{"a":1}', "call_1")),
        ({**CALL, "call_id": None}, ToolCall("fc_1", "ls", CALL["arguments"], "fc_1")),
        (
            {**CALL, "call_id": "", "id": None},
            ToolCall("call_1", "ls", CALL["arguments"], None),
        ),
    ],
)
def test_calls_of_careless_servers(item: dict[str, Any], call: ToolCall) -> None:
    """BS-02, BS-05: empty or decoded arguments, a missing ID."""
    assert read(item).message.tool_calls == (call,)


@pytest.mark.parametrize(
    ("error", "kind", "retryable"),
    [
        ({"code": "server_error", "message": "oops"}, Overloaded, True),
        ({"code": "rate_limit_exceeded", "message": "slow"}, RateLimited, True),
        ({"code": "context_length_exceeded", "message": "long"}, ContextOverflow, False),
        ({"code": "invalid_prompt", "message": "bad"}, ModelError, False),
    ],
)
def test_a_failed_response_is_an_error(
    error: dict[str, str], kind: type[ModelError], retryable: bool
) -> None:
    """BS-19: in an answer of 200."""
    with pytest.raises(kind, match=error["message"]) as caught:
        read(status="failed", error=error)
    assert (type(caught.value), caught.value.retryable) == (kind, retryable)


def test_a_cancelled_response_is_an_error() -> None:
    """One that was made in the background, for example."""
    with pytest.raises(Overloaded, match="cancelled"):
        read(status="cancelled")


@pytest.mark.parametrize(
    "body", [b"<html>", b"[]", b'"x"', b"{}", b'{"choices": []}', b'{"output": "x"}', b"[" * 9999]
)
def test_anything_else_is_a_bad_reply(body: bytes) -> None:
    """With its beginning."""
    with pytest.raises(BadReply, match="200"):
        decode_reply(body, HOST, ASKED)


def test_text_is_cleaned() -> None:
    """NUL and half surrogate pairs go nowhere."""
    body = json.dumps(response(said("a\0b"), THOUGHT)).replace("Hm.", "\\ud83d!").encode()
    found = decode_reply(body, HOST, ASKED)
    assert (found.message.text, found.message.reasoning) == ("a\ufffdb", "\ufffd!")


@pytest.mark.parametrize("usage", [None, "x", {}, {"input_tokens": "?", "output_tokens": None}])
def test_odd_usage_counts_nothing(usage: object) -> None:
    """But the request."""
    assert read(said("so"), usage=usage).usage == Usage(requests=1)


def test_odd_types_are_passed_by() -> None:
    """Where a text is wanted stands anything else."""
    odd: list[Any] = [{}, [], 1, None, "x"]
    items = [{**CALL, "type": kind} for kind in odd] + [{**THOUGHT, "summary": one} for one in odd]
    texts = [said({"type": kind, "text": "so", "annotations": kind}) for kind in odd]
    found = read(*items, *texts, status={}, incomplete_details=[], id=7, model={})
    assert (found.finish_reason, found.model) == ("stop", "gpt-5.2")
