"""Whom the calls of a run may hand the conversation over to, and which call of a reply does."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from treadle.control import Handoff
from treadle.tools.failure import CallFailed
from treadle.tools.outcome import ToolOutcome


class Handoffs:
    """The handoffs of one run: to these members, and one for each reply."""

    __slots__ = ("_first", "_members")

    def __init__(self, members: Sequence[str] = ()) -> None:
        self._members = members
        self._first: Handoff | None = None

    def begin(self, done: Iterable[ToolOutcome]) -> None:
        """Calls of a reply run next; some may be `done`, by another process."""
        asked = (each.control for each in done)
        self._first = next((each for each in asked if isinstance(each, Handoff)), None)

    def judge(self, asked: Handoff) -> Handoff | str:
        """Return the handoff that a call asks for if it counts, else what its model is told.

        Raises:
            CallFailed: nobody of this name may be handed over to.
        """
        if asked.agent not in self._members:
            known = ", ".join(self._members) or "nobody"
            raise CallFailed(
                f"The conversation cannot be handed over to {asked.agent!r:.60}; "
                f"whom it can go to: {known}.",
                "execution",
            )
        if self._first is not None:
            return f"Not handed over: this reply hands over to {self._first.agent} already."
        self._first = asked
        return asked
