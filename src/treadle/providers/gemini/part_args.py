"""Arguments of a call that arrive in pieces, each at its place in the whole."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

from treadle.providers._json import DEEPEST
from treadle.providers.gemini.dialect import Wire
from treadle.values import is_array, is_object

_STEP = re.compile(
    r"\.?([^.\[\]'\"]+)|\[(\d+)\]|\['((?:[^'\\]|\\.)*)'\]|\[\"((?:[^\"\\]|\\.)*)\"\]"
)
_VALUES = ("stringValue", "numberValue", "boolValue", "nullValue")
_MOST = 10_000
"""No list of arguments is longer: an index that claims so is no place."""


def add_pieces(arguments: Wire, pieces: Any) -> None:
    """Put pieces of arguments where they belong; a text grows, everything else is set."""
    for piece in pieces if is_array(pieces) else ():
        if not is_object(piece):
            continue
        steps = _steps(str(piece.get("jsonPath") or ""))
        field = next((name for name in _VALUES if name in piece), None)
        value = None if field is None or field == "nullValue" else piece[field]
        if steps and len(steps) < DEEPEST and field and not isinstance(value, dict | list):
            _put(arguments, steps, value)


def _steps(path: str) -> list[str | int]:
    """Return the steps of a JSONPath like ``$.places[0].name``."""
    steps: list[str | int] = []
    for dotted, index, single, double in _STEP.findall(path.removeprefix("$")):
        steps.append(
            _index(index) if index else re.sub(r"\\(.)", r"\1", dotted or single or double)
        )
    return steps


def _index(digits: str) -> int:
    return int(digits) if len(digits) < len(str(_MOST)) else _MOST


def _put(inside: Any, steps: list[str | int], value: object) -> None:
    for step, following in pairwise(steps):
        empty: Any = [] if isinstance(following, int) else {}
        inside = _held(inside, step, empty)
    last = steps[-1]
    before = _held(inside, last, None)
    if isinstance(before, str) and isinstance(value, str):
        value = before + value
    if is_object(inside) and isinstance(last, str):
        inside.update({last: value})
    elif is_array(inside) and isinstance(last, int) and last < len(inside):
        inside[last] = value


def _held(inside: Any, step: str | int, empty: object) -> Any:
    """Return what is at a step, put there when nothing is."""
    if is_object(inside) and isinstance(step, str):
        if inside.get(step) is None:
            inside[step] = empty
        return inside[step]
    if is_array(inside) and isinstance(step, int) and step < _MOST:
        while len(inside) <= step:
            inside.append(None)
        if inside[step] is None:
            inside[step] = empty
        return inside[step]
    return None
