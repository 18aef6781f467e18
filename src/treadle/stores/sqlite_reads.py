"""Questions to an SQLite file. Each comes back as one row, or as one for many batches.

Each row that SQLite returns lets other threads have the interpreter; when these are busy, a row
costs milliseconds.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any, get_args

import msgspec

from treadle.errors import CorruptJournal
from treadle.ports.store import Batch, ConversationStatus, Head
from treadle.stores.codec import decode_batch, decode_batches, digests_in, with_media
from treadle.stores.heads import microseconds, place, readable
from treadle.stores.refusals import content_not_found, not_found, run_not_found
from treadle.stores.sqlite_file import Place
from treadle.stores.sqlite_unit import COLUMNS, Known, known_from, place_of

_AT_ONCE = 256
_MEDIA = b"blob:sha256:"
_STATUSES: tuple[ConversationStatus, ...] = get_args(ConversationStatus)
_revisions = msgspec.json.Decoder(dict[str, int])
_HEADS = f"SELECT json_group_array(json_array({COLUMNS})) FROM "  # noqa: S608 the columns are ours
_BATCHES = """
SELECT CAST(group_concat(data, '') AS BLOB) FROM (
  SELECT data FROM batches WHERE place >= ? AND place < ? ORDER BY place)
"""


class Reading:
    """What is asked of one connection."""

    def __init__(self, connection: sqlite3.Connection, where: Place) -> None:
        self._connection = connection
        self._where = where

    def known(self, conversation_id: str) -> Known:
        """Return what is known of a conversation, or raise `ConversationNotFound`."""
        found = self._heads("conversations WHERE id = ?", conversation_id)
        if not found:
            raise not_found(conversation_id)
        return found[0]

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
        """Return the revisions of those conversations that there are."""
        asked = msgspec.json.encode(conversation_ids).decode()
        return _revisions.decode(
            self._one(
                "SELECT json_group_object(id, revision) FROM conversations "
                "WHERE id IN (SELECT value FROM json_each(?))",
                asked,
            )
        )

    def conversation_of(self, run_id: str) -> str:
        """Return the conversation that a run is in, or raise `RunNotFound`."""
        found = self._one(
            "SELECT (SELECT conversations.id FROM runs JOIN conversations ON key = conversation "
            "WHERE runs.id = ?)",
            run_id,
        )
        if found is None:
            raise run_not_found(run_id)
        return found

    def listed(
        self, status: ConversationStatus | None, limit: int, after: Head | None
    ) -> list[Head]:
        """Return heads, the most recently changed first, then by ID."""
        heads = [
            head
            for each in (_STATUSES if status is None else (status,))
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
            (1 << 62, "")
            if after is None
            else (microseconds(after.updated_at), after.conversation_id)
        )
        found = self._heads(
            f"(SELECT {COLUMNS} FROM conversations WHERE status = ? AND updated_at <= ? "  # noqa: S608
            "AND (updated_at < ? OR id > ?) ORDER BY updated_at DESC, id LIMIT ?)",
            status,
            since,
            since,
            name,
            max(0, limit),
        )
        return [known.head for known in found]

    def _heads(self, rest: str, *values: object) -> list[Known]:
        return known_from(self._one(_HEADS + rest, *values), self._where)

    def _some(self, known: Known, after: int, through: int) -> list[Batch]:
        whole = self._whole(known, after, through)
        found = None if _MEDIA in whole else decode_batches(whole)
        if found is not None and len(found) == through - after:
            return [Batch(revision, entries) for revision, entries in enumerate(found, after + 1)]
        lines = whole.splitlines()
        if len(lines) != through - after:  # one is missing or damaged: find out which
            lines = [
                line
                for revision in range(after, through)
                for line in self._whole(known, revision, revision + 1).splitlines() or [b""]
            ]
        journal = f"{self._where.path}: conversation {known.head.conversation_id!r}"
        return [self._batch(journal, *each) for each in enumerate(lines, after + 1)]

    def _whole(self, known: Known, after: int, through: int) -> bytes:
        """Return batches as they stand, one to a line."""
        first, end = place_of(known.key, after + 1), place_of(known.key, through + 1)
        return self._one(_BATCHES, first, end) or b""

    def _batch(self, journal: str, revision: int, data: bytes) -> Batch:
        if not data:
            raise CorruptJournal(f"{journal}: revision {revision} is missing.")
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
