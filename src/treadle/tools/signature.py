"""A typed function as a tool: its name, its description, and the JSON Schema of its parameters."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from inspect import Parameter
from types import FunctionType, NoneType, UnionType
from typing import Any, Union, Unpack, get_args, get_origin

from treadle.errors import InvalidTool
from treadle.tools.annotations import (
    ABSENT,
    Field,
    Names,
    called_function,
    defined_function,
    split_annotated,
)
from treadle.tools.arguments import ArgumentsInvalid, parse_arguments
from treadle.tools.decoder import ArgumentDecoder, TypeDecoder

__all__ = [
    "ArgumentDecoder",
    "ArgumentsInvalid",
    "Signature",
    "TypeDecoder",
    "inspect_function",
    "parse_arguments",
    "takes_context",
]

Function = Callable[..., Any]

CONTEXT_NAME = "ctx"


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """What a model needs to know of a function, and what is needed to call it.

    `name` is "" for a lambda. `parameters` is a JSON Schema object. `types` are the resolved
    annotations of what is in it, by name. `returns` is what calling (and awaiting) gives: None
    without an annotation or when that cannot be resolved, `NoneType` for `-> None`.
    """

    name: str
    description: str
    parameters: dict[str, Any]
    takes_context: bool
    is_async: bool
    returns: Any
    types: dict[str, Any]
    decoder: ArgumentDecoder


def inspect_function(function: Function, *, context_type: type) -> Signature:
    """Read what a tool needs from a function, bound method, callable object or partial.

    A first parameter that is annotated with `context_type`, or called `ctx` with no annotation or
    `Any`, is not in the schema; neither are keywords that a partial has set. `**kwargs: T` allows
    further arguments of type T. Descriptions of parameters come from `Annotated` (a text, or
    pydantic's `Field`), else from the docstring.

    Raises:
        InvalidTool: the function has no signature, takes `*args`, has parameters that cannot be
            given by name, or types that cannot be resolved or have no JSON form.
    """
    name = _name_of(function)
    parameters = _parameters_of(function, name)
    names = Names(function)
    has_context = bool(parameters) and _is_for_context(parameters[0], names, context_type)
    text, described = _descriptions_of(function)
    fields: list[Field] = []
    extra: Any = ABSENT
    for parameter in parameters[has_context:]:
        annotation = _resolved(parameter, names, name)
        _check(parameter, annotation, name, context_type)
        if parameter.kind is Parameter.VAR_KEYWORD:
            extra = annotation
        else:
            default = ABSENT if _has_no_default(parameter) else parameter.default
            description = described.get(parameter.name, "")
            fields.append(
                Field(parameter.name, annotation, default=default, description=description)
            )
    decoder = _decoder_for(fields, extra, names, name)
    returns, gives_awaitable = _returns_of(function, names)
    return Signature(
        name=name,
        description=text,
        parameters=decoder.schema,
        takes_context=has_context,
        is_async=gives_awaitable or inspect.iscoroutinefunction(called_function(function)),
        returns=returns,
        types={field.name: field.annotation for field in fields},
        decoder=decoder,
    )


def takes_context(function: Function, *, context_type: type) -> bool:
    """Whether the function's first parameter is for the context (see `inspect_function`)."""
    try:
        first = next(iter(inspect.signature(function).parameters.values()), None)
    except (TypeError, ValueError):
        return False
    return first is not None and _is_for_context(first, Names(function), context_type)


def _name_of(function: Function) -> str:
    while isinstance(function, functools.partial):
        function = function.func
    name = getattr(function, "__name__", None) or type(function).__name__
    return "" if name == "<lambda>" else name


def _parameters_of(function: Function, name: str) -> list[Parameter]:
    """Return the parameters that are left to give: a partial has set its keywords for good."""
    called = called_function(function)
    if inspect.isgeneratorfunction(called) or inspect.isasyncgenfunction(called):
        raise InvalidTool(
            f"Tool {name!r} is a generator. Return one value; tell progress with ctx.report()."
        )
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError) as error:
        raise InvalidTool(
            f"Tool {name!r}: {function!r} tells no signature. Wrap it in a typed function."
        ) from error
    bound = function.keywords if isinstance(function, functools.partial) else {}
    return [parameter for parameter in parameters if parameter.name not in bound]


def _has_no_default(parameter: Parameter) -> bool:
    return parameter.default is Parameter.empty or parameter.default is Ellipsis


