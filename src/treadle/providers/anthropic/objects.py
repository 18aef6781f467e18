"""Their reply objects, decoded: at once when they are as documented, loosely when they are not."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw, Struct

from treadle.providers._counts import tokens
from treadle.providers._json import cleaned, decode, decode_halves, encode, shallow
from treadle.values import clean, is_array, is_object

Wire = dict[str, Any]


class WireUsage(Struct, gc=False):
    """Token counts: what was read from a cache, written to it and read anew is counted apart."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    thinking_tokens: int | None = None


class WireBlock(Struct, gc=False):
    """A content block; `raw` is its input as it was written, where it has one."""

    fields: Wire
    raw: str | None = None


class WireMessage(Struct, gc=False):
    """A whole reply, or what a stream said of it so far beside its content."""

    id: str | None = None
    model: str | None = None
    blocks: list[WireBlock] = msgspec.field(default_factory=list[WireBlock])
    stop_reason: str | None = None
    usage: WireUsage | None = None
    container: str | None = None
    told: Wire = msgspec.field(default_factory=dict[str, Any])


class TextDelta(Struct, tag_field="type", tag="text_delta", gc=False):
    """More text."""

    text: str


class ThinkingDelta(Struct, tag_field="type", tag="thinking_delta", gc=False):
    """More of a thought."""

    thinking: str


class InputDelta(Struct, tag_field="type", tag="input_json_delta", gc=False):
    """More of a call's input: a piece of its JSON."""

    partial_json: str


class BlockDelta(Struct, tag_field="type", tag="content_block_delta", gc=False):
    """An event that adds to a block, as most do."""

    delta: TextDelta | ThinkingDelta | InputDelta
    index: int


class _Content(Struct, gc=False):
    content: list[Raw]


class _Input(Struct, gc=False):
    input: Raw


INEXACT = (msgspec.DecodeError, RecursionError)
"""What `decode_delta` raises."""

decode_delta = msgspec.json.Decoder(BlockDelta).decode
"""Decode an event that adds text, thought or input; any other event is a `ValidationError`."""

_decode_content = msgspec.json.Decoder(_Content).decode
_decode_input = msgspec.json.Decoder(_Input).decode
_TOLD = (
    "stop_sequence",
    "stop_details",
    "container",
    "context_management",
    "input_transformations",
)


def decode_message(body: bytes) -> tuple[WireMessage, Wire]:
    """Return a whole reply with clean text, and the object that it was decoded from.

    Raises:
        ValueError: it is no JSON object, or its content is of no known type.
    """
    body = shallow(body)
    decoded = decode(body)
    if is_array(decoded) and len(decoded) == 1:
        decoded = decoded[0]
    if not is_object(decoded):
        raise ValueError("it is no JSON object")
    message = read_message(decoded)
    try:
        inputs = [_input(bytes(raw)) for raw in _decode_content(body).content]
    except INEXACT:
        return message, decoded
    if len(inputs) == len(message.blocks):
        for block, raw in zip(message.blocks, inputs, strict=True):
            block.raw = raw
    return message, decoded


def decode_event(payload: bytes) -> Wire | None:
    """Return an event; half surrogate pairs stay, for the next event may bring the others.

    None when it is blank.

    Raises:
        ValueError: it is no JSON object.
    """
    if not payload.strip():
        return None
    event: object = decode_halves(payload)
    if not is_object(event):
        raise ValueError("it is no JSON object")
    return event


def read_message(wire: Wire) -> WireMessage:
    """Return a message; fields of a type that they cannot have count as absent.

    Raises:
        ValueError: its content is of no known type.
    """
    message = WireMessage(id=text_in(wire, "id"), model=text_in(wire, "model"))
    message.blocks = [WireBlock(block) for block in _blocks(wire.get("content"))]
    take_end(message, wire)
    message.usage = read_usage(wire.get("usage"), None)
    return message


def take_end(message: WireMessage, wire: Wire) -> None:
    """Put what an object says of how a message ended into it."""
    message.stop_reason = clean(text_in(wire, "stop_reason") or "") or message.stop_reason
    container = wire.get("container")
    if is_object(container):
        message.container = clean(text_in(container, "id") or "") or message.container
    for name in _TOLD:
        if wire.get(name):
            message.told[name] = cleaned(wire[name])


def read_usage(wire: object, known: WireUsage | None) -> WireUsage | None:
    """Return counts; later ones are totals, and what they leave out is as it was."""
    if not is_object(wire):
        return known
    known = known or WireUsage()
    details, written = wire.get("output_tokens_details"), wire.get("cache_creation_input_tokens")
    if written is None and is_object(wire.get("cache_creation")):
        counts = [tokens(value) or 0 for value in wire["cache_creation"].values()]
        written = sum(counts)
    thought = details.get("thinking_tokens") if is_object(details) else None
    return WireUsage(
        _latest(wire.get("input_tokens"), known.input_tokens),
        _latest(wire.get("output_tokens"), known.output_tokens),
        _latest(wire.get("cache_read_input_tokens"), known.cache_read_input_tokens),
        _latest(written, known.cache_creation_input_tokens),
        _latest(thought, known.thinking_tokens),
    )


def text_in(wire: Wire, name: str) -> str | None:
    """Return a field that is a text, None when it is anything else."""
    value = wire.get(name)
    return value if isinstance(value, str) else None


def _blocks(content: object) -> list[Wire]:
    """Return content; counted as absent, a wrong type of it would be an empty answer."""
    if content is None:
        return []
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    items = [content] if is_object(content) else content
    if not is_array(items):
        raise ValueError(f"`content` is no list but {encode(content).decode()[:40]}")
    return [
        {"type": "text", "text": item} if isinstance(item, str) else item
        for item in items
        if isinstance(item, str) or is_object(item)
    ]


def _input(block: bytes) -> str | None:
    try:
        return bytes(_decode_input(block).input).decode("utf-8", "replace")
    except INEXACT:
        return None


def _latest(value: object, known: int | None) -> int | None:
    count = tokens(value)
    return known if count is None else count
