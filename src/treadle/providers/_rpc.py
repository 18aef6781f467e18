"""What the details of a Google API's error say: why, how long to wait, whether waiting helps."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from treadle.values import is_array, is_object

_DELAY = re.compile(r"(\d+(?:\.\d+)?)s")
_IN_WORDS = re.compile(r"(?:retry|try again) in (\d+(?:\.\d+)?)(ms|s)\b")
_LONG = re.compile(r"per_?(day|week|month)", re.IGNORECASE)
_LONGEST = 1e9
_NONE_AT_ALL = re.compile(r"\blimit: 0\b")


class Details(Struct, frozen=True):
    """The typed details of `google.rpc`.

    `spent` says whether a quota is used up for hours (True) or a rate was passed (False).
    """

    reason: str = ""
    retry_after: float | None = None
    request_id: str | None = None
    spent: bool | None = None


def details_in(error: dict[str, Any], text: str) -> Details:
    """Return what the object of an error, and its words, tell."""
    given: Any = error.get("details")
    details = [item for item in given if is_object(item)] if is_array(given) else []
    waits = [_seconds(item.get("retryDelay")) for item in details]
    wait = next((seconds for seconds in waits if seconds is not None), None)
    if wait is None and (said := _IN_WORDS.search(text)):
        wait = _sane(float(said[1]) / (1000 if said[2] == "ms" else 1))
    return Details(
        _first(details, "reason"),
        wait,
        _first(details, "requestId") or None,
        _spent(details, text, wait),
    )


def _spent(details: list[dict[str, Any]], text: str, wait: float | None) -> bool | None:
    named = [
        _first([violation], "quotaId") or _first([violation], "quotaMetric")
        for item in details
        for violation in _objects(item.get("violations"))
    ]
    if any(_LONG.search(name) for name in named) or (named and _NONE_AT_ALL.search(text)):
        return True
    return False if named or wait is not None else None


def _first(details: Iterable[dict[str, Any]], name: str) -> str:
    words = (item.get(name) for item in details)
    return next((word for word in words if isinstance(word, str)), "")


def _objects(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if is_object(item)] if is_array(value) else []


def _seconds(value: object) -> float | None:
    """Return a duration: "34s", "1.5s", or an object of seconds and nanos."""
    if is_object(value):
        seconds, nanos = _number(value.get("seconds")), _number(value.get("nanos"))
        return None if seconds is None or nanos is None else _sane(seconds + nanos / 1e9)
    found = _DELAY.fullmatch(value) if isinstance(value, str) else None
    return _sane(float(found[1])) if found else None


def _number(value: object) -> float | None:
    """Return a number or the text of one, 0 where there is none, None for anything else."""
    if value is None:
        return 0.0
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None


def _sane(seconds: float) -> float | None:
    """Return a wait that somebody may mean: neither negative nor without end."""
    return seconds if 0 <= seconds < _LONGEST else None
