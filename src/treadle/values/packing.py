"""Packing: from any value that can be stored to its plain form.

What JSON has is itself. Everything else is a dict with the key "$", which names its type; a dict
of the user's that has that key, or keys that are no clean text, is stored as a list of pairs.
"""

from __future__ import annotations

import sys
from base64 import b64encode
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from math import isfinite
from pathlib import Path, PurePath, PurePosixPath, PureWindowsPath
from typing import Any
from uuid import UUID

from msgspec import UnsetType

from treadle.errors import NotStorable
from treadle.values.declared import can_declare, declaration
from treadle.values.plain import (
    LARGEST_INT,
    MAX_DEPTH,
    SMALLEST_INT,
    TAG,
    Misfit,
    Plain,
    TooDeep,
    described,
    key_step,
)
from treadle.values.text import is_clean


def pack(value: object, path: str = "value") -> Plain:
    """Return the plain form of a value: fresh containers of what JSON carries without loss.

    Strings, booleans, None, finite floats, lists, dicts with string keys and integers of 64 bits
    are themselves. Tagged are larger integers, nan and the infinities, bytes, tuple, set,
    frozenset, datetime, date, time, timedelta, Decimal, UUID, paths, dicts with other keys, and
    instances of declared classes (see `register`). Text with NUL or lone surrogates is kept
    byte for byte in a form that holds neither.

    Args:
        value: The value.
        path: What to call it in an error.

    Raises:
        NotStorable: it, or something in it, cannot come back equal and of the same type.
    """
    try:
        return _PACKERS.get(type(value), _pack_declared)(value, 0)
    except Misfit as misfit:
        place = misfit.path(path)
        raise NotStorable(f"Cannot store {place}: {misfit.reason}.") from misfit.__cause__
    except RuntimeError as error:  # the stack is used up, or another thread changes the value
        raise NotStorable(f"Cannot store {path}: {error}.") from error


def _same(value: Any, _depth: int) -> Plain:
    return value


def _pack_str(value: str, _depth: int) -> Plain:
    if value.isascii() and "\0" not in value:
        return value
    if is_clean(value):
        return value
    return {TAG: "str", "v": b64encode(value.encode("utf-8", "surrogatepass")).decode("ascii")}


def _pack_int(value: int, _depth: int) -> Plain:
    if SMALLEST_INT <= value <= LARGEST_INT:
        return value
    return {TAG: "int", "v": hex(value)}  # decimal text is slow and limited to 4,300 digits


def _pack_float(value: float, _depth: int) -> Plain:
    return value if isfinite(value) else {TAG: "float", "v": repr(value)}


def _pack_list(value: Any, depth: int) -> list[Plain]:
    if depth >= MAX_DEPTH:
        raise TooDeep()
    find, inner = _PACKERS.get, depth + 1
    packed: list[Plain] = []
    item: object = None
    try:
        for item in value:
            packed.append(find(type(item), _pack_declared)(item, inner))
    except Misfit as misfit:
        misfit.at(f"[{len(packed)}]", item)
        raise
    return packed


def _pack_dict(value: dict[object, object], depth: int) -> Plain:
    if depth >= MAX_DEPTH:
        raise TooDeep()
    find, inner = _PACKERS.get, depth + 1
    packed: dict[str, Plain] = {}
    key = item = None
    try:
        for key, item in value.items():
            if type(key) is not str or key == TAG:
                break
            if not (key.isascii() and "\0" not in key) and not is_clean(key):  # most: no call
                break
            packed[key] = find(type(item), _pack_declared)(item, inner)
        else:
            return packed
    except Misfit as misfit:
        misfit.at(key_step(key), item)
        raise
    return _pack_pairs(value, inner)


def _pack_pairs(value: dict[object, object], inner: int) -> Plain:
    find = _PACKERS.get
    pairs: list[Plain] = []
    key, item, in_key = None, None, True
    try:
        for key, item in value.items():
            in_key = True
            packed_key = find(type(key), _pack_declared)(key, inner)
            in_key = False
            pairs.append([packed_key, find(type(item), _pack_declared)(item, inner)])
    except Misfit as misfit:
        misfit.at(" (a key)" if in_key else key_step(key), key if in_key else item)
        raise
    return {TAG: "dict", "v": pairs}


def _pack_tuple(value: tuple[object, ...], depth: int) -> Plain:
    return {TAG: "tuple", "v": _pack_list(value, depth)}


def _pack_set(value: set[object] | frozenset[object], depth: int) -> Plain:
    return {TAG: type(value).__name__, "v": _pack_list(value, depth)}


