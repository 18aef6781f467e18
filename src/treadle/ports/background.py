"""The seam between a run and the agents that work for it in the background."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, Protocol

from msgspec import Struct

from treadle.ports.approval import PendingCall
from treadle.ports.children import Delegate
from treadle.usage import NOTHING, Usage

OnEnd = Literal["cancel", "wait"]
DelegateState = Literal["running", "waiting", "done", "failed", "cancelled", "stopped"]


class DelegateStatus(Struct, frozen=True, kw_only=True):
    """How an agent in the background is doing.

    One that is "waiting" has paused: somebody has to decide on the calls in `pending`. One that is
    "done" has an `output`; of others that are over `error` says why they have none. It has worked
    for `seconds`, pauses left out. `conversation_id` is set where it has one of its own.
    """

    id: str
    agent: str
    state: DelegateState
    started_at: datetime
    seconds: float = 0.0
    turns: int = 0
    usage: Usage = NOTHING
    output: Any = None
    error: str | None = None
    reason: str = ""
    pending: tuple[PendingCall, ...] = ()
    conversation_id: str = ""

    @property
    def is_over(self) -> bool:
        """Whether nothing more will come of it."""
        return self.state not in ("running", "waiting")


class Background(Protocol):
    """The agents that work in the background of one run. Nobody else knows their IDs."""

    @property
    def ids(self) -> Sequence[str]:
        """The IDs of all that were started, in order."""
        ...

    async def begin(self, agent: str, task: str, call_id: str) -> str:
        """Let an agent begin to work, for a call, and return its ID; a call does so only once.

        Raises:
            ToolError: it cannot, or there are too many.
        """
        ...

    async def status(self, id: str) -> DelegateStatus:
        """Return how one is doing.

        Raises:
            ToolError: this run has none of this ID.
        """
        ...

    async def wait(self, ids: Sequence[str], seconds: float | None) -> None:
        """Wait until these are over, or for so long.

        Raises:
            ChildPaused: nothing but somebody's decision lets them go on.
            ToolError: this run has none of this ID.
        """
        ...

    async def cancel(self, id: str) -> None:
        """Stop one, and wait for its end.

        Raises:
            ToolError: this run has none of this ID.
        """
        ...

    async def send(self, id: str, text: str, call_id: str) -> None:
        """Say something to one while it works, for a call, which does so only once.

        Raises:
            ToolError: it is over, or this run has none of this ID.
        """
        ...


class Delegates(Protocol):
    """Agents that may work in the background of a run."""

    @property
    def agents(self) -> Mapping[str, Delegate]:
        """Who they are, by name."""
        ...

    def open(self, work: Any) -> Any:
        """Return what runs them for this work."""
        ...
