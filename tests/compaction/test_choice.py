"""Which turns leave the view."""

from __future__ import annotations

import random
from typing import Any

import pytest
from msgspec.structs import replace

from tests.compaction.histories import problems_of, random_history, tool_turn
from treadle import Message
from treadle.compaction.choice import Choice, Keeping, Room, choose
from treadle.compaction.cutting import LEFT_OUT, cuts_of
from treadle.compaction.turns import NOTE, Turn, turns_of
from treadle.dialogue import moved, without
from treadle.messages import Thread
from treadle.ports.model import ModelRequest

PROTECTED = ("user", "final", "skills")


def weigh(message: Message) -> int:
    return 10 + sum(len(getattr(part, "text", "")) for part in message.parts)


def turns(*kinds: str, tokens: int = 100) -> list[Turn]:
    found: list[Any] = []
    for number, kind in enumerate(kinds):
        found.append(Turn(kind, number, number + 1, (Message.user("x"),), tokens))  # type: ignore[arg-type]
    return found


def numbers(choice: Choice) -> list[int]:
    return [turn.start for turn in choice.gone]


def test_turns_keep_calls_with_their_results() -> None:
    """B212, W52: the unit is the whole turn; skill traffic and notes are kinds of their own."""
    said = [
        Message.user("hi"),
        *tool_turn(1, ("look", "fetch")),
        *tool_turn(2, ("load_skill",)),
        Message.assistant("done"),
        replace(Message.user(NOTE + "earlier"), advice=True),
    ]
    found = turns_of(said, weigh)
    assert [turn.kind for turn in found] == ["user", "tools", "skills", "final", "note"]
    assert [(turn.start, turn.stop) for turn in found] == [(0, 1), (1, 3), (3, 5), (5, 6), (6, 7)]
    assert sum(turn.tokens for turn in found) == sum(map(weigh, said))


def test_what_is_protected_and_recent_stays() -> None:
    """B218, B219: only old tool traffic goes."""
    history = turns("user", "tools", "skills", "tools", "final", "user", "tools", "tools")
    room = Room(aim=700, most=2_000, note=50)
    assert numbers(choose(history, room, Keeping(2, PROTECTED))) == [1, 3]


def test_all_that_is_old_goes_where_nothing_is_protected() -> None:
    """B211: user inputs, too; the newest half of the room stays."""
    history = turns("user", "final", "user", "tools", "user", "tools", "tools")
    choice = choose(history, Room(aim=400, most=2_000, note=50), Keeping(0.5, ()))
    assert numbers(choice) == [0, 1, 2, 3]  # two recent turns, and what was said last
    assert choice.yielded == ()


def test_the_older_half_goes_then_more_until_it_fits() -> None:
    """B222."""
    history = turns("user", *["tools"] * 8, "user")
    whole, half = Room(900, 2_000, 0), Keeping(0, PROTECTED, 0.5)
    assert numbers(choose(history, whole, half)) == [1, 2, 3, 4]
    assert numbers(choose(history, Room(300, 2_000, 0), half)) == [*range(1, 8)]


def test_recent_turns_go_before_protected_ones() -> None:
    history = turns("user", "user", "final", "tools", "tools", "tools")
    choice = choose(history, Room(aim=450, most=2_000, note=0), Keeping(10, PROTECTED))
    assert numbers(choice) == [3, 4]
    assert choice.yielded == ()


def test_protected_kinds_yield_last_and_users_last_of_all() -> None:
    """W54: a conversation of huge inputs can be shrunk; it says what had to go."""
    history = turns("user", "skills", "final", "user", "tools", "user", "tools")
    choice = choose(history, Room(aim=350, most=400, note=0), Keeping(0, PROTECTED))
    assert numbers(choice) == [1, 2, 4]
    assert choice.yielded == ("final", "skills")
    choice = choose(history, Room(aim=250, most=300, note=0), Keeping(0, PROTECTED))
    assert choice.yielded == ("final", "skills", "user")
    assert numbers(choice) == [0, 1, 2, 3, 4]  # what was said last, and the last turn, stay


def test_protected_kinds_stay_as_long_as_they_fit_the_window() -> None:
    """The trigger is no reason to give up what is protected."""
    history = turns("user", "user", "user", "user", "tools", "user")
    choice = choose(history, Room(aim=100, most=600, note=50), Keeping(0, PROTECTED))
    assert numbers(choice) == [4]
    assert choice.yielded == ()


def test_a_note_alone_is_no_reason() -> None:
    history = turns("note", "user", "final", "user")
    assert choose(history, Room(50, 2_000, 0), Keeping(0, PROTECTED)).gone == ()


def test_there_is_never_a_second_note() -> None:
    history = turns("note", "user", "tools", "user", "tools")
    assert numbers(choose(history, Room(250, 2_000, 50), Keeping(0, PROTECTED))) == [0, 2]


def test_cuts_stand_in_and_say_where_something_is_missing() -> None:
    """W53: the note stands where what it is about was; an answer never follows an answer."""
    said = [
        Message.user("a"),
        *tool_turn(1),
        Message.assistant("b"),
        Message.user("c"),
        Message.assistant("d"),
    ]
    found = turns_of(said, weigh)
    left = without(said, cuts_of(said, [found[1]], "in short"))
    assert [m.text for m in left] == ["a", NOTE + "in short", "b", "c", "d"]
    left = without(said, cuts_of(said, [found[0], found[1]], None))
    assert [m.text for m in left] == [NOTE + LEFT_OUT, "b", "c", "d"]
    left = without(said, cuts_of(said, [found[1], found[3]], None))
    assert [m.text for m in left] == ["a", "b", NOTE + LEFT_OUT, "d"]


def test_places_move_with_what_is_cut() -> None:
    said = [Message.user(str(n)) for n in range(12)]
    found = turns_of(said, weigh)
    cuts = cuts_of(said, [found[1], found[2], found[6], found[7], found[8]], "n")
    left = without(said, cuts)
    for place in (0, 3, 4, 5, 9, 10, 11):
        assert left[moved(place, cuts)] is said[place]
    assert moved(12, cuts) == len(left)


@pytest.mark.parametrize("seed", range(60))
async def test_whatever_goes_every_provider_takes_the_rest(seed: int) -> None:
    """BS-44: random histories and budgets: valid everywhere, the last question is always there."""
    chance = random.Random(seed)  # noqa: S311 (no secret)
    said = random_history(chance, chance.randint(2, 25))
    found = turns_of(said, weigh)
    whole = sum(turn.tokens for turn in found)
    asked = max(n for n, message in enumerate(said) if message.role == "user")
    for _ in range(6):
        room = Room(chance.randint(1, whole), chance.randint(1, whole), chance.choice((0, 50)))
        protected = tuple(kind for kind in PROTECTED if chance.random() < 0.6)
        recent = chance.choice((0, 4, 8, 0.2, 0.5))
        choice = choose(found, room, Keeping(recent, protected, chance.choice((0.5, 1.0))))  # type: ignore[arg-type]
        note = chance.choice((None, "in short"))
        left = without(said, cuts_of(said, choice.gone, note))
        assert said[asked] in left
        assert left[-1] is said[-1]
        assert await problems_of(ModelRequest(messages=Thread(left))) == []
        if not choice.yielded:
            kept = [turn for turn in found if turn.kind in protected]
            assert all(turn.messages[0] in left for turn in kept)
