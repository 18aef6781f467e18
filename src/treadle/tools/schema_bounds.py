"""The JSON Schema keywords that bound one value by itself: ranges, lengths, patterns, counts."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from treadle.tools.arguments import show
from treadle.values import is_array, is_object

Test = Callable[[Any], bool]


class Bound(Struct, frozen=True):
    """A bound on values of one kind, and the words for what it expects."""

    applies: Test
    holds: Test
    text: str


MakeBound = Callable[[Any, Mapping[str, Any]], Bound | None]
"""Makes a bound of a keyword's value and its whole schema; None for a value that makes no sense."""


def is_number(value: object) -> bool:
    """Whether a JSON value is a number; true and false are none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_string(value: object) -> bool:
    """Whether a JSON value is a string."""
    return isinstance(value, str)


def same_json(first: object, second: object) -> bool:
    """Whether two JSON values are equal: 1 equals 1.0 and not true."""
    if isinstance(first, bool) or isinstance(second, bool):
        return first is second
    if is_array(first) and is_array(second):
        return len(first) == len(second) and all(map(same_json, first, second))
    if is_object(first) and is_object(second):
        same_keys = first.keys() == second.keys()
        return same_keys and all(same_json(first[key], second[key]) for key in first)
    return first == second


def _minimum(least: Any, schema: Mapping[str, Any]) -> Bound | None:
    if schema.get("exclusiveMinimum") is True:  # as drafts up to 4 write it
        return _exclusive_minimum(least, schema)
    if not is_number(least):
        return None
    return Bound(is_number, lambda value: value >= least, f"expected at least {least}")


def _maximum(most: Any, schema: Mapping[str, Any]) -> Bound | None:
    if schema.get("exclusiveMaximum") is True:
        return _exclusive_maximum(most, schema)
    if not is_number(most):
        return None
    return Bound(is_number, lambda value: value <= most, f"expected at most {most}")


def _exclusive_minimum(below: Any, _: Mapping[str, Any]) -> Bound | None:
    if not is_number(below):
        return None
    return Bound(is_number, lambda value: value > below, f"expected more than {below}")


def _exclusive_maximum(above: Any, _: Mapping[str, Any]) -> Bound | None:
    if not is_number(above):
        return None
    return Bound(is_number, lambda value: value < above, f"expected less than {above}")


def _multiple_of(step: Any, _: Mapping[str, Any]) -> Bound | None:
    if not is_number(step) or step <= 0:
        return None

    def holds(value: Any) -> bool:
        if isinstance(value, int) and isinstance(step, int):
            return value % step == 0
        times = value / step  # 0.3 / 0.1 is not quite 3
        return abs(times - round(times)) < 1e-9 * max(1.0, abs(times))

    return Bound(is_number, holds, f"expected a multiple of {step}")


def _pattern(pattern: Any, _: Mapping[str, Any]) -> Bound | None:
    try:
        search = re.compile(pattern).search
    except (re.error, TypeError):  # JavaScript's patterns are not all Python's
        return None
    text = f"expected text that matches {show(pattern)}"
    return Bound(is_string, lambda value: search(value) is not None, text)


def _sized(applies: Test, unit: str, *, least: bool) -> MakeBound:
    def make(size: Any, _: Mapping[str, Any]) -> Bound | None:
        if not is_number(size):
            return None
        if least:
            text = f"expected at least {size} {unit}"
            return Bound(applies, lambda value: len(value) >= size, text)
        text = f"expected at most {size} {unit}"
        return Bound(applies, lambda value: len(value) <= size, text)

    return make


def _unique(wanted: Any, _: Mapping[str, Any]) -> Bound | None:
    def holds(values: list[Any]) -> bool:
        pairs = ((value, other) for i, value in enumerate(values) for other in values[:i])
        return not any(same_json(value, other) for value, other in pairs)

    return Bound(is_array, holds, "expected no item twice") if wanted is True else None


def _enum(choices: Any, _: Mapping[str, Any]) -> Bound | None:
    if not is_array(choices):
        return None
    text = f"expected {' | '.join(map(show, choices))}"
    strings = frozenset(choice for choice in choices if isinstance(choice, str))
    others = [choice for choice in choices if not isinstance(choice, str)]

    def holds(value: Any) -> bool:
        if isinstance(value, str):
            return value in strings
        return any(same_json(value, choice) for choice in others)

    return Bound(_anything, holds, text)


def _const(only: Any, _: Mapping[str, Any]) -> Bound | None:
    return Bound(_anything, lambda value: same_json(value, only), f"expected {show(only)}")


def _anything(_: object) -> bool:
    return True


BOUNDS: Mapping[str, MakeBound] = {
    "enum": _enum,
    "const": _const,
    "minimum": _minimum,
    "maximum": _maximum,
    "exclusiveMinimum": _exclusive_minimum,
    "exclusiveMaximum": _exclusive_maximum,
    "multipleOf": _multiple_of,
    "minLength": _sized(is_string, "characters", least=True),
    "maxLength": _sized(is_string, "characters", least=False),
    "pattern": _pattern,
    "minItems": _sized(is_array, "items", least=True),
    "maxItems": _sized(is_array, "items", least=False),
    "uniqueItems": _unique,
    "minProperties": _sized(is_object, "properties", least=True),
    "maxProperties": _sized(is_object, "properties", least=False),
}
"""Every keyword of this kind, and how to make a bound of it."""
