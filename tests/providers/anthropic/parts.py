"""What tests of Messages share: requests as they are sent, replies as they come."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tests.servers import Answer, End
from treadle.messages import Message, Thread, ToolCall, ToolResult
from treadle.ports.model import ModelDelta, ModelReply, ModelRequest, ToolSpec
from treadle.providers import Anthropic
from treadle.providers._failure import Asked
from treadle.providers.anthropic.body import MessagesEncoder
from treadle.providers.anthropic.claude import claude
from treadle.providers.anthropic.dialect import MessagesDialect
from treadle.providers.anthropic.reply import decode_reply
from treadle.providers.anthropic.stream import MessagesFold
from treadle.testing.strict import assert_strict

ANTHROPIC = MessagesDialect()
OTHER = MessagesDialect(provider="host", origin="host", marks=False)
MODEL = "claude-sonnet-4-5"
ASKED = Asked("anthropic", MODEL)
PIXEL = b"\x89PNG\r\n\x1a\n-pixel"
TOOL = ToolSpec("ls", "List.", {"type": "object", "properties": {}})
MARK = {"type": "ephemeral"}


def body_of(
    *messages: Message, model: str = MODEL, dialect: MessagesDialect = ANTHROPIC, **fields: Any
) -> dict[str, Any]:
    """Return the whole request that these messages make; it is one that Anthropic takes."""
    request = ModelRequest(messages=Thread(messages), **fields)
    body = json.loads(MessagesEncoder(model, claude(model), dialect).body(request, stream=False))
    assert_strict(body, "anthropic")
    return body


def sent(*messages: Message, dialect: MessagesDialect = ANTHROPIC) -> list[dict[str, Any]]:
    """Return the messages as they are sent, without cache marks."""
    request = ModelRequest(messages=Thread(messages))
    traits = claude(MODEL)
    marks = MessagesDialect(provider=dialect.provider, origin=dialect.origin, marks=False)
    body = json.loads(MessagesEncoder(MODEL, traits, marks).body(request, stream=False))
    assert_strict(body, "anthropic")
    return body["messages"]


def blocks_sent(*messages: Message, dialect: MessagesDialect = ANTHROPIC) -> list[Any]:
    """Return the blocks of the last message that is sent."""
    return sent(*messages, dialect=dialect)[-1]["content"]


def called(*ids: str) -> Message:
    """Return a reply that calls a tool under each of these IDs."""
    return Message("assistant", tuple(ToolCall(one, "ls", provider_id=one) for one in ids))


def answered(*ids: str) -> Message:
    """Return the results of such calls."""
    return Message("tool", tuple(ToolResult(one, "ls", ()) for one in ids))


def message(*blocks: Any, stop: str | None = "end_turn", **fields: Any) -> dict[str, Any]:
    """Return a whole reply of these blocks; texts stand for blocks of text."""
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": MODEL,
        "content": [{"type": "text", "text": b} if isinstance(b, str) else b for b in blocks],
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": {"input_tokens": 10, "output_tokens": 5},
        **fields,
    }


def decoded(*blocks: Any, stop: str | None = "end_turn", **fields: Any) -> ModelReply:
    """Return what such a reply says."""
    body = json.dumps(message(*blocks, stop=stop, **fields)).encode()
    return decode_reply(body, "anthropic", ASKED)


def start(index: int | None = 0, **block: Any) -> dict[str, Any]:
    """Return the event that begins a block, one of text unless another type is given."""
    opened = block if "type" in block else {"type": "text", "text": "", **block}
    event: dict[str, Any] = {"type": "content_block_start", "content_block": opened}
    return event if index is None else {**event, "index": index}


def delta(kind: str, index: int | None = 0, **fields: Any) -> dict[str, Any]:
    """Return an event that adds to a block."""
    event = {"type": "content_block_delta", "delta": {"type": f"{kind}_delta", **fields}}
    return event if index is None else {**event, "index": index}


def text(words: str, index: int | None = 0) -> dict[str, Any]:
    """Return an event that adds text."""
    return delta("text", index, text=words)


def ending(stop: str | None = "end_turn", **fields: Any) -> dict[str, Any]:
    """Return the event that says why a message ended."""
    return {
        "type": "message_delta",
        "delta": {"stop_reason": stop, "stop_sequence": None},
        "usage": {"output_tokens": 7},
        **fields,
    }


BEGIN: dict[str, Any] = {"type": "message_start", "message": message(stop=None)}
STOP: dict[str, Any] = {"type": "message_stop"}


def payload(value: Any) -> bytes:
    """Return an event as it stands in the stream."""
    return value if isinstance(value, bytes) else json.dumps(value).encode()


def folded(*events: Any) -> ModelReply:
    """Return the reply that these events make."""
    fold = MessagesFold("anthropic", ASKED)
    for event in events:
        fold.feed([payload(event)])
    return fold.finish()


def events(*chunks: Mapping[str, Any], end: End = "done") -> Answer:
    """Return an answer that streams these events, named as the server names them."""
    pieces = [f"event: {c['type']}\ndata: {json.dumps(c)}\n\n".encode() for c in chunks]
    return Answer(pieces=tuple(pieces), end=end)


def asking(words: str = "hi", **fields: Any) -> ModelRequest:
    """Return a request with one user message."""
    return ModelRequest(messages=Thread([Message.user(words)]), **fields)


async def streamed(model: Anthropic, request: ModelRequest | None = None) -> list[ModelDelta]:
    """Return all deltas of a stream."""
    return [item async for item in model.stream(request or asking())]
