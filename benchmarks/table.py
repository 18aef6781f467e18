"""Figures with their spread, what they are held against, and how they are printed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import median

import msgspec


class Spread(msgspec.Struct, frozen=True):
    """One figure measured several times."""

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        """Return the figure as the table shows it."""
        return f"{_short(self.median)} ({_short(self.low)}..{_short(self.high)})"


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the table: what was measured, in each lane, and what is judged.

    `judged` names the value that is held against `target`; with no target the row only tells.
    """

    measure: str
    what: str
    unit: str
    lanes: Mapping[str, Spread]
    judged: str = ""
    value: Spread | None = None
    target: float | None = None
    at_least: bool = False

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None where nothing is judged."""
        if self.value is None or self.target is None:
            return None
        if self.at_least:
            return self.value.median >= self.target
        return self.value.median <= self.target


def spread(values: Iterable[float]) -> Spread:
    """Return the median, the least and the most of some values."""
    ordered = sorted(values)
    return Spread(median=median(ordered), low=ordered[0], high=ordered[-1])


def pairwise(ours: Sequence[float], theirs: Sequence[float]) -> Spread:
    """Return the spread of the ratio of two lanes, each round against the same round."""
    return spread(one / other for one, other in zip(ours, theirs, strict=True))


def render(rows: Sequence[Row]) -> str:
    """Return the rows as a table."""
    lines = [("", "floor", "treadle", "openai SDK", "SDK /", "judged", "target", "")]
    return aligned(lines + [_cells(row) for row in rows])


def aligned(lines: Sequence[Sequence[str]]) -> str:
    """Return lines of cells as text, in columns."""
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def _cells(row: Row) -> tuple[str, ...]:
    lanes = [
        str(row.lanes[lane]) if lane in row.lanes else "" for lane in ("floor", "treadle", "sdk")
    ]
    judged = f"{row.judged} {row.value}" if row.value is not None else ""
    target = ""
    if row.target is not None and row.value is not None:
        target = f"{'>=' if row.at_least else '<='} {_short(row.target)}"
    verdict = {True: "ok", False: "MISSED", None: ""}[row.met]
    return (f"{row.what}, {row.unit}", *lanes, _times_slower(row), judged, target, verdict)


def _times_slower(row: Row) -> str:
    """Return how many times the SDK loop costs what Treadle (or else the floor) costs."""
    sdk = row.lanes.get("sdk")
    ours = row.lanes.get("treadle", row.lanes.get("floor"))
    if sdk is None or ours is None or not ours.median:
        return ""
    times = ours.median / sdk.median if row.at_least else sdk.median / ours.median
    return f"{_short(times)}x"


def _short(value: float) -> str:
    """Return a number with three digits that say something."""
    if abs(value) >= 100:
        return f"{value:.0f}"
    if abs(value) >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}"
