"""Questions to an SQLite file. Each comes back as one row, or as one for many batches.

Each row that SQLite returns lets other threads have the interpreter; when these are busy, a row
costs milliseconds.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any

import msgspec

from treadle.errors import CorruptJournal
from treadle.ports.store import Batch, ConversationStatus, Head
from treadle.stores.codec import decode_batch, decode_batches, digests_in, with_media
from treadle.stores.heads import microseconds, place, readable
from treadle.stores.refusals import content_not_found, not_found, run_not_found
from treadle.stores.sqlite_file import Place, is_unreadable, run_lost
from treadle.stores.sqlite_heads import (
    COLUMNS,
    NEWEST,
    STATUSES,
    Known,
    known_in,
    known_of,
    log_odd,
)
from treadle.stores.sqlite_unit import PIECES, place_of

_AT_ONCE = 256
_MEDIA = b"blob:sha256:"
_revisions = msgspec.json.Decoder(dict[str, int])
_PAGE = (
    f"SELECT {COLUMNS} FROM conversations WHERE status = ? AND updated_at <= ? "  # noqa: S608 ours
    "AND (updated_at < ? OR id > ?) ORDER BY updated_at DESC, id"
)
_REVISIONS = """
SELECT json_group_object(id, revision) FROM conversations
  WHERE id IN (SELECT value FROM json_each(?))
"""
_BATCHES = f"""
SELECT CAST(group_concat(data, '') AS BLOB), sum(place % {PIECES} = 0) FROM (
  SELECT place, data FROM batches WHERE place >= ? AND place < ? ORDER BY place)
"""  # noqa: S608 the number is ours


class Reading:
    """What is asked of one connection."""

    def __init__(self, connection: sqlite3.Connection, where: Place) -> None:
        self._connection = connection
        self._where = where

    def known(self, conversation_id: str) -> Known:
        """Return what is known of a conversation, or raise `ConversationNotFound`."""
        found = known_of(self._connection, self._where, conversation_id)
        if found is None:
            raise not_found(conversation_id)
        return found

    def batches(self, conversation_id: str, after: int, through: int | None = None) -> list[Batch]:
        """Return the batches after a revision, or those through another."""
        known = self.known(conversation_id)
        readable(known.head)
        last = known.head.revision if through is None else min(through, known.head.revision)
        found: list[Batch] = []
        for first in range(max(0, after), last, _AT_ONCE):
            found += self._some(known, first, min(first + _AT_ONCE, last))
        return found

    def revisions(self, conversation_ids: Sequence[str]) -> dict[str, int]:
        """Return the revisions of those conversations that there are.

        Raises:
            CorruptJournal: one cannot be read.
        """
        asked = msgspec.json.encode(conversation_ids).decode()
        try:
            return _revisions.decode(self._one(_REVISIONS, asked))
        except (msgspec.DecodeError, sqlite3.Error) as error:
            if isinstance(error, sqlite3.Error) and not is_unreadable(error):
                raise
        found = [known_of(self._connection, self._where, each) for each in conversation_ids]
        return {each.head.conversation_id: each.head.revision for each in found if each is not None}

    def conversation_of(self, run_id: str) -> str:
        """Return the conversation that a run is in, or raise `RunNotFound`."""
        row: tuple[object] | None = self._connection.execute(
            "SELECT CASE typeof(conversations.id) WHEN 'text' THEN conversations.id END "
            "FROM runs LEFT JOIN conversations ON key = conversation WHERE runs.id = ?",
            (run_id,),
        ).fetchone()
        if row is None:
            raise run_not_found(run_id)
        if not isinstance(row[0], str):
            raise run_lost(run_id, self._where)
        return row[0]

    def listed(
        self, status: ConversationStatus | None, limit: int, after: Head | None
    ) -> list[Head]:
        """Return heads, the most recently changed first, then by ID."""
        if after is None:
            log_odd(self._connection, self._where)
        heads = [
            head
            for each in (STATUSES if status is None else (status,))
            for head in self._of_status(each, limit, after)
        ]
        return sorted(heads, key=place)[: max(0, limit)]

    def content(self, conversation_id: str, digest: str) -> bytes:
        """Return content of a conversation, or raise `ConversationNotFound`."""
        known = self.known(conversation_id)
        found = self._one(
            "SELECT (SELECT content FROM contents JOIN uses USING (digest) "
            "WHERE conversation = ? AND digest = ?)",
            known.key,
            digest,
        )
        if found is None:
            raise content_not_found(conversation_id, digest)
        return found

    def _of_status(self, status: str, limit: int, after: Head | None) -> list[Head]:
        since, name = (
            (NEWEST, "")
            if after is None
            else (microseconds(after.updated_at), after.conversation_id)
        )
        chosen, values = _PAGE, (status, since, since, name)
        found = known_in(self._connection, self._where, chosen, values, max(0, limit))
        return [known.head for known in found]

    def _some(self, known: Known, after: int, through: int) -> list[Batch]:
        journal = f"{self._where.path}: conversation {known.head.conversation_id!r}"
        whole = self._whole(known, after, through)
        if whole is None:  # one is missing or damaged: find out which
            lines = [self._line(known, journal, each) for each in range(after + 1, through + 1)]
        else:
            found = None if _MEDIA in whole else decode_batches(whole)
            if found is not None and len(found) == through - after:
                return [Batch(number, entries) for number, entries in enumerate(found, after + 1)]
            lines = whole.split(b"\n")
            lines.pop()  # what is behind the last end
        return [self._batch(journal, *each) for each in enumerate(lines, after + 1)]

    def _line(self, known: Known, journal: str, revision: int) -> bytes:
        line = self._whole(known, revision - 1, revision)
        if line is None:
            raise CorruptJournal(f"{journal}: revision {revision} is missing, or is not one batch.")
        return line

    def _whole(self, known: Known, after: int, through: int) -> bytes | None:
        """Return batches as they stand, one to a line; None when they are not as many."""
        first, end = place_of(known.key, after + 1), place_of(known.key, through + 1)
        row: tuple[bytes | None, int] = self._connection.execute(_BATCHES, (first, end)).fetchone()
        whole, count = row[0] or b"", through - after
        if row[1] != count or whole.count(b"\n") != count:
            return None
        return whole if whole.endswith(b"\n") and b"\r" not in whole else None

    def _batch(self, journal: str, revision: int, data: bytes) -> Batch:
        entries = decode_batch(data, journal, revision)
        if _MEDIA in data:
            media = {
                digest: found
                for digest in digests_in(entries)
                if (found := self._media(digest)) is not None
            }
            entries = with_media(entries, media)
        return Batch(revision, entries)

    def _media(self, digest: str) -> bytes | None:
        return self._one("SELECT (SELECT content FROM contents WHERE digest = ?)", digest)

    def _one(self, query: str, *values: object) -> Any:
        return self._connection.execute(query, values).fetchone()[0]
