"""What a strategy is: it says what stands in place of the turns that leave the view."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from msgspec import Struct

from treadle.compaction.turns import Turn
from treadle.ports.model import ModelReply, ModelRequest

Ask = Callable[[ModelRequest], Awaitable[ModelReply]]
"""Asks the model that writes notes. What it uses counts in the run, but not as one of its turns."""


class Gone(Struct, frozen=True):
    """What leaves the view: whole turns, oldest first; there is at least one.

    `note` is what an earlier compaction left, without its first line; it leaves the view, too. The
    new note has to fit in `tokens`, and a request to the model in `window` tokens. `weigh` says
    about how many tokens a text has.
    """

    turns: tuple[Turn, ...]
    note: str | None
    tokens: int
    window: int
    weigh: Callable[[str], int]


class Strategy(Protocol):
    """How old turns leave the view. `name` stands in events and in the journal.

    `keep_recent` is how much stays as it is, the newest: a share of what the history may take, or
    a number of messages. `protect` are the kinds of turns that stay as long as they fit. `share` is
    how much of what may go does go: 0.5 are the older half of the turns.
    """

    @property
    def name(self) -> str:
        """What it is called."""
        ...

    @property
    def keep_recent(self) -> float | int:
        """How much stays, unless a policy says otherwise."""
        ...

    @property
    def protect(self) -> Sequence[str]:
        """The kinds of turns that stay, unless a policy says otherwise."""
        ...

    @property
    def share(self) -> float:
        """How much of what may go does go."""
        ...

    async def note(self, gone: Gone, ask: Ask) -> str | None:
        """Return what stands in place of `gone`, None for nothing.

        Raises:
            ModelError: the model could not be asked. The history stays as it was where it fits.
            CompactionFailed: what the model said is of no use.
        """
        ...
