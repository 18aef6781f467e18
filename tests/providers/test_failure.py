"""Error answers become typed errors."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from treadle.errors import (
    AuthenticationFailed,
    ContentFiltered,
    ContextOverflow,
    ModelError,
    Overloaded,
    RateLimited,
)
from treadle.providers._failure import Asked, bad_reply, complaint_of, failure, seconds_to_wait

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
ASKED = Asked("openai", "gpt-5.2", ("sk-mine",))


def error_of(status: int, body: Any, headers: dict[str, str] | None = None) -> ModelError:
    """Return what an answer means."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return failure(status, headers or {}, content, ASKED, now=NOW)


def openai_error(message: str, code: str | None = None, kind: str = "invalid_request_error") -> Any:
    """Return a body in OpenAI's form."""
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


OVERFLOWS = [
    (400, openai_error("This model's maximum context length is 8192 tokens.", None)),
    (400, openai_error("Too much", "context_length_exceeded")),
    (400, {"error": {"code": 400, "message": "the request exceeds the available context size"}}),
    (500, {"error": {"code": 500, "message": "exceeds the available context size", "type": "x"}}),
    (
        400,
        {
            "error": {
                "code": 400,
                "message": "request (9020 tokens) exceeds the available context size (4096 tokens)",
                "type": "exceed_context_size_error",
            }
        },
    ),
    (
        400,
        {
            "object": "error",
            "message": "Prompt contains 40000 tokens, too large for model with "
            "32768 maximum context length",
            "code": 3051,
        },
    ),
    (413, openai_error("Request too large for model, tokens per minute", "rate_limit_exceeded")),
    (413, b"<html><h1>413 Request Entity Too Large</h1></html>"),
    (400, openai_error("prompt is too long: 200001 tokens > 200000 maximum")),
    (400, [{"error": {"code": 400, "message": "The input token count (9) exceeds the maximum"}}]),
    (429, openai_error("Request too large for gpt-4o: Limit 30000, Requested 90000", "tokens")),
]


@pytest.mark.parametrize(("status", "body"), OVERFLOWS)
def test_a_request_beyond_the_window_is_an_overflow(status: int, body: Any) -> None:
    """OpenAI's code and every vendor's words for it, llama.cpp's too; never retried as it is."""
    error = error_of(status, body)
    assert type(error) is ContextOverflow
    assert not error.retryable


@pytest.mark.parametrize(
    ("status", "body", "kind", "retryable"),
    [
        (400, openai_error("Bad schema", "invalid_schema"), ModelError, False),
        (
            401,
            openai_error("Incorrect API key provided", "invalid_api_key"),
            AuthenticationFailed,
            False,
        ),
        (402, {"error": {"message": "Insufficient credits", "code": 402}}, RateLimited, False),
        (403, openai_error("Country not supported"), AuthenticationFailed, False),
        (
            403,
            {"error": {"message": "Your input was flagged", "code": 403}},
            ContentFiltered,
            False,
        ),
        (404, openai_error("The model `x` does not exist", "model_not_found"), ModelError, False),
        (404, b"404 page not found", ModelError, False),
        (405, b"", ModelError, False),
        (408, b"", Overloaded, True),
        (409, openai_error("Lock timeout"), Overloaded, True),
        (422, {"detail": [{"loc": ["body"], "msg": "Extra inputs"}]}, ModelError, False),
        (429, openai_error("Rate limit reached", "rate_limit_exceeded"), RateLimited, True),
        (
            429,
            openai_error("You exceeded your current quota", "insufficient_quota"),
            RateLimited,
            False,
        ),
        (500, openai_error("The server had an error", None, "server_error"), Overloaded, True),
        (501, b"", ModelError, False),
        (502, b"<html><title>502 Bad Gateway</title></html>", Overloaded, True),
        (503, {"error": "busy"}, Overloaded, True),
        (529, {"error": {"type": "overloaded_error", "message": "Overloaded"}}, Overloaded, True),
        (302, b"", ModelError, False),
    ],
)
def test_a_status_has_its_error(
    status: int, body: Any, kind: type[ModelError], retryable: bool
) -> None:
    """BS-66: only what may pass is retried: no 400, 401, 403, 404 and no spent quota."""
    error = error_of(status, body)
    assert (type(error), error.retryable, error.status) == (kind, retryable, status)
    assert (error.provider, error.model) == ("openai", "gpt-5.2")


