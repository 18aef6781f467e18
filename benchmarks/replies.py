"""What the loopback provider says: every reply of every script, encoded before it is asked."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from benchmarks.work import ANSWER, CITIES, STREAM_TEXT, TOOL_NAME

_HEAD: Mapping[str, object] = {
    "id": "chatcmpl-C2P1wP1damHwC6sXvGAIh5PMvH6wM",
    "created": 1754688908,
    "model": "gpt-4o-2024-08-06",
    "service_tier": "default",
    "system_fingerprint": "fp_ff25b2783a",
}
_USAGE: Mapping[str, object] = {
    "prompt_tokens": 120,
    "completion_tokens": 40,
    "total_tokens": 160,
    "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
    "completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 0},
}
_END = b"0\r\n\r\n"

_JSON_HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
    b"x-request-id: req_3f0c8c6d2ab84a7d\r\nContent-Length: %d\r\n\r\n"
)
_SSE_HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n"
    b"x-request-id: req_3f0c8c6d2ab84a7d\r\nTransfer-Encoding: chunked\r\n\r\n"
)


class Reply(msgspec.Struct, frozen=True):
    """One reply in both forms, as the bytes of a whole HTTP response."""

    whole: bytes
    streamed: bytes


def answer_reply() -> Reply:
    """Return a short final answer."""
    message: Mapping[str, object] = {
        "role": "assistant",
        "content": ANSWER,
        "refusal": None,
        "annotations": [],
    }
    words = [word + " " for word in ANSWER.split(" ")]
    deltas: list[Mapping[str, object]] = [{"content": word} for word in words[:-1]]
    deltas.append({"content": words[-1].rstrip()})
    return _reply(message, "stop", deltas)


def tool_reply(number: int) -> Reply:
    """Return a reply that asks for one tool call, the `number`-th of its run (from 0)."""
    call = {
        "id": f"call_Vz0Sie91Ap56nH0ThKGr{number:04d}",
        "type": "function",
        "function": {
            "name": TOOL_NAME,
            "arguments": f'{{"city":"{CITIES[number % len(CITIES)]}","unit":"C"}}',
        },
    }
    message: Mapping[str, object] = {
        "role": "assistant",
        "content": None,
        "tool_calls": [call],
        "refusal": None,
        "annotations": [],
    }
    return _reply(message, "tool_calls", [{"content": None, "tool_calls": [{"index": 0, **call}]}])


def stream_pieces(count: int) -> tuple[bytes, ...]:
    """Return a streamed answer of `count` text chunks as the pieces of an HTTP response.

    The first piece is the head, then one HTTP chunk for each event, and the last is the end.
    """
    events = _events([{"content": STREAM_TEXT}] * count, "stop")
    return (_SSE_HEAD, *(_http_chunk(event) for event in events), _END)


def stream_burst(count: int) -> bytes:
    """Return the same answer as one HTTP chunk, to be sent in one write."""
    events = _events([{"content": STREAM_TEXT}] * count, "stop")
    return _SSE_HEAD + _http_chunk(b"".join(events)) + _END


def json_reply(status: bytes, body: Mapping[str, object]) -> bytes:
    """Return `body` as a JSON response with another status line."""
    return _json_response(msgspec.json.encode(body)).replace(b"200 OK", status, 1)


def _reply(message: Mapping[str, object], finish: str, deltas: list[Mapping[str, object]]) -> Reply:
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish}
    body = {**_HEAD, "object": "chat.completion", "choices": [choice], "usage": _USAGE}
    events = b"".join(_events(deltas, finish))
    return Reply(
        whole=_json_response(msgspec.json.encode(body)),
        streamed=_SSE_HEAD + _http_chunk(events) + _END,
    )


def _events(deltas: list[Mapping[str, object]], finish: str) -> list[bytes]:
    """Return the server-sent events of one streamed reply, in OpenAI's own shape."""
    opening = {"role": "assistant", "content": "", "refusal": None}
    events = [_event(opening, None), *(_event(delta, None) for delta in deltas)]
    events.append(_event({}, finish))
    closing: Mapping[str, object] = {
        **_HEAD,
        "object": "chat.completion.chunk",
        "choices": [],
        "usage": _USAGE,
    }
    events.append(b"data: " + msgspec.json.encode(closing) + b"\n\n")
    events.append(b"data: [DONE]\n\n")
    return events


def _event(delta: Mapping[str, object], finish: str | None) -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    body = {
        **_HEAD,
        "object": "chat.completion.chunk",
        "choices": [choice],
        "usage": None,
        "obfuscation": "KhEoTT6u7JgGis",
    }
    return b"data: " + msgspec.json.encode(body) + b"\n\n"


def _json_response(body: bytes) -> bytes:
    return _JSON_HEAD % len(body) + body


def _http_chunk(payload: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(payload), payload)
