"""The steps of which the methods of the SQL stores are made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from sqlalchemy import Executable, RowMapping, delete, insert, literal, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from treadle.errors import CorruptJournal
from treadle.ports.store import READER, Batch, Head, Lease, advanced
from treadle.stores.codec import decode_batch
from treadle.stores.heads import readable
from treadle.stores.moves import Move
from treadle.stores.refusals import lease_lost, not_at, not_found, run_taken, too_new
from treadle.stores.sql_connections import Connections
from treadle.stores.sql_statements import Parameters, Statements, moving
from treadle.stores.sql_tables import head_of

NEWEST = 2**62
"""Beyond every revision."""
DIGEST_SIZE = 32


class Rows:
    """Reads and changes rows, with as few questions to the server as its dialect allows."""

    def __init__(self, connections: Connections, say: Statements) -> None:
        self._connections = connections
        self._say = say

    async def found(self, name: bytes) -> RowMapping | None:
        """Return the row of a head, with the server's time as `now`."""

        async def row(connection: AsyncConnection) -> RowMapping | None:
            return (await connection.execute(self._say.head, {"name": name})).mappings().first()

        return await self._connections.single(row)

    async def changed(self, statement: Executable, values: Parameters) -> RowMapping | None:
        """Change one head, or begin it, and return its row; None when no row was changed."""

        async def returned(connection: AsyncConnection) -> RowMapping | None:
            return (await connection.execute(statement, values)).mappings().first()

        async def selected(connection: AsyncConnection) -> RowMapping | None:
            if not await touched(connection, statement, values):
                return None
            named = {"name": values["name"]}
            return (await connection.execute(self._say.head, named)).mappings().one()

        if self._say.returning:
            return await self._connections.single(returned)
        return await self._connections.transaction(selected)

    async def revisions(self, conversation_ids: Sequence[str]) -> Mapping[str, int]:
        """Return the revisions of these conversations, as far as they are there."""
        names = {"names": [each.encode() for each in conversation_ids]}

        async def found(connection: AsyncConnection) -> Mapping[str, int]:
            rows = await connection.execute(self._say.revisions, names)
            return {row.id.decode(): row.revision for row in rows}

        return await self._connections.single(found)

    async def written(self, name: bytes, move: Move) -> bool:
        """Write a batch, unless something is in its way."""
        doubts: list[BaseException] = []
        try:
            if self._say.move_and_write is not None and not move.media:
                done = await self._connections.single(
                    lambda it: self._at_once(it, name, move), doubts
                )
            else:
                done = await self._connections.transaction(
                    lambda it: self._in_steps(it, name, move, self._say.move, moving(name, move)),
                    doubts,
                )
        except IntegrityError:  # a run of that ID, or a batch of that revision, is there
            done = False
        # Where an answer was lost on the way, it may be this very batch that is in the way.
        return done or (bool(doubts) and await self._stands(name, move))

    async def entered(
        self, name: bytes, move: Move, claiming: Parameters, *, new: bool
    ) -> RowMapping | None:
        """Claim a conversation, one that is there or a `new` one, with a batch; return its head."""
        doubts: list[BaseException] = []
        values = moving(name, move) | claiming

        async def begun(connection: AsyncConnection) -> bool:
            return not new or await touched(connection, self._say.begin, {"name": name})

        async def at_once(connection: AsyncConnection) -> RowMapping | None:
            if not await begun(connection):
                return None
            return await self._moved_and_written(
                connection, self._say.enter_and_write, values, move
            )

        async def in_steps(connection: AsyncConnection) -> RowMapping | None:
            if not await begun(connection):
                return None
            if not await self._in_steps(connection, name, move, self._say.enter, values):
                return None
            return (await connection.execute(self._say.head, {"name": name})).mappings().one()

        row = None
        try:
            if self._say.enter_and_write is not None and not move.media:
                run = self._connections.transaction if new else self._connections.single
                row = await run(at_once, doubts)
            else:
                row = await self._connections.transaction(in_steps, doubts)
        except IntegrityError:  # a run of that ID is there
            return None
        if row is None and doubts and await self._stands(name, move):
            found = await self.found(name)
            row = found if found is not None and found["owner"] == claiming["by"] else None
        return row

    async def refuse(self, conversation_id: str, move: Move, fence: int | None) -> None:
        """Raise why a batch could not be written, unless nothing is in its way any more."""
        row = await self.found(conversation_id.encode())
        if row is None:
            raise not_found(conversation_id)
        head = head_of(row)
        readable(head)
        if head.revision != move.expected:
            raise not_at(head, move.expected)
        if not move.anybody and (head.lease is None or head.fence != fence):
            raise lease_lost(head, fence)
        await self.refuse_runs(move)

    async def refuse_runs(self, move: Move) -> None:
        """Raise when one of the runs has begun before."""
        runs = self._say.tables.runs.c
        query = select(runs.id).where(runs.id.in_([each.encode() for each in move.runs]))
        begun = await self._connections.single(lambda it: it.scalar(query)) if move.runs else None
        if begun is not None:
            raise run_taken(begun.decode())

    async def batches(
        self, connection: AsyncConnection, conversation_id: str, after: int, through: int = NEWEST
    ) -> list[Batch]:
        """Return batches of a conversation, with digests for their media."""
        span = {"name": conversation_id.encode(), "after": after, "through": through}
        rows = (await connection.execute(self._say.read, span)).all()
        if not rows:
            raise not_found(conversation_id)
        if rows[0].reader > READER:
            raise too_new(conversation_id, rows[0].reader)
        journal, last = f"conversation {conversation_id!r}", min(through, rows[0].newest)
        there = {row.revision: row.data for row in rows}
        wanted = range(max(0, after) + 1, last + 1)
        for revision in wanted:
            if revision not in there:
                raise CorruptJournal(f"{journal}: revision {revision} is missing.")
        return [Batch(each, decode_batch(there[each], journal, each)) for each in wanted]

    async def contents(self, name: bytes, digests: Iterable[str]) -> dict[str, bytes]:
        """Return what a conversation holds of these contents."""
        keys = [key for digest in digests if (key := _key(digest)) is not None]
        asked = {"name": name, "digests": keys}

        async def found(connection: AsyncConnection) -> dict[str, bytes]:
            rows = await connection.execute(self._say.content, asked)
            return {row.digest.hex(): row.data for row in rows}

        return await self._connections.single(found)

    async def hold(
        self, connection: AsyncConnection, name: bytes, contents: Mapping[str, bytes]
    ) -> None:
        """Keep contents for a conversation whose head this transaction holds."""
        missing = {bytes.fromhex(digest): content for digest, content in contents.items()}
        if missing:
            asked = {"name": name, "digests": list(missing)}
            for key in await connection.scalars(self._say.held_of, asked):
                del missing[key]
        for key, content in sorted(missing.items()):  # in one order: nobody waits in a circle
            held = {"conversation": name, "digest": key}
            if await touched(connection, self._say.new_hold, held):
                counted = {"digest": key, "holders": 1, "data": content}
                await connection.execute(self._say.count_hold, counted)

    async def copied(
        self, connection: AsyncConnection, source: Head, revision: int, copy: bytes
    ) -> Head:
        """Make a new head one with the source at a revision: batches, media and all."""
        tables, name = self._say.tables, source.conversation_id.encode()
        head = source
        if revision < source.revision:
            head = Head(
                conversation_id="", created_at=source.created_at, updated_at=source.updated_at
            )
            for each in await self.batches(connection, source.conversation_id, 0, revision):
                head = advanced(head, each.entries, source.updated_at)
        heads, batches, holds = tables.conversations, tables.batches, tables.holds
        told = {"revision": revision, "status": head.status, "pending": head.pending}
        run_id = None if head.run_id is None else head.run_id.encode()
        await connection.execute(
            update(heads)
            .where(heads.c.id == copy)
            .values(run_id=run_id, reader=head.reader, **told)
        )
        through = select(literal(copy), batches.c.revision, batches.c.data).where(
            batches.c.conversation == name, batches.c.revision <= revision
        )
        await connection.execute(
            insert(batches).from_select(["conversation", "revision", "data"], through)
        )
        digests = sorted((await connection.scalars(self._say.held, {"name": name})).all())
        if digests:
            held = [{"conversation": copy, "digest": digest} for digest in digests]
            await connection.execute(insert(holds), held)
            await connection.execute(self._say.count, {"digests": digests, "more": 1})
        row = await connection.execute(self._say.head, {"name": copy})
        return head_of(row.mappings().one())

    async def deleted(self, connection: AsyncConnection, name: bytes) -> None:
        """Delete all rows of a conversation, and the contents that nobody else holds."""
        # The head goes first: whoever writes here holds it, or finds it gone.
        if not (await connection.execute(self._say.forget, {"name": name})).rowcount:
            return
        tables = self._say.tables
        digests = sorted((await connection.scalars(self._say.held, {"name": name})).all())
        for table in (tables.batches, tables.runs, tables.holds):
            await connection.execute(delete(table).where(table.c.conversation == name))
        if digests:
            await connection.execute(self._say.count, {"digests": digests, "more": -1})
            await connection.execute(self._say.sweep, {"digests": digests})

    async def _at_once(self, connection: AsyncConnection, name: bytes, move: Move) -> bool:
        statement, values = self._say.move_and_write, moving(name, move)
        row = await self._moved_and_written(connection, statement, values, move)
        return row is not None

    async def _moved_and_written(
        self,
        connection: AsyncConnection,
        statement: Executable | None,
        values: Parameters,
        move: Move,
    ) -> RowMapping | None:
        assert statement is not None  # noqa: S101 the caller has looked
        batch = {"batch": move.data, "run_ids": [each.encode() for each in move.runs]}
        return (await connection.execute(statement, values | batch)).mappings().first()

    async def _in_steps(
        self,
        connection: AsyncConnection,
        name: bytes,
        move: Move,
        statement: Executable,
        values: Parameters,
    ) -> bool:
        if not (await connection.execute(statement, values)).rowcount:
            return False
        batch = {"conversation": name, "revision": move.expected + 1, "data": move.data}
        await connection.execute(self._say.write, batch)
        if move.runs:
            runs = [{"id": each.encode(), "conversation": name} for each in move.runs]
            await connection.execute(self._say.begin_runs, runs)
        await self.hold(connection, name, move.media)
        return True

    async def _stands(self, name: bytes, move: Move) -> bool:
        batches = self._say.tables.batches.c
        query = select(batches.data).where(
            batches.conversation == name, batches.revision == move.expected + 1
        )
        return await self._connections.single(lambda it: it.scalar(query)) == move.data


async def touched(connection: AsyncConnection, statement: Executable, values: Parameters) -> bool:
    """Change or insert one row; False when there is none to change, or one with its key already."""
    try:
        return bool((await connection.execute(statement, values)).rowcount)
    except IntegrityError:  # where INSERT can fail for that, the transaction goes on
        return False


def holding(lease: Lease) -> Parameters:
    """Return the parameters that name a lease."""
    return {"name": lease.conversation_id.encode(), "token": lease.fence}


def _key(digest: str) -> bytes | None:
    """Return a digest as bytes, or None when it is none."""
    try:
        key = bytes.fromhex(digest)
    except ValueError:
        return None
    return key if len(key) == DIGEST_SIZE else None
