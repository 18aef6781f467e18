"""One transaction on an SQLite file: it loads heads, changes them in memory, and writes at the end.

However many calls share it, it takes a handful of statements, as each of them lets other threads
have the interpreter, and may wait long to get it back.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from treadle.errors import CorruptJournal
from treadle.ports.store import Head
from treadle.stores.refusals import not_found, run_taken
from treadle.stores.sqlite_file import Place, check_version, is_unreadable, run_lost
from treadle.stores.sqlite_heads import COLUMNS, Known, known_from, known_of, row_of

# A page of 4,096 bytes holds rows of 1,000 well. One that is larger than half a page, and not much
# larger than a few, would leave much of its last page empty: it is cut into pieces.
_PIECE = 1000
PIECES = 32

_runs = msgspec.json.Decoder(list[tuple[str, int | None]])
_json = msgspec.json.Encoder().encode
_VERSION = "SELECT value FROM meta WHERE name = 'schema'"
_OWNER = "CASE typeof(conversation) WHEN 'integer' THEN conversation END"
"""Of a run; NULL where that is damaged."""
_LOAD = f"""
SELECT ({_VERSION}),
  (SELECT json_group_array(json_array({COLUMNS})) FROM conversations
    WHERE id IN (SELECT value FROM json_each(:ids))),
  (SELECT json_group_array(json_array(id, {_OWNER})) FROM runs
    WHERE id IN (SELECT value FROM json_each(:runs)))
"""  # noqa: S608 the columns are ours
_ADD_ONE = "INSERT INTO batches VALUES (?, ?)"
_FIND_RUN = f"SELECT {_OWNER} FROM runs WHERE id = ?"  # noqa: S608 it is ours
_LAST_KEY = """
SELECT max(coalesce((SELECT CAST(seq AS INTEGER) FROM sqlite_sequence
  WHERE name = 'conversations'), 0), coalesce((SELECT max(key) FROM conversations), 0))
"""
_SAVE_ONE = """
UPDATE conversations SET revision = ?, status = ?, run_id = ?, pending = ?, updated_at = ?,
  fence = ?, owner = ?, expires_at = ?, reader = ? WHERE key = ?
