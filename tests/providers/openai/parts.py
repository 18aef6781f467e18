"""What tests of Chat Completions share: requests as they are sent, replies as they come."""

from __future__ import annotations

import json
from typing import Any

from tests.servers import delta
from treadle.messages import Message, Thread
from treadle.ports.model import ModelDelta, ModelReply, ModelRequest, ToolSpec
from treadle.providers import OpenAI
from treadle.providers._failure import Asked
from treadle.providers.openai.chat_body import ChatEncoder
from treadle.providers.openai.chat_stream import ChatFold
from treadle.providers.openai.dialect import ChatDialect, dialect_of
from treadle.testing.strict import assert_strict

OPENAI = dialect_of("https://api.openai.com/v1")
PLAIN = ChatDialect(host="localhost:8000")
PIXEL = b"\x89PNG\r\n\x1a\n-pixel"
TOOL = ToolSpec("ls", "List.", {"type": "object", "properties": {}})

HOST = "localhost:8000"
ASKED = Asked("openai", "gpt-5.2")
STOP = delta("stop")
END: dict[str, Any] = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}


def body_of(
    *messages: Message, dialect: ChatDialect = OPENAI, stream: bool = False, **fields: Any
) -> dict[str, Any]:
    """Return the whole request that these messages make."""
    request = ModelRequest(messages=Thread(messages), **fields)
    return json.loads(ChatEncoder("gpt-5.2", dialect).body(request, stream=stream))


def sent(*messages: Message, dialect: ChatDialect = OPENAI) -> list[dict[str, Any]]:
    """Return the messages as they are sent; the request is one that OpenAI takes."""
    body = body_of(*messages, dialect=dialect)
    assert_strict(body)
    return body["messages"]


def payload(chunk: Any) -> bytes:
    """Return a chunk as it stands in an event."""
    return chunk if isinstance(chunk, bytes) else json.dumps(chunk).encode()


def folded(*chunks: Any) -> ModelReply:
    """Return the reply that these chunks make."""
    fold = ChatFold(HOST, ASKED)
    for chunk in chunks:
        fold.feed([payload(chunk)])
    return fold.finish()


def asking(text: str = "hi", **fields: Any) -> ModelRequest:
    """Return a request with one user message."""
    return ModelRequest(messages=Thread([Message.user(text)]), **fields)


async def streamed(model: OpenAI, request: ModelRequest | None = None) -> list[ModelDelta]:
    """Return all deltas of a stream."""
    return [item async for item in model.stream(request or asking())]


async def last(model: OpenAI) -> ModelReply:
    """Return the reply at the end of a stream."""
    item = (await streamed(model))[-1]
    assert isinstance(item, ModelReply)
    return item
