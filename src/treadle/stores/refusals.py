"""What stores refuse, in the same words from each of them."""

from __future__ import annotations

from datetime import datetime

from treadle.errors import (
    ConversationBusy,
    ConversationNotFound,
    CorruptJournal,
    InvalidId,
    LeaseLost,
    NewerJournal,
    RevisionConflict,
    RunNotFound,
)
from treadle.ports.store import READER, Head, Lease


def not_found(conversation_id: str) -> ConversationNotFound:
    """Return the error for a conversation that is not there."""
    return ConversationNotFound(f"There is no conversation {conversation_id!r} in this store.")


def run_not_found(run_id: str) -> RunNotFound:
    """Return the error for a run that is not there."""
    return RunNotFound(f"There is no run {run_id!r} in this store.")


def content_not_found(conversation_id: str, digest: str) -> ConversationNotFound:
    """Return the error for content that is not there."""
    return ConversationNotFound(f"Conversation {conversation_id!r} has no content {digest!r}.")


def not_at(head: Head, expected: int) -> RevisionConflict:
    """Return the error for an append at a revision that is not the newest."""
    return RevisionConflict(
        f"Conversation {head.conversation_id!r} is at revision {head.revision}, not {expected}; "
        "nothing was written. Somebody else has written to it."
    )


def not_the_same(conversation_id: str) -> RevisionConflict:
    """Return the error for a conversation that was deleted since, whether or not it came again."""
    return RevisionConflict(
        f"Conversation {conversation_id!r} is not the one that was read: it was deleted; "
        "nothing was written."
    )


def lease_lost(head: Head, fence: int | None) -> LeaseLost:
    """Return the error for a write by somebody who does not own the conversation."""
    owned = "by nobody" if head.lease is None else f"by fence {head.lease.fence}"
    return LeaseLost(
        f"Conversation {head.conversation_id!r} is owned {owned}, not by {fence}; "
        "nothing was written. It was taken over or let go."
    )


def busy(lease: Lease, now: datetime) -> ConversationBusy:
    """Return the error for a claim while another's lease is alive."""
    left = (lease.expires_at - now).total_seconds()
    error = ConversationBusy(
        f"Conversation {lease.conversation_id!r} is owned by run {lease.run_id!r} "
        f"for another {left:.1f} s."
    )
    error.lease, error.seconds_left = lease, left
    return error


def taken(conversation_id: str) -> InvalidId:
    """Return the error for a new conversation under an ID that is in use."""
    return InvalidId(f"There is a conversation {conversation_id!r} already; choose another ID.")


def run_taken(run_id: str) -> InvalidId:
    """Return the error for a new run under an ID that is in use."""
    return InvalidId(
        f"There is a run {run_id!r} already; resume it, or choose another ID. Nothing was written."
    )


def fork_gone(head: Head, revision: int) -> ConversationNotFound:
    """Return the error for a fork at a revision that does not exist."""
    return ConversationNotFound(
        f"Conversation {head.conversation_id!r} has revisions 0 to {head.revision}, not {revision}."
    )


def head_damaged(conversation_id: str, error: Exception) -> CorruptJournal:
    """Return the error for a head that cannot be read."""
    return CorruptJournal(
        f"The head of conversation {conversation_id!r} cannot be read: {error}. "
        "Restore a copy; the others are not affected."
    )


def too_new(conversation_id: str, reader: int) -> NewerJournal:
    """Return the error for a journal that this version must not touch."""
    return NewerJournal(
        f"Conversation {conversation_id!r} was written by a newer version of this package: its "
        f"journal needs format {reader}, this version knows {READER}. Upgrade the package."
    )
