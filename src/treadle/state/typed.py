"""Typed state: the keys of one scope as the fields of a class."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import (
    Annotated,
    Any,
    Generic,
    NamedTuple,
    NotRequired,
    Required,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec

from treadle.errors import ConfigError, StateInvalid
from treadle.state.flat import MISSING, Reducer, State
from treadle.state.scope import Scope
from treadle.values import register_annotation, unpack
from treadle.values.models import is_model
from treadle.values.plain import described, type_label

StateT = TypeVar("StateT")


class TypedView(Generic[StateT]):
    """The keys of one scope as an object of a class: a typed dict, dataclass, model or Struct.

    A field is the key of its name. One that several branches write gets its reducer in `Annotated`:

        class Story(TypedDict):
            topic: str
            lines: Annotated[list[str], add]

        story = TypedView(Story)
        state = State({"graph::topic": "rain"}, reducers=story.reducers_in(Scope.GRAPH))

    Args:
        kind: The class. The classes that its fields speak of are declared, as by
            `treadle.register`.

    Raises:
        ConfigError: it is no such class, an annotation cannot be evaluated or checked, or a field
            has two reducers.
    """

    __slots__ = ("_fields", "kind", "reducers")

    def __init__(self, kind: type[StateT]) -> None:
        self.kind = kind
        self._fields = _fields_of(kind)
        self.reducers: Mapping[str, Reducer] = {
            name: field.reducer for name, field in self._fields.items() if field.reducer is not None
        }
        """The reducer of each field that has one."""
        for field in self._fields.values():
            register_annotation(field.annotation)

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of the fields."""
        return tuple(self._fields)

    def reducers_in(self, scope: Scope) -> dict[str, Reducer]:
        """Return the reducers by whole keys, for `State(reducers=...)` and `add_reducers`."""
        return {scope + name: reducer for name, reducer in self.reducers.items()}

    def read(self, state: State, scope: Scope) -> StateT:
        """Return what the scope holds, as a copy; what is absent is as the class has it.

        Raises:
            StateInvalid: a key is absent that has no default, or its value is not of its type.
        """
        values: dict[str, Any] = {}
        for name, field in self._fields.items():
            key = scope + name
            plain = state.find(key)
            if plain is not MISSING:
                values[name] = field.checked(key, unpack(plain, key))
            elif field.required:
                raise StateInvalid(
                    f"State key {key!r} has no value, and {type_label(self.kind)}.{name} has no "
                    f"default. Give the field one, or set the key before it is read.",
                    key=key,
                )
        return self._built(scope, values)

    def changes(self, /, **values: object) -> dict[str, Any]:
        """Return the values as they are to be written, each checked against its field's type.

        Raises:
            StateInvalid: there is no such field, or the value is not of its type.
        """
        checked: dict[str, Any] = {}
        for name, value in values.items():
            if name not in self._fields:
                raise StateInvalid(
                    f"{type_label(self.kind)} has no field {name!r}, only "
                    f"{', '.join(self._fields) or 'none at all'}.",
                    key=name,
                )
            checked[name] = self._fields[name].checked(name, value)
        return checked

    def _built(self, scope: Scope, values: dict[str, Any]) -> StateT:
        kind: Any = self.kind
        try:
            if is_model(kind):
                return kind.model_validate(values, by_name=True)
            return kind(**values)
        except (TypeError, ValueError) as error:
            raise StateInvalid(
                f"The state in scope {str(scope)!r} makes no {type_label(kind)}: "
                f"{_problems(error)}.",
                key=scope,
            ) from error

    def __repr__(self) -> str:
        """Show the class."""
        return f"TypedView({type_label(self.kind)})"


class _Field(NamedTuple):
    annotation: Any
    required: bool
    reducer: Reducer | None
    check: Callable[[Any], Any]

    def checked(self, key: str, value: Any) -> Any:
        """Return the value as its type has it."""
        try:
            return self.check(value)
        except ValueError as error:  # pydantic's is one
            raise StateInvalid(
                f"State key {key!r} takes {_label(self.annotation)}, not {described(value)}: "
                f"{_problems(error)}.",
                key=key,
            ) from error