@pytest.mark.parametrize(
    "body",
    [
        openai_error("The response was filtered", "content_filter"),
        {
            "error": {
                "message": "The prompt triggered Azure OpenAI's content management policy.",
                "code": None,
                "innererror": {"code": "ResponsibleAIPolicyViolation"},
            }
        },
    ],
)
def test_a_filter_is_no_bad_request(body: Any) -> None:
    """BS-27 (c): Azure's filter answers 400."""
    error = error_of(400, body)
    assert type(error) is ContentFiltered
    assert not error.retryable


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (openai_error("words"), "words"),
        ({"error": "words"}, "words"),
        ({"message": "words", "object": "error"}, "words"),
        ({"detail": "words"}, "words"),
        ({"error": {"message": "no", "metadata": {"raw": "words"}}}, "no (words)"),
        ([{"error": {"message": "words"}}], "words"),
        (b"just words", "just words"),
        (b"<html><style>p{}</style><p>just <b>words</b></p></html>", "just words"),
        (b"", ""),
        (b"\xff", "\ufffd"),
        (b'"words"', "words"),
        (b"[]", "[]"),
        (b'{"error": {}}', '{"error":{}}'),
    ],
)
def test_the_words_are_found_in_any_body(body: Any, text: str) -> None:
    """JSON of every known shape, pages and plain text."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    assert complaint_of(content).text == text


def test_the_message_says_who_what_and_which_request() -> None:
    """The provider, the model, the status, the server's words and its request ID."""
    error = error_of(429, openai_error("Slow down", "rate_limit_exceeded"), {"x-request-id": "r-1"})
    for word in ("openai", "'gpt-5.2'", "429", "Slow down", "r-1"):
        assert word in str(error)
    assert (error.request_id, error.code) == ("r-1", "rate_limit_exceeded")


@pytest.mark.parametrize(
    ("status", "body", "headers", "hint"),
    [
        (401, b"", {}, "api_key="),
        (404, openai_error("The model does not exist", "model_not_found"), {}, "name 'gpt-5.2'"),
        (404, b"not found", {}, "/v1"),
        (402, b"", {}, "no credit"),
        (307, b"", {"location": "https://elsewhere/v1"}, "'https://elsewhere/v1'"),
        (307, b"", {"location": "https://x/?sig=abc&a=b"}, "'https://x/?sig=***&a=b'"),
        (307, b"", {"location": "https://me:pw@x/sk-mine"}, "'https://***@x/***'"),
        (304, b"", {}, "(304): no reason given. That is the answer of a cache"),
        (300, b"", {}, "Is base_url the API's address?"),
        (429, b"slow", {}, "Ask less often"),
        (429, openai_error("no", "insufficient_quota"), {}, "quota is spent"),
        (500, b"", {}, "try later"),
        (503, b"busy", {}, "Retry(attempts=)"),
    ],
)
def test_the_message_says_what_to_do(
    status: int, body: Any, headers: dict[str, str], hint: str
) -> None:
    """Where it is known, the message ends with what helps."""
    assert hint in str(error_of(status, body, headers))


@pytest.mark.parametrize(
    ("status", "body", "headers", "text"),
    [
        (307, b"", {"location": "x"}, "(307): no reason given. The server points to"),
        (404, b"404 page not found", {}, "404 page not found. Is base_url right?"),
        (404, b"Not here.", {}, "Not here. Is base_url right?"),
        (404, b"What?", {}, "What? Is base_url right?"),
        (404, b"not here", {"x-request-id": "r-1"}, "not here [request r-1]. Is base_url"),
        (404, b"Not here.", {"x-request-id": "r-1"}, "Not here. [request r-1] Is base_url"),
        (429, b"slow", {}, "(429): slow. Ask less often"),
    ],
)
def test_sentences_do_not_run_together(
    status: int, body: bytes, headers: dict[str, str], text: str
) -> None:
    """The server's words and the advice are sentences of their own."""
    assert text in str(error_of(status, body, headers))


