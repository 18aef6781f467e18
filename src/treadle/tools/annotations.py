"""What the annotations of a function mean, wherever the function was defined."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Mapping
from types import CodeType, FunctionType, MethodType, SimpleNamespace
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from msgspec import Struct

Function = Callable[..., Any]


class Absent:
    """The type of `ABSENT`."""


ABSENT = Absent()
"""Stands for a default that is not there, where None is a default."""


class Field(Struct, frozen=True):
    """One parameter; its `description` is the docstring's, any in `annotation` counts more.

    One with a default takes that when it is not given; without one it is left out, or refused
    when it is `required`.
    """

    name: str
    annotation: Any
    required: bool = True
    default: Any = ABSENT
    description: str = ""


def description_in(metadata: object) -> str:
    """Return the description that a piece of `Annotated` metadata is: a text, or a `Doc`."""
    text = metadata if isinstance(metadata, str) else getattr(metadata, "documentation", None)
    return text if isinstance(text, str) else ""


def called_function(target: Function) -> Function:
    """Return the function that runs when `target` is called.

    Looks through `functools.partial`, bound methods and callable objects, but not wrappers.
    """
    while True:
        call = getattr(type(target), "__call__", None)  # noqa: B004 the function itself is wanted
        if isinstance(target, functools.partial):
            target = target.func
        elif isinstance(target, MethodType):
            target = target.__func__
        elif isinstance(target, FunctionType | type) or not isinstance(call, FunctionType):
            return target
        else:
            target = call


def defined_function(target: Function) -> Function:
    """Return the function in which the annotations and the docstring stand, inside any wrappers."""
    while True:
        found = inspect.unwrap(called_function(target))
        if found is target:
            return found
        target = found


class Names:
    """The names that a function's annotations may use: its module's, and those around it.

    Names of enclosing functions count as long as these are still running, which they are while
    the function is being decorated, or when the function itself refers to them.
    """

    def __init__(self, target: Function) -> None:
        function = defined_function(target)
        body = getattr(function, "__init__", function) if isinstance(function, type) else function
        module = sys.modules.get(getattr(function, "__module__", None) or "")
        found: dict[str, Any] | None = getattr(body, "__globals__", None)
        self.module_names: dict[str, Any] = (
            vars(module) if found is None and module else found or {}
        )
        self.local_names: dict[str, Any] = _names_around(getattr(body, "__code__", None))
        self.local_names |= _closed_over(body)

    def resolve(self, annotation: object) -> Any:
        """Return the type that an annotation means, `Annotated` kept.

        Raises:
            NameError: it uses a name that is not known here.
            Exception: whatever else evaluating it raises.
        """
        holder = SimpleNamespace(__annotations__={"it": annotation})
        hints = get_type_hints(holder, self.module_names, self.local_names, include_extras=True)
        return hints["it"]


def split_annotated(annotation: Any) -> tuple[Any, tuple[Any, ...]]:
    """Return a type and the metadata that `Annotated` gives it."""
    if get_origin(annotation) is Annotated:
        kind, *metadata = get_args(annotation)
        return kind, tuple(metadata)
    return annotation, ()


def _names_around(code: CodeType | None) -> dict[str, Any]:
    """Return the names of the running functions and class bodies in which `code` was written."""
    names: dict[str, Any] = {}
    frame = inspect.currentframe()
    while code is not None and frame is not None and frame.f_code.co_name != "<module>":
        if any(constant is code for constant in frame.f_code.co_consts):
            names = {**frame.f_locals, **names}
            code = frame.f_code
        frame = frame.f_back
    return names


def _closed_over(function: object) -> Mapping[str, Any]:
    code, cells = getattr(function, "__code__", None), getattr(function, "__closure__", None) or ()
    names: dict[str, Any] = {}
    for name, cell in zip(code.co_freevars if code else (), cells, strict=True):
        try:
            names[name] = cell.cell_contents
        except ValueError:  # not bound yet
            continue
    return names
