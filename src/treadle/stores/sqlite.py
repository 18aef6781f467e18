"""Keep conversations in one SQLite file: the store for one machine."""

from __future__ import annotations

import os
import sqlite3
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import parse_qsl, unquote, urlsplit

from msgspec.structs import replace

from treadle.errors import ConfigError
from treadle.journal import AnyEntry
from treadle.ports.clock import SYSTEM_CLOCK, Clock
from treadle.ports.store import (
    Batch,
    Begun,
    ConversationStatus,
    Head,
    Lease,
    advanced,
)
from treadle.stores.codec import digest_of, encode_batch
from treadle.stores.heads import appended, beginnings, claimed, entered, readable, released, renewed
from treadle.stores.refusals import fork_gone, not_found, taken
from treadle.stores.sqlite_file import Place, Sync, failure, make_room, opened, patiently
from treadle.stores.sqlite_heads import Known
from treadle.stores.sqlite_reads import Reading
from treadle.stores.sqlite_step import learn_steps
from treadle.stores.sqlite_thread import Call, SQLiteThread
from treadle.stores.sqlite_unit import NewBatch, Unit, Write, write_of
from treadle.stores.sqlite_writes import Writing
from treadle.stores.waiting import Waiters

T = TypeVar("T")
_Read = Callable[[Reading], object]


