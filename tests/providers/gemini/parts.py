"""What tests of Gemini share: requests as they are sent, replies as they come."""

from __future__ import annotations

import json
from typing import Any

from treadle.messages import Message, Thread
from treadle.ports.model import ModelDelta, ModelReply, ModelRequest, ToolSpec
from treadle.providers import Gemini
from treadle.providers._failure import Asked
from treadle.providers.gemini.body import GeminiEncoder
from treadle.providers.gemini.dialect import GeminiDialect, dialect_of
from treadle.providers.gemini.reply import decode_reply
from treadle.providers.gemini.stream import GeminiFold
from treadle.testing.strict import assert_strict

HOST = "generativelanguage.googleapis.com"
URL = f"https://{HOST}/v1beta"
SECOND = dialect_of(URL, "gemini-2.5-flash")
THIRD = dialect_of(URL, "gemini-3-flash-preview")
VERTEX = dialect_of("https://aiplatform.googleapis.com/v1", "gemini-3-pro-preview")
ASKED = Asked("google", "gemini-3-flash-preview")
PIXEL = b"\x89PNG\r\n\x1a\n-pixel"
TOOL = ToolSpec("ls", "List.", {"type": "object", "properties": {}})
SIGNED = "c2lnbmVk"


def body_of(*messages: Message, dialect: GeminiDialect = THIRD, **fields: Any) -> dict[str, Any]:
    """Return the whole request that these messages make; it is one that Google takes."""
    request = ModelRequest(messages=Thread(messages), **fields)
    body = json.loads(GeminiEncoder(dialect).body(request))
    assert_strict(body, "gemini3" if dialect.generation >= 3 else "gemini")
    return body


def sent(*messages: Message, dialect: GeminiDialect = THIRD) -> list[dict[str, Any]]:
    """Return the contents as they are sent."""
    return body_of(*messages, dialect=dialect)["contents"]


def parts_sent(*messages: Message, dialect: GeminiDialect = THIRD) -> list[Any]:
    """Return the parts of the last content."""
    return sent(*messages, dialect=dialect)[-1]["parts"]


def chunk(*parts: Any, finish: str | None = None, **fields: Any) -> dict[str, Any]:
    """Return a reply, or a chunk of one, with these parts; texts stand for parts of text."""
    content = {"parts": [{"text": p} if isinstance(p, str) else p for p in parts], "role": "model"}
    candidate: dict[str, Any] = {"content": content, "index": 0}
    if finish:
        candidate["finishReason"] = finish
    return {"candidates": [candidate], "modelVersion": "gemini-3-flash-preview", **fields}


def payload(value: Any) -> bytes:
    """Return a chunk as it stands in an event."""
    return value if isinstance(value, bytes) else json.dumps(value).encode()


def folded(*chunks: Any, dialect: GeminiDialect = THIRD) -> ModelReply:
    """Return the reply that these chunks make."""
    fold = GeminiFold(dialect, ASKED)
    for each in chunks:
        fold.feed([payload(each)])
    return fold.finish()


def whole(value: Any, dialect: GeminiDialect = THIRD) -> ModelReply:
    """Return the reply that this body holds."""
    return decode_reply(payload(value), dialect, ASKED)


def asking(text: str = "hi", **fields: Any) -> ModelRequest:
    """Return a request with one user message."""
    return ModelRequest(messages=Thread([Message.user(text)]), **fields)


async def streamed(model: Gemini, request: ModelRequest | None = None) -> list[ModelDelta]:
    """Return all deltas of a stream."""
    return [item async for item in model.stream(request or asking())]


async def last(model: Gemini) -> ModelReply:
    """Return the reply at the end of a stream."""
    item = (await streamed(model))[-1]
    assert isinstance(item, ModelReply)
    return item
