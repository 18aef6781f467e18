"""How each kind of declared class is taken apart into fields and put together again.

Rebuilding runs no code of the class: fields are set on a blank instance, as `copy` and `pickle` do
it, so that what was stored is what comes back. Only msgspec Structs have to be called.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Collection
from enum import Enum, Flag
from functools import cached_property
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from treadle.values.plain import Misfit, Plain

PackItem = Callable[[object, str], Plain]
UnpackItem = Callable[[Plain, str], object]


class Unfit(Exception):
    """What is stored does not fit the class any more; the text says how."""


class Shape(Protocol):
    """One kind of class. `inner` packs or unpacks one item, reached by a step such as ``.name``."""

    def fits(self, kind: type) -> bool:
        """Whether the class is of this kind."""
        ...

    def pack(self, value: Any, inner: PackItem) -> Plain:
        """Take an instance apart."""
        ...

    def unpack(self, kind: Any, payload: Any, inner: UnpackItem) -> object:
        """Build an instance from what `pack` returned; raises `Unfit` when it does not fit."""
        ...


class EnumShape:
    """Enum members by name; flags, which may combine members, by value."""

    def fits(self, kind: type) -> bool:
        """Whether the class is an Enum."""
        return issubclass(kind, Enum)

    def pack(self, value: Any, inner: PackItem) -> Plain:
        """Return the member's name or the flags' value."""
        return inner(value.value, ".value") if isinstance(value, Flag) else value.name

    def unpack(self, kind: Any, payload: Any, inner: UnpackItem) -> object:
        """Find the member again."""
        try:
            if issubclass(kind, Flag):
                return kind(inner(payload, ".value"))
            return kind.__members__[payload]
        except (KeyError, ValueError, TypeError) as error:
            raise Unfit(f"it has no member {payload!r}") from error


class DataclassShape:
    """Dataclasses: every field, also those that `__init__` does not take."""

    def fits(self, kind: type) -> bool:
        """Whether the class is a dataclass that can be made without calling it."""
        if not dataclasses.is_dataclass(kind):
            return False
        try:
            object.__new__(kind)
        except TypeError:  # abstract, or derived from a built-in type whose content would be lost
            return False
        return True

    def pack(self, value: Any, inner: PackItem) -> Plain:
        """Return the fields by name."""
        return pack_fields(value, _field_names(value), inner)

    def unpack(self, kind: Any, payload: Any, inner: UnpackItem) -> object:
        """Set every field of a blank instance; fields that were added since take their default."""
        stored = unpack_fields(payload, _field_names(kind), inner)
        value = object.__new__(kind)
        for field in dataclasses.fields(kind):
            item = stored[field.name] if field.name in stored else _default(field)
            object.__setattr__(value, field.name, item)
        return value


class StructShape:
    """msgspec Structs: built by calling them, then given the very fields that were stored."""

    def fits(self, kind: type) -> bool:
        """Whether the class is a Struct."""
        return issubclass(kind, Struct)

    def pack(self, value: Any, inner: PackItem) -> Plain:
        """Return the fields by name."""
        return pack_fields(value, value.__struct_fields__, inner)

    def unpack(self, kind: Any, payload: Any, inner: UnpackItem) -> object:
        """Build the Struct; fields that were added since take their default."""
        stored = unpack_fields(payload, kind.__struct_fields__, inner)
        try:
            value = kind(**stored)
        except (TypeError, ValueError) as error:
            raise Unfit(str(error)) from error
        for name, item in stored.items():
            if getattr(value, name) is not item:  # a __post_init__ changed it a second time
                msgspec.structs.force_setattr(value, name, item)
        return value


class NamedTupleShape:
    """Named tuples, of `typing.NamedTuple` and `collections.namedtuple`."""

    def fits(self, kind: type) -> bool:
        """Whether the class is a named tuple."""
        return is_named_tuple(kind)

    def pack(self, value: Any, inner: PackItem) -> Plain:
        """Return the fields by name."""
        return pack_fields(value, value._fields, inner)

    def unpack(self, kind: Any, payload: Any, inner: UnpackItem) -> object:
        """Build the tuple; fields that were added since take their default."""
        stored = {**kind._field_defaults, **unpack_fields(payload, kind._fields, inner)}
        for name in kind._fields:
            if name not in stored:
                raise Unfit(f"its field {name!r} was not stored and has no default")
        return kind._make(stored[name] for name in kind._fields)


def is_named_tuple(kind: type) -> bool:
    """Whether the class is a named tuple."""
    return hasattr(kind, "_fields") and issubclass(kind, tuple)


def pack_fields(value: object, names: Collection[str], inner: PackItem) -> dict[str, Plain]:
    """Pack these attributes of a value by name; it may have no others."""
    held = getattr(value, "__dict__", None)
    if held:
        _refuse_strays(value, held, names)
    packed: dict[str, Plain] = {}
    for name in names:
        try:
            item = getattr(value, name)
        except AttributeError:
            raise Misfit(f"its field {name!r} has no value") from None
        packed[name] = inner(item, f".{name}")
    return packed


def unpack_fields(payload: Any, names: Collection[str], inner: UnpackItem) -> dict[str, Any]:
    """Unpack stored fields; one that the class no longer has would be lost, so it is refused."""
    for name in payload:
        if name not in names:
            raise Unfit(f"it has no field {name!r} any more")
    return {name: inner(item, f".{name}") for name, item in payload.items()}


def _refuse_strays(value: object, held: dict[str, object], names: Collection[str]) -> None:
    """Refuse attributes that are not fields; what `cached_property` keeps can be had again."""
    for name in held:
        if name in names:
            continue
        if not isinstance(inspect.getattr_static(type(value), name, None), cached_property):
            raise Misfit(
                f"its attribute {name!r} is not a field and would be lost; make it a field, "
                "or a functools.cached_property"
            )


def _field_names(kind: Any) -> list[str]:
    return [field.name for field in dataclasses.fields(kind)]


def _default(field: dataclasses.Field[Any]) -> object:
    if field.default is not dataclasses.MISSING:
        return field.default
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    raise Unfit(f"its field {field.name!r} was not stored and has no default")
