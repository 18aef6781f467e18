"""Classes seen as their fields: msgspec Structs, dataclasses, typed dicts and named tuples."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Mapping
from enum import Enum
from types import NoneType
from typing import Any, NotRequired, Required, TypeVar, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Struct
from typing_extensions import ReadOnly, is_typeddict

from treadle.tools.annotations import ABSENT, Field, split_annotated

Names = Mapping[str, Any]
Row = tuple[str, bool, Any]
"""A field's name, whether it is required, and its default."""


class Record(Struct, frozen=True):
    """A class as its fields, and the way to make an object of their values.

    `make` is None for typed dicts, whose values are the object. `keys` maps names to the names in
    JSON where these differ. `tag` is a field of one fixed value that is not passed on. With
    `as_array` the JSON form is an array, in the order of the fields.
    """

    kind: Any
    fields: tuple[Field, ...]
    make: Callable[..., Any] | None
    keys: dict[str, str] = {}
    tag: tuple[str, str | int] | None = None
    forbids_unknown: bool = False
    as_array: bool = False


def class_of(annotation: Any) -> type[Any] | None:
    """Return the class of an annotation, that of `Box` for `Box[int]`."""
    cls: Any = get_origin(annotation) or annotation
    return cls if isinstance(cls, type) else None


def is_unknown(annotation: Any) -> bool:
    """Whether pydantic refuses the class: a Struct, or a `typing.TypedDict` before Python 3.12."""
    cls = class_of(annotation)
    if cls is None:
        return False
    old_typed_dict = sys.version_info < (3, 12) and type(cls).__module__ == "typing"
    return issubclass(cls, Struct) or (old_typed_dict and is_typeddict(cls))


def is_record(annotation: Any) -> bool:
    """Whether the annotation is a class that `record_of` can take apart."""
    cls = class_of(annotation)
    if cls is None or "__pydantic_validator__" in vars(cls):  # pydantic's dataclasses stay its own
        return False
    is_named_tuple = tuple in cls.__mro__ and "_fields" in vars(cls)
    return (
        is_named_tuple
        or issubclass(cls, Struct)
        or dataclasses.is_dataclass(cls)
        or is_typeddict(cls)
    )


def hints_of(annotation: Any, names: Names) -> dict[str, Any]:
    """Return the annotations of a class's fields, with the arguments of a generic one put in.

    Raises:
        NameError: one uses a name that is neither in its module nor in `names`.
    """
    cls = get_origin(annotation) or annotation
    hints = get_type_hints(cls, localns=dict(names), include_extras=True)
    given = dict(zip(getattr(cls, "__parameters__", ()), get_args(annotation), strict=False))
    return {name: _substituted(hint, given) for name, hint in hints.items()} if given else hints


def record_of(annotation: Any, names: Names) -> Record:
    """Return a class for which `is_record` is true as its fields."""
    cls = class_of(annotation)
    hints = hints_of(annotation, names)
    if cls is not None and issubclass(cls, Struct):
        return _struct(cls, _struct_hints(annotation, hints))
    if is_typeddict(cls):
        required = _required_keys(cls, hints)
        bare = {name: _unqualified(hint) for name, hint in hints.items()}
        return Record(cls, _fields([(name, name in required, ABSENT) for name in bare], bare), None)
    if dataclasses.is_dataclass(cls):
        rows = [_dataclass_row(field) for field in dataclasses.fields(cls) if field.init]
        return Record(cls, _fields(rows, hints), cls)
    defaults = getattr(cls, "_field_defaults", {})
    rows = [(name, True, defaults.get(name, ABSENT)) for name in getattr(cls, "_fields", ())]
    return Record(cls, _fields(rows, hints), cls, as_array=True)


def _fields(rows: list[Row], hints: Mapping[str, Any]) -> tuple[Field, ...]:
    return tuple(
        Field(name, hints.get(name, Any), required, default if _can_be_shown(default) else ABSENT)
        for name, required, default in rows
    )


def _can_be_shown(default: object) -> bool:
    """Whether a default may stand in a schema; others are filled in by the class unseen."""
    return isinstance(default, str | int | float | bool | NoneType | Enum)


def _dataclass_row(field: dataclasses.Field[Any]) -> Row:
    has_default = field.default is not dataclasses.MISSING
    has_factory = field.default_factory is not dataclasses.MISSING
    return field.name, not (has_default or has_factory), field.default if has_default else ABSENT


def _struct(cls: type[Struct], hints: Mapping[str, Any]) -> Record:
    names, config = cls.__struct_fields__, cls.__struct_config__
    defaults = cls.__struct_defaults__
    padded = (msgspec.NODEFAULT,) * (len(names) - len(defaults)) + tuple(defaults)
    pairs = zip(names, padded, strict=True)
    rows = [(name, default is msgspec.NODEFAULT, default) for name, default in pairs]
    keys = dict(zip(names, cls.__struct_encode_fields__, strict=True))
    tag = config.tag if isinstance(config.tag, str | int) else None
    return Record(
        cls,
        _fields(rows, hints),
        cls,
        keys={name: key for name, key in keys.items() if name != key},
        tag=None if tag is None else (config.tag_field or "type", tag),
        forbids_unknown=config.forbid_unknown_fields,
        as_array=config.array_like,
    )


def _struct_hints(annotation: Any, hints: dict[str, Any]) -> dict[str, Any]:
    """Return msgspec's reading, which knows generic parents; ours knows local names."""
    try:
        return {field.name: field.type for field in msgspec.structs.fields(annotation)}
    except NameError:
        return hints


def _required_keys(cls: Any, hints: Mapping[str, Any]) -> set[str]:
    """Return the required keys; the class itself misses qualifiers in postponed annotations."""
    required = set(cls.__required_keys__)
    for name, hint in hints.items():
        qualifiers = _qualifiers(hint)
        if NotRequired in qualifiers:
            required.discard(name)
        elif Required in qualifiers:
            required.add(name)
    return required


def _qualifiers(hint: Any) -> list[Any]:
    found: list[Any] = []
    while (origin := get_origin(hint)) in (NotRequired, Required, ReadOnly):
        found.append(origin)
        hint = get_args(hint)[0]
    return found


def _unqualified(hint: Any) -> Any:
    for _ in _qualifiers(hint):
        hint = get_args(hint)[0]
    return hint


def _substituted(hint: Any, given: Mapping[Any, Any]) -> Any:
    """Return the hint with type variables replaced."""
    if isinstance(hint, TypeVar):
        return given.get(hint, hint)
    open_variables = getattr(split_annotated(hint)[0], "__parameters__", ())
    if isinstance(hint, type) or not open_variables:
        return hint
    return hint[tuple(given.get(variable, variable) for variable in open_variables)]
