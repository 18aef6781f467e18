"""Gemini's reply objects, decoded: at once when they are as documented, loosely otherwise."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, Literal

import msgspec
from msgspec import Raw, Struct

from treadle.providers._counts import tokens
from treadle.providers._json import decode_halves, shallow
from treadle.providers.gemini.dialect import Wire
from treadle.values import is_array, is_object

ABSENT = Raw()
"""What a field of undecoded JSON holds when it is not there; msgspec takes no `Raw | None`."""


class WireUsage(Struct, gc=False, rename="camel"):
    """Token counts. Those of a stream's last chunk count: each is a total."""

    prompt_token_count: int | None = None
    cached_content_token_count: int | None = None
    candidates_token_count: int | None = None
    thoughts_token_count: int | None = None
    tool_use_prompt_token_count: int | None = None
    total_token_count: int | None = None


class WireContent(Struct, gc=False, rename="camel"):
    """What a candidate says; each part is still JSON, so that arguments stay as written."""

    parts: list[Raw] | None = None


class WireCandidate(Struct, gc=False, rename="camel"):
    """One answer, or a piece of one."""

    content: WireContent | None = None
    finish_reason: str | None = None
    index: int | None = None
    finish_message: str | None = None
    grounding_metadata: dict[str, Any] | None = None
    citation_metadata: dict[str, Any] | None = None
    url_context_metadata: dict[str, Any] | None = None
    safety_ratings: list[Any] | None = None
    logprobs_result: dict[str, Any] | None = None


class WireReply(Struct, gc=False, rename="camel"):
    """A whole reply, or one chunk of a streamed one."""

    candidates: list[WireCandidate] | None = None
    usage_metadata: WireUsage | None = None
    prompt_feedback: dict[str, Any] | None = None
    model_version: str | None = None
    response_id: str | None = None
    error: Any = None


class _TextPart(Struct, gc=False, rename="camel", forbid_unknown_fields=True):
    text: str
    thought: bool = False


class _TextContent(Struct, gc=False, rename="camel"):
    parts: tuple[_TextPart]


class _TextCandidate(Struct, gc=False, rename="camel"):
    content: _TextContent
    finish_reason: None = None
    index: Literal[0] = 0
    finish_message: None = None
    grounding_metadata: None = None
    citation_metadata: None = None
    url_context_metadata: None = None
    safety_ratings: None = None
    logprobs_result: None = None


class TextChunk(Struct, gc=False, rename="camel"):
    """A chunk that says nothing but one text, as most do; its counts are still JSON."""

    candidates: tuple[_TextCandidate]
    usage_metadata: Raw = ABSENT
    prompt_feedback: None = None
    error: None = None


class _Arguments(Struct, gc=False, rename="camel"):
    args: Raw = ABSENT


class _CallPart(Struct, gc=False, rename="camel"):
    function_call: _Arguments


decode_text = msgspec.json.Decoder(TextChunk).decode
"""Decode a chunk of text; anything else it may say is a `ValidationError`."""

decode_exactly = msgspec.json.Decoder(WireReply).decode
"""Decode a reply or chunk that is as documented."""

NUL = b"\\u0000"
INEXACT = (msgspec.DecodeError, RecursionError)
"""What `decode_exactly` raises."""

_BLANKS = re.compile(r'("(?:[^"\\]|\\.)*")|\s+')
_decode = msgspec.json.Decoder().decode
_decode_call = msgspec.json.Decoder(_CallPart).decode
_decode_usage = msgspec.json.Decoder(WireUsage).decode


def decode_chunk(body: bytes) -> WireReply:
    """Return a reply or chunk; fields of a type that they cannot have count as absent.

    Raises:
        ValueError: it is no JSON object.
    """
    body = shallow(body)
    try:
        return decode_exactly(body)
    except INEXACT:
        pass
    value: object = decode_halves(body)
    if not is_object(value):
        raise ValueError("it is no JSON object")
    return _loosened(WireReply, value)


def decode_part(raw: Raw) -> Wire:
    """Return one part of a content. The texts in it need not be clean.

    Raises:
        ValueError: it is no JSON after all.
    """
    try:
        part: object = _decode(raw)
    except INEXACT:
        part = decode_halves(bytes(raw))
    return part if is_object(part) else {"text": part} if isinstance(part, str) else {}


def arguments_of(raw: Raw) -> str | None:
    """Return the arguments of a call as they are written, without blanks between them."""
    try:
        arguments = _decode_call(raw).function_call.args
        if arguments is ABSENT:
            return None
        return _BLANKS.sub(lambda found: found[1] or "", bytes(arguments).decode())
    except (*INEXACT, UnicodeDecodeError):
        return None


def decode_usage(raw: Raw) -> WireUsage:
    """Return token counts, as far as they are counts."""
    try:
        return _decode_usage(raw)
    except INEXACT:
        pass
    try:
        return _loosened(WireUsage, decode_part(raw)) or WireUsage()
    except ValueError:
        return WireUsage()


def _loosened(shape: type[Any], value: object) -> Any:
    """Return a Struct of that shape from any decoded value, None when it is no object."""
    if not is_object(value):
        return None
    coercers, names = _COERCERS[shape], shape.__struct_encode_fields__
    return shape(
        *(coercers[name](value.get(key)) for name, key in zip(coercers, names, strict=True))
    )


def _same(value: Any) -> Any:
    return value


def _text(value: object) -> str | None:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    return value if isinstance(value, str) else None


def _count(value: object) -> int | None:
    try:
        return int(value) if isinstance(value, int | float | str) else None
    except (ValueError, OverflowError):
        return None


def _mapping(value: object) -> Wire | None:
    return value if is_object(value) else None


def _raw(value: object) -> Raw | None:
    return None if value is None else Raw(json.dumps(value).encode())


def _one(shape: type[Any]) -> Callable[[object], Any]:
    return lambda value: _loosened(shape, value)


def _list_of(coerce: Callable[[object], Any]) -> Callable[[object], list[Any] | None]:
    """Return a coercer of lists; a single object stands for a list of one."""

    def coerced(value: object) -> list[Any] | None:
        items = [value] if is_object(value) else value
        if not is_array(items):
            return None
        return [item for item in map(coerce, items) if item is not None]

    return coerced


_COERCERS: dict[type[Any], dict[str, Callable[[Any], Any]]] = {
    WireUsage: dict.fromkeys(WireUsage.__struct_fields__, tokens),
    WireContent: {"parts": _list_of(_raw)},
    WireCandidate: {
        "content": _one(WireContent),
        "finish_reason": _text,
        "index": _count,
        "finish_message": _text,
        "grounding_metadata": _mapping,
        "citation_metadata": _mapping,
        "url_context_metadata": _mapping,
        "safety_ratings": _list_of(_same),
        "logprobs_result": _mapping,
    },
    WireReply: {
        "candidates": _list_of(_one(WireCandidate)),
        "usage_metadata": _one(WireUsage),
        "prompt_feedback": _mapping,
        "model_version": _text,
        "response_id": _text,
        "error": _same,
    },
}
