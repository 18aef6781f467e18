"""What one append changes, told without knowing the head that it changes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from msgspec import Struct

from treadle.journal import AnyEntry
from treadle.ports.store import (
    ConversationStatus,
    Head,
    Lease,
    advanced,
    anybody_may,
)
from treadle.stores.codec import encode_batch
from treadle.stores.heads import beginnings

_AT = datetime(1970, 1, 1, tzinfo=UTC)
# No entry makes a conversation new, or takes away the ID of its run: what is still so afterwards
# was not changed.
_BLANK = Head(
    conversation_id="",
    status="new",
    created_at=_AT,
    updated_at=_AT,
    lease=Lease("", "", 0, _AT),
)


class Move(Struct, frozen=True, kw_only=True):
    """One batch as bytes, with what it needs and what it does to the head.

    `status` and `run_id` are None where they stay; `pending` is added; `runs` begin. `anybody`
    may write it, else it takes `fence`. `ends` lets go of the lease. `reader` is what it takes to
    read the batch.
    """

    expected: int
    data: bytes
    media: dict[str, bytes]
    status: ConversationStatus | None
    run_id: str | None
    pending: int
    runs: tuple[str, ...]
    anybody: bool
    fence: int
    ends: bool
    reader: int


def move_of(expected: int, entries: Sequence[AnyEntry], fence: int | None) -> Move:
    """Return what appending these entries at this revision does.

    Raises:
        InvalidId: a run begins twice.
    """
    data, media = encode_batch(entries)
    after = advanced(_BLANK, entries, _AT)
    return Move(
        expected=expected,
        data=data,
        media=media,
        status=None if after.status == "new" else after.status,
        run_id=after.run_id,
        pending=after.pending,
        runs=tuple(beginnings(entries)),
        anybody=anybody_may(entries),
        fence=-1 if fence is None else fence,
        ends=after.lease is None,
        reader=after.reader,
    )
