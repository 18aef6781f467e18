"""Messages that belong together: what leaves the view leaves it as whole turns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from msgspec import Struct

from treadle.messages import Message
from treadle.tools.names import SKILL_TOOLS

Kind = Literal["user", "final", "skills", "tools", "note"]
"""What a turn is: something that a user said, an answer, calls of the tools that read skills with
their results, calls of other tools with theirs, or what an earlier compaction left."""

NOTE = "[What was said before, in short]\n"
"""How a message begins that stands for what has left the view."""


class Turn(Struct, frozen=True):
    """Messages that are never split: a call stays with its result.

    `start` and `stop` are its place in the history; `tokens` are about how many it takes.
    """

    kind: Kind
    start: int
    stop: int
    messages: tuple[Message, ...]
    tokens: int


def turns_of(messages: Sequence[Message], weigh: Callable[[Message], int]) -> list[Turn]:
    """Return the turns of a history, oldest first; `weigh` says how many tokens a message takes."""
    turns: list[Turn] = []
    start = 0
    while start < len(messages):
        stop = start + 1
        while stop < len(messages) and _belongs(messages[stop]):
            stop += 1
        those = tuple(messages[start:stop])
        turns.append(Turn(_kind(those), start, stop, those, sum(map(weigh, those))))
        start = stop
    return turns


def note_in(message: Message) -> str | None:
    """Return what an earlier compaction left in this message, None where it is no such message.

    What a user said is none, however it begins.
    """
    text = message.text if message.role == "user" and message.advice else ""
    return text.removeprefix(NOTE) if text.startswith(NOTE) else None


def _belongs(message: Message) -> bool:
    """Whether a message goes with what stands before it."""
    return message.role == "tool" or (message.advice and note_in(message) is None)


def _kind(messages: Sequence[Message]) -> Kind:
    first = messages[0]
    if first.role in ("user", "system"):
        return "user" if note_in(first) is None else "note"
    calls = first.tool_calls
    if any(call.name in SKILL_TOOLS for call in calls):
        return "skills"
    return "tools" if calls or first.role == "tool" else "final"
