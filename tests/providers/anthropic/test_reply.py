"""Whole replies, also from servers that are not quite as documented."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.providers.anthropic.parts import ASKED, decoded, message
from treadle.errors import (
    AuthenticationFailed,
    BadReply,
    ContextOverflow,
    ModelError,
    Overloaded,
    RateLimited,
)
from treadle.messages import Citation, Hosted, Image, Message, Reasoning, Text
from treadle.providers.anthropic.reply import decode_reply
from treadle.usage import Usage


def error(kind: str, words: str = "no") -> bytes:
    """Return an error as a server tells of it."""
    inner = {"type": kind, "message": words}
    return json.dumps({"type": "error", "error": inner, "request_id": "req_9"}).encode()


def test_a_plain_reply() -> None:
    """Text, who said it, and what it used."""
    reply = decoded("hello", usage={"input_tokens": 3, "output_tokens": 2})
    assert reply.message == Message.assistant("hello")
    assert (reply.model, reply.response_id) == ("claude-sonnet-4-5", "msg_1")
    assert (reply.finish_reason, reply.provider_finish) == ("stop", "end_turn")
    assert reply.usage == Usage(input_tokens=3, output_tokens=2, requests=1)


def test_usage_counts_everything_that_was_read() -> None:
    """Their input is only what no cache had to do with."""
    usage = {
        "input_tokens": 1,
        "cache_read_input_tokens": 10,
        "cache_creation": {"ephemeral_5m_input_tokens": 60, "ephemeral_1h_input_tokens": 40},
        "output_tokens": "7",
        "output_tokens_details": {"thinking_tokens": 5},
    }
    assert decoded("a", usage=usage).usage == Usage(
        input_tokens=111,
        cache_read_tokens=10,
        cache_write_tokens=100,
        output_tokens=7,
        reasoning_tokens=5,
        requests=1,
    )
    assert decoded("a", usage=None).usage == Usage(requests=1)


@pytest.mark.parametrize(
    ("stop", "reason"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("refusal", "refusal"),
        ("pause_turn", "pause"),
        ("compaction", "other"),
        ("new", "other"),
        (None, "stop"),
    ],
)
def test_why_it_ended(stop: str | None, reason: str) -> None:
    """In our words and in theirs."""
    reply = decoded("a", stop=stop)
    assert (reply.finish_reason, reply.provider_finish) == (reason, stop)


def test_calls() -> None:
    """Their input is as it was written; a server may say that a turn with calls just ended."""
    body = json.dumps(message(stop="end_turn")).replace(
        '"content": []',
        '"content": [{"type":"tool_use","id":"t1","name":"ls","input":{ "a":1.50 }},'
        '{"type":"tool_use","name":"ls","input":{"b":"\\u0000"},"caller":{"type":"direct"}},'
        '{"type":"tool_use","id":"t3","name":"ls","input":{},"caller":{"type":"code","tool_id":"s"}}]',
    )
    reply = decode_reply(body.encode(), "anthropic", ASKED)
    first, second, third = reply.message.tool_calls
    assert reply.finish_reason == "tool_calls"
    assert (first.id, first.provider_id, first.raw) == ("t1", "t1", '{ "a":1.50 }')
    assert (second.id, second.provider_id, second.arguments) == ("call_2", None, {"b": "\ufffd"})
    assert second.provider is None
    assert third.provider == {
        "anthropic": {"@host": "anthropic", "caller": {"type": "code", "tool_id": "s"}}
    }


@pytest.mark.parametrize(
    ("cited", "citation"),
    [
        (
            {"type": "char_location", "document_title": "D", "cited_text": "x"},
            Citation(title="D", text="x", start=0, end=4),
        ),
        ({"type": "page_location", "cited_text": "x"}, Citation(text="x", start=0, end=4)),
        (
            {"type": "web_search_result_location", "url": "https://a.b", "title": "T"},
            Citation(url="https://a.b", title="T", start=0, end=4),
        ),
        (
            {"type": "search_result_location", "source": "https://a.b", "title": "T"},
            Citation(url="https://a.b", title="T", start=0, end=4),
        ),
        (
            {"type": "search_result_location", "source": "shelf 4", "title": None},
            Citation(title="shelf 4", start=0, end=4),
        ),
        ({"type": "new"}, Citation(start=0, end=4)),
    ],
)
def test_citations(cited: dict[str, Any], citation: Citation) -> None:
    """Of every kind."""
    reply = decoded("a ", {"type": "text", "text": "said", "citations": [cited, None]})
    assert reply.message.citations == (citation,)
    assert reply.message.text == "a said"


def test_blocks_of_any_type_are_kept() -> None:
    """In order; what we do not know is a step of the server's own."""
    picture = {"type": "image", "source": {"type": "base64", "data": "aGk=", "media_type": "a/b"}}
    reply = decoded(
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "redacted_thinking", "data": "d"},
        {"type": "mcp_tool_use", "id": "m", "name": "ask", "server_name": "s", "input": {}},
        {"type": "mcp_tool_result", "tool_use_id": "m", "content": []},
        {"type": "container_upload", "file_id": "f"},
        {"type": "unheard_of"},
        {"nothing": 1},
        picture,
        {"type": "image", "source": None},
        {"type": "text", "text": ""},
        "end",
    )
    found = [part.name if isinstance(part, Hosted) else type(part) for part in reply.message.parts]
    assert found == [
        Reasoning,
        Reasoning,
        "ask",
        "mcp",
        "container_upload",
        "unheard_of",
        "unknown",
        Image,
        "image",
        Text,
    ]


