"""The seam to whatever can be run: an agent, or anything made of agents."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any, Protocol, runtime_checkable

from treadle.events import AnyEvent, StopReason
from treadle.ports.approval import Decisions, PendingCall
from treadle.ports.store import Store


class Outcome(Protocol):
    """What a run came to; `RunResult` is one."""

    @property
    def output(self) -> Any:
        """The answer, or the text so far when there is none."""
        ...

    @property
    def stop_reason(self) -> StopReason:
        """Why the run stopped."""
        ...

    @property
    def reason(self) -> str:
        """The text of a pause or a cancel."""
        ...

    @property
    def pending(self) -> Sequence[PendingCall]:
        """The calls that wait for a decision."""
        ...


class Running(Protocol):
    """A run under way; `Run` is one."""

    @property
    def id(self) -> str:
        """The run's ID."""
        ...

    @property
    def conversation_id(self) -> str:
        """The ID of its conversation."""
        ...

    def __aiter__(self) -> AsyncIterator[AnyEvent]:
        """Yield what happens in it."""
        ...

    async def result(self) -> Outcome:
        """Wait for its end; raises the error that ended a failed one."""
        ...

    async def cancel(self, reason: str = "cancelled") -> Outcome | None:
        """Stop it and all that belongs to it, and wait for its end."""
        ...


@runtime_checkable
class Runnable(Protocol):
    """Something with a name that answers an input; `Agent` is one.

    It may have a `description` for others who choose whom to ask, and an `output_type`.
    """

    @property
    def name(self) -> str:
        """What it is called."""
        ...

    def start(
        self,
        input: str,
        *,
        conversation: str | None = None,
        store: Store | None = None,
        deps: Any = None,
    ) -> Running:
        """Start a run and return its handle at once."""
        ...

    def resume(
        self,
        run_id: str,
        *,
        decisions: Decisions = ...,
        store: Store | None = None,
        deps: Any = None,
    ) -> Running:
        """Go on with a run that has paused."""
        ...
