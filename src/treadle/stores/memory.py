"""Keep conversations in this process: for tests, and for what need not outlive it."""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections.abc import Sequence
from datetime import datetime

from treadle.errors import ConfigError
from treadle.journal import AnyEntry
from treadle.ports.clock import SYSTEM_CLOCK, Clock
from treadle.ports.store import (
    Batch,
    ConversationStatus,
    Head,
    Lease,
    advanced,
    begins,
)
from treadle.stores.heads import appended, beginnings, claimed, entered, place, released, renewed
from treadle.stores.refusals import (
    content_not_found,
    fork_gone,
    not_found,
    run_not_found,
    run_taken,
    taken,
)


class _Journal:
    """One conversation: its head, its batches, its blobs, and who is waiting for more."""

    __slots__ = ("batches", "blobs", "head", "waiting")

    def __init__(self, head: Head) -> None:
        self.head = head
        self.batches: list[Batch] = []
        self.blobs: dict[str, bytes] = {}
        self.waiting: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []


class MemoryStore:
    """A store in memory. Entries are immutable values, so nothing is copied.

    One store may serve several event loops; no method waits for anything but `wait`.
    """

    def __init__(self, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._journals: dict[str, _Journal] = {}
        self._runs: dict[str, str] = {}
        self._lock = threading.Lock()  # threads have event loops of their own

    @classmethod
    def from_url(cls, url: str) -> MemoryStore:
        """Return a new store, for "memory:".

        Raises:
            ConfigError: the URL has more to it.
        """
        if url.lower().rstrip("/") != "memory:":
            raise ConfigError('The URL of a store in memory is "memory:", without anything else.')
        return cls()

    async def create(self, conversation_id: str) -> Head:
        """Begin a journal at revision 0; an existing one is left alone and its head returned."""
        with self._lock:
            return self._begin(conversation_id, self._clock.now()).head

    async def head(self, conversation_id: str) -> Head:
        """Return the head, or raise `ConversationNotFound`."""
        return self._find(conversation_id).head

    async def append(
        self,
        conversation_id: str,
        expected_revision: int,
        entries: Sequence[AnyEntry],
        *,
        fence: int | None = None,
    ) -> int:
        """Write one batch and return its revision; see the port."""
        batch, runs = tuple(entries), beginnings(entries)
        journal = self._find(conversation_id)
        with self._lock:
            head = appended(journal.head, expected_revision, batch, fence, self._clock.now())
            self._begin_runs(conversation_id, runs)
            _add(journal, head, batch)
        return head.revision

    append.never_waits = append  # pyright: ignore[reportFunctionMemberAccess] see the port

    async def read(self, conversation_id: str, from_revision: int = 0) -> Sequence[Batch]:
        """Return the batches after `from_revision`, oldest first."""
        return self._find(conversation_id).batches[max(0, from_revision) :]

    async def wait(self, conversation_id: str, after_revision: int, seconds: float) -> int:
        """Return the revision as soon as it is beyond `after_revision`, or after `seconds`."""
        journal = self._find(conversation_id)
        if journal.head.revision <= after_revision:
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
        return self._find(conversation_id).head.revision

    async def find(self, run_id: str) -> str:
        """Return the ID of the conversation that the run is in, or raise `RunNotFound`."""
        found = self._runs.get(run_id)
        if found is None:
            raise run_not_found(run_id)
        return found

    async def list(
        self,
        *,
        status: ConversationStatus | None = None,
        limit: int = 100,
        after: Head | None = None,
    ) -> Sequence[Head]:
        """Return heads, the most recently changed first (then by ID); `after` the last one seen."""
        heads = [journal.head for journal in list(self._journals.values())]
        kept = [head for head in heads if status is None or head.status == status]
        if after is not None:
            kept = [head for head in kept if place(head) > place(after)]
        return sorted(kept, key=place)[:limit]

    async def fork(self, conversation_id: str, revision: int, new_id: str) -> Head:
        """Copy a journal through `revision` under a new ID; see the port."""
        with self._lock:
            source = self._find(conversation_id)
            if not 0 <= revision <= source.head.revision:
                raise fork_gone(source.head, revision)
            if new_id in self._journals:
                raise taken(new_id)
            now = self._clock.now()
            journal = self._begin(new_id, now)
            for batch in source.batches[:revision]:
                journal.head = advanced(journal.head, batch.entries, now)
            journal.batches = source.batches[:revision]
            journal.blobs = dict(source.blobs)
            return journal.head

    async def delete(self, conversation_id: str) -> None:
        """Forget a conversation; one that is not there is no error."""
        with self._lock:
            journal = self._journals.pop(conversation_id, None)
            if journal is not None:
                for batch in journal.batches:
                    for run_id in begins(batch.entries):
                        if self._runs.get(run_id) == conversation_id:
                            del self._runs[run_id]
                _wake(journal)

    async def close(self) -> None:
        """There is nothing to let go of: what is in it lives as long as the store."""

    async def claim(
        self, conversation_id: str, owner: str, seconds: float, *, instead_of: int | None = None
    ) -> tuple[Head, Lease]:
        """Take the conversation, which begins here when there is none; see the port."""
        now = self._clock.now()
        with self._lock:
            journal = self._begin(conversation_id, now)
            journal.head, lease = claimed(journal.head, owner, seconds, instead_of, now)
            return journal.head, lease

    async def claim_and_append(
        self,
        conversation_id: str,
        owner: str,
        seconds: float,
        entries: Sequence[AnyEntry],
        *,
        known: Head | None,
    ) -> tuple[Head, Lease]:
        """Take the conversation and write its next batch, in one step; see the port."""
        batch, runs, now = tuple(entries), beginnings(entries), self._clock.now()
        with self._lock:
            journal = self._journals.get(conversation_id)
            before = None if journal is None else journal.head
            head, lease = entered(before, known, conversation_id, owner, seconds, batch, now)
            self._begin_runs(conversation_id, runs)
            _add(journal or self._begin(conversation_id, now), head, batch)
            return head, lease

    async def renew(self, lease: Lease, seconds: float) -> Lease:
        """Keep it longer, or raise `LeaseLost`."""
        journal = self._find(lease.conversation_id)
        with self._lock:
            journal.head, held = renewed(journal.head, lease, seconds, self._clock.now())
        return held

    async def release(self, lease: Lease) -> None:
        """Let it go; a lease that is no longer held is no error."""
        with self._lock:
            journal = self._journals.get(lease.conversation_id)
            if journal is not None:
                journal.head = released(journal.head, lease)

    async def put(self, conversation_id: str, content: bytes) -> str:
        """Keep content and return its SHA-256 in hex, or raise `ConversationNotFound`."""
        digest = hashlib.sha256(content).hexdigest()
        self._find(conversation_id).blobs[digest] = content
        return digest

    async def get(self, conversation_id: str, digest: str) -> bytes:
        """Return content by its digest, or raise `ConversationNotFound`."""
        found = self._find(conversation_id).blobs.get(digest)
        if found is None:
            raise content_not_found(conversation_id, digest)
        return found

    def _begin(self, conversation_id: str, now: datetime) -> _Journal:
        journal = self._journals.get(conversation_id)
        if journal is None:
            head = Head(conversation_id=conversation_id, created_at=now, updated_at=now)
            journal = self._journals[conversation_id] = _Journal(head)
        return journal

    def _begin_runs(self, conversation_id: str, runs: Sequence[str]) -> None:
        """Note the runs that begin; when one of them has before, raise and note none."""
        for run_id in runs:
            if run_id in self._runs:
                raise run_taken(run_id)
        self._runs.update(dict.fromkeys(runs, conversation_id))

    def _find(self, conversation_id: str) -> _Journal:
        journal = self._journals.get(conversation_id)
        if journal is None:
            raise not_found(conversation_id)
        return journal


def _add(journal: _Journal, head: Head, batch: tuple[AnyEntry, ...]) -> None:
    journal.head = head
    journal.batches.append(Batch(head.revision, batch))
    if journal.waiting:
        _wake(journal)


def _wake(journal: _Journal) -> None:
    waiting, journal.waiting = journal.waiting, []
    for loop, more in waiting:
        if not loop.is_closed():
            loop.call_soon_threadsafe(more.set)
