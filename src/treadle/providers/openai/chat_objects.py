"""Their reply objects, decoded: at once when they are as documented, loosely when they are not."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import Any, Literal

import msgspec
from msgspec import Struct

from treadle.providers._counts import money, tokens
from treadle.providers._json import cleaned, decode, decode_halves, encode, is_deep
from treadle.values import is_array, is_object


class WireFunction(Struct, gc=False):
    """The name and arguments of a call, or a piece of them."""

    name: str | None = None
    arguments: str | dict[str, Any] | None = None


class WireCall(Struct, gc=False):
    """One tool call, or a piece of one."""

    index: int | None = None
    id: str | None = None
    type: str | None = None
    function: WireFunction | None = None
    custom: dict[str, Any] | None = None
    extra_content: dict[str, Any] | None = None


class WireMessage(Struct, gc=False):
    """An assistant message, or a piece of one."""

    content: str | list[Any] | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    reasoning_details: list[dict[str, Any]] | None = None
    refusal: str | None = None
    tool_calls: list[WireCall] | None = None
    function_call: WireFunction | None = None
    annotations: list[Any] | None = None
    extra_content: dict[str, Any] | None = None
    audio: dict[str, Any] | None = None
    images: list[Any] | None = None
    executed_tools: list[Any] | None = None


class WireDetails(Struct, gc=False):
    """What kinds of tokens there were among those counted."""

    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None


class WireUsage(Struct, gc=False):
    """Token counts, in the spellings of the servers we know."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None
    prompt_tokens_details: WireDetails | None = None
    completion_tokens_details: WireDetails | None = None
    prompt_cache_hit_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    num_cached_tokens: int | None = None
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None
    cost: Decimal | None = None


class WireChoice(Struct, gc=False):
    """One answer: whole in `message`, or a piece of it in `delta`."""

    delta: WireMessage | None = None
    finish_reason: str | None = None
    index: int | None = None
    message: WireMessage | None = None
    usage: WireUsage | None = None
    error: Any = None


class WireGroq(Struct, gc=False):
    """Groq's own part of a chunk."""

    usage: WireUsage | None = None


class WireReply(Struct, gc=False):
    """A whole reply, or one chunk of a streamed one."""

    choices: list[WireChoice] | None = None
    usage: WireUsage | None = None
    id: str | None = None
    model: str | None = None
    error: Any = None
    x_groq: WireGroq | None = None


class _TextDelta(Struct, gc=False):
    content: str
    reasoning_content: None = None
    reasoning: None = None
    reasoning_details: None = None
    refusal: Literal[""] | None = None
    tool_calls: None = None
    function_call: None = None
    annotations: None = None
    extra_content: None = None
    audio: None = None
    images: None = None
    executed_tools: None = None


class _TextChoice(Struct, gc=False):
    delta: _TextDelta
    finish_reason: None = None
    index: Literal[0] = 0
    usage: None = None
    error: None = None


class TextChunk(Struct, gc=False):
    """A chunk that says nothing but text, as most do."""

    choices: list[_TextChoice]
    usage: None = None
    error: None = None
    x_groq: None = None


decode_text = msgspec.json.Decoder(TextChunk).decode
"""Decode a chunk of text; anything else it may say is a `ValidationError`."""

decode_exactly = msgspec.json.Decoder(WireReply).decode
"""Decode a reply or chunk that is as documented; the text in it is clean but for NUL."""

NUL = b"\\u0000"
_BLOCK = {"text", "thinking"}
_CALL = {"function", "custom"}


def is_exact(body: bytes) -> bool:
    """Whether what `decode_exactly` makes of a body may be kept: clean, and not too deep."""
    return NUL not in body and not is_deep(body)


def decode_object(body: bytes) -> WireReply:
    """Return a reply with clean text; fields of a type that they cannot have count as absent.

    Raises:
        ValueError: it is no JSON object, or its content or tool calls are of no known type.
    """
    if is_exact(body):
        try:
            return decode_exactly(body)
        except INEXACT:
            pass
    return _reply_in(decode(body))


