"""What a run does with the messages that steer it."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

from treadle.agent.bus import Bus
from treadle.agent.inbox import Inbox
from treadle.agent.recorder import Recorder
from treadle.agent.setup import RunStart
from treadle.events import SteerApplied, SteerCarriedOver, SteerDiscarded
from treadle.journal import AnyEntry, InboxCarried, InboxDiscarded, MessageQueued
from treadle.messages import Thread


class Mail:
    """Takes messages in as soon as the run has begun, and settles those that come too late.

    `opened` is whether it has. In a step of a flow it is only `passing`: what comes too late for
    the step may be in time for the next one.
    """

    def __init__(
        self, inbox: Inbox, start: RunStart, bus: Bus, span: str, *, passing: bool = False
    ) -> None:
        self._inbox = inbox
        self._bus = bus
        self._span = span
        self._run_id = start.run_id
        self._on_steer = start.on_steer
        self._passing = passing
        self._recorder: Recorder | None = None
        self._early: list[tuple[MessageQueued, asyncio.Future[None]]] = []
        self.opened = False

    def queue_early(self, message: MessageQueued) -> asyncio.Future[None]:
        """Queue a message for a run that has not begun; what is returned is done when it has."""
        queued: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._early.append((message, queued))
        return queued

    async def queue(self, message: MessageQueued) -> None:
        """Queue a message that steers the run."""
        if self._recorder is None:
            self._inbox.put(message.id, message.message)
        else:
            await self._recorder.queue(message)

    async def open(self, recorder: Recorder | None) -> None:
        """The run has begun: from now on it can be steered."""
        self._recorder = recorder
        self.opened = True
        for message, queued in self._early:
            await self.queue(message)
            queued.set_result(None)

    async def take(self, thread: Thread) -> None:
        """Make the messages that wait part of the history."""
        ids = tuple(self._inbox.waiting)
        if self._recorder is not None:
            await self._recorder.applied(ids)
        for id, message in zip(ids, self._inbox.settle(ids, "applied"), strict=True):
            thread.append(message)
            self._bus.emit(SteerApplied, self._span, None, id, message.text)

    @property
    def keeps_going(self) -> bool:
        """Whether messages wait that are worth another turn."""
        return bool(self._inbox.waiting) and self._on_steer == "continue"

    def late(self) -> list[AnyEntry]:
        """Return the entry for messages that wait when the run ends."""
        ids = tuple(self._inbox.waiting)
        if not ids or self._passing:
            return []
        kind = InboxDiscarded if self._on_steer == "discard" else InboxCarried
        return [kind(run_id=self._run_id, at=datetime.now(UTC), ids=ids)]

    def settle(self) -> None:
        """The run has answered: tell what became of messages that waited."""
        if self._passing:
            return
        discard = self._on_steer == "discard"
        ids = tuple(self._inbox.waiting)
        found = self._inbox.settle(ids, "discarded" if discard else "carried_over")
        for id, message in zip(ids, found, strict=True):
            kind = SteerDiscarded if discard else SteerCarriedOver
            self._bus.emit(kind, self._span, None, id, message.text)
