"""The seam to where conversations live: journals, leases on them, and their media."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal, Protocol, TypeGuard, TypeVar

from msgspec import Struct

from treadle.journal import (
    AnyEntry,
    ApprovalDecided,
    CancelAsked,
    InboxApplied,
    InboxDiscarded,
    MessageQueued,
    RunBegan,
    RunEnded,
    RunResumed,
    RunSuspended,
)

T = TypeVar("T")
ConversationStatus = Literal["new", "running", "paused", "answered", "stopped"]
"""What became of the newest run; it stopped when it ended without an answer."""

ANSWERED = ("answer", "limit")
READER = 2
"""The newest version of journals that this package reads."""
PLAIN = 1
"""The version that reads what has no child runs. It would take what they said for the run's own."""
NESTED = 2


class Lease(Struct, frozen=True, gc=False):
    """The right to append to a conversation: a fencing token and when it ends."""

    conversation_id: str
    owner: str
    fence: int
    expires_at: datetime

    @property
    def run_id(self) -> str:
        """The run that owns the conversation: what stands before the last @ in `owner`."""
        run_id, at, _ = self.owner.rpartition("@")
        return run_id if at else self.owner


class Head(Struct, frozen=True, kw_only=True, gc=False):
    """What can be known of a conversation without reading its journal.

    `run_id` is the newest run, `pending` how many queued messages were not applied yet, `fence` the
    newest fencing token (0 before the first), `lease` the one that was not let go. It may have
    ended. `reader` is the lowest version of `READER` that reads the journal.
    """

    conversation_id: str
    revision: int = 0
    status: ConversationStatus = "new"
    run_id: str | None = None
    pending: int = 0
    created_at: datetime
    updated_at: datetime
    fence: int = 0
    lease: Lease | None = None
    reader: int = PLAIN

    @property
    def owner(self) -> str | None:
        """Who holds the lease that was not let go."""
        return None if self.lease is None else self.lease.owner


class Batch(Struct, frozen=True, gc=False):
    """What one append wrote, and the revision that it made."""

    revision: int
    entries: tuple[AnyEntry, ...]


class Journals(Protocol):
    """Keeps journals. IDs are checked before they come here; no store looks into messages."""

    async def create(self, conversation_id: str) -> Head:
        """Begin a journal at revision 0; an existing one is left alone and its head returned."""
        ...

    async def head(self, conversation_id: str) -> Head:
        """Return the head, or raise `ConversationNotFound`."""
        ...

    async def append(
        self,
        conversation_id: str,
        expected_revision: int,
        entries: Sequence[AnyEntry],
        *,
        fence: int | None = None,
    ) -> int:
        """Write one batch and return its revision. What was returned survives the process.

        The head follows by `advanced`; a lease ends with the batch for which `ends_lease` holds. A
        function that never waits may have an attribute `never_waits` that is itself: then callers
        take no care that nothing comes in between. Where this function and `claim_and_append`
        have an attribute `begins` that is the function itself, the store is a `BeginningStore`.
        What wraps them carries the attribute of what is wrapped, and is asked like any other.

        Raises:
            ConversationNotFound: there is none.
            RevisionConflict: the journal is not at `expected_revision`; nothing was written.
            LeaseLost: an entry is not one that `anybody_may` write, and `fence` is not that of the
                lease; nothing was written.
            InvalidId: a run of this ID has begun before; nothing was written.
            NewerJournal: only a newer version of this package may read the journal, as with all
                that reads or copies it.
        """
        ...

    async def read(self, conversation_id: str, from_revision: int = 0) -> Sequence[Batch]:
        """Return the batches after `from_revision`, oldest first."""
        ...

    async def wait(self, conversation_id: str, after_revision: int, seconds: float) -> int:
        """Return the revision as soon as it is beyond `after_revision`, or after `seconds`."""
        ...

    async def find(self, run_id: str) -> str:
        """Return the ID of the conversation that the run is in, or raise `RunNotFound`."""
        ...

    async def list(
        self,
        *,
        status: ConversationStatus | None = None,
        limit: int = 100,
        after: Head | None = None,
    ) -> Sequence[Head]:
        """Return heads, the most recently changed first (then by ID); `after` the last one seen."""
        ...

    async def fork(self, conversation_id: str, revision: int, new_id: str) -> Head:
        """Copy a journal through `revision`, with its media, under a new ID; return its head.

        The copy's batches are equal to the first ones of the original, and independent of it from
        then on. Runs are found in the original only. The copy is not leased.

        Raises:
            ConversationNotFound: there is no such conversation, or no such revision of it.
            InvalidId: there is a conversation `new_id` already.
        """
        ...

    async def delete(self, conversation_id: str) -> None:
        """Forget a conversation; one that is not there is no error."""
        ...

    async def close(self) -> None:
        """Let go of connections and files. What is used again opens again."""
        ...


