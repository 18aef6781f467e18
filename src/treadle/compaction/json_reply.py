"""Read the JSON object in what a model wrote."""

from __future__ import annotations

import json
import re
from typing import Any

from treadle.values import is_object

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


def _decoded(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text, strict=False)
    except RecursionError:
        raise ValueError("it is nested too deep") from None
    if not is_object(value):
        raise ValueError("it is no object")
    return value
