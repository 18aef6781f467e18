"""About how many tokens a request has."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, assert_never

import msgspec
from msgspec import Struct

from treadle.messages import (
    Audio,
    File,
    Hosted,
    Image,
    Message,
    Part,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
)
from treadle.models.estimate_media import BYTES_PER_TOKEN, tokens_of
from treadle.ports.model import ModelRequest, ToolSpec

_FRAME = 4 * BYTES_PER_TOKEN
"""Bytes of what stands around each message."""
_KEY = "treadle.models.estimate"


class _Counted(Struct, frozen=True):
    """What was counted of a thread's first messages, and of the tools that came with it."""

    count: int = 0
    size: int = 0
    media: int = 0
    tools: tuple[ToolSpec, ...] = ()
    tools_size: int = 0


def estimate_input(request: ModelRequest) -> int:
    """Return about how many tokens a request has, never too few for common text and media.

    Everything that may be sent counts, by its bytes: text of any kind, reasoning and its proofs,
    what providers want back, tools and schemas. Media count as `estimate_media` says. What was
    counted of the messages is kept in `Thread.encoded`, so a turn costs what is new.
    """
    counted = _counted(request)
    size = counted.size + counted.tools_size + _bytes(request.system)
    if request.output is not None:
        size += _bytes(request.output.name) + _bytes_as_json(request.output.schema)
    if request.settings.extra_body:
        size += _bytes_as_json(request.settings.extra_body)
    return size // BYTES_PER_TOKEN + counted.media


def _counted(request: ModelRequest) -> _Counted:
    thread, tools = request.messages, request.tools
    known = thread.encoded.get(_KEY)
    if not isinstance(known, _Counted) or known.count > len(thread):
        known = _Counted()
    if known.count == len(thread) and known.tools is tools:
        return known
    size, media = _sum(thread[known.count :])
    tools_size = known.tools_size if known.tools is tools else sum(map(_bytes_as_json, tools))
    known = _Counted(len(thread), known.size + size, known.media + media, tools, tools_size)
    thread.encoded[_KEY] = known
    return known


def _sum(messages: Iterable[Message]) -> tuple[int, int]:
    """Return the bytes and the tokens of media in messages."""
    size = media = 0
    for message in messages:
        size += _FRAME + _opaque(message.provider)
        for part in message.parts:
            bytes_of_part, tokens = _part(part)
            size += bytes_of_part
            media += tokens
    return size, media


def _part(part: Part) -> tuple[int, int]:
    """Return the bytes that count as text, and the tokens of media."""
    match part:
        case Text():
            size = _bytes(part.text) + _opaque(part.provider)
            return size + (_bytes_as_json(part.citations) if part.citations else 0), 0
        case ToolCall():
            return _bytes(part.raw) + _bytes(part.name) + _opaque(part.provider), 0
        case ToolResult():
            size, media = _opaque(part.provider), 0
            for item in part.parts:
                bytes_of_item, tokens = _part(item)
                size += bytes_of_item
                media += tokens
            return size, media
        case Reasoning():
            proofs = _bytes(part.signature or "") + _bytes(part.redacted or "")
            return _bytes(part.text) + proofs + _opaque(part.provider), 0
        case Hosted():
            return _bytes(part.name) + _opaque(part.provider), 0
        case Image():
            return _opaque(part.provider), tokens_of(part)
        case Audio():
            return _bytes(part.transcript or "") + _opaque(part.provider), tokens_of(part)
        case File():
            return _bytes(part.name or "") + _opaque(part.provider), tokens_of(part)
        case _:
            assert_never(part)


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _opaque(provider: dict[str, Any] | None) -> int:
    return _bytes_as_json(provider) if provider else 0


def _bytes_as_json(value: object) -> int:
    try:
        return len(msgspec.json.encode(value))
    except UnicodeEncodeError:  # half a pair of surrogates: escaped, it is longer than it will be
        return len(json.dumps(msgspec.to_builtins(value)))
