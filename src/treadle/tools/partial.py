"""What has come so far of a value whose JSON is still being written."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from types import UnionType, new_class
from typing import (
    Annotated,
    Any,
    NotRequired,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from msgspec import Struct
from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic import Field as PydanticField
from typing_extensions import TypedDict, is_typeddict

NOTHING: Any = object()
"""Stands for a beginning that is not yet, or not any more, the beginning of such a value."""
_MANY: tuple[Any, ...] = (list, set, frozenset, dict)
_CUT_NUMBER = re.compile(r"[:,\[]\s*-?[0-9.eE+-]+\Z")
"""A number at the end may have more digits to come."""


_LONGEST_NUMBER = 400


class PartialDecoder:
    """Validates the beginning of a JSON text, of a type of which any field may be missing.

    Objects with fields (models, dataclasses, Structs, typed dicts) become dicts of the fields that
    have come, each in its own type. What stands last may be cut: a text is given as far as it goes,
    anything else is left out until it is whole. `under` is the key that the value stands under.

    Raises:
        TypeError: pydantic cannot treat the type.
    """

    __slots__ = ("_adapter", "_under")

    def __init__(self, kind: Any, under: str | None) -> None:
        partial = _partial(kind, {})
        if under is not None:
            partial = _typed_dict("Wrapper", {under: partial})
        self._under = under
        self._adapter: TypeAdapter[Any] = TypeAdapter(partial)

    def decode(self, text: str) -> Any:
        """Return what has come, or `NOTHING`."""
        cut = _CUT_NUMBER.search(text, max(0, len(text) - _LONGEST_NUMBER))
        begun = text if cut is None else text[: cut.start() + 1]
        try:
            found = self._adapter.validate_json(
                begun, experimental_allow_partial="trailing-strings"
            )
        except (ValidationError, ValueError):
            return NOTHING
        return found if self._under is None else found.get(self._under, NOTHING)


def _partial(kind: Any, known: dict[Any, Any]) -> Any:
    """Return the type of which any field may be missing; classes that hold themselves are open."""
    origin: Any = get_origin(kind)
    arguments = get_args(kind)
    if origin is Annotated:
        return Annotated[(_partial(arguments[0], known), *arguments[1:])]
    if origin in (Union, UnionType):
        return Union[tuple(_partial(each, known) for each in arguments)]  # noqa: UP007 of a tuple
    if origin in _MANY:
        many: Any = origin
        return many[tuple(_partial(each, known) for each in arguments)]
    fields = dict(_fields(kind))
    if not fields:
        return kind
    if kind not in known:
        known[kind] = Any
        members = {name: _partial(each, known) for name, each in fields.items()}
        known[kind] = _typed_dict(f"Partial{kind.__name__}", members)
    return known[kind]


def _typed_dict(name: str, members: dict[str, Any]) -> Any:
    annotations = {each: NotRequired[kind] for each, kind in members.items()}
    namespace = {"__annotations__": annotations, "__module__": __name__}
    return new_class(name, (TypedDict,), {}, lambda into: into.update(namespace))


def _fields(kind: Any) -> Iterator[tuple[str, Any]]:
    """Yield the name and the type of each field of a class that has any."""
    known: Any = kind
    if not isinstance(kind, type):
        return
    if issubclass(kind, BaseModel):
        for name, field in kind.model_fields.items():
            alias = field.validation_alias or field.alias
            named = [PydanticField(validation_alias=alias)] if alias else []
            yield name, Annotated[(field.annotation, *field.metadata, *named, None)]
    elif issubclass(kind, Struct):
        hints = get_type_hints(kind, include_extras=True)
        for name, said in zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True):
            yield name, Annotated[hints[name], PydanticField(validation_alias=said)]
    elif dataclasses.is_dataclass(known) or is_typeddict(known):
        yield from get_type_hints(known, include_extras=True).items()