def _pack_declared(value: object, depth: int) -> Plain:
    declared = declaration(type(value))
    if declared is None:
        raise Misfit(_refusal(value))
    if depth >= MAX_DEPTH:
        raise TooDeep()
    find, inner = _PACKERS.get, depth + 1
    taken: dict[str, object] = declared.shape.take(value)
    fields: dict[str, Plain] = {}
    name = item = None
    try:
        for name, item in taken.items():
            fields[name] = find(type(item), _pack_declared)(item, inner)
    except Misfit as misfit:
        misfit.at(f".{name}", item)
        raise
    return {TAG: "type", "of": declared.name, "v": fields}


def _pack_bytes(value: bytes, _depth: int) -> Plain:
    return {TAG: "bytes", "v": b64encode(value).decode("ascii")}


def _pack_decimal(value: Decimal, _depth: int) -> Plain:
    return {TAG: "decimal", "v": str(value)}


def _pack_uuid(value: UUID, _depth: int) -> Plain:
    return {TAG: "uuid", "v": str(value)}


def _pack_path(value: PurePath, depth: int) -> Plain:
    return {TAG: "path", "of": type(value).__name__, "v": _pack_str(str(value), depth)}


def _pack_unset(_value: UnsetType, _depth: int) -> Plain:
    return {TAG: "unset"}


def _pack_date(value: date, _depth: int) -> Plain:
    return {TAG: "date", "v": value.isoformat()}


def _pack_timedelta(value: timedelta, _depth: int) -> Plain:
    return {TAG: "timedelta", "v": _timedelta_parts(value)}


def _pack_datetime(value: datetime, _depth: int) -> Plain:
    naive = value.replace(tzinfo=None, fold=0)
    return _with_zone({TAG: "datetime", "v": naive.isoformat()}, value)


def _pack_time(value: time, _depth: int) -> Plain:
    naive = value.replace(tzinfo=None, fold=0)
    return _with_zone({TAG: "time", "v": naive.isoformat()}, value)


def _with_zone(packed: dict[str, Plain], value: datetime | time) -> Plain:
    if value.fold:
        packed["fold"] = value.fold
    if value.tzinfo is not None:
        packed["zone"] = _pack_zone(value.tzinfo)
    return packed


def _pack_zone(zone: tzinfo) -> Plain:
    """Return a zone's key, or a fixed offset: days, seconds, microseconds and, if any, its name."""
    if zone is UTC:
        return [0, 0, 0]
    if type(zone) is timezone:
        offset, name = zone.utcoffset(None), zone.tzname(None)
        packed = _timedelta_parts(offset)
        return packed if name == timezone(offset).tzname(None) else [*packed, name]
    key = getattr(zone, "key", None)
    region = getattr(sys.modules.get("zoneinfo"), "ZoneInfo", None)  # loaded, if this is one
    if type(zone) is region and type(key) is str:
        return key
    raise Misfit(
        f"its time zone is {described(zone)}, which has no lasting name; "
        "use zoneinfo.ZoneInfo(key) or datetime.timezone"
    )


def _timedelta_parts(value: timedelta) -> list[Plain]:
    return [value.days, value.seconds, value.microseconds]


def _refusal(value: object) -> str:
    name = described(value)
    if can_declare(type(value)):
        return (
            f"{name} is not declared here; put @treadle.register on the class, "
            "or use it in a tool's signature"
        )
    for plain_kind in (dict, list, tuple, set, frozenset, str, int, float, bytes, datetime, date):
        if isinstance(value, plain_kind):
            known = plain_kind.__name__
            return f"{name} would come back as {known}; store {known}(...) or a declared class"
    return (
        f"{name} has no lossless stored form; store numbers, text, bytes, times, lists, dicts, "
        "sets, or classes declared with treadle.register"
    )


_PACKERS: dict[type, Callable[[Any, int], Plain]] = {
    str: _pack_str,
    int: _pack_int,
    bool: _same,
    type(None): _same,
    float: _pack_float,
    list: _pack_list,
    dict: _pack_dict,
    tuple: _pack_tuple,
    set: _pack_set,
    frozenset: _pack_set,
    bytes: _pack_bytes,
    datetime: _pack_datetime,
    date: _pack_date,
    time: _pack_time,
    timedelta: _pack_timedelta,
    Decimal: _pack_decimal,
    UUID: _pack_uuid,
    UnsetType: _pack_unset,
    **dict.fromkeys({PurePosixPath, PureWindowsPath, type(Path()), type(PurePath())}, _pack_path),
}
