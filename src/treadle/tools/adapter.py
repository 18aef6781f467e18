"""Parameters of any type, by way of pydantic: their schema, and their validation."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from types import new_class
from typing import Annotated, Any, NotRequired

import msgspec
from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic import Field as PydanticField
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import ErrorDetails, PydanticSerializationError
from typing_extensions import TypedDict

from treadle.tools.annotations import ABSENT, Field, split_annotated
from treadle.tools.arguments import Path, Problem, show
from treadle.tools.names import likely
from treadle.tools.schema import JsonSchema, inline_where_possible, without_titles
from treadle.tools.stand_ins import NO_SUCH_TAG, Translator, translate_metadata
from treadle.values import is_array, is_object

Validate = Callable[[Any], dict[str, Any]]

ARRAY = "expected an array"
OBJECT = "expected an object"
CONTAINERS = {
    "list_type": ARRAY,
    "tuple_type": ARRAY,
    "set_type": ARRAY,
    "frozen_set_type": ARRAY,
    "sequence_str": ARRAY,
    "iterable_type": ARRAY,
    "named_tuple_type": "expected an array or an object",
    "arguments_type": "expected an array or an object",
    "dict_type": OBJECT,
    "mapping_type": OBJECT,
    "model_type": OBJECT,
    "model_attributes_type": OBJECT,
    "dataclass_type": OBJECT,
    "dataclass_exact_type": OBJECT,
    NO_SUCH_TAG: "",
}
"""pydantic's names for the errors of a value that is no array or object, and our words for them."""

_TAG = re.compile(r"(?:.*\[)?([A-Za-z_]\w*)(?:\(\)\])?")
"""A member of a union in an error's location: its name, or that of the function that makes it."""


class UnsupportedType(TypeError):
    """A type has no JSON form, or a name in it is not known; the message says which and why."""


class Adapter:
    """Validates arguments for the given fields; `extra` is the type of others, if any are taken.

    Raises:
        UnsupportedType: pydantic cannot treat a type.
    """

    def __init__(self, fields: Sequence[Field], extra: Any, names: Mapping[str, Any]) -> None:
        translator = Translator(names)
        self._validate, schema = _all_built(fields, translator, names)
        self._known = frozenset(schema["properties"])
        self._validate_extra: Validate | None = None
        if extra is not ABSENT:
            kind = dict[str, translator.translate(extra)]
            self._validate_extra, extra_schema = _built(kind, names)
            schema = _with_extra(schema, extra_schema)
        self.schema: JsonSchema = inline_where_possible(schema)
        translator.forget_names()

    def attempt(self, arguments: Any) -> tuple[dict[str, Any], list[Problem]]:
        """Return the values, or none and what is wrong with the arguments."""
        if self._validate_extra is None:
            return self._checked(self._validate, arguments)
        named = {name: value for name, value in arguments.items() if name in self._known}
        others = {name: value for name, value in arguments.items() if name not in self._known}
        values, problems = self._checked(self._validate, named)
        more, further = self._checked(self._validate_extra, others)
        return {**more, **values}, problems + further

    def _checked(self, validate: Validate, arguments: Any) -> tuple[dict[str, Any], list[Problem]]:
        try:
            return validate(arguments), []
        except ValidationError as error:
            details = error.errors(include_url=False, include_context=False)
            return {}, _problems(details, arguments, self._known)
        except Exception as error:  # noqa: BLE001 validators are users' code and may raise anything
            return {}, [Problem((), f"could not be validated: {type(error).__name__}: {error}")]


def _all_built(
    fields: Sequence[Field], translator: Translator, names: Mapping[str, Any]
) -> tuple[Validate, JsonSchema]:
    """Build for all fields at once; when that fails, find out whose fault it is."""
    try:
        return _built(_typed_dict(fields, translator), names)
    except UnsupportedType:
        for field in fields:
            try:
                _built(_typed_dict([field], translator), names)
            except UnsupportedType as error:
                raise UnsupportedType(f"{field.name}: {error}") from error
        raise


def _typed_dict(fields: Sequence[Field], translator: Translator) -> type:
    annotations = {field.name: _annotation(field, translator) for field in fields}
    members = {"__annotations__": annotations, "__module__": __name__}
    kind = new_class("Arguments", (TypedDict,), {}, lambda namespace: namespace.update(members))
    setattr(kind, "__pydantic_config__", ConfigDict(extra="forbid", defer_build=True))  # noqa: B010
    return kind