def _fields_of(kind: Any) -> dict[str, _Field]:
    found: dict[str, _Field] = {}
    for name, (annotation, required) in _declared(kind).items():
        try:
            reducer, annotation = _without_reducer(annotation)
            found[name] = _Field(annotation, required, reducer, _check_of(annotation))
        except Exception as error:  # pydantic raises whatever it comes across
            raise ConfigError(
                f"Field {name!r} of {type_label(kind)} cannot hold state: {error}"
            ) from error
    return found


def _declared(kind: Any) -> dict[str, tuple[Any, bool]]:
    """Return the annotation of each field, and whether it has to have a value."""
    if not isinstance(kind, type):
        raise ConfigError(f"{kind!r} is no class, so it cannot be the type of a state.")
    if is_model(kind):
        fields: Any = getattr(kind, "model_fields")  # noqa: B009 known at run time only
        return {
            name: (_with(each.annotation, each.metadata), each.is_required())
            for name, each in fields.items()
        }
    try:
        hints = get_type_hints(kind, include_extras=True)
    except (NameError, AttributeError, TypeError) as error:
        raise ConfigError(
            f"The annotations of {type_label(kind)} cannot be evaluated: {error}. Define what they "
            "name at the top of a module."
        ) from error
    required = _required(kind, hints)
    if required is None:
        raise ConfigError(
            f"{type_label(kind)} cannot be the type of a state; it takes a TypedDict, a dataclass, "
            "a pydantic model or a msgspec Struct."
        )
    return {name: _unqualified(hints[name], needed) for name, needed in required.items()}


def _required(kind: type[Any], hints: Mapping[str, Any]) -> dict[str, bool] | None:
    """Return the fields of a class that is no model, and which of them have to have a value."""
    if dataclasses.is_dataclass(kind):
        none = dataclasses.MISSING
        return {
            each.name: each.default is none and each.default_factory is none
            for each in dataclasses.fields(kind)
            if each.init
        }
    if issubclass(kind, msgspec.Struct):
        return {each.name: each.required for each in msgspec.structs.fields(kind)}
    needed: Any = getattr(kind, "__required_keys__", None)  # a typed dict, of whichever module
    if needed is None or not issubclass(kind, dict):
        return None
    return {name: name in needed for name in hints}


def _unqualified(annotation: Any, required: bool) -> tuple[Any, bool]:
    """Take off what a typed dict says of a field, which its own list lacks if it was a string."""
    origin = get_origin(annotation)
    if origin is Required or origin is NotRequired:
        return get_args(annotation)[0], origin is Required
    return annotation, required


def _without_reducer(annotation: Any) -> tuple[Reducer | None, Any]:
    if get_origin(annotation) is not Annotated:
        return None, annotation
    kind, *metadata = get_args(annotation)
    reducers = [each for each in metadata if _is_reducer(each)]
    if len(reducers) > 1:
        raise ValueError(f"it has {len(reducers)} reducers; give it one.")
    others = [each for each in metadata if not _is_reducer(each)]
    return reducers[0] if reducers else None, _with(kind, others)


def _is_reducer(metadata: Any) -> bool:
    """Whether it is a function, rather than something that tells pydantic of a constraint."""
    owner = type(metadata).__module__.partition(".")[0]
    constrains = owner in ("annotated_types", "msgspec", "pydantic")
    return callable(metadata) and not isinstance(metadata, type) and not constrains


def _with(kind: Any, metadata: list[Any]) -> Any:
    return Annotated[(kind, *metadata)] if metadata else kind


def _check_of(annotation: Any) -> Callable[[Any], Any]:
    from pydantic import ConfigDict, PydanticUserError, TypeAdapter  # noqa: PLC0415 it is slow

    config = ConfigDict(arbitrary_types_allowed=True)
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(annotation, config=config)
    except PydanticUserError as error:
        if error.code != "type-adapter-config-unused":
            raise
        adapter = TypeAdapter(annotation)  # the class has its own
    return adapter.validate_python


def _problems(error: Any) -> str:
    """Return what pydantic found wrong, and where, without the values, which may be secret."""
    if not hasattr(error, "errors"):
        return str(error)
    found: list[str] = []
    for each in error.errors(include_url=False, include_input=False, include_context=False):
        place = "".join(f"[{step!r}]" for step in each["loc"])
        found.append(f"{place}: {each['msg']}" if place else each["msg"])
    return "; ".join(found)


def _label(annotation: Any) -> str:
    return type_label(annotation) if isinstance(annotation, type) else str(annotation)
