"""What a value looks like to a model: compact JSON text."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from math import isfinite, isinf
from pathlib import PurePath
from typing import Any
from uuid import UUID

import msgspec
from msgspec import UNSET, Struct

from treadle.errors import NotStorable
from treadle.values.models import dump_json, is_custom, is_model
from treadle.values.plain import (
    LARGEST_INT,
    MAX_DEPTH,
    SMALLEST_INT,
    Misfit,
    TooDeep,
    described,
    key_step,
)
from treadle.values.shapes import is_named_tuple
from treadle.values.text import clean

_encode = msgspec.json.Encoder().encode


def json_text(value: object, path: str = "result") -> str:
    """Return what a tool's result looks like to a model: text as it is, all else as compact JSON.

    Lists, tuples and sets (sorted) are arrays; dicts, dataclasses, named tuples, Structs and
    pydantic models are objects. Decimal (``"1.10"``), UUID, paths, dates and times (ISO 8601),
    durations (``"PT90S"``) and bytes (base64) are strings, an Enum is its value, None is ``null``.
    JSON has no nan and infinity: they are the strings ``"NaN"``, ``"Infinity"``, ``"-Infinity"``.

    Raises:
        NotStorable: it, or something in it, has no JSON form; the message names its place and type.
    """
    if isinstance(value, str) and not isinstance(value, Enum):
        return value
    try:
        rendered = _render(value, 0)
    except Misfit as misfit:
        place = misfit.path(path)
        raise NotStorable(f"No JSON for {place}: {misfit.reason}.") from misfit.__cause__
    except RuntimeError as error:  # the stack is used up, or another thread changes the value
        raise NotStorable(f"No JSON for {path}: {error}.") from error
    try:
        return _encode(rendered).decode()
    except UnicodeEncodeError:
        return _encode(_cleaned(rendered)).decode()


def _render(value: object, depth: int) -> Any:
    """Return what msgspec encodes as it is: JSON's own types, in fresh containers."""
    return _RENDERERS.get(type(value), _render_other)(value, depth)


def _same(value: Any, _depth: int) -> Any:
    return value


def _render_int(value: int, _depth: int) -> Any:
    if SMALLEST_INT <= value <= LARGEST_INT:
        return int(value)
    try:
        return msgspec.Raw(str(int(value)).encode())
    except ValueError as error:  # Python's own limit, 4,300 digits
        raise Misfit(f"an integer of {value.bit_length()} bits is too long to write") from error


def _render_float(value: float, _depth: int) -> Any:
    if isfinite(value):
        return float(value)
    return ("Infinity" if value > 0 else "-Infinity") if isinf(value) else "NaN"


def _render_list(value: Any, depth: int) -> list[Any]:
    if depth >= MAX_DEPTH:
        raise TooDeep()
    find, inner = _RENDERERS.get, depth + 1
    rendered: list[Any] = []
    item: object = None
    try:
        for item in value:
            rendered.append(find(type(item), _render_other)(item, inner))
    except Misfit as misfit:
        misfit.at(f"[{len(rendered)}]", item)
        raise
    return rendered


def _render_set(value: Any, depth: int) -> list[Any]:
    rendered = _render_list(value, depth)
    try:
        rendered.sort()
    except TypeError:
        rendered.sort(key=_encode)
    return rendered


def _render_dict(value: Mapping[Any, object], depth: int) -> dict[str, Any]:
    if depth >= MAX_DEPTH:
        raise TooDeep()
    find, inner = _RENDERERS.get, depth + 1
    rendered: dict[str, Any] = {}
    key = item = None
    try:
        for key, item in value.items():
            name = key if type(key) is str else _key_text(key, inner)
            rendered[name] = find(type(item), _render_other)(item, inner)
    except Misfit as misfit:
        misfit.at(key_step(key), item)
        raise
    if len(rendered) != len(value):
        raise Misfit("two of its keys have the same text")
    return rendered


