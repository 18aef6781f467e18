"""The commonest messages, encoded straight from their parts: as by `responses_wire`."""

from __future__ import annotations

from msgspec import Struct

from treadle.messages import Message, Text, ToolCall, ToolResult
from treadle.providers._json import arguments_json, encode
from treadle.providers.openai.chat_wire import NAMELESS
from treadle.providers.openai.responses_calls import Calls
from treadle.providers.openai.responses_wire import sent_id


class _Said(Struct, gc=False):
    role: str
    content: str


class _Call(Struct, gc=False):
    type: str
    call_id: str
    name: str
    arguments: str


class _Answered(Struct, gc=False):
    type: str
    call_id: str
    output: str


def quick(message: Message, calls: Calls) -> bytes | None:
    """Return the message's items, each with a comma before it; None for anything uncommon.

    Common is: one text, calls of functions, results in text, all without opaque data.
    """
    if message.provider is not None:
        return None
    if message.role == "tool":
        return _answered(message, calls)
    if message.role == "assistant":
        return _said(message)
    part = message.parts[0] if len(message.parts) == 1 else None
    if isinstance(part, Text) and part.provider is None and part.text:
        return b"," + encode(_Said(message.role, part.text))
    return None


def _said(message: Message) -> bytes | None:
    items: list[bytes] = []
    after_text = False
    for part in message.parts:
        if isinstance(part, Text) and part.provider is None and not after_text:
            after_text = True
            if part.text.strip():
                items.append(b"," + encode(_Said("assistant", part.text)))
        elif isinstance(part, ToolCall) and part.provider is None:
            call = _Call(
                "function_call", sent_id(part.id), part.name or NAMELESS, arguments_json(part.raw)
            )
            items.append(b"," + encode(call))
        else:
            return None
    return b"".join(items)


def _answered(message: Message, calls: Calls) -> bytes | None:
    items: list[bytes] = []
    for part in message.parts:
        if not isinstance(part, ToolResult) or part.provider:
            return None
        if part.call_id in calls:
            return None
        texts: list[str] = []
        for item in part.parts:
            if not isinstance(item, Text) or item.provider is not None:
                return None
            texts.append(item.text)
        answer = _Answered("function_call_output", sent_id(part.call_id), "\n".join(texts))
        items.append(b"," + encode(answer))
    return b"".join(items)