def decode_loosely(body: bytes) -> WireReply:
    """Like `decode_object`, but half surrogate pairs stay: the next chunk may bring the others.

    Raises:
        ValueError: as `decode_object` does.
    """
    return _reply_in(decode_halves(body))


def clean_message(message: WireMessage) -> WireMessage:
    """Return a message with clean text in every place."""
    return _loosened(WireMessage, cleaned(msgspec.to_builtins(message)))


INEXACT = (msgspec.DecodeError, RecursionError, InvalidOperation)
"""What `decode_exactly` raises."""


def _reply_in(value: object) -> WireReply:
    if is_array(value) and len(value) == 1:  # Gemini's errors come in a list
        value = value[0]
    if not is_object(value):
        raise ValueError("it is no JSON object")
    return _loosened(WireReply, value)


def _loosened(shape: type[Any], value: object) -> Any:
    """Return a Struct of that shape from any decoded value, None when it is no object."""
    if not is_object(value):
        return None
    coercers = _COERCERS[shape]
    return shape(**{name: coerce(value.get(name)) for name, coerce in coercers.items()})


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


def _mapping(value: object) -> dict[str, Any] | None:
    return value if is_object(value) else None


def _content(value: object) -> str | list[Any] | None:
    """Return content; counted as absent, a wrong type of it would be an empty answer."""
    if value is None or isinstance(value, str) or is_array(value):
        return value
    if is_object(value) and not _BLOCK.isdisjoint(value):  # one block stands for a list of one
        return [value]
    raise ValueError(f"`content` is neither text, a list nor null but {_shown(value)}")


def _calls(value: object) -> list[WireCall] | None:
    """Return tool calls; counted as absent, a wrong type of them would be an empty answer."""
    if value is None:
        return None
    items = [value] if is_object(value) and not _CALL.isdisjoint(value) else value
    if not is_array(items):
        raise ValueError(f"`tool_calls` is no list but {_shown(value)}")
    for item in items:
        if item is not None and not is_object(item):
            raise ValueError(f"a tool call is no object but {_shown(item)}")
    return [_loosened(WireCall, item) for item in items if item is not None]


def _shown(value: object) -> str:
    return encode(value).decode()[:40]


def _arguments(value: object) -> str | dict[str, Any] | None:
    if is_object(value) or isinstance(value, str):
        return value
    return None if value is None else encode(value).decode()


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
    WireFunction: {"name": _text, "arguments": _arguments},
    WireCall: {
        "index": _count,
        "id": _text,
        "type": _text,
        "function": _one(WireFunction),
        "custom": _mapping,
        "extra_content": _mapping,
    },
    WireMessage: {
        "content": _content,
        "reasoning_content": _text,
        "reasoning": _text,
        "reasoning_details": _list_of(_mapping),
        "refusal": _text,
        "tool_calls": _calls,
        "function_call": _one(WireFunction),
        "annotations": _list_of(_same),
        "extra_content": _mapping,
        "audio": _mapping,
        "images": _list_of(_same),
        "executed_tools": _list_of(_same),
    },
    WireDetails: dict.fromkeys(WireDetails.__struct_fields__, tokens),
    WireUsage: {
        **dict.fromkeys(WireUsage.__struct_fields__, tokens),
        "prompt_tokens_details": _one(WireDetails),
        "completion_tokens_details": _one(WireDetails),
        "cost": money,
    },
    WireChoice: {
        "delta": _one(WireMessage),
        "finish_reason": _text,
        "index": _count,
        "message": _one(WireMessage),
        "usage": _one(WireUsage),
        "error": _same,
    },
    WireGroq: {"usage": _one(WireUsage)},
    WireReply: {
        "choices": _list_of(_one(WireChoice)),
        "usage": _one(WireUsage),
        "id": _text,
        "model": _text,
        "error": _same,
        "x_groq": _one(WireGroq),
    },
}
