"""The commonest messages, encoded straight from their parts: the same bytes as by `chat_wire`."""

from __future__ import annotations

from msgspec import Struct

from treadle.messages import Message, Text, ToolCall, ToolResult
from treadle.providers._json import arguments_json, encode
from treadle.providers.openai.chat_wire import NAMELESS, SHORT_ID, sent_id
from treadle.providers.openai.dialect import ChatDialect


class _Said(Struct, gc=False):
    role: str
    content: str


class _Function(Struct, gc=False):
    name: str
    arguments: str


class _Call(Struct, gc=False):
    id: str
    type: str
    function: _Function


class _Asked(Struct, gc=False):
    role: str
    content: str | None
    tool_calls: list[_Call]


class _Answered(Struct, gc=False):
    role: str
    tool_call_id: str
    content: str


def quick(message: Message, dialect: ChatDialect) -> bytes | None:
    """Return the message's objects, each with a comma before it; None for anything uncommon.

    Common is: text alone, text and calls, results in text, all without opaque data.
    """
    if message.provider is not None or dialect.call_ids == "nine":
        return None
    if message.role == "tool":
        return _answered(message, dialect)
    text = ""
    calls: list[_Call] = []
    for part in message.parts:
        if isinstance(part, Text) and part.provider is None:
            text += part.text
        elif isinstance(part, ToolCall) and part.provider is None:
            function = _Function(part.name or NAMELESS, arguments_json(part.raw))
            call_id = part.id if len(part.id) <= SHORT_ID else sent_id(part.id, dialect)
            calls.append(_Call(call_id, "function", function))
        else:
            return None
    if message.role == "assistant":
        if calls:
            return b"," + encode(_Asked("assistant", text if text.strip() else None, calls))
        return b"," + encode(_Said("assistant", text)) if text.strip() else None
    if calls or len(message.parts) != 1 or not text:
        return None
    return b"," + encode(_Said(message.role, text))


def _answered(message: Message, dialect: ChatDialect) -> bytes | None:
    objects: list[bytes] = []
    for part in message.parts:
        if not isinstance(part, ToolResult) or part.provider:
            return None
        texts: list[str] = []
        for item in part.parts:
            if not isinstance(item, Text) or item.provider is not None:
                return None
            texts.append(item.text)
        call_id = part.call_id if len(part.call_id) <= SHORT_ID else sent_id(part.call_id, dialect)
        objects.append(b"," + encode(_Answered("tool", call_id, "\n".join(texts))))
    return b"".join(objects)
