"""The handle of a run: watch it, await it, cancel it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Generator, Sequence
from typing import Any, Generic, cast

from treadle.agent.approval import decided
from treadle.agent.bus import Reader
from treadle.agent.conduct import conduct
from treadle.agent.ending import Ending
from treadle.agent.inbox import Receipt
from treadle.agent.outside import append_from_outside, looking_into, queue, steering
from treadle.agent.result import OutputT, ResultT
from treadle.agent.resume import record_to_resume
from treadle.agent.work import Work
from treadle.errors import ConfigError, ConversationFinalized, InvalidInput
from treadle.events import AnyEvent
from treadle.journal import AnyEntry
from treadle.mailbox import ReceiptStatus
from treadle.messages import UserPart
from treadle.ports.approval import Decisions
from treadle.ports.store import Store
from treadle.view import View

_running: set[asyncio.Task[Any]] = set()
"""Tasks under way: the event loop itself keeps only weak references to them."""


class Run(Generic[OutputT, ResultT]):
    """A run under way.

    Iterate it for events, await it for the `RunResult`. Nobody has to: a reader that is slow,
    late or gone changes nothing. Awaiting raises the error that ended a failed run; its `.result`
    has what there is.
    """

    def __init__(self, work: Work) -> None:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError as error:
            raise ConfigError(
                "start() needs a running event loop; use run_sync() without one."
            ) from error
        self._work = work
        self._events: Reader | None = work.bus.reader()
        self._task = loop.create_task(conduct(work), name=work.start.run_id)
        _running.add(self._task)
        self._task.add_done_callback(_forget)

    @property
    def id(self) -> str:
        """The run's ID."""
        return self._work.start.run_id

    @property
    def conversation_id(self) -> str:
        """The ID of the conversation that it belongs to; "" until a resumed run has found it."""
        return self._work.start.conversation_id

    @property
    def done(self) -> bool:
        """Whether the run has ended."""
        return self._task.done()

    def __await__(self) -> Generator[Any, None, ResultT]:
        return self.result().__await__()

    async def result(self) -> ResultT:
        """Wait for the end and return the result. Cancelling this wait does not cancel the run."""
        return await asyncio.shield(self._task)

    def __aiter__(self) -> AsyncIterator[AnyEvent]:
        """Yield events: the first iteration gets all since the start, others those from now on."""
        reader, self._events = self._events, None
        return reader if reader is not None else self._work.bus.reader()

    async def cancel(self, reason: str = "cancelled") -> ResultT | None:
        """Stop the model, the tools and all that belongs to the run, and wait for their end.

        Returns the result, or None when the run had failed already.
        """
        if not self._task.done():
            self._work.end_early(Ending(stop_reason="cancelled", reason=reason))
        await asyncio.wait([self._task])
        if self._task.cancelled() or self._task.exception() is not None:
            return None
        return self._task.result()

    async def steer(self, *inputs: str | UserPart) -> Receipt:
        """Say something to the run while it works, as one user message.

        It joins the history before the next model call, after all results of the calls under way.
        Accepted, it is never lost: see `Receipt` and the option `on_steer`.

        Raises:
            ConversationFinalized: the run has answered; start another.
            InvalidInput: there is nothing to say.
        """
        message, work = steering(inputs), self._work
        store = work.start.store
        look = None if store is None else self._look
        receipt = work.inbox.receipt(message.id, look)
        if not self._task.done() and not work.mail.opened:
            queued = work.mail.queue_early(message)
            await asyncio.wait([self._task, queued], return_when=asyncio.FIRST_COMPLETED)
            if queued.done():
                return receipt
        if self._task.done() or (work.recorder is not None and work.recorder.knows_end):
            if store is None or work.recorder is None or not work.recorder.ledger.entered:
                raise ConversationFinalized(f"Run {self.id!r} is over; start another.")
            return await queue(store, self.conversation_id, message)
        await work.mail.queue(message)
        return receipt

    async def decide(self, decisions: Decisions) -> None:
        """Decide on calls of this run that wait; `resume` lets it go on when it has paused.

        Raises:
            InvalidInput: nothing is stored, a decision cannot be, or no such call waits.
            RunNotFound: the run that is to be resumed is not in the store.
            RunSuperseded: another run has begun since; the calls were closed.
        """
        store, work = self._work.start.store, self._work
        if store is None:
            raise InvalidInput("Nothing is stored, so nothing can be decided later: pass store=.")

        def entries(view: View) -> Sequence[AnyEntry]:
            record_to_resume(view, self.id)
            return decided(decisions, view, work.setup, self.id)

        await append_from_outside(store, await self._whereabouts(store), entries)

    async def _whereabouts(self, store: Store) -> str:
        """Return the ID of the conversation, also where a resumed run has yet to look for it."""
        return self.conversation_id or await store.find(self.id)

    async def _look(self, message_id: str) -> ReceiptStatus:
        """Ask the journal what has become of a message."""
        store = cast(Store, self._work.start.store)
        return await looking_into(store, await self._whereabouts(store))(message_id)

    async def finish(self) -> ResultT:
        """Wait for the end as its owner: cancelling this wait cancels the run."""
        return await self._task


def _forget(task: asyncio.Task[Any]) -> None:
    _running.discard(task)
    if not task.cancelled():
        task.exception()  # whoever awaits the run gets it; nobody has to
