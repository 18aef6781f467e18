"""How pydantic models, and types that only pydantic can write, are taken apart and put together.

Nothing here loads pydantic unless a class asks for it.
"""

from __future__ import annotations

import re
import sys
import zlib
from contextlib import suppress
from copy import deepcopy
from functools import lru_cache
from importlib import import_module
from typing import Any
from weakref import WeakKeyDictionary

from treadle.values.plain import Misfit, described
from treadle.values.shapes import Fields, Unfit, refuse_removed, take_fields


class ModelShape:
    """Pydantic models: fields, which of them were set, extra and private attributes.

    A model comes back without validation as long as its annotations are what they were at the
    write: validators need not accept their own output. When the annotations have changed since,
    the fields that were set are validated against them, without the class's own validators.
    """

    def fits(self, kind: type) -> bool:
        """Whether the class is a pydantic model."""
        return is_model(kind)

    def take(self, value: Any) -> Fields:
        """Return the fields, and under names that no field can have what else it is made of."""
        kind = value.__class__
        taken = take_fields(value, kind.model_fields)
        taken[_FIELDS_SET] = sorted(value.model_fields_set)
        taken[_HASH] = _annotations_hash(kind)
        for name in _PARTS:
            part = getattr(value, name)
            if part is not None:
                taken[name] = part
        return taken

    def build(self, kind: Any, fields: Fields) -> object:
        """Rebuild the model through the protocol that pydantic has for pickling."""
        were_set = set(fields.pop(_FIELDS_SET))
        written_under = fields.pop(_HASH)
        state: Fields = {name: fields.pop(name, None) for name in _PARTS}
        refuse_removed(fields, kind.model_fields)
        if written_under != _annotations_hash(kind):
            fields |= _validated(kind, {name: fields[name] for name in fields if name in were_set})
        state[_FIELDS_SET] = were_set
        state["__dict__"] = {
            name: fields[name] if name in fields else _default(name, field)
            for name, field in kind.model_fields.items()
        }
        _add_private_defaults(kind, state)
        value = object.__new__(kind)
        _pydantic().BaseModel.__setstate__(value, state)
        return value


class CustomShape:
    """Other types that pydantic knows how to write and read, such as its URLs."""

    def fits(self, kind: type) -> bool:
        """Whether the class itself says how pydantic reads it."""
        return is_custom(kind)

    def take(self, value: Any) -> Fields:
        """Return pydantic's JSON form, if that gives the value back."""
        kind = value.__class__
        written = again = None
        with suppress(ValueError):
            written = _adapter(kind).dump_python(value, mode="json")
            again = _adapter(kind).validate_python(written)
        if again.__class__ is not kind or again != value:
            raise Misfit(f"pydantic's JSON form of {described(value)} does not give it back")
        return {"json": written}

    def build(self, kind: Any, fields: Fields) -> object:
        """Let pydantic read its JSON form."""
        return _adapter(kind).validate_python(fields["json"])


def is_model(kind: type) -> bool:
    """Whether the class is a pydantic model; without pydantic loaded there are none."""
    main: Any = sys.modules.get("pydantic.main")
    return main is not None and issubclass(kind, main.BaseModel)


def is_custom(kind: type) -> bool:
    """Whether the class has pydantic's hook for custom types."""
    return hasattr(kind, "__get_pydantic_core_schema__")


def model_annotations(kind: Any) -> list[object]:
    """Return the annotations of a model's fields, as far as pydantic could resolve them."""
    return [field.annotation for field in kind.model_fields.values()]


def dump_json(value: Any) -> object:
    """Return the JSON form that pydantic gives a model or custom value.

    Raises:
        ValueError: something in it has none.
    """
    kind = value.__class__
    if is_model(kind):
        return value.model_dump(mode="json")
    return _adapter(kind).dump_python(value, mode="json")


def _validated(kind: Any, stored: dict[str, Any]) -> dict[str, Any]:
    """Validate stored fields, one by one by name: aliases are for what comes from outside."""
    if not stored:
        return {}
    names = list(stored)
    notes = tuple(kind.model_fields[name].annotation for name in names)
    adapter = _pydantic().TypeAdapter(
        tuple.__class_getitem__(notes), config={"arbitrary_types_allowed": True}
    )
    try:
        return dict(zip(names, adapter.validate_python(tuple(stored.values())), strict=True))
    except _pydantic().ValidationError as error:
        first: Any = error.errors(include_url=False, include_context=False)[0]
        place: int = first["loc"][0]
        raise Unfit(f"its field {names[place]!r} does not validate: {first['msg']}") from error


def _default(name: str, field: Any) -> object:
    if field.is_required():
        raise Unfit(f"its field {name!r} was not stored and has no default")
    return field.get_default(call_default_factory=True)


def _add_private_defaults(kind: Any, state: dict[str, Any]) -> None:
    """Give private attributes that were added to the class since their defaults."""
    held: dict[str, Any] = state["__pydantic_private__"] or {}
    for name, attribute in kind.__private_attributes__.items():
        if name in held:
            continue
        if attribute.default_factory is not None:
            held[name] = attribute.default_factory()
        elif attribute.default.__class__.__name__ != "PydanticUndefinedType":
            held[name] = deepcopy(attribute.default)
    if kind.__private_attributes__:
        state["__pydantic_private__"] = held


def _annotations_hash(kind: Any) -> int:
    """Return a number that changes with the names or annotations of the model's fields."""
    known = _HASHES.get(kind)
    if known is not None:
        return known
    if not kind.__pydantic_complete__:
        kind.model_rebuild(raise_errors=False)
    notes = [(name, field.annotation) for name, field in kind.model_fields.items()]
    hashed = zlib.crc32(_ADDRESS.sub("", repr(notes)).encode())
    if kind.__pydantic_complete__:
        _HASHES[kind] = hashed
    return hashed


@lru_cache(maxsize=128)
def _adapter(kind: Any) -> Any:
    return _pydantic().TypeAdapter(kind)


def _pydantic() -> Any:
    return import_module("pydantic")


_FIELDS_SET = "__pydantic_fields_set__"
_HASH = "__annotations_hash__"
_PARTS = ("__pydantic_extra__", "__pydantic_private__")
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_HASHES: WeakKeyDictionary[type, int] = WeakKeyDictionary()
