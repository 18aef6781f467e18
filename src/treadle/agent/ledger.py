"""Own a conversation and append to it: in order, and hearing what others append meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence

from treadle.agent.inbox import Inbox
from treadle.agent.lease import LEASE_SECONDS, Ownership
from treadle.agent.owner import owner_here
from treadle.agent.setup import RunStart
from treadle.agent.takeover import take_over
from treadle.agent.unbroken import done, unbroken
from treadle.agent.views import views_of
from treadle.errors import (
    InvalidInput,
    RevisionConflict,
    StoreError,
    TreadleError,
)
from treadle.journal import AnyEntry, CancelAsked, MessageQueued, RunBegan, RunResumed
from treadle.messages import Thread
from treadle.ports.store import Head, Lease, Store, begins_writes, ends_lease, never_waits
from treadle.run_record import RunRecord
from treadle.values.logs import logger
from treadle.view import View

log = logger(__name__)

ATTEND_SECONDS = 0.25
"""After so long a run begins to listen for what other processes write, and to renew its lease."""
WAIT_SECONDS = 1.0
"""After so long listening is tried again when the store failed."""

_UNREAD = View()
"""Stands for that of a conversation that was not opened; nobody adds to it."""


class Ledger:
    """The journal of a conversation in the hands of one run: it appends batch after batch.

    What others append meanwhile (steering, decisions, a cancellation) is taken in. `lost` is called
    when the run must not go on, `cancelled` when somebody asks it to stop. `entered` is whether
    the journal knows that the run is under way here. `listeners` are called when others have
    appended something.
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
        self.start = start
        self.inbox = inbox
        self._cancelled = cancelled
        self._head: Head | None = None
        self._unclaimed = False
        self.entered = False
        self.held: list[AnyEntry] = []
        self.listeners: list[Callable[[], None]] = []
        self.view = _UNREAD
        self._lock = asyncio.Lock()
        self._ownership = Ownership(store, lost)
        self._timer: asyncio.TimerHandle | None = None
        self._attending: asyncio.Task[None] | None = None
        # A store in memory says so of its method, and nothing can come in between.
        self._never_waits = never_waits(store)
        self._beginning = store if begins_writes(store) else None

    @property
    def record(self) -> RunRecord | None:
        """What the journal tells of the run, None when it knows nothing of it."""
        return self.view.runs.get(self.start.run_id)

    def open_known(self) -> View | None:
        """Return the conversation as this process knows it, None where the store has to be asked.

        The first batch finds out: it takes the conversation if that is how it still is, and is
        refused by `ConversationBusy` or `RevisionConflict` else; `close_known`, and `open` it.
        """
        start = self.start
        if self._never_waits or (start.history and not start.is_new):
            return None
        if not start.is_new:
            known = views_of(self.store).take_known(start.conversation_id)
            if known is None:
                return None
            self._head, self.view = known
        else:
            self.view = View()
        self._unclaimed = True
        self.inbox.waiting.update(self.view.mail.inbox)
        return self.view

    def close_known(self) -> None:
        """What this process knows is not how the conversation is, or another run is at work."""
        if self._head is not None:
            views_of(self.store).put(self._head, self.view)
        self._head, self.view, self._unclaimed = None, _UNREAD, False
        self.inbox.waiting.clear()

    async def open(self) -> View:
        """Own the conversation, which may begin here, and return its view.

        Raises:
            ConversationBusy: another run owns it.
            InvalidInput: `history=` was given for a conversation that has begun.
        """
        store, start = self.store, self.start
        self._head = head = await take_over(self._ownership, store, start)
        if head.revision and start.history:
            raise InvalidInput(
                f"Conversation {start.conversation_id!r} has begun; history= only seeds a new one. "
                "Leave it out, or choose another conversation ID."
            )
        self.view = views_of(store).take(head)
        if self.view.revision < head.revision:
            for batch in await store.read(start.conversation_id, self.view.revision):
                self.view.take_in(batch.revision, batch.entries)
        self.inbox.waiting.update(self.view.mail.inbox)
        self._owned()
        return self.view

    def _owned(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(ATTEND_SECONDS, self._attend)

    def remember(self, thread: Thread) -> None:
        """Let the next run of the conversation know how this one's messages were encoded."""
        if self.view.settled == thread:
            self.view.settled.encoded = dict(thread.encoded)  # the result's own may be added to

    async def close(self) -> None:
        """Let the conversation go, and remember what is known of it."""
        head, self._head = self._head, None
        if self._timer is not None:
            self._timer.cancel()
        if self._attending is not None:
            self._attending.cancel()
        if head is not None:
            views_of(self.store).put(head, self.view)
        if self._ownership.lease is not None:
            await self._ownership.release()
        self._cancelled = self._ownership.lost = _nobody  # who listened may go

    def check(self) -> None:
        """Refuse to go on when the lease has ended, as after a long freeze of this process.

        Raises:
            LeaseLost: it has.
        """
        self._ownership.check()

    async def append(
        self, entries: Sequence[AnyEntry], *, unless_more_than: int | None = None
    ) -> bool:
        """Write one batch. Once begun it is written, and known, whoever is cancelled meanwhile.

        What is `held` goes with it, before it.
        """
        if self.held:
            held, self.held = self.held, []
            if await self.append([*held, *entries], unless_more_than=unless_more_than):
                return True
            self.held = [*held, *self.held]
            return False
        if self._unclaimed:
            await self._enter(entries)
            return True
        if self._never_waits:
            return await self._write(entries, unless_more_than)
        if self._beginning is None or self._lock.locked():
            return await unbroken(self._write_in_turn(entries, unless_more_than))
        async with self._lock:  # which waits for nobody
            begun = self._beginning.begin_append(
                self.start.conversation_id,
                self.view.revision,
                entries,
                fence=self._ownership.fence,
            )
            cancelled = await done(begun)
            written = not isinstance(begun.exception(), RevisionConflict)
            if written:
                self._written(begun.result(), entries)
        if not written:  # somebody was quicker
            written = await unbroken(self._write_in_turn(entries, unless_more_than))
        if cancelled:
            raise asyncio.CancelledError
        return written

    async def _enter(self, entries: Sequence[AnyEntry]) -> None:
        owner = owner_here(self.start.run_id)
        asked = (self.start.conversation_id, owner, LEASE_SECONDS, entries)
        if self._beginning is None:
            await unbroken(self._entering(asked))
        else:
            begun = self._beginning.begin_claim_and_append(*asked, known=self._head)
            cancelled = await done(begun)
            if begun.exception() is None:
                self._entered(*begun.result(), entries)
            if cancelled:
                raise asyncio.CancelledError
            begun.result()  # raises what refused it

    async def _entering(self, asked: tuple[str, str, float, Sequence[AnyEntry]]) -> None:
        taken = await self.store.claim_and_append(*asked, known=self._head)
        self._entered(*taken, asked[-1])

    def _entered(self, head: Head, lease: Lease, entries: Sequence[AnyEntry]) -> None:
        self._head, self._unclaimed = head, False
        self._ownership.took(lease)
        self._owned()
        self._written(head.revision, entries)

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
                    self.start.conversation_id,
                    view.revision,
                    entries,
                    fence=self._ownership.fence,
                )
            except RevisionConflict:
                before = view.revision
                await self._catch_up()
                if view.revision == before:
                    raise
                if unless_more_than is not None and len(self.inbox.waiting) > unless_more_than:
                    return False
            else:
                self._written(revision, entries)
                return True

    def _written(self, revision: int, entries: Sequence[AnyEntry]) -> None:
        self.view.take_in(revision, entries)
        if not self.entered:
            self.entered = any(isinstance(e, RunBegan | RunResumed) for e in entries)
        if ends_lease(entries):
            self._ownership.ended()

    async def _catch_up(self) -> None:
        """Take in what others have appended: only they can while this run owns it."""
        for batch in await self.store.read(self.start.conversation_id, self.view.revision):
            if batch.revision > self.view.revision:
                self.view.take_in(batch.revision, batch.entries)
                self._hear(batch.entries)
        for listener in self.listeners:
            listener()

    def _hear(self, entries: Iterable[AnyEntry]) -> None:
        for entry in entries:
            if isinstance(entry, MessageQueued) and not entry.path:
                self.inbox.put(entry.id, entry.message)
            elif isinstance(entry, CancelAsked) and entry.run_id == self.start.run_id:
                self._cancelled(entry.reason or "Somebody asked the run to stop.")

    def _attend(self) -> None:
        self._attending = asyncio.get_running_loop().create_task(self._listen())

    async def _listen(self) -> None:
        """Hear what other processes write while a call takes long, and keep the lease."""
        loop = asyncio.get_running_loop()
        while self._ownership.lease is not None:
            seconds = max(0.0, self._ownership.due - loop.time())
            try:
                revision = await self.store.wait(
                    self.start.conversation_id, self.view.revision, seconds
                )
                if revision > self.view.revision:
                    async with self._lock:
                        await self._catch_up()
            except (StoreError, OSError) as error:
                log.warning("cannot listen to %s: %s", self.start.conversation_id, error)
                await asyncio.sleep(min(WAIT_SECONDS, seconds))
            if loop.time() >= self._ownership.due:
                await self._ownership.renew()


def _nobody(news: object) -> None:
    """Nobody listens any more."""
