"""What may become of a head: the rules of every store that holds one while it changes it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from msgspec.structs import replace

from treadle.errors import CorruptJournal
from treadle.journal import AnyEntry
from treadle.ports.store import READER, Head, Lease, advanced, anybody_may, begins
from treadle.stores.refusals import busy, lease_lost, not_at, not_the_same, run_taken, too_new
from treadle.values.logs import logger

T = TypeVar("T")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

log = logger(__name__)


def appended(
    head: Head,
    expected_revision: int,
    entries: Sequence[AnyEntry],
    fence: int | None,
    now: datetime,
) -> Head:
    """Return the head after this append, or raise why there can be none."""
    readable(head)
    if head.revision != expected_revision:
        raise not_at(head, expected_revision)
    if not anybody_may(entries) and (head.lease is None or head.lease.fence != fence):
        raise lease_lost(head, fence)
    return advanced(head, entries, now)


def claimed(
    head: Head, owner: str, seconds: float, instead_of: int | None, now: datetime
) -> tuple[Head, Lease]:
    """Return the head and the lease after this claim, or raise why there can be none."""
    readable(head)
    held = head.lease
    if held is not None and held.expires_at > now and held.fence != instead_of:
        raise busy(held, now)
    fence = head.fence + 1
    lease = Lease(head.conversation_id, owner, fence, now + timedelta(seconds=seconds))
    return replace(head, fence=fence, lease=lease), lease


def entered(
    head: Head | None,
    known: Head | None,
    conversation_id: str,
    owner: str,
    seconds: float,
    entries: Sequence[AnyEntry],
    now: datetime,
) -> tuple[Head, Lease]:
    """Return the head and the lease after a claim with a batch, or raise why there can be none."""
    if head is None and known is None:
        head = Head(conversation_id=conversation_id, created_at=now, updated_at=now)
    if head is None or (known is not None and known.created_at != head.created_at):
        raise not_the_same(conversation_id)
    head, lease = claimed(head, owner, seconds, None, now)
    expected = 0 if known is None else known.revision
    return appended(head, expected, entries, lease.fence, now), lease


def renewed(head: Head, lease: Lease, seconds: float, now: datetime) -> tuple[Head, Lease]:
    """Return the head and the lease that lasts longer, or raise `LeaseLost`."""
    held = head.lease
    if held is None or held.fence != lease.fence:
        raise lease_lost(head, lease.fence)
    held = replace(held, expires_at=now + timedelta(seconds=seconds))
    return replace(head, lease=held), held


def released(head: Head, lease: Lease) -> Head:
    """Return the head without this lease; the head itself when another holds it, or nobody."""
    if head.lease is None or head.lease.fence != lease.fence:
        return head
    return replace(head, lease=None)


def beginnings(entries: Sequence[AnyEntry]) -> list[str]:
    """Return the IDs of the runs that begin with these, or raise when one would do so twice."""
    run_ids = begins(entries)
    if len(run_ids) > 1 and len(set(run_ids)) < len(run_ids):
        raise run_taken(max(run_ids, key=run_ids.count))
    return run_ids


def readable(head: Head) -> None:
    """Raise `NewerJournal` when only a newer version of this package reads the journal."""
    if head.reader > READER:
        raise too_new(head.conversation_id, head.reader)


def undamaged(rows: Iterable[T], read: Callable[[T], Head]) -> list[Head]:
    """Return the heads of a list but those that are damaged, which are logged."""
    found: list[Head] = []
    for row in rows:
        try:
            found.append(read(row))
        except CorruptJournal as error:  # the others are not affected
            log.warning("left out of a list: %s", error)
    return found


def place(head: Head) -> tuple[int, str]:
    """Return what heads are listed by: the most recently changed first, then by ID."""
    return -microseconds(head.updated_at), head.conversation_id


def microseconds(at: datetime) -> int:
    """Return a time as whole microseconds since 1970, without loss."""
    return (at - EPOCH) // _MICROSECOND


def moment(since_1970: int) -> datetime:
    """Return the time that is so many microseconds after 1970."""
    return EPOCH + timedelta(microseconds=since_1970)