def _key_text(key: object, depth: int) -> str:
    rendered = _render(key, depth)
    return rendered if type(rendered) is str else _encode(rendered).decode()


def _render_bytes(value: Any, _depth: int) -> str:
    return b64encode(value).decode("ascii")


def _render_iso(value: date | time, _depth: int) -> str:
    return value.isoformat()


def _render_timedelta(value: timedelta, _depth: int) -> str:
    return msgspec.to_builtins(value)


def _render_text(value: object, _depth: int) -> str:
    return str(value)


def _render_enum(value: Enum, depth: int) -> Any:
    return _render(value.value, depth)


def _render_struct(value: Any, depth: int) -> Any:
    """Return a Struct under its encoded names; what is UNSET is left out."""
    config = value.__struct_config__
    items = [getattr(value, name) for name in value.__struct_fields__]
    tag = [] if config.tag is None else [config.tag]
    if config.array_like:
        return _render_list([*tag, *items], depth)
    named = zip(value.__struct_encode_fields__, items, strict=True)
    fields_set = {name: item for name, item in named if item is not UNSET}
    return _render_dict({config.tag_field: config.tag, **fields_set} if tag else fields_set, depth)


def _render_dataclass(value: Any, depth: int) -> Any:
    return _render_dict({field.name: getattr(value, field.name) for field in fields(value)}, depth)


def _render_tuple(value: Any, depth: int) -> Any:
    if not is_named_tuple(value.__class__):
        return _render_list(value, depth)
    return _render_dict(dict(zip(value._fields, value, strict=True)), depth)


def _render_pydantic(value: Any, depth: int) -> Any:
    try:
        dumped = dump_json(value)
    except ValueError as error:
        raise Misfit(f"pydantic cannot write {described(value)}: {error}") from error
    return _render(dumped, depth)


def _render_other(value: object, depth: int) -> Any:
    """Render a value whose very type has no renderer: a subclass, or a class with fields."""
    for parent, renderer in _PARENTS:
        if isinstance(value, parent):
            return renderer(value, depth)
    kind = type(value)
    if is_dataclass(kind):
        return _render_dataclass(value, depth)
    if is_model(kind) or is_custom(kind):
        return _render_pydantic(value, depth)
    raise Misfit(
        f"{described(value)} has no JSON form; return text, numbers, lists, dicts, dataclasses, "
        "msgspec Structs or pydantic models"
    )


def _cleaned(rendered: Any) -> Any:
    """Return a rendered value without lone surrogates, which JSON text cannot carry."""
    kind = rendered.__class__
    if kind is str:
        return clean(rendered)
    if kind is list:
        return [_cleaned(item) for item in rendered]
    if kind is dict:
        return {clean(key): _cleaned(item) for key, item in rendered.items()}
    return rendered


_RENDERERS: dict[type, Callable[[Any, int], Any]] = {
    str: _same,
    bool: _same,
    type(None): _same,
    int: _render_int,
    float: _render_float,
    list: _render_list,
    dict: _render_dict,
    tuple: _render_list,
    set: _render_set,
    frozenset: _render_set,
    bytes: _render_bytes,
    datetime: _render_iso,
    date: _render_iso,
    time: _render_iso,
    timedelta: _render_timedelta,
    Decimal: _render_text,
    UUID: _render_text,
}
_PARENTS: tuple[tuple[type, Callable[[Any, int], Any]], ...] = (
    (Enum, _render_enum),
    (Struct, _render_struct),
    (str, lambda value, _: str.__str__(value)),
    (int, _render_int),
    (float, _render_float),
    (dict, _render_dict),
    (list, _render_list),
    (tuple, _render_tuple),
    (set, _render_set),
    (frozenset, _render_set),
    (bytes, _render_bytes),
    (bytearray, _render_bytes),
    (date, _render_iso),
    (time, _render_iso),
    (timedelta, _render_timedelta),
    (Decimal, _render_text),
    (UUID, _render_text),
    (PurePath, _render_text),
)