def test_what_is_said_beside_a_message() -> None:
    """A container goes back, a pause is remembered, the rest is there to be read."""
    container = {"id": "container_1", "expires_at": "2026-01-01T00:00:00Z"}
    reply = decoded("a", stop="pause_turn", container=container, stop_details={"type": "x"})
    assert reply.message.provider == {
        "anthropic": {"@host": "anthropic", "@paused": True, "container": "container_1"},
        "anthropic.read": {"container": container, "stop_details": {"type": "x"}},
    }


@pytest.mark.parametrize(
    ("kind", "words", "expected", "retryable"),
    [
        ("overloaded_error", "Overloaded", Overloaded, True),
        ("api_error", "no", Overloaded, True),
        ("rate_limit_error", "slow down", RateLimited, True),
        ("authentication_error", "no", AuthenticationFailed, False),
        ("request_too_large", "no", ContextOverflow, False),
        ("invalid_request_error", "prompt is too long: 9 tokens > 8", ContextOverflow, False),
        ("invalid_request_error", "Your credit balance is too low", RateLimited, False),
        ("billing_error", "no", RateLimited, False),
        ("invalid_request_error", "no", ModelError, False),
        ("unheard_of", "no", ModelError, False),
    ],
)
def test_errors_inside_of_a_200(
    kind: str, words: str, expected: type[ModelError], retryable: bool
) -> None:
    """Become what their kind says."""
    with pytest.raises(ModelError) as caught:
        decode_reply(error(kind, words), "anthropic", ASKED)
    assert (type(caught.value), caught.value.retryable) == (expected, retryable)
    assert caught.value.request_id == "req_9"


@pytest.mark.parametrize("body", [b"<html>", b"[]", b"1", b"{}", b'{"content": 3}', b"[" * 9999])
def test_nonsense(body: bytes) -> None:
    """Is said to be none of our protocol."""
    with pytest.raises(BadReply):
        decode_reply(body, "anthropic", ASKED)


@pytest.mark.parametrize(
    "content",
    ["said", {"type": "text", "text": "said"}, ["said"], [{"type": "text", "text": "said"}, 3]],
)
def test_content_of_odd_shapes(content: object) -> None:
    """A text or one block stands for a list of it."""
    body = json.dumps({"content": content, "usage": 3, "stop_reason": 4, "id": None}).encode()
    assert decode_reply(body, "anthropic", ASKED).message.text == "said"


def test_dirty_text_is_cleaned() -> None:
    """NUL and half characters go no further."""
    body = b'{"content":[{"type":"text","text":"a\\u0000b\\ud83dc"}]}'
    assert decode_reply(body, "anthropic", ASKED).message.text == "a\ufffdb\ufffdc"
