"""What leaves the view, as cuts of the history."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from treadle.compaction.turns import NOTE, Turn
from treadle.journal import Cut
from treadle.messages import Message

LEFT_OUT = "Messages were left out here, as there were too many."


def cuts_of(messages: Sequence[Message], gone: Sequence[Turn], note: str | None) -> list[Cut]:
    """Return the cuts that take these turns out of a history; the note stands in for the first.

    Where an answer would follow an answer, or begin the history, a short note says that something
    is missing: not every provider takes that as it is.
    """
    cuts: list[Cut] = []
    for start, stop in _stretches(gone):
        text = note if not cuts else None
        if text is None and _leaves_seam(messages, start, stop):
            text = LEFT_OUT
        cuts.append(Cut(start, stop, None if text is None else _noted(text)))
    return cuts


def _noted(text: str) -> Message:
    """Return the message that stands for what has left: no user said it."""
    return replace(Message.user(NOTE + text), advice=True)


def _stretches(gone: Sequence[Turn]) -> list[tuple[int, int]]:
    stretches: list[tuple[int, int]] = []
    for turn in gone:
        if stretches and stretches[-1][1] == turn.start:
            stretches[-1] = (stretches[-1][0], turn.stop)
        else:
            stretches.append((turn.start, turn.stop))
    return stretches


def _leaves_seam(messages: Sequence[Message], start: int, stop: int) -> bool:
    if stop == len(messages) or messages[stop].role != "assistant":
        return False
    return start == 0 or messages[start - 1].role == "assistant"
