"""The line that shows a download."""

from __future__ import annotations

import io
from datetime import UTC, datetime

from treadle.providers.local.progress import Progress, TerminalProgress


class Terminal(io.StringIO):
    """A stream that claims to be a terminal."""

    def isatty(self) -> bool:
        return True


class Watch:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.at = 0.0

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.at, UTC)

    def seconds(self) -> float:
        return self.at

    async def sleep(self, seconds: float) -> None:
        self.at += seconds


def show(out: io.StringIO, moments: list[tuple[float, int]], total: int = 100_000_000) -> str:
    """Return what is written for these seconds and bytes."""
    watch = Watch()
    line = TerminalProgress(out, clock=watch)
    for watch.at, done in moments:
        line(Progress(done, total, "model"))
    line.close()
    return out.getvalue()


def test_a_terminal_shows_share_size_speed_and_what_is_left() -> None:
    """The line is drawn over itself."""
    shown = show(Terminal(), [(0.0, 0), (2.0, 20_000_000)])

    assert shown.startswith("\rmodel")
    last = shown.rpartition("\r")[2]
    assert "20 %, 20 of 100 MB, 10.0 MB/s, 8 s left" in last
    assert "[#" in last
    assert shown.endswith("\n")


def test_a_terminal_is_not_drawn_on_for_every_chunk() -> None:
    """A thousand chunks in a tenth of a second are a handful of lines."""
    shown = show(Terminal(), [(place / 10_000, place * 1_000) for place in range(1_000)])

    assert shown.count("\r") <= 3


def test_elsewhere_one_line_a_tenth() -> None:
    """A log gets eleven lines, none drawn over."""
    shown = show(io.StringIO(), [(float(part), part * 1_000_000) for part in range(101)])

    assert "\r" not in shown
    assert len(shown.splitlines()) == 11
    assert shown.splitlines()[-1] == "model: 100 %, 100 of 100 MB, 1.0 MB/s"


def test_bytes_of_an_earlier_attempt_do_not_flatter_the_speed() -> None:
    """Only what came since the first call counts."""
    assert "1.0 MB/s, 19 s left" in show(Terminal(), [(0.0, 80_000_000), (1.0, 81_000_000)])


def test_a_new_label_has_a_speed_of_its_own() -> None:
    """Unpacking does not count the seconds of the download."""
    watch, out = Watch(), io.StringIO()
    line = TerminalProgress(out, clock=watch)
    for watch.at, done, label in [(0.0, 0, "get"), (9.0, 100, "get"), (9.0, 0, "unpack")]:
        line(Progress(done * 1_000_000, 100_000_000, label))
    watch.at = 10.0
    line(Progress(50_000_000, 100_000_000, "unpack"))

    assert out.getvalue().splitlines()[-1] == "unpack: 50 %, 50 of 100 MB, 50.0 MB/s, 1 s left"


def test_a_long_wait_is_in_minutes() -> None:
    """Nobody reads 3,700 seconds."""
    assert "1 min 39 s left" in show(Terminal(), [(0.0, 0), (1.0, 1_000_000)])
