"""The declared types: classes whose instances may be stored, each under one lasting name."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import is_dataclass
from enum import Enum
from functools import partial
from inspect import get_annotations
from threading import RLock
from types import SimpleNamespace
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
    overload,
)
from weakref import WeakKeyDictionary, WeakSet

from msgspec import Struct

from treadle.errors import ConfigError
from treadle.values.models import CustomShape, ModelShape, is_model, model_annotations
from treadle.values.plain import type_label
from treadle.values.shapes import (
    DataclassShape,
    EnumShape,
    NamedTupleShape,
    Shape,
    StructShape,
    is_named_tuple,
)
from treadle.values.text import is_clean

T = TypeVar("T")


class Declared(NamedTuple):
    """What is known of a declared class: the name it is stored under, and its shape."""

    name: str
    shape: Shape


@overload
def register(kind: type[T], *, name: str | None = None) -> type[T]: ...
@overload
def register(*, name: str) -> Callable[[type[T]], type[T]]: ...
def register(kind: Any = None, *, name: str | None = None) -> Any:
    """Declare a class, so that its instances may be stored in state and tool results.

    Takes enums, dataclasses, named tuples, msgspec Structs, pydantic models and types with
    pydantic's schema hook; the classes in its fields' annotations are declared too. Use it as a
    decorator, plain or with a name:

        @register
        @dataclass
        class Order: ...

    Args:
        kind: The class.
        name: What stored values call it; ``module:qualname`` unless given. Give one when the class
            may be renamed or moved, or its old one after that.

    Raises:
        ConfigError: the class has no fields to store, or the name belongs to another class.
            A class defined anew under the same module and name, as notebooks do, takes it over.
    """
    if kind is None:
        return partial(register, name=name)
    shape = _shape_of(kind) if isinstance(kind, type) else None
    if shape is None:
        raise ConfigError(_no_shape(kind))
    if name is not None and not (name and is_clean(name)):
        raise ConfigError(f"A type's name is text without NUL characters, not {name!r}.")
    with _LOCK:
        _declare(kind, shape, name)
        _walk(_annotations(kind), {})
    return kind


def register_annotation(annotation: object) -> None:
    """Declare every class that a type annotation speaks of, however deep.

    Walks optionals, unions, containers, `Annotated`, `Literal`, generics, type variables and the
    fields of dataclasses, TypedDicts, named tuples, Structs and models. What cannot be stored is
    passed over.

    Raises:
        ConfigError: a class in it has the name of another one, which was given to that explicitly.
    """
    with _LOCK:
        _walk([annotation], {})


def declaration(kind: type) -> Declared | None:
    """Return what is known of a class, or None when it is not declared."""
    declared = _BY_TYPE.get(kind)
    if declared is None and _settle():
        declared = _BY_TYPE.get(kind)
    return declared


def declared_type(name: str) -> type | None:
    """Return the class that stored values call by this name, or None."""
    kind = _BY_NAME.get(name)
    if kind is None and _settle():
        kind = _BY_NAME.get(name)
    return kind


def can_declare(kind: type) -> bool:
    """Whether `register` would take the class."""
    return _shape_of(kind) is not None


def _declare(kind: type, shape: Shape, name: str | None) -> None:
    known = _BY_TYPE.get(kind)
    if known is not None and name in (None, known.name):
        return
    chosen = name or _place(kind)
    holder = _BY_NAME.get(chosen)
    if holder is not None and holder is not kind and _place(holder) != _place(kind):
        raise ConfigError(
            f"The type name {chosen!r} of {type_label(kind)} already belongs to "
            f"{type_label(holder)}; register one of them under another name=."
        )
    _BY_NAME[chosen] = kind
    _BY_TYPE[kind] = Declared(chosen, shape)


def _walk(annotations: Iterable[object], seen: dict[int, object]) -> None:
    for annotation in annotations:
        if id(annotation) in seen:
            continue
        seen[id(annotation)] = annotation  # kept, so that its id stays its own
        if isinstance(annotation, type):
            if annotation in _BY_TYPE:
                continue  # its fields were walked then
            shape = _shape_of(annotation)
            if shape is not None:
                _declare(annotation, shape, None)
            _walk(_annotations(annotation), seen)
        else:
            _walk(_inside(annotation), seen)


def _inside(annotation: object) -> Iterator[object]:
    """Return what a form that is not a class is made of."""
    if isinstance(annotation, list | tuple):  # the arguments of a Callable
        yield from annotation
        return
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        yield from (type(choice) for choice in arguments if isinstance(choice, Enum))
    elif origin is Annotated:
        yield arguments[0]
    else:
        yield origin
        yield from arguments
        for attribute in ("__supertype__", "__value__", "__bound__", "__constraints__"):
            yield getattr(annotation, attribute, None)


def _annotations(kind: Any) -> list[object]:
    """Return the annotations of a class's fields; a class with names not defined yet is noted."""
    if is_model(kind):
        found, complete = model_annotations(kind), kind.__pydantic_complete__
    elif _has_fields(kind):
        found, complete = _hints(kind)
    else:
        return []
    if complete:
        _UNRESOLVED.discard(kind)
    else:
        _UNRESOLVED.add(kind)
    return found


def _has_fields(kind: type) -> bool:
    known = hasattr(kind, "__dataclass_fields__") or is_typeddict(kind)
    return known or is_named_tuple(kind) or issubclass(kind, Struct)


def _hints(kind: Any) -> tuple[list[object], bool]:
    """Evaluate annotations, one by one where some cannot be; False when any is left."""
    try:
        return list(get_type_hints(kind, include_extras=True).values()), True
    except _UNDEFINED:
        found: list[object] = []
    for owner in kind.__mro__:
        module = sys.modules.get(owner.__module__)
        names: dict[str, Any] = {} if module is None else vars(module)
        local: dict[str, Any] = {**vars(owner)}
        for note in get_annotations(owner).values():
            one: Any = SimpleNamespace(__annotations__={"it": note})
            with suppress(*_UNDEFINED):
                found.append(get_type_hints(one, names, local, include_extras=True)["it"])
    return found, False


def _settle() -> bool:
    """Try annotations again that named what was not defined; False when there are none."""
    with _LOCK:
        unresolved = list(_UNRESOLVED)
        for kind in unresolved:
            _walk(_annotations(kind), {})
    return bool(unresolved)


def _shape_of(kind: type) -> Shape | None:
    return next((shape for shape in _SHAPES if shape.fits(kind)), None)


def _place(kind: type) -> str:
    return f"{kind.__module__}:{kind.__qualname__}"


def _no_shape(kind: object) -> str:
    if not isinstance(kind, type):
        return f"register takes a class, not {kind!r}."
    name = type_label(kind)
    if is_dataclass(kind):
        return (
            f"{name} is abstract, or derives from a built-in type, so its instances "
            "cannot be rebuilt from their fields; register its concrete subclasses."
        )
    return (
        f"{name} has no fields to store; register takes enums, dataclasses, named "
        "tuples, msgspec Structs and pydantic models."
    )


_SHAPES: tuple[Shape, ...] = (
    EnumShape(),
    StructShape(),
    ModelShape(),
    DataclassShape(),
    NamedTupleShape(),
    CustomShape(),
)
_UNDEFINED = (NameError, AttributeError, TypeError, SyntaxError, LookupError, ValueError)
_LOCK = RLock()
_BY_NAME: dict[str, type] = {}
_BY_TYPE: WeakKeyDictionary[type, Declared] = WeakKeyDictionary()
_UNRESOLVED: WeakSet[type] = WeakSet()