def _annotation(field: Field, translator: Translator) -> Any:
    """Return one field for pydantic; what stands later in `Annotated` wins over what is before."""
    kind, given = split_annotated(field.annotation)
    metadata = [translate_metadata(each) for each in given]
    if field.description:
        metadata.insert(0, PydanticField(description=field.description))
    if isinstance(field.default, FieldInfo):
        metadata.append(field.default)
    elif field.default is not ABSENT:
        metadata.append(PydanticField(default=field.default))
    kind = translator.translate(kind)
    annotation = Annotated[(kind, *metadata)] if metadata else kind
    has_default = any(isinstance(each, FieldInfo) and not each.is_required() for each in metadata)
    return NotRequired[annotation] if has_default or not field.required else annotation


def _built(kind: Any, names: Mapping[str, Any]) -> tuple[Validate, JsonSchema]:
    """Return how to validate a type, and its schema; annotations inside it may use `names`."""
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(kind)
        adapter.rebuild(force=True, _types_namespace=dict(names))
        schema = without_titles(adapter.json_schema(schema_generator=_SchemaWriter))
    except (TypeError, ValueError, NameError, AttributeError, RuntimeError) as error:
        raise UnsupportedType(_first_line(error)) from error
    return adapter.validator.validate_python, schema


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]


class _SchemaWriter(GenerateJsonSchema):
    """Leaves out what has no JSON form without a warning, and writes defaults that are Structs."""

    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012

    def encode_default(self, dft: Any) -> Any:
        try:
            shown = super().encode_default(dft)
        except PydanticSerializationError as error:
            try:
                return msgspec.to_builtins(dft)
            except (TypeError, ValueError):
                raise error from None
        try:
            json.dumps(shown, allow_nan=False)
        except ValueError as error:
            raise PydanticSerializationError(str(error)) from error
        return shown


def _with_extra(schema: JsonSchema, others: JsonSchema) -> JsonSchema:
    """Return the schema of an object that also takes the properties of another one."""
    definitions = schema.get("$defs", {}) | others.get("$defs", {})
    extended = schema | {"additionalProperties": others.get("additionalProperties", True)}
    return extended | ({"$defs": definitions} if definitions else {})


def _problems(
    details: Sequence[ErrorDetails], arguments: Any, known: frozenset[str]
) -> list[Problem]:
    """Return pydantic's findings, those about one place (a union's members) as one."""
    found: dict[tuple[Path, bool], Problem] = {}
    for detail in details:
        problem = _problem(detail, arguments, known)
        key = (problem.path, bool(problem.got))
        earlier = found.get(key)
        if earlier is not None:
            problem = Problem(
                problem.path,
                _joined(earlier.text, problem.text),
                problem.got,
                earlier.wants_json or problem.wants_json,
            )
        found[key] = problem
    return list(found.values())


def _joined(first: str, second: str) -> str:
    if second in first:
        return first
    return f"{first} or {second.removeprefix('expected ')}"


def _problem(detail: ErrorDetails, arguments: Any, known: frozenset[str]) -> Problem:
    kind, value = detail["type"], detail["input"]
    path, member = _located(arguments, detail["loc"], missing=kind == "missing")
    if kind == "missing":
        note = f" (for {member})" if member else ""
        return Problem(path, f"required, but missing{note}")
    if kind in ("extra_forbidden", "unexpected_keyword_argument"):
        return Problem(path, _unknown(path, known), show(value))
    text = CONTAINERS.get(kind) or _reworded(detail["msg"])
    return Problem(path, text, show(value), isinstance(value, str) and kind in CONTAINERS)


def _unknown(path: Path, known: frozenset[str]) -> str:
    name = str(path[-1]) if path else ""
    meant = likely(name, known) if len(path) == 1 else None
    return "unknown parameter" + (f", did you mean {meant!r}?" if meant else "")


def _reworded(message: str) -> str:
    for start, instead in (("Input should be", "expected"), ("Value error, ", "")):
        if message.startswith(start):
            return instead + message.removeprefix(start)
    return message[:1].lower() + message[1:]


def _located(arguments: Any, location: Sequence[str | int], *, missing: bool) -> tuple[Path, str]:
    """Return the path of a finding in the arguments, and the union member it is about.

    pydantic puts the members of unions among the keys; those lead nowhere in the arguments.
    """
    path: list[str | int] = []
    member = ""
    here = arguments
    for place, step in enumerate(location):
        if is_object(here) and step in here:
            path.append(step)
            here = here[str(step)]
        elif is_array(here) and isinstance(step, int) and step < len(here):
            path.append(step)
            here = here[step]
        elif missing and place == len(location) - 1:
            path.append(step)
        else:
            matched = _TAG.fullmatch(str(step))
            member = matched[1] if matched else member
    return tuple(path), member
