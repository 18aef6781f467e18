"""Unpacking: from the plain form back to the value, in its own type.

Nothing is imported, called or evaluated by a name that stands in the data: a name only ever picks
one of the readers below or a class that was declared in this process.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from importlib import import_module
from pathlib import Path, PurePath, PurePosixPath, PureWindowsPath
from typing import Any
from uuid import UUID

from msgspec import UNSET

from treadle.errors import CorruptJournal, UnknownType
from treadle.values.declared import Declared, declaration, declared_type
from treadle.values.plain import (
    MAX_DEPTH,
    TAG,
    Misfit,
    Plain,
    TooDeep,
    Unknown,
    described,
    key_step,
    type_label,
)
from treadle.values.shapes import Unfit

_ATOMS = frozenset({str, int, bool, float, type(None)})
_BROKEN = (LookupError, TypeError, ValueError, ArithmeticError, AttributeError)


def unpack(plain: Plain, path: str = "value") -> Any:
    """Return the value that `pack` made this plain form of: equal, of the same type, and a new one.

    Args:
        plain: The plain form, as it was read.
        path: What to call it in an error.

    Raises:
        UnknownType: a class in it is not declared here, or what is stored no longer fits it.
        CorruptJournal: `pack` cannot have made it.
    """
    if type(plain) in _ATOMS:
        return plain
    try:
        return _unpack(plain, 0)
    except Unknown as unknown:
        place = unknown.path(path)
        raise UnknownType(
            f"Cannot read {place}: {unknown.reason}.",
            type_name=unknown.type_name,
            path=place,
            raw=unknown.raw,
        ) from unknown.__cause__
    except Misfit as misfit:
        raise CorruptJournal(
            f"Cannot read {misfit.path(path)}: {misfit.reason}."
        ) from misfit.__cause__


def _unpack(plain: Any, depth: int) -> Any:
    kind = plain.__class__
    if kind in _ATOMS:
        return plain
    if kind is list:
        return _unpack_list(plain, depth)
    if kind is not dict:
        raise Misfit(f"{described(plain)} is not of the plain form")
    if TAG not in plain:
        return _unpack_dict(plain, depth)
    read = _reader(plain)
    try:
        return read(plain, depth)
    except _BROKEN as error:
        raise Misfit(f"what is stored is no {plain[TAG]}: {error}") from error


def _reader(plain: dict[str, Any]) -> Callable[[Any, int], Any]:
    tag = plain[TAG]
    read = _READERS.get(tag) if type(tag) is str else None
    if read is None:
        reason = f"the stored type {tag!r} is unknown here; a newer version may have written it"
        raise Unknown(reason, type_name=str(tag), raw=plain)
    return read


def _unpack_list(plain: Any, depth: int) -> list[Any]:
    if depth >= MAX_DEPTH:
        raise TooDeep()
    if plain.__class__ is not list:
        raise TypeError(f"a list is expected, not {described(plain)}")
    inner = depth + 1
    items: list[Any] = []
    item: Any = None
    try:
        for item in plain:
            items.append(item if type(item) in _ATOMS else _unpack(item, inner))
    except Misfit as misfit:
        misfit.at(f"[{len(items)}]", item)
        raise
    return items


def _unpack_dict(plain: dict[str, Any], depth: int) -> dict[str, Any]:
    if depth >= MAX_DEPTH:
        raise TooDeep()
    inner = depth + 1
    items: dict[str, Any] = {}
    key = item = None
    try:
        for key, item in plain.items():
            items[key] = item if type(item) in _ATOMS else _unpack(item, inner)
    except Misfit as misfit:
        misfit.at(key_step(key), item)
        raise
    return items


def _unpack_pairs(plain: Any, depth: int) -> dict[Any, Any]:
    if depth >= MAX_DEPTH:
        raise TooDeep()
    inner = depth + 1
    items: dict[Any, Any] = {}
    key, item, in_key = None, None, True
    try:
        for key, item in plain["v"]:
            in_key = True
            read_key = _unpack(key, inner)
            in_key = False
            items[read_key] = _unpack(item, inner)
    except Misfit as misfit:
        misfit.at(" (a key)" if in_key else key_step(key), key if in_key else item)
        raise
    return items


def _unpack_declared(plain: Any, depth: int) -> object:
    if depth >= MAX_DEPTH:
        raise TooDeep()
    kind, declared = _declaration_of(plain)
    fields: dict[str, Any] = {}
    name = item = None
    try:
        for name, item in plain["v"].items():
            fields[name] = _unpack(item, depth + 1)
    except Misfit as misfit:
        misfit.at(f".{name}", item)
        raise
    try:
        return declared.shape.build(kind, fields)
    except (Unfit, *_BROKEN) as error:
        reason = f"what is stored does not fit {type_label(kind)} any more: {error}"
        raise Unknown(reason, type_name=declared.name, raw=plain) from error


def _declaration_of(plain: Any) -> tuple[type, Declared]:
    name = plain["of"]
    kind = declared_type(name)
    declared = None if kind is None else declaration(kind)
    if kind is None or declared is None:
        reason = (
            f"the type {name!r} is not declared in this process; import its module, and give a "
            f"renamed or moved class its old name with treadle.register(..., name={name!r})"
        )
        raise Unknown(reason, type_name=name, raw=plain)
    return kind, declared


def _unpack_datetime(plain: Any, _depth: int) -> datetime:
    read = datetime.fromisoformat(plain["v"])
    return read.replace(tzinfo=_zone(plain), fold=plain.get("fold", 0))


def _unpack_time(plain: Any, _depth: int) -> time:
    return time.fromisoformat(plain["v"]).replace(tzinfo=_zone(plain), fold=plain.get("fold", 0))


def _zone(plain: Any) -> tzinfo | None:
    stored = plain.get("zone")
    if stored is None:
        return None
    if stored == [0, 0, 0]:
        return UTC
    if stored.__class__ is list:
        return timezone(timedelta(*stored[:3]), *stored[3:])
    if not _ZONE_KEY.fullmatch(stored):
        raise ValueError(f"{stored!r} is not the key of a time zone")
    try:
        return import_module("zoneinfo").ZoneInfo(stored)
    except (LookupError, ValueError, OSError) as error:
        reason = f"the time zone {stored!r} is not on this machine; install the tzdata package"
        raise Unknown(reason, type_name=stored, raw=plain) from error


def _unpack_path(plain: Any, depth: int) -> PurePath:
    name = plain["of"]
    kind = _PATHS.get(name)
    if kind is None:
        raise Unknown(f"{name!r} is no path of this system", type_name=name, raw=plain)
    return kind(_unpack(plain["v"], depth))


def _unpack_bytes(plain: Any, _depth: int) -> bytes:
    return b64decode(plain["v"], validate=True)


def _unpack_str(plain: Any, _depth: int) -> str:
    return b64decode(plain["v"], validate=True).decode("utf-8", "surrogatepass")


def _unpack_unset(_plain: Any, _depth: int) -> object:
    return UNSET


_READERS: dict[str, Callable[[Any, int], Any]] = {
    "type": _unpack_declared,
    "dict": _unpack_pairs,
    "tuple": lambda plain, depth: tuple(_unpack_list(plain["v"], depth)),
    "set": lambda plain, depth: set(_unpack_list(plain["v"], depth)),
    "frozenset": lambda plain, depth: frozenset(_unpack_list(plain["v"], depth)),
    "str": _unpack_str,
    "int": lambda plain, _: int(plain["v"], 16),
    "float": lambda plain, _: float(plain["v"]),
    "bytes": _unpack_bytes,
    "datetime": _unpack_datetime,
    "date": lambda plain, _: date.fromisoformat(plain["v"]),
    "time": _unpack_time,
    "timedelta": lambda plain, _: timedelta(*plain["v"]),
    "decimal": lambda plain, _: Decimal(plain["v"]),
    "uuid": lambda plain, _: UUID(plain["v"]),
    "path": _unpack_path,
    "unset": _unpack_unset,
}
_PATHS: dict[str, type[PurePath]] = {
    kind.__name__: kind for kind in (PurePosixPath, PureWindowsPath, type(Path()))
}
_ZONE_KEY = re.compile(r"[A-Za-z0-9_+-]{1,32}(/[A-Za-z0-9_+-]{1,32}){0,3}")