class SQLiteStore:
    """A store in an SQLite file, which any number of processes on this machine may share.

    The file and its folder are made when they are first needed. What `append` returned survives
    the loss of power; with `sync="normal"` only the death of the process, which is faster. A file
    that others keep locked is waited for, `patience` seconds.

    All calls that wait share one transaction, so that many conversations cost little more than
    one. ":memory:" is a store in this process that ends with this object.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        sync: Sync = "full",
        clock: Clock = SYSTEM_CLOCK,
        patience: float = 30.0,
    ) -> None:
        name = os.fspath(path)
        whole = name if name == ":memory:" else str(Path(name).absolute())
        self._place = Place(whole, sync, patience)
        self._clock = clock
        self._here: dict[int, _Threads] = {}

    @classmethod
    def from_url(cls, url: str) -> SQLiteStore:
        """Return the store that "sqlite:///relative.db" or "sqlite:////absolute.db" names.

        "sqlite:///:memory:" is one in memory. "?sync=normal" is faster and less durable.

        Raises:
            ConfigError: the URL is of another form.
        """
        path, sync = _told_by(url)
        return cls(path, sync=sync)

    def __repr__(self) -> str:
        how = "" if self._place.sync == "full" else f", sync={self._place.sync!r}"
        return f"SQLiteStore({self._place.path!r}{how})"

    async def create(self, conversation_id: str) -> Head:
        """Begin a journal at revision 0; an existing one is left alone and its head returned."""
        return await self._write(
            lambda unit: _begun(unit, conversation_id, self._clock).head, conversation_id
        )

    async def head(self, conversation_id: str) -> Head:
        """Return the head, or raise `ConversationNotFound`."""
        return await self._read(lambda reading: reading.known(conversation_id).head)

    async def append(
        self,
        conversation_id: str,
        expected_revision: int,
        entries: Sequence[AnyEntry],
        *,
        fence: int | None = None,
    ) -> int:
        """Write one batch and return its revision; see the port."""
        return await self.begin_append(conversation_id, expected_revision, entries, fence=fence)

    append.begins = append  # pyright: ignore[reportFunctionMemberAccess] see the port

    def begin_append(
        self,
        conversation_id: str,
        expected_revision: int,
        entries: Sequence[AnyEntry],
        *,
        fence: int | None,
    ) -> Begun[int]:
        """Begin to write one batch; see the port."""
        batch, runs = tuple(entries), tuple(beginnings(entries))
        data, media = encode_batch(batch)

        def decide(before: Head | None) -> tuple[Head, int]:
            if before is None:
                raise not_found(conversation_id)
            head = appended(before, expected_revision, batch, fence, self._clock.now())
            return head, head.revision

        return self._begin(NewBatch(conversation_id, runs, data + b"\n", media, decide))

    async def read(self, conversation_id: str, from_revision: int = 0) -> Sequence[Batch]:
        """Return the batches after `from_revision`, oldest first."""
        return await self._read(lambda reading: reading.batches(conversation_id, from_revision))

    async def wait(self, conversation_id: str, after_revision: int, seconds: float) -> int:
        """Return the revision as soon as it is beyond `after_revision`, or after `seconds`."""
        return await self._threads().waiters.wait(conversation_id, after_revision, seconds)

    async def find(self, run_id: str) -> str:
        """Return the ID of the conversation that the run is in, or raise `RunNotFound`."""
        return await self._read(lambda reading: reading.conversation_of(run_id))

    async def list(
        self,
        *,
        status: ConversationStatus | None = None,
        limit: int = 100,
        after: Head | None = None,
    ) -> Sequence[Head]:
        """Return heads, the most recently changed first (then by ID); `after` the last one seen."""
        return await self._read(lambda reading: reading.listed(status, limit, after))

    async def fork(self, conversation_id: str, revision: int, new_id: str) -> Head:
        """Copy a journal through `revision` under a new ID; see the port."""
        # What is read here is never changed, so the others need not wait for it.
        batches = await self._read(lambda reading: reading.batches(conversation_id, 0, revision))

        def apply(unit: Unit) -> Head:
            source = unit.find(conversation_id)
            readable(source.head)
            if not 0 <= revision <= source.head.revision:
                raise fork_gone(source.head, revision)
            if unit.get(new_id) is not None:
                raise taken(new_id)
            copied = _begun(unit, new_id, self._clock)
            head = copied.head
            for batch in batches:
                head = advanced(head, batch.entries, head.created_at)
            unit.copy(source, unit.change(replace(copied, head=head)))
            return head

        return await self._write(apply, conversation_id, new_id)

    async def delete(self, conversation_id: str) -> None:
        """Forget a conversation; one that is not there is no error."""

        def apply(unit: Unit) -> None:
            known = unit.get(conversation_id)
            if known is not None:
                unit.forget(known)

        await self._write(apply, conversation_id)

    async def close(self) -> None:
        """Close the file. What is used again opens again; one in memory stays as it is."""
        threads = self._here.get(os.getpid())
        if threads is not None and not self._place.in_memory:
            await threads.reads.stop()
            await threads.writes.stop()

    async def claim(
        self, conversation_id: str, owner: str, seconds: float, *, instead_of: int | None = None
    ) -> tuple[Head, Lease]:
        """Take the conversation, which begins here when there is none; see the port."""

        def apply(unit: Unit) -> tuple[Head, Lease]:
            known = _begun(unit, conversation_id, self._clock)
            head, lease = claimed(known.head, owner, seconds, instead_of, self._clock.now())
            unit.change(replace(known, head=head))
            return head, lease

        return await self._write(apply, conversation_id)

    async def claim_and_append(
        self,
        conversation_id: str,
        owner: str,
        seconds: float,
        entries: Sequence[AnyEntry],
        *,
        known: Head | None,
    ) -> tuple[Head, Lease]:
        """Take the conversation and write its next batch, in one step; see the port."""
        return await self.begin_claim_and_append(
            conversation_id, owner, seconds, entries, known=known
        )

    claim_and_append.begins = claim_and_append  # pyright: ignore[reportFunctionMemberAccess] see the port

    def begin_claim_and_append(
        self,
        conversation_id: str,
        owner: str,
        seconds: float,
        entries: Sequence[AnyEntry],
        *,
        known: Head | None,
    ) -> Begun[tuple[Head, Lease]]:
        """Begin to take the conversation with its next batch; see the port."""
        batch, runs = tuple(entries), tuple(beginnings(entries))
        data, media = encode_batch(batch)

        def decide(before: Head | None) -> tuple[Head, tuple[Head, Lease]]:
            now = self._clock.now()
            head, lease = entered(before, known, conversation_id, owner, seconds, batch, now)
            return head, (head, lease)

        return self._begin(NewBatch(conversation_id, runs, data + b"\n", media, decide))

    async def renew(self, lease: Lease, seconds: float) -> Lease:
        """Keep it longer, or raise `LeaseLost`."""

        def apply(unit: Unit) -> Lease:
            known = unit.find(lease.conversation_id)
            head, held = renewed(known.head, lease, seconds, self._clock.now())
            unit.change(replace(known, head=head))
            return held

        return await self._write(apply, lease.conversation_id)

    async def release(self, lease: Lease) -> None:
        """Let it go; a lease that is no longer held is no error."""

        def apply(unit: Unit) -> None:
            known = unit.get(lease.conversation_id)
            if known is not None and (head := released(known.head, lease)) is not known.head:
                unit.change(replace(known, head=head))

        await self._write(apply, lease.conversation_id)

    async def put(self, conversation_id: str, content: bytes) -> str:
        """Keep content and return its SHA-256 in hex, or raise `ConversationNotFound`."""
        digest = digest_of(content)

        def apply(unit: Unit) -> str:
            unit.keep(unit.find(conversation_id), [(digest, content)])
            return digest

        return await self._write(apply, conversation_id)

    async def get(self, conversation_id: str, digest: str) -> bytes:
        """Return content by its digest, or raise `ConversationNotFound`."""
        return await self._read(lambda reading: reading.content(conversation_id, digest))

    def _begin(self, batch: NewBatch) -> Begun[Any]:
        return self._threads().writes.begin(write_of(batch))

    async def _write(self, apply: Callable[[Unit], T], *ids: str) -> T:
        return await self._threads().writes.call(Write(ids, (), apply))

    async def _read(self, question: Callable[[Reading], T]) -> T:
        return await self._threads().ask(question)

    def _threads(self) -> _Threads:
        """Return the threads of this process; a forked child must have its own."""
        found = self._here.get(os.getpid())
        if found is None:
            found = self._here.setdefault(os.getpid(), _Threads(self._place))
            weakref.finalize(self, found.abandon)
        return found


def _begun(unit: Unit, conversation_id: str, clock: Clock) -> Known:
    """Return a conversation, which begins here when there is none."""
    known = unit.get(conversation_id)
    if known is not None:
        return known
    now = clock.now()
    return unit.begin(Head(conversation_id=conversation_id, created_at=now, updated_at=now))


def _told_by(url: str) -> tuple[str, Sync]:
    parts = urlsplit(url)
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    sync = options.pop("sync", "full")
    if parts.netloc or parts.fragment or len(parts.path) < 2 or "///" not in url:
        raise ConfigError(
            "The URL of an SQLite store names a file: sqlite:///relative.db, "
            "sqlite:////absolute/path.db or sqlite:///:memory:"
        )
    if options or (sync != "full" and sync != "normal"):
        wrong = ", ".join(sorted(options)) or f"sync={sync}"
        raise ConfigError(
            f"An SQLite store has no option {wrong}; there is sync=full and sync=normal."
        )
    return unquote(parts.path[1:]), sync


def _writer(place: Place) -> sqlite3.Connection:
    connection = opened(place)
    make_room(connection, place)
    learn_steps(connection)
    return connection


class _Threads:
    """What a store has in one process: a thread that writes, one that reads, and who waits."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self.waiters = Waiters(self._look)
        self.writes = SQLiteThread[Write](
            "treadle-sqlite-writes",
            lambda: _writer(place),
            Writing(place, self.waiters.notify).serve,
        )
        self.reads = SQLiteThread[_Read](
            "treadle-sqlite-reads", lambda: opened(place), self._answer
        )

    async def ask(self, question: Callable[[Reading], T]) -> T:
        """Return the answer, from the thread that reads, or from the only one there can be."""
        if not self._place.in_memory:
            return await self.reads.call(question)

        def apply(unit: Unit) -> T:
            unit.flush()
            return question(Reading(unit.connection, self._place))

        return await self.writes.call(Write((), (), apply))

    def abandon(self) -> None:
        """Let the threads end."""
        self.reads.abandon()
        self.writes.abandon()

    async def _look(self, conversation_ids: Sequence[str]) -> Mapping[str, int]:
        return await self.ask(lambda reading: reading.revisions(conversation_ids))

    def _answer(self, connection: sqlite3.Connection, calls: Sequence[Call[_Read]]) -> None:
        connection.execute("BEGIN")  # all see the file as it is now
        try:
            for call in calls:
                self._one(connection, call)
        finally:
            if connection.in_transaction:
                connection.execute("COMMIT")

    def _one(self, connection: sqlite3.Connection, call: Call[_Read]) -> None:
        reading = Reading(connection, self._place)
        try:
            call.result = patiently(lambda: call.work(reading), self._place.patience)
        except sqlite3.Error as error:
            call.error = failure(error, self._place)
            call.error.__cause__ = error
        except Exception as error:  # noqa: BLE001 its caller gets it
            call.error = error
