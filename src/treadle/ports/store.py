"""The seam to where conversations live."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Literal, Protocol, TypeGuard

from msgspec import Struct

from treadle.journal import AnyEntry

ConversationStatus = Literal["new", "running", "paused", "settled"]


class Head(Struct, frozen=True, kw_only=True, gc=False):
    """What can be known of a conversation without reading its journal."""

    conversation_id: str
    revision: int
    status: ConversationStatus
    run_id: str | None
    created_at: datetime
    updated_at: datetime
    owner: str | None = None


class Lease(Struct, frozen=True, gc=False):
    """The right to append to a conversation: a fencing token and when it ends."""

    conversation_id: str
    owner: str
    fence: int
    expires_at: datetime


class Batch(Struct, frozen=True, gc=False):
    """What one append wrote, and the revision that it made."""

    revision: int
    entries: tuple[AnyEntry, ...]


class Store(Protocol):
    """Keeps journals. IDs are checked before they come here; a store never interprets entries."""

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
        """Write one batch and return its revision.

        A method that never waits may have an attribute `never_waits` that is true: then callers
        take no care that nothing comes in between.

        Raises:
            RevisionConflict: the journal is not at `expected_revision`; nothing was written.
            LeaseLost: `fence` is not the newest one; nothing was written.
        """
        ...

    async def read(self, conversation_id: str, from_revision: int = 0) -> Sequence[Batch]:
        """Return the batches after `from_revision`, oldest first."""
        ...

    async def wait(self, conversation_id: str, after_revision: int, seconds: float) -> int:
        """Return the revision as soon as it is beyond `after_revision`, or after `seconds`."""
        ...

    async def list(
        self, *, status: ConversationStatus | None = None, limit: int = 100
    ) -> Sequence[Head]:
        """Return heads, the most recently changed first."""
        ...

    async def delete(self, conversation_id: str) -> None:
        """Forget a conversation; one that is not there is no error."""
        ...


class Leases(Protocol):
    """Lets one run at a time own a conversation. A store may be this too."""

    async def claim(self, conversation_id: str, owner: str, seconds: float) -> Lease:
        """Take the conversation, or raise `ConversationBusy` while another's lease is alive."""
        ...

    async def renew(self, lease: Lease, seconds: float) -> Lease:
        """Keep it longer, or raise `LeaseLost`."""
        ...

    async def release(self, lease: Lease) -> None:
        """Let it go; a lease that is no longer held is no error."""
        ...


def gives_leases(store: object) -> TypeGuard[Leases]:
    """Whether a store gives leases too."""
    return all(callable(getattr(store, name, None)) for name in ("claim", "renew", "release"))
