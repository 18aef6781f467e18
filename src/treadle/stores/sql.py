"""Keep conversations in an SQL server: what PostgreSQL and MySQL have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Self

from sqlalchemy import Executable, RowMapping, select
from sqlalchemy.ext.asyncio import AsyncConnection

from treadle.errors import StoreUnavailable
from treadle.journal import AnyEntry
from treadle.ports.store import Batch, ConversationStatus, Head, Lease
from treadle.stores.codec import digest_of, digests_in, with_media
from treadle.stores.heads import claimed, entered, microseconds, moment, readable, undamaged
from treadle.stores.moves import move_of
from treadle.stores.refusals import (
    content_not_found,
    fork_gone,
    lease_lost,
    not_found,
    run_not_found,
    taken,
)
from treadle.stores.sql_connections import Connections, Wire, Work
from treadle.stores.sql_rows import Rows, holding, touched
from treadle.stores.sql_statements import Dialect, Statements
from treadle.stores.sql_tables import head_of
from treadle.stores.waiting import Waiters

LOOKS = 20
"""How often a write looks why it was refused, and finds that nothing is in its way any more."""


class SqlStore:
    """Conversations in tables. Safe to share between tasks, threads and event loops."""

    wire: ClassVar[Wire]
    dialect: ClassVar[Dialect]

    def __init__(self, url: str) -> None:
        self._connections = Connections(url, self.wire)
        self._tables = self._connections.tables
        self._say = Statements(self._tables, self.dialect)
        self._rows = Rows(self._connections, self._say)
        self._waiters = Waiters(self._revisions)

    @classmethod
    def from_url(cls, url: str) -> Self:
        """Return a store on the server at this URL; nothing is connected before its first use.

        Raises:
            ConfigError: the URL has an option that it cannot have.
        """
        return cls(url)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._connections.place!r})"

    async def close(self) -> None:
        """Let go of connections; what is used again opens again."""
        await self._connections.close()

    async def create(self, conversation_id: str) -> Head:
        """Begin a journal at revision 0; an existing one is left alone and its head returned."""
        name = conversation_id.encode()
        found = await self._rows.found(name)
        while found is None:
            await self._connections.single(lambda it: touched(it, self._say.begin, {"name": name}))
            found = await self._rows.found(name)
        return head_of(found)

    async def head(self, conversation_id: str) -> Head:
        """Return the head, or raise `ConversationNotFound`."""
        found = await self._rows.found(conversation_id.encode())
        if found is None:
            raise not_found(conversation_id)
        return head_of(found)

    async def append(
        self,
        conversation_id: str,
        expected_revision: int,
        entries: Sequence[AnyEntry],
        *,
        fence: int | None = None,
    ) -> int:
        """Write one batch and return its revision; see the port."""
        move = move_of(expected_revision, entries, fence)
        for _ in range(LOOKS):
            if await self._rows.written(conversation_id.encode(), move):
                self._waiters.notify(conversation_id, expected_revision + 1)
                return expected_revision + 1
            await self._rows.refuse(conversation_id, move, fence)
        raise StoreUnavailable(f"Conversation {conversation_id!r} changes too fast to append to.")

    async def read(self, conversation_id: str, from_revision: int = 0) -> Sequence[Batch]:
        """Return the batches after `from_revision`, oldest first."""
        found = await self._connections.single(
            lambda it: self._rows.batches(it, conversation_id, from_revision)
        )
        digests = {digest for batch in found for digest in digests_in(batch.entries)}
        if not digests:
            return found
        media = await self._rows.contents(conversation_id.encode(), digests)
        return [Batch(each.revision, with_media(each.entries, media)) for each in found]

    async def wait(self, conversation_id: str, after_revision: int, seconds: float) -> int:
        """Return the revision as soon as it is beyond `after_revision`, or after `seconds`."""
        return await self._waiters.wait(conversation_id, after_revision, seconds)

    async def find(self, run_id: str) -> str:
        """Return the ID of the conversation that the run is in, or raise `RunNotFound`."""
        runs = self._tables.runs.c
        query = select(runs.conversation).where(runs.id == run_id.encode())
        found = await self._connections.single(lambda it: it.scalar(query))
        if found is None:
            raise run_not_found(run_id)
        return found.decode()

    async def list(
        self,
        *,
        status: ConversationStatus | None = None,
        limit: int = 100,
        after: Head | None = None,
    ) -> Sequence[Head]:
        """Return heads, the most recently changed first (then by ID); `after` the last one seen."""
        found: list[Head] = []
        last: tuple[int, bytes] | None = None
        if after is not None:
            last = microseconds(after.updated_at), after.conversation_id.encode()
        while len(found) < limit:
            asked = limit - len(found)
            rows = await self._connections.single(_asking(self._say.listed(status, asked, last)))
            found += undamaged(rows, head_of)
            if len(rows) < asked:
                break
            last = rows[-1]["updated_at"], rows[-1]["id"]
        return found

    async def fork(self, conversation_id: str, revision: int, new_id: str) -> Head:
        """Copy a journal through `revision` under a new ID; see the port."""
        source, copy = conversation_id.encode(), new_id.encode()

        async def forked(connection: AsyncConnection) -> Head:
            found = await connection.execute(self._say.shared_head, {"name": source})
            row = found.mappings().first()
            if row is None:
                raise not_found(conversation_id)
            head = head_of(row)
            readable(head)
            if not 0 <= revision <= head.revision:
                raise fork_gone(head, revision)
            if not await touched(connection, self._say.begin, {"name": copy}):
                raise taken(new_id)
            return await self._rows.copied(connection, head, revision, copy)

        return await self._connections.transaction(forked)

    async def delete(self, conversation_id: str) -> None:
        """Forget a conversation; one that is not there is no error."""
        name = conversation_id.encode()
        await self._connections.transaction(lambda it: self._rows.deleted(it, name))
        self._waiters.notify(conversation_id, None)

    async def claim(
        self, conversation_id: str, owner: str, seconds: float, *, instead_of: int | None = None
    ) -> tuple[Head, Lease]:
        """Take the conversation, which begins here when there is none; see the port."""
        name = conversation_id.encode()
        claiming = {"name": name, "by": owner.encode(), "lasting": round(seconds * 1e6)}
        taking = {**claiming, "instead_of": -1 if instead_of is None else instead_of}
        for _ in range(LOOKS):
            row = await self._rows.changed(self._say.claim, taking)
            if row is None:
                row = await self._rows.changed(self._say.begin_owned, claiming)
            if row is not None:
                head = head_of(row)
                assert head.lease is not None  # noqa: S101 it was just taken
                return head, head.lease
            found = await self._rows.found(name)
            if found is not None:
                claimed(head_of(found), owner, seconds, instead_of, moment(found["now"]))
        raise StoreUnavailable(f"Conversation {conversation_id!r} changes too fast to claim it.")

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
        name, move = (
            conversation_id.encode(),
            move_of(known.revision if known else 0, entries, None),
        )
        since = -1 if known is None else microseconds(known.created_at)
        lasting = round(seconds * 1e6)
        claiming = {"by": owner.encode(), "lasting": lasting, "since": since}
        for _ in range(LOOKS):
            row = None
            if known is None:
                row = await self._rows.entered(name, move, claiming, new=True)
            if row is None:
                row = await self._rows.entered(name, move, claiming, new=False)
            if row is not None:
                head = head_of(row)
                self._waiters.notify(conversation_id, head.revision)
                let_go = Lease(conversation_id, owner, head.fence, head.updated_at)
                return head, head.lease or let_go
            found = await self._rows.found(name)
            if found is not None or known is not None:
                before = None if found is None else head_of(found)
                now = moment(0 if found is None else found["now"])
                entered(before, known, conversation_id, owner, seconds, entries, now)
            await self._rows.refuse_runs(move)
        raise StoreUnavailable(f"Conversation {conversation_id!r} changes too fast to claim it.")

    async def renew(self, lease: Lease, seconds: float) -> Lease:
        """Keep it longer, or raise `LeaseLost`."""
        renewing = {**holding(lease), "lasting": round(seconds * 1e6)}
        row = await self._rows.changed(self._say.renew, renewing)
        if row is None:
            raise lease_lost(await self.head(lease.conversation_id), lease.fence)
        renewed = head_of(row).lease
        assert renewed is not None  # noqa: S101 it was just renewed
        return renewed

    async def release(self, lease: Lease) -> None:
        """Let it go; a lease that is no longer held is no error."""
        await self._connections.single(lambda it: it.execute(self._say.release, holding(lease)))

    async def put(self, conversation_id: str, content: bytes) -> str:
        """Keep content and return its SHA-256 in hex, or raise `ConversationNotFound`."""
        name, digest = conversation_id.encode(), digest_of(content)

        async def kept(connection: AsyncConnection) -> None:
            found = await connection.execute(self._say.shared_head, {"name": name})
            if found.first() is None:
                raise not_found(conversation_id)
            await self._rows.hold(connection, name, {digest: content})

        await self._connections.transaction(kept)
        return digest

    async def get(self, conversation_id: str, digest: str) -> bytes:
        """Return content by its digest, or raise `ConversationNotFound`."""
        found = await self._rows.contents(conversation_id.encode(), [digest])
        if digest not in found:
            await self.head(conversation_id)
            raise content_not_found(conversation_id, digest)
        return found[digest]

    async def _revisions(self, conversation_ids: Sequence[str]) -> Mapping[str, int]:
        return await self._rows.revisions(conversation_ids)


def _asking(query: Executable) -> Work[Sequence[RowMapping]]:
    async def rows(connection: AsyncConnection) -> Sequence[RowMapping]:
        return (await connection.execute(query)).mappings().all()

    return rows
