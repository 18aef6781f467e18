"""Keep conversations in this process: for tests, and for what need not outlive it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from datetime import datetime, timedelta

from treadle.errors import ConversationBusy, ConversationNotFound, LeaseLost, RevisionConflict
from treadle.journal import AnyEntry, RunBegan, RunEnded, RunSuspended
from treadle.ports.clock import SYSTEM_CLOCK, Clock
from treadle.ports.store import Batch, ConversationStatus, Head, Lease


class _Journal:
    """One conversation: its batches, who is waiting for more, and who owns it."""

    def __init__(self, now: datetime) -> None:
        self.batches: list[Batch] = []
        self.status: ConversationStatus = "new"
        self.run_id: str | None = None
        self.created_at = self.updated_at = now
        self.fence = 0
        self.lease: Lease | None = None
        self.waiting: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []


class MemoryStore:
    """A store in memory. Entries are immutable values, so nothing is copied.

    One store may serve several event loops; no method waits for anything but `wait`.
    """

    def __init__(self, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._journals: dict[str, _Journal] = {}
        self._lock = threading.Lock()  # threads have event loops of their own

    async def create(self, conversation_id: str) -> Head:
        """Begin a journal at revision 0; an existing one is left alone and its head returned."""
        with self._lock:
            if conversation_id not in self._journals:
                self._journals[conversation_id] = _Journal(self._clock.now())
        return await self.head(conversation_id)

    async def head(self, conversation_id: str) -> Head:
        """Return the head, or raise `ConversationNotFound`."""
        journal = self._find(conversation_id)
        return Head(
            conversation_id=conversation_id,
            revision=len(journal.batches),
            status=journal.status,
            run_id=journal.run_id,
            created_at=journal.created_at,
            updated_at=journal.updated_at,
            owner=journal.lease.owner if journal.lease else None,
        )

    async def append(
        self,
        conversation_id: str,
        expected_revision: int,
        entries: Sequence[AnyEntry],
        *,
        fence: int | None = None,
    ) -> int:
        """Write one batch and return its revision.

        Raises:
            RevisionConflict: the journal is not at `expected_revision`; nothing was written.
            LeaseLost: the conversation was claimed and `fence` is not its owner's; nothing was
                written.
        """
        journal = self._find(conversation_id)
        with self._lock:
            revision = len(journal.batches)
            if revision != expected_revision:
                raise RevisionConflict(
                    f"Conversation {conversation_id!r} is at revision {revision}, "
                    f"not {expected_revision}; nothing was written. Another run works in it."
                )
            if journal.fence and fence != journal.fence:
                raise LeaseLost(
                    f"Conversation {conversation_id!r} is owned by fence {journal.fence}, "
                    f"not {fence}; nothing was written."
                )
            journal.batches.append(Batch(revision + 1, tuple(entries)))
            journal.updated_at = self._clock.now()
            for entry in entries:
                _note(journal, entry)
            _wake(journal)
        return revision + 1

    append.never_waits = True  # pyright: ignore[reportFunctionMemberAccess] see the port

    async def read(self, conversation_id: str, from_revision: int = 0) -> Sequence[Batch]:
        """Return the batches after `from_revision`, oldest first."""
        return self._find(conversation_id).batches[max(0, from_revision) :]

    async def wait(self, conversation_id: str, after_revision: int, seconds: float) -> int:
        """Return the revision as soon as it is beyond `after_revision`, or after `seconds`."""
        journal = self._find(conversation_id)
        if len(journal.batches) <= after_revision:
            more = asyncio.Event()
            waiting = (asyncio.get_running_loop(), more)
            journal.waiting.append(waiting)
            try:
                async with asyncio.timeout(seconds):
                    await more.wait()
            except TimeoutError:
                pass  # the time is up: the revision is what it is
            finally:
                if waiting in journal.waiting:
                    journal.waiting.remove(waiting)
        return len(journal.batches)

    async def list(
        self, *, status: ConversationStatus | None = None, limit: int = 100
    ) -> Sequence[Head]:
        """Return heads, the most recently changed first."""
        heads = [await self.head(conversation_id) for conversation_id in list(self._journals)]
        kept = [head for head in heads if status is None or head.status == status]
        return sorted(kept, key=lambda head: head.updated_at, reverse=True)[:limit]

    async def delete(self, conversation_id: str) -> None:
        """Forget a conversation; one that is not there is no error."""
        self._journals.pop(conversation_id, None)

    async def claim(self, conversation_id: str, owner: str, seconds: float) -> Lease:
        """Take the conversation, or raise `ConversationBusy` while any lease of it is alive.

        That holds for a lease of the same `owner` too: two runs of one ID are two runs.
        """
        journal = self._find(conversation_id)
        now = self._clock.now()
        with self._lock:
            lease = journal.lease
            if lease is not None and lease.expires_at > now:
                left = (lease.expires_at - now).total_seconds()
                raise ConversationBusy(
                    f"Conversation {conversation_id!r} is owned by run {lease.owner!r} "
                    f"for another {left:.1f} s."
                )
            journal.fence += 1
            expires_at = now + timedelta(seconds=seconds)
            journal.lease = Lease(conversation_id, owner, journal.fence, expires_at)
            return journal.lease

    async def renew(self, lease: Lease, seconds: float) -> Lease:
        """Keep it longer, or raise `LeaseLost`."""
        journal = self._find(lease.conversation_id)
        if journal.fence != lease.fence or journal.lease is None:
            raise LeaseLost(f"Conversation {lease.conversation_id!r} was taken over or released.")
        expires_at = self._clock.now() + timedelta(seconds=seconds)
        journal.lease = Lease(lease.conversation_id, lease.owner, lease.fence, expires_at)
        return journal.lease

    async def release(self, lease: Lease) -> None:
        """Let it go; a lease that is no longer held is no error."""
        journal = self._journals.get(lease.conversation_id)
        if journal is not None and journal.fence == lease.fence:
            journal.lease = None

    def _find(self, conversation_id: str) -> _Journal:
        journal = self._journals.get(conversation_id)
        if journal is None:
            raise ConversationNotFound(
                f"There is no conversation {conversation_id!r} in this store."
            )
        return journal


def _note(journal: _Journal, entry: AnyEntry) -> None:
    """Keep the head's small facts up to date."""
    match entry:
        case RunBegan():
            journal.run_id, journal.status = entry.run_id, "running"
        case RunSuspended():
            journal.status = "paused"
        case RunEnded():
            journal.status = "settled"
        case _:
            pass


def _wake(journal: _Journal) -> None:
    waiting, journal.waiting = journal.waiting, []
    for loop, more in waiting:
        if not loop.is_closed():
            loop.call_soon_threadsafe(more.set)
