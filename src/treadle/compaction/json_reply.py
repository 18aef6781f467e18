"""Read the JSON object in what a model wrote."""

from __future__ import annotations

import json
import re
from collections import deque
from typing import Any

from treadle.values import is_object

_MARK = re.compile(r'"(?:[^"\\]++|\\.)*+"|[{}\[\],]', re.DOTALL)
_MOST_TRIES = 20
_DEEPEST = 50
_TRAILING = re.compile(r'("(?:[^"\\]++|\\.)*+")|,(?=\s*+[}\]])', re.DOTALL)


def object_in(text: str) -> dict[str, Any]:
    """Return the object from the first `{` to the last `}`; commas before a bracket may stand.

    Raises:
        ValueError: there is none; its message says what is wrong.
    """
    start, end = text.find("{"), text.rfind("}")
    if start < 0 or end < start:
        raise ValueError("there is no JSON object in it")
    body = text[start : end + 1]
    try:
        return _decoded(body)
    except ValueError:
        return _decoded(_TRAILING.sub(lambda match: match[1] or "", body))


def beginning_in(text: str) -> dict[str, Any]:
    """Return what is whole of an object that was cut off or has a fault in it; {} for nothing.

    What stands before the fault is read, as far as its values are whole.
    """
    body = text[max(text.find("{"), 0) :]
    try:
        return _decoded(body)
    except json.JSONDecodeError as error:
        fault = error.pos
    except ValueError:
        return {}
    open_brackets: list[str] = []
    cuts: deque[str] = deque(maxlen=_MOST_TRIES)
    for match in _MARK.finditer(body, 0, fault):
        mark = match[0]
        if mark in "{[":
            open_brackets.append("}" if mark == "{" else "]")
            if len(open_brackets) > _DEEPEST:
                break
        elif mark in "}]" and open_brackets:
            open_brackets.pop()
        if mark in ",]}":
            end = match.start() if mark == "," else match.end()
            cuts.append(body[:end] + "".join(reversed(open_brackets)))
    for cut in reversed(cuts):
        try:
            return _decoded(cut)
        except ValueError:
            continue
    return {}


def _decoded(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text, strict=False)
    except RecursionError:
        raise ValueError("it is nested too deep") from None
    if not is_object(value):
        raise ValueError("it is no object")
    return value
