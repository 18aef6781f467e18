"""Open an SQLite file: its settings, its tables, and what its errors mean."""

from __future__ import annotations

import os
import random
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal, TypeVar

from msgspec import Struct

from treadle.errors import CorruptJournal, NewerJournal, StoreError, StoreUnavailable

Sync = Literal["full", "normal"]
T = TypeVar("T")

# A batch stands at `conversation * 2^32 + revision * 32`: those of one conversation lie side
# by side. A table whose key is a number keeps rows of up to a page whole, where one without row
# numbers sends what is over a quarter of a page to pages of its own.
_FIRST = """
CREATE TABLE conversations (
  key INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL UNIQUE,
  revision INTEGER NOT NULL,
  status TEXT NOT NULL,
  run_id TEXT,
  pending INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  fence INTEGER NOT NULL,
  owner TEXT,
  expires_at INTEGER,
  reader INTEGER NOT NULL
);
CREATE INDEX conversations_by_change ON conversations (status, updated_at DESC, id);
CREATE TABLE batches (place INTEGER PRIMARY KEY, data BLOB NOT NULL);
CREATE TABLE runs (id TEXT PRIMARY KEY, conversation INTEGER NOT NULL) WITHOUT ROWID;
CREATE INDEX runs_by_conversation ON runs (conversation);
CREATE TABLE contents (digest TEXT NOT NULL UNIQUE, content BLOB NOT NULL);
CREATE TABLE uses (
  conversation INTEGER NOT NULL, digest TEXT NOT NULL, PRIMARY KEY (conversation, digest)
) WITHOUT ROWID;
CREATE INDEX uses_by_digest ON uses (digest)
"""

_LOG_BYTES = 1_000 * (4_096 + 24)
"""Of 1,000 pages: then SQLite copies them into the file and begins the log anew."""
_PLENTY = 100
"""How many times that has to be free on the disk."""

STEPS = (_FIRST,)
"""What brings a file from one schema version to the next; the first makes it from nothing."""

_DOUBLE = {
    sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY,
    sqlite3.SQLITE_CONSTRAINT_ROWID,
    sqlite3.SQLITE_CONSTRAINT_UNIQUE,
}
_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_TELLS = {
    sqlite3.SQLITE_FULL: "the disk is full; make room",
    sqlite3.SQLITE_READONLY: "it is read-only; check its permissions, and those of its folder",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened; check the path and the permissions",
    sqlite3.SQLITE_PERM: "access is denied; check its owner and permissions",
    sqlite3.SQLITE_IOERR: "the disk refused; check it, and how much room there is",
}


class Place(Struct, frozen=True):
    """Which file, how safe its writes are, and how many seconds to wait for other processes."""

    path: str
    sync: Sync
    patience: float

    @property
    def in_memory(self) -> bool:
        """Whether it lives in this process only."""
        return self.path == ":memory:"


def opened(place: Place, steps: Sequence[str] = STEPS) -> sqlite3.Connection:
    """Return a connection to a file that has its tables; both are made where they are missing.

    Raises:
        NewerJournal: the file belongs to a newer version of this package; it was not changed.
        StoreUnavailable: it cannot be opened or written.
        CorruptJournal: it is not a database.
    """
    try:
        if not place.in_memory:
            Path(place.path).parent.mkdir(parents=True, exist_ok=True)
        # The short timeout comes before anything else; `patiently` asks again.
        connection = sqlite3.connect(place.path, timeout=0.02, isolation_level=None)
    except (OSError, sqlite3.Error) as error:
        raise failure(error, place) from error
    try:
        patiently(lambda: _prepare(connection, place, steps), place.patience)
    except BaseException as error:
        connection.close()
        if isinstance(error, sqlite3.Error):
            raise failure(error, place) from error
        raise
    return connection


def make_room(connection: sqlite3.Connection, place: Place) -> None:
    """Give the write-ahead log at once the size that it comes to: growing makes commits dearer.

    Where that cannot be had now, the log grows.
    """
    if place.in_memory or not hasattr(os, "posix_fallocate"):  # macOS has none
        return
    with suppress(OSError, sqlite3.Error):
        connection.execute("BEGIN IMMEDIATE")  # nobody else writes to it meanwhile
        try:
            with open(f"{place.path}-wal", "r+b") as log:
                space = os.fstatvfs(log.fileno())
                if space.f_bavail * space.f_frsize > _PLENTY * _LOG_BYTES:
                    os.posix_fallocate(log.fileno(), 0, _LOG_BYTES)
        finally:
            connection.execute("ROLLBACK")