def test_no_key_is_in_a_message() -> None:
    """A body that echoes the key, or anything like one, is masked."""
    body = openai_error("Incorrect key sk-mine, sk-proj-abcdefghijklmnop1234, Bearer abcdefghijk")
    text = str(error_of(401, body)) + str(bad_reply(b"sk-mine gsk_abcdefghijklmnop", ASKED, "?"))
    for secret in ("sk-mine", "abcdefghijklmnop", "abcdefghijk"):
        assert secret not in text
    assert "***" in text


def test_a_bad_reply_shows_its_beginning() -> None:
    """Status, content type and the first 200 characters."""
    page = b"<html>" + b"x" * 500
    error = bad_reply(page, ASKED, "why", status=200, headers={"content-type": "text/html"})
    assert "200 (text/html)" in str(error)
    assert "x" * 194 in str(error)
    assert "x" * 195 not in str(error)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after-ms": "1500", "retry-after": "7"}, 1.5),
        ({"retry-after": format_datetime(NOW + timedelta(seconds=9), usegmt=True)}, 9.0),
        ({"retry-after": format_datetime(NOW - timedelta(seconds=9), usegmt=True)}, 0.0),
        (
            {
                "date": format_datetime(NOW - timedelta(hours=1), usegmt=True),
                "retry-after": format_datetime(NOW - timedelta(seconds=3590), usegmt=True),
            },
            10.0,
        ),
        ({"retry-after": "Friday, 02-Jan-26 03:04:15 GMT"}, 10.0),
        ({"retry-after": "Fri Jan  2 03:04:15 2026"}, 10.0),
        ({"retry-after": "Fri, 02 Jan 2026 04:04:15 +0100"}, 10.0),
        ({"retry-after": "Fri, 31 Dec 9999 23:59:59 GMT"}, 251634977754.0),
        ({"retry-after": "Fri, 31 Dec 99999999999 23:59:59 GMT"}, None),
        ({"retry-after": "Fri, 02 Jan 2026 99:99:99 GMT"}, None),
        ({"retry-after": "Fri, 02 Jan 2026 03:04:15 +99999999999"}, None),
        ({"retry-after": "120, 30"}, None),
        ({"retry-after": "1e400"}, None),
        ({"retry-after": "9" * 400}, None),
        ({"retry-after": "soon", "date": "never"}, None),
        ({"x-ratelimit-reset-requests": "1s", "x-ratelimit-reset-tokens": "6m0s"}, 360.0),
        (
            {
                "x-ratelimit-remaining-requests": "0",
                "x-ratelimit-reset-requests": "120ms",
                "x-ratelimit-remaining-tokens": "50",
                "x-ratelimit-reset-tokens": "6m0s",
            },
            0.12,
        ),
        ({"x-ratelimit-reset": str(int((NOW.timestamp() + 30) * 1000))}, 30.0),
        ({"ratelimit-reset": "12"}, 12.0),
        ({"x-ratelimit-reset-requests": "?"}, None),
        (
            {
                "anthropic-ratelimit-input-tokens-remaining": "0",
                "anthropic-ratelimit-input-tokens-reset": (NOW + timedelta(seconds=9)).isoformat(),
            },
            9.0,
        ),
        ({"anthropic-ratelimit-unified-reset": str(int(NOW.timestamp()) + 9_000)}, None),
    ],
)
def test_the_servers_wait_is_read(headers: dict[str, str], seconds: float | None) -> None:
    """BS-66: seconds, an HTTP date by the server's own clock, milliseconds, reset headers."""
    assert seconds_to_wait(headers, NOW) == pytest.approx(seconds)
    assert error_of(429, b"", headers).retry_after == pytest.approx(seconds)