class Leases(Protocol):
    """Lets one run at a time own a conversation, by the store's own clock."""

    async def claim(
        self, conversation_id: str, owner: str, seconds: float, *, instead_of: int | None = None
    ) -> tuple[Head, Lease]:
        """Take the conversation, which begins here when there is none; return it as it now is.

        A lease that is alive keeps others out, also one of the same owner. `instead_of` is the
        fence of one that the caller knows to be dead.

        Raises:
            ConversationBusy: another's lease is alive.
            NewerJournal: only a newer version of this package may write here.
        """
        ...

    async def renew(self, lease: Lease, seconds: float) -> Lease:
        """Keep it longer, or raise `LeaseLost`."""
        ...

    async def release(self, lease: Lease) -> None:
        """Let it go; a lease that is no longer held is no error."""
        ...


class Blobs(Protocol):
    """Keeps large content by its SHA-256, once for each conversation, until that is deleted."""

    async def put(self, conversation_id: str, content: bytes) -> str:
        """Keep it and return its digest in hex, or raise `ConversationNotFound`."""
        ...

    async def get(self, conversation_id: str, digest: str) -> bytes:
        """Return it, or raise `ConversationNotFound`."""
        ...


class Store(Journals, Leases, Blobs, Protocol):
    """All that a store of conversations does."""

    async def claim_and_append(
        self,
        conversation_id: str,
        owner: str,
        seconds: float,
        entries: Sequence[AnyEntry],
        *,
        known: Head | None,
    ) -> tuple[Head, Lease]:
        """Take the conversation and write its next batch, in one step: both or nothing.

        `known` is the head that the entries follow, as the caller knows it; None stands for a
        conversation that is empty or not there. Returned is the head after the batch.

        Raises:
            ConversationBusy: another's lease is alive.
            RevisionConflict: the conversation is not at the revision of `known`, or is gone, or
                another of the same ID.
            InvalidId: a run of this ID has begun before.
            NewerJournal: only a newer version of this package may write here.
        """
        ...


class Begun(asyncio.Future[T]):
    """What will come of a write that has begun. It cannot be cancelled.

    A task that is cancelled while it waits for this hears of that when the write is done.
    """

    def cancel(self, msg: Any | None = None) -> bool:
        """Do nothing: the write goes on."""
        return False


class BeginningStore(Store, Protocol):
    """A store whose writes go on whatever becomes of those who wait, without a task for each."""

    def begin_append(
        self,
        conversation_id: str,
        expected_revision: int,
        entries: Sequence[AnyEntry],
        *,
        fence: int | None,
    ) -> Begun[int]:
        """Begin `append`."""
        ...

    def begin_claim_and_append(
        self,
        conversation_id: str,
        owner: str,
        seconds: float,
        entries: Sequence[AnyEntry],
        *,
        known: Head | None,
    ) -> Begun[tuple[Head, Lease]]:
        """Begin `claim_and_append`."""
        ...


def begins_writes(store: Store) -> TypeGuard[BeginningStore]:
    """Whether the store can begin writes, and does so as its own methods write."""
    return _is_own(store.append, "begins") and _is_own(store.claim_and_append, "begins")


def never_waits(store: Store) -> bool:
    """Whether the store's own `append` never waits for anything."""
    return _is_own(store.append, "never_waits")


def _is_own(method: object, mark: str) -> bool:
    """Whether a mark was set on this very function: what wraps one may have copied it."""
    function = getattr(method, "__func__", method)
    return getattr(function, mark, None) is function


def anybody_may(entries: Sequence[AnyEntry]) -> bool:
    """Whether these may be appended without owning the conversation."""
    return all(type(entry) in _ANYBODYS for entry in entries)


def ends_lease(entries: Sequence[AnyEntry]) -> bool:
    """Whether the run that owns the conversation stops with these entries."""
    if not entries:
        return False
    last = entries[-1]
    return type(last) in _ENDS and not last.path


def begins(entries: Sequence[AnyEntry]) -> list[str]:
    """Return the IDs of the runs that begin with these entries."""
    return [entry.run_id for entry in entries if type(entry) is RunBegan]


def advanced(head: Head, entries: Sequence[AnyEntry], now: datetime) -> Head:
    """Return the head after one more batch."""
    status, run_id, pending, reader = head.status, head.run_id, head.pending, head.reader
    for entry in entries:
        if entry.path and reader < NESTED:
            reader = NESTED
        match entry:
            case RunBegan(path=""):
                status, run_id = "running", entry.run_id
            case RunEnded(path=""):
                status = "answered" if entry.stop_reason in ANSWERED else "stopped"
            case RunSuspended(path=""):
                status = "paused"
            case RunResumed():
                status = "running"
            case MessageQueued():
                pending += 1
            case InboxApplied() | InboxDiscarded():
                pending -= len(entry.ids)
            case _:
                pass
    return Head(
        conversation_id=head.conversation_id,
        revision=head.revision + 1,
        status=status,
        run_id=run_id,
        pending=pending,
        created_at=head.created_at,
        updated_at=now,
        fence=head.fence,
        lease=None if ends_lease(entries) else head.lease,
        reader=reader,
    )


_ANYBODYS = frozenset((MessageQueued, ApprovalDecided, CancelAsked))
_ENDS = frozenset((RunEnded, RunSuspended))
