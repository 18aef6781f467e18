"""Functions that a graph is given: are they ones, and what are they called."""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter, isawaitable, iscoroutine, iscoroutinefunction, signature
from typing import Any

from treadle.errors import ConfigError


def name_of(function: object) -> str:
    """Return what a function is called, for people and for the graph's definition."""
    named = getattr(function, "func", function)  # of functools.partial
    name = getattr(named, "__qualname__", None) or type(named).__qualname__
    return str(name).rpartition("<locals>.")[2]


def check_function(
    given: object, what: str, *, takes: str, can_wait: bool = False
) -> Callable[[Any], Any]:
    """Return a function of one argument, checked; `can_wait` is whether it may be async.

    Raises:
        ConfigError: it is none, takes something else, or is async where nothing can wait for it.
    """
    if isinstance(given, type) or not callable(given):
        raise ConfigError(f"{what} is a function of {takes}, not {given!r:.60}.")
    if not can_wait and is_async(given):
        raise ConfigError(
            f"{what} cannot be async: {name_of(given)}. Let a function node do what takes time, "
            "and look at its output here."
        )
    if not _takes_one(given):
        raise ConfigError(f"{what} is called with {takes} alone; {name_of(given)} does not fit.")
    return given


def is_async(function: object) -> bool:
    """Whether calling it gives a coroutine."""
    call = getattr(function, "__call__", None)  # noqa: B004 its own, not whether it has one
    return iscoroutinefunction(function) or iscoroutinefunction(call)


def answer(function: Callable[[Any], Any], view: object) -> Any:
    """Return what a function between the nodes says.

    Raises:
        TypeError: it is something to be awaited, which nobody does here, and always true.
    """
    said = function(view)
    if isawaitable(said):
        if iscoroutine(said):
            said.close()
        raise TypeError("it returned something to be awaited; let a function node do that")
    return said


def _takes_one(function: Callable[..., Any]) -> bool:
    try:
        parameters = signature(function).parameters.values()
    except (TypeError, ValueError):  # some that are written in C tell nothing
        return True
    positional = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
    if not any(each.kind in (*positional, Parameter.VAR_POSITIONAL) for each in parameters):
        return False
    needed = [
        each
        for each in parameters
        if each.default is Parameter.empty
        and each.kind not in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
    ]
    return len(needed) <= 1 and all(each.kind in positional for each in needed)
