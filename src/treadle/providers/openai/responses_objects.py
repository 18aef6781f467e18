"""Their replies and events, decoded: what matters of them, whatever its type."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec import Struct

from treadle.providers._json import cleaned, decode, decode_halves, is_deep
from treadle.values import is_array, is_object

Wire = dict[str, Any]


class WireResponse(Struct, gc=False):
    """A reply as far as it has come. The values of its fields are as they came, too."""

    id: Any = None
    model: Any = None
    status: Any = None
    error: Any = None
    incomplete_details: Any = None
    output: Any = None
    usage: Any = None


class WireEvent(Struct, gc=False):
    """One event of a stream. `output_index` and `item_id` say which item it is about."""

    type: str = ""
    output_index: int | None = None
    item_id: str | None = None
    content_index: int | None = None
    summary_index: int | None = None
    delta: Any = None
    item: Wire | None = None
    response: WireResponse | None = None
    text: Any = None
    refusal: Any = None
    arguments: Any = None
    input: Any = None
    code: Any = None
    annotation: Any = None
    error: Any = None
    message: Any = None

    @property
    def part_index(self) -> int:
        """Which part of its item an event is about."""
        return self.content_index or self.summary_index or 0


class TextDelta(Struct, gc=False):
    """An event that says nothing but more text, as most do."""

    type: Literal["response.output_text.delta"]
    output_index: int
    content_index: int
    delta: str
    error: None = None


decode_text = msgspec.json.Decoder(TextDelta).decode
"""Decode an event of text; any other is a `ValidationError`."""

decode_event = msgspec.json.Decoder(WireEvent).decode
"""Decode an event that is as documented; the text in it is clean but for NUL."""

INEXACT = (msgspec.DecodeError, RecursionError)
"""What the two raise."""

NUL = b"\\u0000"
_decode_response = msgspec.json.Decoder(WireResponse).decode


def is_exact(body: bytes) -> bool:
    """Whether what `decode_event` makes of a body may be kept: clean, and not too deep."""
    return NUL not in body and not is_deep(body)


def decode_response(body: bytes) -> WireResponse:
    """Return a reply with clean text.

    Raises:
        ValueError: it is no JSON object.
    """
    if is_exact(body):
        try:
            return _decode_response(body)
        except INEXACT:
            pass
    value: object = decode(body)
    if is_array(value) and len(value) == 1:
        value = value[0]
    response = _response_in(value)
    if response is None:
        raise ValueError("it is no JSON object")
    return response


def decode_loosely(payload: bytes) -> WireEvent:
    """Return an event; its `delta` may end in half a surrogate pair: the next brings the other.

    Raises:
        ValueError: it is no JSON object.
    """
    value: object = decode_halves(payload)
    if not is_object(value):
        raise ValueError("it is no JSON object")
    fields = {name: cleaned(value.get(name)) for name in WireEvent.__struct_fields__}
    fields["delta"] = value.get("delta")
    fields["response"] = _response_in(fields["response"])
    fields["type"] = text_in(fields["type"])
    fields["item_id"] = text_in(fields["item_id"]) or None
    fields["item"] = fields["item"] if is_object(fields["item"]) else None
    for name in ("output_index", "content_index", "summary_index"):
        fields[name] = count_in(fields[name]) if fields[name] is not None else None
    return WireEvent(**fields)


def decode_fields(payload: bytes) -> Wire:
    """Return everything that an event says, with clean text."""
    value: object = decode(payload)
    return value if is_object(value) else {}


def objects_in(value: object) -> list[Wire]:
    """Return the objects of a list; what is no list has none."""
    return [item for item in value if is_object(item)] if is_array(value) else []


def text_in(value: object) -> str:
    """Return a text, "" for anything else."""
    return value if isinstance(value, str) else ""


def count_in(value: object) -> int:
    """Return a count, 0 for anything else."""
    try:
        return int(value) if isinstance(value, int | float | str) else 0
    except (ValueError, OverflowError):
        return 0


def _response_in(value: object) -> WireResponse | None:
    if not is_object(value):
        return None
    return WireResponse(**{name: value.get(name) for name in WireResponse.__struct_fields__})