"""
_SAVE = f"INSERT INTO conversations ({COLUMNS}) VALUES "  # noqa: S608 the columns are ours
_CHANGED = ", ".join(f"{column} = excluded.{column}" for column in COLUMNS.split(", ")[2:])


class NewBatch(Struct, frozen=True):
    """The next batch of a conversation, as one line, and the runs that begin in it.

    `decide` is given the head, None where there is no such conversation, and returns the head
    after the batch and what its writer is told, or raises why there can be none. It may be asked
    again.
    """

    conversation_id: str
    runs: tuple[str, ...]
    data: bytes
    media: Mapping[str, bytes]
    decide: Callable[[Head | None], tuple[Head, object]]


class Write(Struct, frozen=True):
    """A change: which conversations and runs it looks at, and what it does.

    `batch` is set when it does nothing but write that.
    """

    ids: tuple[str, ...]
    runs: tuple[str, ...]
    apply: Callable[[Unit], object]
    batch: NewBatch | None = None


def write_of(batch: NewBatch) -> Write:
    """Return the change that writes a batch."""
    return Write((batch.conversation_id,), batch.runs, lambda unit: unit.write(batch), batch)


class Unit:
    """What one transaction knows and is going to write.

    `known` are the heads that are as they are in the file; those that are missing are loaded.
    """

    def __init__(
        self, connection: sqlite3.Connection, place: Place, known: dict[str, Known]
    ) -> None:
        self.connection = connection
        self.news: list[tuple[str, int | None]] = []
        self._place = place
        self._known = known
        self._changed: set[str] = set()
        self._new: set[int] = set()
        self._damaged: dict[str, CorruptJournal] = {}
        self._runs: dict[str, int | None] = {}
        self._batches: list[tuple[int, bytes]] = []
        self._begun: list[tuple[str, int]] = []
        self._contents: list[tuple[int, str, bytes]] = []
        self._last_key = 0

    def load(self, writes: Iterable[Write]) -> None:
        """Read what these look at and is not known yet."""
        ids: set[str] = set()
        runs: set[str] = set()
        for write in writes:
            ids.update(write.ids)
            runs.update(write.runs)
        ids.difference_update(self._known)
        if not ids and len(runs) <= 1:  # the usual case, and a quick one
            for run_id in runs:
                self._load_run(run_id)
            return
        asked = {"ids": _text(list(ids)), "runs": _text(list(runs))}
        try:
            version, heads, found = self.connection.execute(_LOAD, asked).fetchone()
            check_version(version, self._place)
            for known in known_from(heads):
                self._known[known.head.conversation_id] = known
            self._runs = dict(_runs.decode(found))
        except (msgspec.DecodeError, OverflowError, sqlite3.Error) as error:
            if isinstance(error, sqlite3.Error) and not is_unreadable(error):
                raise
            self._load_each(ids, runs)

    def _load_each(self, ids: Iterable[str], runs: Iterable[str]) -> None:
        """Read these one by one: a damaged conversation is an error for those only who ask."""
        row: tuple[object] | None = self.connection.execute(_VERSION).fetchone()
        check_version(None if row is None else row[0], self._place)
        for conversation_id in ids:
            try:
                known = known_of(self.connection, self._place, conversation_id)
            except CorruptJournal as error:
                self._damaged[conversation_id] = error
                continue
            if known is not None:
                self._known[conversation_id] = known
        for run_id in runs:
            self._load_run(run_id)

    def _load_run(self, run_id: str) -> None:
        row: tuple[int | None] | None
        row = self.connection.execute(_FIND_RUN, (run_id,)).fetchone()
        if row is not None:
            self._runs[run_id] = row[0]

    def get(self, conversation_id: str) -> Known | None:
        """Return what is known of a conversation that was loaded, or None."""
        known = self._known.get(conversation_id)
        if known is None and conversation_id in self._damaged:
            raise self._damaged[conversation_id]
        return known

    def find(self, conversation_id: str) -> Known:
        """Return what is known of it, or raise `ConversationNotFound`."""
        known = self.get(conversation_id)
        if known is None:
            raise not_found(conversation_id)
        return known

    def begin(self, head: Head) -> Known:
        """Make a conversation."""
        if not self._last_key:
            row: tuple[int] = self.connection.execute(_LAST_KEY).fetchone()
            self._last_key = row[0]
        self._last_key += 1
        self._new.add(self._last_key)
        return self.change(Known(self._last_key, head))

    def write(self, batch: NewBatch) -> object:
        """Write a batch, at the end, and return what its writer is told; or raise why not."""
        found = self.get(batch.conversation_id)
        head, told = batch.decide(None if found is None else found.head)
        self._check_runs(batch.runs)
        known = found or self.begin(head)
        self._runs.update(dict.fromkeys(batch.runs, known.key))
        self._begun += [(run_id, known.key) for run_id in batch.runs]
        self._add(known, head, batch.data)
        self.keep(known, batch.media.items())
        return told

    def change(self, known: Known) -> Known:
        """Write a head, at the end."""
        self._known[known.head.conversation_id] = known
        self._changed.add(known.head.conversation_id)
        return known

    def _add(self, known: Known, head: Head, data: bytes) -> None:
        self.change(replace(known, head=head))
        first = place_of(known.key, head.revision)
        size = piece_size(data)
        pieces = [data[start : start + size] for start in range(0, len(data), size)]
        self._batches += [(first + n, piece) for n, piece in enumerate(pieces)]
        self.news.append((head.conversation_id, head.revision))

    def _check_runs(self, runs: Sequence[str]) -> None:
        """Raise when one of these runs has begun before."""
        for run_id in runs:
            if run_id not in self._runs:
                continue
            if self._runs[run_id] is None:
                raise run_lost(run_id, self._place)
            raise run_taken(run_id)

    def keep(self, known: Known, contents: Iterable[tuple[str, bytes]]) -> None:
        """Write content by its digest, at the end."""
        self._contents += [(known.key, digest, content) for digest, content in contents]

    def copy(self, source: Known, copied: Known) -> None:
        """Copy batches through the revision of the copy, and the use of all content."""
        self.flush()
        first = place_of(source.key, 0)
        self.connection.execute(
            "INSERT INTO batches SELECT place + ?, data FROM batches "
            "WHERE place >= ? AND place < ? ORDER BY place",
            (
                place_of(copied.key, 0) - first,
                first,
                place_of(source.key, copied.head.revision + 1),
            ),
        )
        self.connection.execute(
            "INSERT INTO uses SELECT ?, digest FROM uses WHERE conversation = ?",
            (copied.key, source.key),
        )

    def forget(self, known: Known) -> None:
        """Delete a conversation, and content that no other uses."""
        self.flush()
        key = known.key
        run = self.connection.execute
        run(
            "DELETE FROM batches WHERE place >= ? AND place < ?",
            (place_of(key, 0), place_of(key + 1, 0)),
        )
        run("DELETE FROM runs WHERE conversation = ?", (key,))
        run(
            "DELETE FROM contents WHERE digest IN (SELECT digest FROM uses WHERE conversation = ?) "
            "AND NOT EXISTS (SELECT 1 FROM uses "
            "WHERE uses.digest = contents.digest AND conversation <> ?)",
            (key, key),
        )
        run("DELETE FROM uses WHERE conversation = ?", (key,))
        run("DELETE FROM conversations WHERE key = ?", (key,))
        del self._known[known.head.conversation_id]
        self._runs = {run_id: owner for run_id, owner in self._runs.items() if owner != key}
        self.news.append((known.head.conversation_id, None))

    def flush(self) -> None:
        """Write what was noted so far."""
        run = self.connection.execute
        if len(self._batches) == 1:  # alone it needs no care
            run(_ADD_ONE, self._batches.pop())
        for key, digest, content in self._contents:
            run("INSERT INTO contents VALUES (?, ?) ON CONFLICT DO NOTHING", (digest, content))
            run("INSERT INTO uses VALUES (?, ?) ON CONFLICT DO NOTHING", (key, digest))
        changed = [row_of(self._known[each]) for each in self._changed]
        if len(changed) == 1 and changed[0][0] not in self._new:
            key, _, revision, status, run_id, pending, _, *rest = changed[0]
            run(_SAVE_ONE, (revision, status, run_id, pending, *rest, key))
            changed = []
        self._insert(_SAVE, changed, f" ON CONFLICT (key) DO UPDATE SET {_CHANGED}")
        self._insert("INSERT INTO batches VALUES ", self._batches)
        self._insert("INSERT INTO runs VALUES ", self._begun)
        self._changed.clear()
        self._new.clear()
        for noted in (self._contents, self._batches, self._begun):
            noted.clear()

    def _insert(self, begin: str, rows: Sequence[tuple[Any, ...]], end: str = "") -> None:
        """Insert many rows by few statements, of few different texts so that they stay prepared."""
        if not rows:
            return
        left = iter(rows)
        count = len(rows)
        while count:
            size = next(size for size in (64, 16, 4, 1) if size <= count)
            some = list(islice(left, size))
            one = f"({', '.join('?' * len(some[0]))})"
            self.connection.execute(
                f"{begin}{', '.join([one] * size)}{end}", [value for row in some for value in row]
            )
            count -= size


def place_of(key: int, revision: int) -> int:
    """Return where a batch begins among all."""
    return (key << 32) + revision * PIECES


def piece_size(data: bytes) -> int:
    """Return how large the pieces are that a batch is cut into."""
    if not _PIECE < len(data) <= _PIECE * PIECES:
        return len(data)
    return -(-len(data) // -(-len(data) // _PIECE))  # all of about one size


def _text(values: list[str]) -> str:
    return _json(values).decode()
