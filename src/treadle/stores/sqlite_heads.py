"""Rows of the table of conversations as heads, and back; one that is damaged spoils no other."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, get_args

import msgspec
from msgspec import Struct

from treadle.errors import CorruptJournal
from treadle.ports.store import ConversationStatus, Head, Lease
from treadle.stores.heads import microseconds, moment
from treadle.stores.sqlite_file import Place, is_unreadable
from treadle.values.logs import logger

COLUMNS = (
    "key, id, revision, status, run_id, pending, created_at, updated_at, fence, owner, "
    "expires_at, reader"
)
STATUSES: tuple[ConversationStatus, ...] = get_args(ConversationStatus)
NEWEST = 1 << 62
"""Beyond the time of every head, in microseconds."""

_Row = tuple[
    int, str, int, ConversationStatus, str | None, int, int, int, int, str | None, int | None, int
]
_rows = msgspec.json.Decoder(list[_Row])
_HEADS = f"SELECT json_group_array(json_array({COLUMNS})) FROM "  # noqa: S608 the columns are ours
_HEAD = f"SELECT json_array(json_array({COLUMNS})) FROM conversations WHERE "  # noqa: S608 as above
_ORDERED = sorted(STATUSES)
# What no list of one status has. The index finds each of these; one question for all that is not
# as it should be would look at every row.
_ODD = " OR ".join(
    [
        f"status < '{_ORDERED[0]}'",
        *(f"(status > '{low}' AND status < '{high}')" for low, high in pairwise(_ORDERED)),
        f"status > '{_ORDERED[-1]}'",
        *(f"(status = '{each}' AND updated_at > {NEWEST})" for each in STATUSES),
    ]
)

log = logger(__name__)


class Known(Struct, frozen=True, gc=False):
    """A conversation of the file: its number there, and its head."""

    key: int
    head: Head


def known_from(rows: str) -> list[Known]:
    """Return what rows of conversations, as JSON, tell.

    Raises:
        msgspec.DecodeError: they cannot be read.
        OverflowError: a time is beyond the calendar.
    """
    return [_known(row) for row in _rows.decode(rows)]


def known_of(connection: sqlite3.Connection, place: Place, conversation_id: str) -> Known | None:
    """Return what is known of one, None when it is not there; or raise `CorruptJournal`."""
    return _one(connection, place, "id = ?", conversation_id, conversation_id)


def known_in(
    connection: sqlite3.Connection, place: Place, chosen: str, values: tuple[object, ...], most: int
) -> list[Known]:
    """Return what is known of chosen conversations, in order; damaged ones are left out and logged.

    `chosen` is a query for all their columns, before its limit.
    """
    try:
        query = f"{_HEADS}({chosen} LIMIT ?)"
        return known_from(connection.execute(query, (*values, most)).fetchone()[0])
    except (msgspec.DecodeError, OverflowError, sqlite3.Error) as error:
        if isinstance(error, sqlite3.Error) and not is_unreadable(error):
            raise
    found: list[Known] = []
    for known in _each(connection, place, f"({chosen})", values):
        if len(found) == most:
            break
        found.append(known)
    return found


def log_odd(connection: sqlite3.Connection, place: Place) -> None:
    """Log those damaged conversations that `known_in` cannot come upon."""
    for _ in _each(connection, place, f"conversations WHERE {_ODD}", ()):
        pass  # those that can be read are not odd


def row_of(known: Known) -> tuple[Any, ...]:
    """Return the row that tells this."""
    head = known.head
    return (
        known.key,
        head.conversation_id,
        head.revision,
        head.status,
        head.run_id,
        head.pending,
        microseconds(head.created_at),
        microseconds(head.updated_at),
        head.fence,
        head.owner,
        None if head.lease is None else microseconds(head.lease.expires_at),
        head.reader,
    )


def _each(
    connection: sqlite3.Connection, place: Place, source: str, values: tuple[object, ...]
) -> Iterator[Known]:
    names = connection.execute(f"SELECT key, CAST(id AS BLOB) FROM {source}", values)  # noqa: S608 it is ours
    for key, name in names:
        try:
            known = _one(connection, place, "key = ?", key, name.decode(errors="replace"))
        except CorruptJournal as error:  # the others are not affected
            log.warning("left out of a list: %s", error)
            continue
        if known is not None:
            yield known


def _one(
    connection: sqlite3.Connection, place: Place, which: str, value: object, name: str
) -> Known | None:
    try:
        row = connection.execute(_HEAD + which, (value,)).fetchone()
        return None if row is None else known_from(row[0])[0]
    except (msgspec.DecodeError, OverflowError, sqlite3.Error) as error:
        if isinstance(error, sqlite3.Error) and not is_unreadable(error):
            raise
        raise CorruptJournal(
            f"{place.path}: conversation {name!r}: its row in the table 'conversations' cannot be "
            f"read: {error}. Restore a copy; the others are not affected."
        ) from error


def _known(row: _Row) -> Known:
    key, name, revision, status, run_id, pending, created, updated, fence, owner, until, reader = (
        row
    )
    lease = None if owner is None else Lease(name, owner, fence, moment(until or 0))
    return Known(
        key,
        Head(
            conversation_id=name,
            revision=revision,
            status=status,
            run_id=run_id,
            pending=pending,
            created_at=moment(created),
            updated_at=moment(updated),
            fence=fence,
            lease=lease,
            reader=reader,
        ),
    )
