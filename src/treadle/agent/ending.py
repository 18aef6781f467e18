"""How a run ends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from treadle.errors import NotStorable, TreadleError
from treadle.events import StopReason
from treadle.values import Plain, json_text, pack

NO_OUTPUT: Any = object()
"""Stands for the output of a run that has no answer; None may be one."""


@dataclass(slots=True, kw_only=True)
class Ending:
    """Why a run stops and with what.

    Without an answer `output` is `NO_OUTPUT`: the result then has the text so far. `error` is what
    a failed run raises. `stored` says that the journal already has the end, `raises` that the
    run's task was cancelled from outside and must say so.
    """

    stop_reason: StopReason
    output: Any = NO_OUTPUT
    reason: str = ""
    error: TreadleError | None = None
    stored: bool = False
    raises: bool = False


def storable(output: Any) -> Plain:
    """Return an output as journals keep it: lossless where its type allows, else as JSON text."""
    try:
        return pack(output, "output")
    except NotStorable:
        pass
    try:
        return json_text(output)
    except NotStorable:
        return f"<{type(output).__name__}>"