def patiently(attempt: Callable[[], T], patience: float) -> T:
    """Return what the attempt returns; while the file is locked, try again after a little while.

    The pauses are random, so that processes that were refused together do not come back together.
    """
    deadline = time.monotonic() + patience
    while True:
        try:
            return attempt()
        except sqlite3.OperationalError as error:
            if not is_busy(error) or time.monotonic() > deadline:
                raise
            threading.Event().wait(random.uniform(0.001, 0.012))  # noqa: S311 not a secret


def is_busy(error: Exception) -> bool:
    """Whether another connection holds the file."""
    return _code(error) in _BUSY


def is_unreadable(error: sqlite3.Error) -> bool:
    """Whether it may be a value that no question can give back: a text that is none, a blob."""
    return _code(error) in (sqlite3.SQLITE_OK, sqlite3.SQLITE_ERROR)


def is_double(error: sqlite3.Error) -> bool:
    """Whether a row with this key is there already."""
    return getattr(error, "sqlite_errorcode", None) in _DOUBLE


def run_lost(run_id: str, place: Place) -> CorruptJournal:
    """Return the error for a run that has begun, nobody knows where."""
    return CorruptJournal(
        f"{place.path}: the row of run {run_id!r} in the table 'runs' names no conversation that "
        "is there. Restore a copy; nothing was written."
    )


def check_version(version: object, place: Place, known: int = len(STEPS)) -> None:
    """Raise `NewerJournal` when the file is of a schema that this version does not know.

    Raises:
        CorruptJournal: it does not say of which.
    """
    if not isinstance(version, int) or version < 1:
        raise CorruptJournal(
            f"{place.path}: the table 'meta' should say which schema the file has, and says "
            f"{version!r}. Restore a copy; nothing was written."
        )
    if version > known:
        raise NewerJournal(
            f"{place.path} was written by a newer version of this package: it has schema "
            f"{version}, this version knows {known}. Upgrade the package; the file was not touched."
        )


def failure(error: Exception, place: Place) -> StoreError:
    """Return our error for one of SQLite or of the operating system."""
    code = _code(error)
    if code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
        return CorruptJournal(
            f"{place.path} is not an SQLite database, or is damaged ({error}). "
            "Check the path, or restore a copy; nothing was written."
        )
    if code in _BUSY:
        tells = f"another process has kept it locked for {place.patience:g} s; end that one"
    else:
        tells = _TELLS.get(code, "SQLite refused")
    return StoreUnavailable(f"Store {place.path}: {tells} ({error}). Nothing was written.")


def _code(error: Exception) -> int:
    found = getattr(error, "sqlite_errorcode", None)
    return found & 0xFF if isinstance(found, int) else sqlite3.SQLITE_OK


def _prepare(connection: sqlite3.Connection, place: Place, steps: Sequence[str]) -> None:
    version = _version(connection, place, steps)
    if _one(connection, "PRAGMA journal_mode") not in ("wal", "memory"):
        connection.execute("PRAGMA page_size = 4096")  # see `_PIECE`; only an empty file takes it
        connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(f"PRAGMA synchronous = {place.sync}")
    if place.sync == "full":
        connection.execute("PRAGMA fullfsync = ON")  # macOS: past the cache of the drive
        connection.execute("PRAGMA checkpoint_fullfsync = ON")
    if version < len(steps):
        _upgrade(connection, place, steps)


def _upgrade(connection: sqlite3.Connection, place: Place, steps: Sequence[str]) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        version = _version(connection, place, steps)  # another may have done it meanwhile
        if version == 0:
            connection.execute("CREATE TABLE meta (name TEXT PRIMARY KEY, value) WITHOUT ROWID")
            connection.execute("INSERT INTO meta VALUES ('schema', 0)")
        for step in steps[version:]:
            for statement in step.split(";\n"):
                connection.execute(statement)
        connection.execute("UPDATE meta SET value = ? WHERE name = 'schema'", (len(steps),))
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _version(connection: sqlite3.Connection, place: Place, steps: Sequence[str]) -> int:
    """Return the schema of the file, 0 for one that is empty; it is one that can be used."""
    if _one(connection, "SELECT count(*) FROM sqlite_schema WHERE name = 'meta'") == 0:
        return 0
    found = _one(connection, "SELECT value FROM meta WHERE name = 'schema'")
    check_version(found, place, len(steps))
    assert isinstance(found, int)  # noqa: S101 it was just checked
    return found


def _one(connection: sqlite3.Connection, query: str) -> object:
    row: tuple[object, ...] | None = connection.execute(query).fetchone()
    return None if row is None else row[0]