def _is_for_context(parameter: Parameter, names: Names, context_type: type) -> bool:
    """Whether a first parameter is the context: by its type, or by its name when it has none."""
    if parameter.kind not in (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD):
        return False
    annotation = parameter.annotation
    try:
        resolved = Any if annotation is Parameter.empty else names.resolve(annotation)
    except Exception:  # noqa: BLE001 evaluating an annotation may raise anything
        # An import under TYPE_CHECKING, of the context or of what it is of, is enough here.
        called = rf"(\w+\.)*{re.escape(context_type.__name__)}(\[.*\])?(\s*\|\s*None)?"
        return re.fullmatch(called, str(annotation).strip()) is not None
    by_name = resolved is Any and parameter.name == CONTEXT_NAME
    return by_name or _is_context(resolved, context_type)


def _is_context(annotation: Any, context_type: type) -> bool:
    kind, _ = split_annotated(annotation)
    if get_origin(kind) in (Union, UnionType):
        return any(_is_context(member, context_type) for member in get_args(kind))
    cls = get_origin(kind) or kind
    return isinstance(cls, type) and issubclass(cls, context_type)


def _resolved(parameter: Parameter, names: Names, tool: str) -> Any:
    annotation = parameter.annotation
    if annotation is Parameter.empty:
        return Any
    try:
        return names.resolve(annotation)
    except Exception as error:
        raise InvalidTool(
            f"Tool {tool!r}: the annotation {annotation!r} of parameter {parameter.name!r} cannot "
            f"be resolved: {error}. Define or import what it names before the tool is made; an "
            "import under TYPE_CHECKING is not there then."
        ) from error


def _check(parameter: Parameter, annotation: Any, tool: str, context_type: type) -> None:
    """Refuse a parameter that a model cannot give by name."""
    start = f"Tool {tool!r}: parameter {parameter.name!r}"
    if parameter.kind is Parameter.VAR_POSITIONAL:
        raise InvalidTool(f"{start} is *{parameter.name}; take a list parameter instead.")
    if parameter.kind is Parameter.POSITIONAL_ONLY:
        raise InvalidTool(f"{start} is positional-only; arguments have names, so remove the '/'.")
    if _is_context(annotation, context_type):
        raise InvalidTool(f"{start} is a {context_type.__name__}; put it first.")
    if get_origin(annotation) is Unpack:
        raise InvalidTool(f"{start} unpacks {annotation}; write its keys as parameters.")
    if parameter.name in ("self", "cls") and parameter.annotation is Parameter.empty:
        raise InvalidTool(f"{start} is that of a method; pass an object's bound method instead.")


def _decoder_for(fields: list[Field], extra: Any, names: Names, tool: str) -> ArgumentDecoder:
    try:
        return ArgumentDecoder(fields, extra=extra, names=names.local_names)
    except TypeError as error:
        raise InvalidTool(
            f"Tool {tool!r}: parameter {error} Use types that have a JSON form."
        ) from error


def _descriptions_of(function: Function) -> tuple[str, dict[str, str]]:
    """Return the description of the function, and those of its parameters."""
    docstring = inspect.cleandoc(_docstring_of(function))
    if _LABEL.search(docstring) is None:
        return docstring.strip(), {}
    return _read_docstring(docstring)


def _docstring_of(function: Function) -> str:
    """Return the docstring of the function, or of the class of a callable object."""
    while isinstance(function, functools.partial):
        function = function.func
    own = defined_function(function).__doc__
    return own or (function.__doc__ if not isinstance(function, FunctionType) else None) or ""


_LABEL = re.compile(r"^\s*:\w|:\s*$|^\s*-{3,}\s*$", re.MULTILINE)
"""The start of a section or field, as any style of docstring writes it."""


def _read_docstring(docstring: str) -> tuple[str, dict[str, str]]:
    """Load the parser of docstrings with the first that has sections."""
    from treadle.tools.docstrings import describe  # noqa: PLC0415 (most need none)

    found = describe(docstring)
    return found.text, found.parameters


def _returns_of(function: Function, names: Names) -> tuple[Any, bool]:
    """Return what the function gives in the end, and whether it says that this is awaited."""
    annotation = inspect.signature(function).return_annotation
    if annotation is Parameter.empty:
        return None, False
    try:
        resolved = names.resolve(annotation)
    except Exception:  # noqa: BLE001 evaluating an annotation may raise anything; results need none
        return None, False
    cls = get_origin(resolved) or resolved
    if isinstance(cls, type) and issubclass(cls, Awaitable):
        return (get_args(resolved) or (Any,))[-1], True
    return (NoneType if resolved is None else resolved), False
