"""How far a download has come, and the line that shows it on a terminal."""

from __future__ import annotations

import shutil
import sys
from typing import Protocol, TextIO

from msgspec import Struct

from treadle.ports.clock import SYSTEM_CLOCK, Clock

_STEP_SECONDS = 0.1
_WIDEST_BAR = 24


class Progress(Struct, frozen=True):
    """A moment of a download. `done_bytes` falls back when a source has to start again."""

    done_bytes: int
    total_bytes: int
    label: str


class ProgressReport(Protocol):
    """Is told of progress, several times a second. What it raises ends the download."""

    def __call__(self, progress: Progress, /) -> None:
        """Take note of one moment."""
        ...


class TerminalProgress:
    """Shows a download as one line that is drawn anew; where that is no terminal, a line a tenth.

    The speed is that of the bytes that came since the label was first seen, so that what an
    earlier attempt had already brought does not flatter it.
    """

    def __init__(self, out: TextIO | None = None, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._out = out or sys.stderr
        self._clock = clock
        self._live = self._out.isatty()
        self._start: tuple[float, int] | None = None
        self._drawn_at = 0.0
        self._shown = ("", -1)
        self._width = 0

    def __call__(self, progress: Progress, /) -> None:
        """Show one moment, if enough has changed since the last."""
        now = self._clock.seconds()
        begins = progress.label != self._shown[0]
        if self._start is None or begins or progress.done_bytes < self._start[1]:
            self._start = (now, progress.done_bytes)
        tenth = 10 * progress.done_bytes // max(progress.total_bytes, 1)
        news = (progress.label, tenth) != self._shown
        if self._live:
            if news or now - self._drawn_at >= _STEP_SECONDS:
                self._drawn_at = now
                self._draw(progress.label, self._figures(progress, now), _share(progress))
        elif news:
            print(f"{progress.label}: {self._figures(progress, now)}", file=self._out, flush=True)
        self._shown = (progress.label, tenth)

    def close(self) -> None:
        """Leave the line as it stands and go on below it."""
        if self._width:
            print(file=self._out, flush=True)
            self._width = 0

    def _draw(self, label: str, figures: str, share: float) -> None:
        columns = shutil.get_terminal_size().columns - 1
        room = min(_WIDEST_BAR, columns - len(label) - len(figures) - 4)
        filled = round(room * share)
        bar = f" [{'#' * filled}{'.' * (room - filled)}]" if room >= 5 else ""
        line = f"{label}{bar} {figures}"[:columns]
        print("\r" + line.ljust(self._width), end="", file=self._out, flush=True)
        self._width = len(line)

    def _figures(self, progress: Progress, now: float) -> str:
        done, total = progress.done_bytes, progress.total_bytes
        text = f"{100 * _share(progress):.0f} %, {done / 1e6:.0f} of {total / 1e6:.0f} MB"
        started, first = self._start or (now, done)
        if now > started and done > first:
            speed = (done - first) / (now - started)
            text += f", {speed / 1e6:.1f} MB/s"
            if done < total:
                text += f", {_duration((total - done) / speed)} left"
        return text


def _share(progress: Progress) -> float:
    return min(progress.done_bytes / max(progress.total_bytes, 1), 1.0)


def _duration(seconds: float) -> str:
    whole = round(seconds)
    return f"{whole} s" if whole < 60 else f"{whole // 60} min {whole % 60:02} s"
