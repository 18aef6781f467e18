"""Which turns leave the view."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import floor

from msgspec import Struct

from treadle.compaction.turns import Kind, Turn

_LAST_TO_YIELD: tuple[Kind, ...] = ("tools", "final", "skills", "user")
"""Protected kinds, in the order in which they yield when nothing else is left."""


class Room(Struct, frozen=True):
    """How many tokens the history may take.

    It is brought down to `aim`. What is protected yields only where the history would not fit in
    `most`: what the window holds, with something to spare. A note may have `note` tokens.
    """

    aim: int
    most: int
    note: int


class Choice(Struct, frozen=True):
    """The turns that leave the view, oldest first; `yielded` are the protected kinds in them."""

    gone: tuple[Turn, ...] = ()
    yielded: tuple[Kind, ...] = ()


class Keeping(Struct, frozen=True):
    """What stays: the newest, a share of the room or a number of messages; and what is protected.

    `share` is how much of what may go does go at once.
    """

    recent: float
    protected: tuple[Kind, ...]
    share: float = 1.0


def choose(turns: Sequence[Turn], room: Room, keeping: Keeping) -> Choice:
    """Return what leaves the view, so that the rest and a note fit.

    What is old and not protected goes first; then what is recent; then, where the window demands
    it, what is protected. The last turn and the last thing that a user said never go. Without any
    turn that may go nothing is gone.
    """
    left = sum(turn.tokens for turn in turns)
    recent = _recent(turns, room, keeping.recent)
    always = _always(turns)
    free = [n for n in range(len(turns)) if n not in always]
    open_to_all = [n for n in free if turns[n].kind not in keeping.protected]
    gone: set[int] = set()

    def take(numbers: Iterable[int], most: int) -> None:
        nonlocal left
        for number in numbers:
            if left + room.note <= most:
                return
            if number not in gone:
                gone.add(number)
                left -= turns[number].tokens

    old = [n for n in open_to_all if n < recent]
    first = _at_once(turns, old, keeping.share)
    take(first, -1)
    take(old, room.aim)
    take((n for n in open_to_all if n >= recent), room.aim)
    yielded: list[Kind] = []
    for kind in _LAST_TO_YIELD:
        if left + room.note <= room.most:
            break
        before = len(gone)
        take((n for n in free if turns[n].kind == kind), room.aim)
        if len(gone) > before:
            yielded.append(kind)
    if all(turns[n].kind == "note" for n in gone):
        return Choice()
    notes = {n for n in free if turns[n].kind == "note"}  # there is never a second one
    return Choice(tuple(turns[n] for n in sorted(gone | notes)), tuple(yielded))


def _at_once(turns: Sequence[Turn], old: Sequence[int], share: float) -> Sequence[int]:
    """Return what goes in any case: this share of the old turns, the oldest, and the note."""
    notes = [n for n in old if turns[n].kind == "note"]
    others = [n for n in old if turns[n].kind != "note"]
    return [*notes, *others[: floor(len(others) * share)]]


def _recent(turns: Sequence[Turn], room: Room, kept: float) -> int:
    """Return from which turn on all are recent."""
    start, messages, tokens = len(turns), 0, 0
    for number in reversed(range(len(turns))):
        turn = turns[number]
        messages += turn.stop - turn.start
        tokens += turn.tokens
        if isinstance(kept, int):
            if (start < len(turns) and messages > kept) or not kept:
                break
        elif tokens > kept * room.aim:
            break
        start = number
    return start


def _always(turns: Sequence[Turn]) -> set[int]:
    """Return the last turn, and the last that a user said."""
    said = [n for n, turn in enumerate(turns) if turn.kind == "user"]
    return {len(turns) - 1, *said[-1:]}
