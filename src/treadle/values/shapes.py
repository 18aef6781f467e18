"""How each kind of declared class is taken apart into fields and put together again.

Rebuilding runs no code of the class: fields are set on a blank instance, as `copy` and `pickle` do
it, so that what was stored is what comes back. Only msgspec Structs have to be called.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Collection
from enum import Enum, Flag
from functools import cached_property
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from treadle.values.plain import Misfit

Fields = dict[str, Any]


class Unfit(Exception):
    """What is stored does not fit the class any more; the text says how."""


class Shape(Protocol):
    """One kind of class. Neither method goes deeper than the fields: the codec does that."""

    def fits(self, kind: type) -> bool:
        """Whether the class is of this kind."""
        ...

    def take(self, value: Any) -> Fields:
        """Return an instance's fields by name, and what else it is made of; raises `Misfit`."""
        ...

    def build(self, kind: Any, fields: Fields) -> object:
        """Build an instance of what `take` returned; raises `Unfit` when it does not fit."""
        ...


class EnumShape:
    """Enum members by name; flags, which may combine members, by value."""

    def fits(self, kind: type) -> bool:
        """Whether the class is an Enum."""
        return issubclass(kind, Enum)

    def take(self, value: Any) -> Fields:
        """Return the member's name or the flags' value."""
        if isinstance(value, Flag):
            return {"value": int(value.value)}
        return {"name": value.name}

    def build(self, kind: Any, fields: Fields) -> object:
        """Find the member again."""
        try:
            return kind(fields["value"]) if issubclass(kind, Flag) else kind[fields["name"]]
        except (KeyError, ValueError, TypeError) as error:
            raise Unfit(f"it has no member {next(iter(fields.values()), None)!r}") from error


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

    def take(self, value: Any) -> Fields:
        """Return the fields by name."""
        return take_fields(value, [field.name for field in dataclasses.fields(value)])

    def build(self, kind: Any, fields: Fields) -> object:
        """Set every field of a blank instance; fields that were added since take their default."""
        known = dataclasses.fields(kind)
        refuse_removed(fields, [field.name for field in known])
        value = object.__new__(kind)
        for field in known:
            item = fields[field.name] if field.name in fields else _default(field)
            object.__setattr__(value, field.name, item)
        return value


class StructShape:
    """msgspec Structs: built by calling them, then given the very fields that were stored."""

    def fits(self, kind: type) -> bool:
        """Whether the class is a Struct."""
        return issubclass(kind, Struct)

    def take(self, value: Any) -> Fields:
        """Return the fields by name."""
        return take_fields(value, value.__struct_fields__)

    def build(self, kind: Any, fields: Fields) -> object:
        """Build the Struct; fields that were added since take their default."""
        refuse_removed(fields, kind.__struct_fields__)
        try:
            value = kind(**fields)
        except (TypeError, ValueError) as error:
            raise Unfit(str(error)) from error
        for name, item in fields.items():
            if getattr(value, name) is not item:  # a __post_init__ changed it a second time
                msgspec.structs.force_setattr(value, name, item)
        return value


class NamedTupleShape:
    """Named tuples, of `typing.NamedTuple` and `collections.namedtuple`."""

    def fits(self, kind: type) -> bool:
        """Whether the class is a named tuple."""
        return is_named_tuple(kind)

    def take(self, value: Any) -> Fields:
        """Return the fields by name."""
        return take_fields(value, value._fields)

    def build(self, kind: Any, fields: Fields) -> object:
        """Build the tuple; fields that were added since take their default."""
        refuse_removed(fields, kind._fields)
        stored = {**kind._field_defaults, **fields}
        for name in kind._fields:
            if name not in stored:
                raise Unfit(f"its field {name!r} was not stored and has no default")
        return kind._make(stored[name] for name in kind._fields)


def is_named_tuple(kind: type) -> bool:
    """Whether the class is a named tuple."""
    return hasattr(kind, "_fields") and issubclass(kind, tuple)


def take_fields(value: object, names: Collection[str]) -> Fields:
    """Return these attributes of a value; it may have no others."""
    for name in getattr(value, "__dict__", ()):
        if name not in names:
            _refuse_stray(type(value), name)
    try:
        return {name: getattr(value, name) for name in names}
    except AttributeError as error:
        raise Misfit(f"its field {error.name!r} has no value") from error


def refuse_removed(fields: Fields, names: Collection[str]) -> None:
    """Refuse stored fields that the class no longer has: they would be lost."""
    for name in fields:
        if name not in names:
            raise Unfit(f"it has no field {name!r} any more")


def _refuse_stray(kind: type, name: str) -> None:
    """Refuse an attribute that is no field; what a `cached_property` keeps can be had again."""
    if not isinstance(inspect.getattr_static(kind, name, None), cached_property):
        raise Misfit(
            f"its attribute {name!r} is not a field and would be lost; make it a field, or a "
            "functools.cached_property"
        )


def _default(field: dataclasses.Field[Any]) -> object:
    if field.default is not dataclasses.MISSING:
        return field.default
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    raise Unfit(f"its field {field.name!r} was not stored and has no default")
