"""Parameters of plain JSON types: their schema and decoding, with nothing to import.

A plain value that is exactly of its type needs no validation, only recognition. Whatever is not
recognised here is left to pydantic, which converts it or says what is wrong; so what this module
accepts must be what pydantic makes of it, value for value. It keeps pydantic out of programs
whose tools are simple.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from msgspec import Struct

from treadle.values import is_array, is_object


class Unrecognised:
    """The type of `UNRECOGNISED`."""


UNRECOGNISED = Unrecognised()
"""What a conversion returns for a value it leaves to pydantic."""

Convert = Callable[[Any], Any]
PlainDecode = Callable[[dict[str, Any]], dict[str, Any] | None]

_EXACT_FLOAT = 2**53
"""Integers up to here are floats without loss."""


class PlainType(Struct, frozen=True):
    """A plain type: its JSON schema, and the conversion of values that need no validation."""

    schema: dict[str, Any]
    convert: Convert


class PlainField(Struct, frozen=True):
    """One parameter of a plain type."""

    name: str
    convert: Convert
    required: bool
    default: Any = None


def plain_type(annotation: Any) -> PlainType | None:
    """Return how to treat an annotation here, or None where pydantic is needed."""
    scalar = _scalar(annotation)
    if scalar is not None:
        return scalar
    origin, arguments = get_origin(annotation), get_args(annotation)
    if annotation is list or (origin is list and len(arguments) == 1):
        return _list_of(arguments[0] if arguments else Any)
    if annotation is dict or (origin is dict and len(arguments) == 2):
        return _dict_of(*(arguments or (str, Any)))
    if origin is Literal:
        return _literal(arguments)
    if origin in (Union, UnionType):
        return _union(arguments)
    return None


def is_plain_default(value: object) -> bool:
    """Whether a default can be shown in a schema, and shared between calls, as it is."""
    if type(value) is float:
        return abs(value) < float("inf")
    return type(value) in (str, int, bool, NoneType)


def plain_decoder(fields: Sequence[PlainField]) -> PlainDecode:
    """Return a function from arguments to keyword values, or to None when pydantic must look."""
    rows = [(field.name, field.convert, field.required, field.default) for field in fields]

    def decode(arguments: dict[str, Any]) -> dict[str, Any] | None:
        values: dict[str, Any] = {}
        found = 0
        for name, convert, required, default in rows:
            if name in arguments:
                value = convert(arguments[name])
                if value is UNRECOGNISED:
                    return None
                found += 1
            elif required:
                return None
            else:
                value = default
            values[name] = value
        return values if found == len(arguments) else None

    return decode


def _exactly(kind: type) -> Convert:
    def convert(value: Any) -> Any:
        return value if type(value) is kind else UNRECOGNISED

    return convert


def _to_float(value: Any) -> Any:
    if type(value) is float:
        return value
    if type(value) is int and -_EXACT_FLOAT <= value <= _EXACT_FLOAT:
        return float(value)
    return UNRECOGNISED


_NULL = {"type": "null"}

_SCALARS: dict[Any, PlainType] = {
    str: PlainType({"type": "string"}, _exactly(str)),
    int: PlainType({"type": "integer"}, _exactly(int)),
    float: PlainType({"type": "number"}, _to_float),
    bool: PlainType({"type": "boolean"}, _exactly(bool)),
    None: PlainType(_NULL, _exactly(NoneType)),
    NoneType: PlainType(_NULL, _exactly(NoneType)),
    Any: PlainType({}, lambda value: value),
}


def _scalar(annotation: Any) -> PlainType | None:
    try:
        return _SCALARS.get(annotation)
    except TypeError:  # an annotation may hold anything, also what has no hash
        return None


def _list_of(item: Any) -> PlainType | None:
    inner = plain_type(item)
    if inner is None:
        return None
    convert_item = inner.convert

    def convert(value: Any) -> Any:
        if not is_array(value):
            return UNRECOGNISED
        converted = [convert_item(child) for child in value]
        return UNRECOGNISED if UNRECOGNISED in converted else converted

    return PlainType({"type": "array", "items": inner.schema}, convert)


def _dict_of(key: Any, item: Any) -> PlainType | None:
    inner = plain_type(item) if key is str else None
    if inner is None:
        return None
    convert_item = inner.convert

    def convert(value: Any) -> Any:
        if not is_object(value):
            return UNRECOGNISED
        converted = {name: convert_item(child) for name, child in value.items()}
        return UNRECOGNISED if UNRECOGNISED in converted.values() else converted

    return PlainType({"type": "object", "additionalProperties": inner.schema or True}, convert)


_LITERAL_TYPES: dict[type, str] = {str: "string", int: "integer"}


def _literal(choices: tuple[Any, ...]) -> PlainType | None:
    names = {_LITERAL_TYPES.get(choice.__class__) for choice in choices}
    name = names.pop()
    if name is None or names:
        return None
    kind = str if name == "string" else int
    allowed = frozenset(choices)
    shown = {"const": choices[0]} if len(choices) == 1 else {"enum": list(choices)}

    def convert(value: Any) -> Any:
        return value if type(value) is kind and value in allowed else UNRECOGNISED

    return PlainType({"type": name, **shown}, convert)


def _union(members: tuple[Any, ...]) -> PlainType | None:
    """Unions of scalars, where the type of a value says alone which member it is."""
    found = [plain_type(member) for member in members]
    scalars = [plain for plain in found if plain is not None and "type" in plain.schema]
    kinds = [plain.schema["type"] for plain in scalars]
    if len(scalars) != len(members) or sum(kind in ("array", "object") for kind in kinds) > 1:
        return None
    likes_integers = "number" in kinds or "boolean" in kinds
    if likes_integers and any(_is_integer_literal(plain.schema) for plain in scalars):
        return None  # pydantic takes 2.0 for the literal 2, and true for the literal 1
    conversions = [_exactly(float) if p.convert is _to_float else p.convert for p in scalars]

    def convert(value: Any) -> Any:
        for conversion in conversions:
            converted = conversion(value)
            if converted is not UNRECOGNISED:
                return converted
        return UNRECOGNISED

    schemas = sorted((plain.schema for plain in scalars), key=lambda schema: schema == _NULL)
    return PlainType({"anyOf": schemas}, convert)


def _is_integer_literal(schema: dict[str, Any]) -> bool:
    return schema["type"] == "integer" and ("enum" in schema or "const" in schema)
