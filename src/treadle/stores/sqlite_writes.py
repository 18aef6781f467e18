"""Write to an SQLite file: all that waits goes into one transaction, each on its own account."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence

from treadle.errors import CorruptJournal, StoreError, TreadleError
from treadle.stores.sqlite_file import Place, failure, is_busy, is_double, patiently
from treadle.stores.sqlite_heads import Known
from treadle.stores.sqlite_step import take_step
from treadle.stores.sqlite_thread import Call
from treadle.stores.sqlite_unit import Unit, Write

MOST_KNOWN = 2_000


class Writing:
    """Serves the calls of the thread that writes. `notify` hears of each append and deletion.

    It remembers the heads that it has read or written, for as long as nobody else writes.
    """

    def __init__(self, place: Place, notify: Callable[[str, int | None], None]) -> None:
        self._place = place
        self._notify = notify
        self._known: dict[str, Known] = {}
        self._version: tuple[int, int] = (0, 0)

    def serve(self, connection: sqlite3.Connection, calls: Sequence[Call[Write]]) -> None:
        """Answer all of them. When one cannot be written, each is tried alone."""
        if len(calls) == 1 and self._by_step(connection, calls[0]):
            return
        try:
            self._together(connection, calls)
        except sqlite3.Error as error:
            if len(calls) == 1:
                raise self._failure(error, calls[0]) from error
            if is_busy(error):
                raise failure(error, self._place) from error
            for call in calls:
                self._alone(connection, call)

    def _by_step(self, connection: sqlite3.Connection, call: Call[Write]) -> bool:
        """Write a batch by one statement; whether that was possible.

        Where it is refused, by what is known or by the file, the usual way finds out why.
        """
        batch = call.work.batch
        if batch is None or batch.media or len(batch.runs) > 1:
            return False
        known = self._known.pop(batch.conversation_id, None)
        if known is None:
            return False
        try:
            known, call.result = take_step(connection, batch, known)
        except (TreadleError, sqlite3.Error):
            return False
        self._known[batch.conversation_id] = known
        self._notify(batch.conversation_id, known.head.revision)
        return True

    def _alone(self, connection: sqlite3.Connection, call: Call[Write]) -> None:
        try:
            self._together(connection, [call])
        except sqlite3.Error as error:
            call.error = self._failure(error, call)
            call.error.__cause__ = error

    def _failure(self, error: sqlite3.Error, call: Call[Write]) -> StoreError:
        if not is_double(error):
            return failure(error, self._place)
        names = ", ".join(repr(each) for each in call.work.ids)
        return CorruptJournal(
            f"{self._place.path}: conversation {names}: what should come next is there already "
            f"({error}): its row in the table 'conversations' is older than its batches. "
            "Restore a copy; nothing was written."
        )

    def _together(self, connection: sqlite3.Connection, calls: Sequence[Call[Write]]) -> None:
        self._patiently(connection, "BEGIN IMMEDIATE")
        known, self._known = self._fresh(connection), {}
        try:
            unit = Unit(connection, self._place, known)
            unit.load(call.work for call in calls)
            for call in calls:
                _apply(call, unit)
            unit.flush()
            self._patiently(connection, "COMMIT")
        except BaseException:
            if connection.in_transaction:  # SQLite rolls back some failures by itself
                connection.execute("ROLLBACK")
            raise
        self._known = known
        for conversation_id, revision in unit.news:
            self._notify(conversation_id, revision)

    def _patiently(self, connection: sqlite3.Connection, statement: str) -> None:
        try:
            connection.execute(statement)
        except sqlite3.OperationalError as error:
            if not is_busy(error):
                raise
            patiently(lambda: connection.execute(statement), self._place.patience)

    def _fresh(self, connection: sqlite3.Connection) -> dict[str, Known]:
        """Return the heads that are known, or none when another connection has written."""
        row: tuple[int] = connection.execute("PRAGMA data_version").fetchone()
        version = (id(connection), row[0])
        if version != self._version or len(self._known) > MOST_KNOWN:
            self._version, self._known = version, {}
        return self._known


def _apply(call: Call[Write], unit: Unit) -> None:
    call.result = call.error = None
    try:
        call.result = call.work.apply(unit)
    except sqlite3.Error:
        raise
    except Exception as error:  # noqa: BLE001 it was refused before it changed anything; its caller gets it
        call.error = error
