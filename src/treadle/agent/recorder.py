"""Write a run into its conversation's journal, and learn what others write there."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from treadle.agent.ending import signal_of
from treadle.agent.inbox import Inbox
from treadle.agent.lease import Ownership
from treadle.agent.outside import ask_to_stop
from treadle.agent.setup import RunStart
from treadle.agent.unbroken import unbroken
from treadle.agent.views import views_of
from treadle.errors import (
    ConversationBusy,
    InvalidInput,
    RevisionConflict,
    StoreError,
    TreadleError,
)
from treadle.journal import (
    AnyEntry,
    CallBegan,
    CallEnded,
    CancelAsked,
    InboxApplied,
    MessageAdded,
    MessageQueued,
    ModelReplied,
    RunBegan,
    RunEnded,
    RunResumed,
    RunSuspended,
    StateChanged,
)
from treadle.messages import Message
from treadle.ports.model import ModelReply
from treadle.ports.store import Head, Store, ends_lease
from treadle.state.scoped import StateWrite
from treadle.tools.outcome import ToolOutcome
from treadle.values import Plain, pack
from treadle.view import RunRecord, View

log = logging.getLogger(__name__)

ATTEND_SECONDS = 0.25
"""After so long a run begins to listen for what other processes write, and to renew its lease."""
WAIT_SECONDS = 1.0
"""After so long listening is tried again when the store failed."""


class Recorder:
    """The one writer of a run: appends in order, each batch against the revision before it.

    What others append meanwhile (steering, decisions, a cancellation) is taken in. `lost` is called
    when the run must not go on, `cancelled` when somebody asks it to stop. `entered` is whether
    the journal knows that the run is under way here.
    """

    def __init__(
        self,
        store: Store,
        start: RunStart,
        inbox: Inbox,
        *,
        lost: Callable[[TreadleError], None],
        cancelled: Callable[[str], None],
    ) -> None:
        self.store = store
        self._start = start
        self._inbox = inbox
        self._cancelled = cancelled
        self._head: Head | None = None
        self._opened = False
        self.entered = False
        self.view = View()
        self._lock = asyncio.Lock()
        self._ownership = Ownership(store, lost)
        self._timer: asyncio.TimerHandle | None = None
        self._attending: asyncio.Task[None] | None = None
        # A store in memory says so of its method, and nothing can come in between.
        self._never_waits = getattr(store.append, "never_waits", False)

    @property
    def record(self) -> RunRecord | None:
        """What the journal tells of the run, None when it knows nothing of it."""
        return self.view.runs.get(self._start.run_id)

    @property
    def knows_end(self) -> bool:
        """Whether the journal tells that the run is over."""
        record = self.record
        return record is not None and record.stop_reason is not None

    async def open(self) -> View:
        """Own the conversation, which may begin here, and return its view.

        Raises:
            ConversationBusy: another run owns it.
            InvalidInput: `history=` was given for a conversation that has begun.
        """
        store, start = self.store, self._start
        head = await self._claim()
        self._head = head
        if head.revision and start.history:
            raise InvalidInput(
                f"Conversation {start.conversation_id!r} has begun; history= only seeds a new one. "
                "Leave it out, or choose another conversation ID."
            )
        self.view = views_of(store).take(head)
        if self.view.revision < head.revision:
            for batch in await store.read(start.conversation_id, self.view.revision):
                self.view.take_in(batch.revision, batch.entries)
        for id, message in self.view.inbox.items():
            self._inbox.put(id, message)
        self._opened = True
        self._timer = asyncio.get_running_loop().call_later(ATTEND_SECONDS, self._attend)
        return self.view

    async def _claim(self) -> Head:
        start, claim = self._start, self._ownership.claim
        if start.if_busy != "interrupt":
            return await claim(start.conversation_id, start.run_id, wait=start.if_busy == "wait")
        try:
            return await claim(start.conversation_id, start.run_id)
        except ConversationBusy:
            reason = f"Run {start.run_id!r} takes over."
            await ask_to_stop(self.store, start.conversation_id, None, reason)
            return await claim(start.conversation_id, start.run_id, wait=True)

    async def close(self) -> None:
        """Let the conversation go, and remember what is known of it."""
        head, self._head, self._opened = self._head, None, False
        if self._timer is not None:
            self._timer.cancel()
        if self._attending is not None:
            self._attending.cancel()
        if head is not None:
            views_of(self.store).put(head, self.view)
        if self._ownership.lease is not None:
            await self._ownership.release()

    def check(self) -> None:
        """Refuse to go on when the lease has ended, as after a long freeze of this process.

        Raises:
            LeaseLost: it has.
        """
        self._ownership.check()

    async def began(
        self, agent: str, definition: dict[str, str], writes: Sequence[StateWrite]
    ) -> None:
        """Write the start of the run, what it finds in the inbox, and the state it was given."""
        start = self._start
        began = RunBegan(
            run_id=start.run_id,
            at=_now(),
            agent=agent,
            input=start.input,
            history=tuple(start.history),
            metadata=_packed(start.metadata) if start.metadata else {},
            definition=definition,
        )
        found = tuple(self._inbox.waiting)
        before = [InboxApplied(run_id=start.run_id, at=began.at, ids=found)] if found else []
        await self._append([*before, began, *self._state(writes)])
        self._inbox.settle(found, "applied")

    async def resumed(self, *entries: AnyEntry) -> None:
        """Write that the run goes on, with what follows in the same write."""
        await self._append([RunResumed(run_id=self._start.run_id, at=_now()), *entries])

    async def replied(
        self,
        reply: ModelReply,
        begun: Sequence[str] = (),
        *after: AnyEntry,
        unless_more_than: int | None = None,
    ) -> bool:
        """Write a reply with the calls that begin at once, and what follows in the same write.

        Nothing is written, and the answer is False, when more messages than that wait.
        """
        at = _now()
        entry = ModelReplied(
            run_id=self._start.run_id,
            at=at,
            message=reply.message,
            usage=reply.usage,
            model=reply.model,
            finish_reason=reply.finish_reason,
        )
        return await self._append(
            [entry, *self._begun(begun, at), *after], unless_more_than=unless_more_than
        )

    async def said(self, message: Message) -> None:
        """Write something that the loop said, or what was seen of a broken reply."""
        await self._append([MessageAdded(run_id=self._start.run_id, at=_now(), message=message)])

    async def call_ended(self, outcome: ToolOutcome, begun: Sequence[str]) -> None:
        """Write an outcome, with the calls that begin after it."""
        at = _now()
        asks, given = signal_of(outcome)
        entry = CallEnded(
            run_id=self._start.run_id,
            at=at,
            result=outcome.result,
            usage=outcome.usage,
            writes=outcome.writes,
            links=outcome.links,
            asks=asks,
            given=given,
        )
        await self._append([entry, *self._begun(begun, at)])

    async def calls_began(self, call_ids: Sequence[str], *before: AnyEntry) -> None:
        """Write that calls begin."""
        if call_ids or before:
            await self._append([*before, *self._begun(call_ids, _now())])

    async def state_changed(self, writes: Sequence[StateWrite]) -> None:
        """Write state that changed outside a call."""
        if writes:
            await self._append(self._state(writes))

    async def applied(self, ids: tuple[str, ...]) -> None:
        """Write that queued messages became part of the history."""
        await self._append([InboxApplied(run_id=self._start.run_id, at=_now(), ids=ids)])

    async def suspended(self, reason: str, turns: int) -> None:
        """Write that the run paused."""
        await self._append(
            [RunSuspended(run_id=self._start.run_id, at=_now(), reason=reason, turns=turns)]
        )

    async def ended(
        self, entry: RunEnded, *before: AnyEntry, unless_more_than: int | None = None
    ) -> bool:
        """Write the end of the run; like `replied` with `unless_more_than`."""
        return await self._append([*before, entry], unless_more_than=unless_more_than)

    async def queue(self, message: MessageQueued) -> None:
        """Write a message that steers this run, from its own process."""
        await self._append([message])
        self._inbox.put(message.id, message.message)

    def _state(self, writes: Sequence[StateWrite]) -> list[AnyEntry]:
        if not writes:
            return []
        return [StateChanged(run_id=self._start.run_id, at=_now(), writes=tuple(writes))]

    def _begun(self, call_ids: Sequence[str], at: datetime) -> list[AnyEntry]:
        return [
            CallBegan(run_id=self._start.run_id, at=at, call_id=call_id) for call_id in call_ids
        ]

    async def _append(
        self, entries: Sequence[AnyEntry], *, unless_more_than: int | None = None
    ) -> bool:
        """Write one batch. Once begun it is written, and known, whoever is cancelled meanwhile."""
        if self._never_waits:
            return await self._write(entries, unless_more_than)
        return await unbroken(self._write_in_turn(entries, unless_more_than))

    async def _write_in_turn(
        self, entries: Sequence[AnyEntry], unless_more_than: int | None
    ) -> bool:
        async with self._lock:
            return await self._write(entries, unless_more_than)

    async def _write(self, entries: Sequence[AnyEntry], unless_more_than: int | None) -> bool:
        view = self.view
        while True:
            try:
                revision = await self.store.append(
                    self._start.conversation_id,
                    view.revision,
                    entries,
                    fence=self._ownership.fence,
                )
            except RevisionConflict:
                before = view.revision
                await self._catch_up()
                if view.revision == before:
                    raise
                if unless_more_than is not None and len(self._inbox.waiting) > unless_more_than:
                    return False
            else:
                view.take_in(revision, entries)
                if not self.entered:
                    self.entered = any(isinstance(e, RunBegan | RunResumed) for e in entries)
                if ends_lease(entries):
                    self._ownership.ended()
                return True

    async def _catch_up(self) -> None:
        """Take in what others have appended: only they can while this run owns it."""
        for batch in await self.store.read(self._start.conversation_id, self.view.revision):
            if batch.revision > self.view.revision:
                self.view.take_in(batch.revision, batch.entries)
                self._hear(batch.entries)

    def _hear(self, entries: Iterable[AnyEntry]) -> None:
        for entry in entries:
            if isinstance(entry, MessageQueued):
                self._inbox.put(entry.id, entry.message)
            elif isinstance(entry, CancelAsked) and entry.run_id == self._start.run_id:
                self._cancelled(entry.reason or "Somebody asked the run to stop.")

    def _attend(self) -> None:
        self._attending = asyncio.get_running_loop().create_task(self._listen())

    async def _listen(self) -> None:
        """Hear what other processes write while a call takes long, and keep the lease."""
        loop = asyncio.get_running_loop()
        while self._opened and self._ownership.lease is not None:
            seconds = max(0.0, self._ownership.due - loop.time())
            try:
                revision = await self.store.wait(
                    self._start.conversation_id, self.view.revision, seconds
                )
                if revision > self.view.revision:
                    async with self._lock:
                        await self._catch_up()
            except (StoreError, OSError) as error:
                log.warning("cannot listen to %s: %s", self._start.conversation_id, error)
                await asyncio.sleep(min(WAIT_SECONDS, seconds))
            if loop.time() >= self._ownership.due:
                await self._ownership.renew()


def _packed(metadata: Mapping[str, Any]) -> dict[str, Plain]:
    packed = pack(dict(metadata), "metadata")
    return packed if isinstance(packed, dict) else {}


def _now() -> datetime:
    return datetime.now(UTC)
