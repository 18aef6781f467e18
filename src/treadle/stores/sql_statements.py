"""What the SQL stores say to their servers; each statement is built once and takes parameters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    ARRAY,
    BigInteger,
    Boolean,
    ColumnElement,
    Executable,
    Insert,
    Integer,
    Select,
    String,
    Table,
    Update,
    and_,
    bindparam,
    case,
    delete,
    func,
    insert,
    literal_column,
    null,
    or_,
    select,
    update,
)

from treadle.ports.store import PLAIN, READER
from treadle.stores.moves import Move
from treadle.stores.sql_tables import CONTENT, NAME, OWNER, Tables

Parameters = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """What SQL has no one form for.

    `now` is the server's time in microseconds; with `returning` an UPDATE or INSERT gives the row
    back, and may be one part of a statement. `insert_new` is an INSERT that leaves a row alone
    which is there, or fails for it; `hold` is one of a blob that counts one more holder when it is
    there.
    """

    now: str
    returning: bool
    insert_new: Callable[[Table], Insert]
    hold: Callable[[Table], Insert]


class Statements:
    """The statements on one set of tables, in one dialect."""

    def __init__(self, tables: Tables, dialect: Dialect) -> None:
        heads, batches, blobs, holds = (
            tables.conversations,
            tables.batches,
            tables.blobs,
            tables.holds,
        )
        self.tables = tables
        self.returning = dialect.returning
        self.now: ColumnElement[int] = literal_column(dialect.now, BigInteger)
        named = heads.c.id == bindparam("name", type_=NAME)
        begun = {"revision": 0, "status": "new", "pending": 0, "reader": PLAIN}
        begun |= {"created_at": self.now, "updated_at": self.now}

        self.head = select(heads, self.now.label("now")).where(named)
        self.shared_head = select(heads).where(named).with_for_update(read=True)
        self.begin = dialect.insert_new(heads).values(
            id=bindparam("name", type_=NAME), fence=0, **begun
        )
        owned = {"fence": 1, "owner": bindparam("by", type_=OWNER), "expires_at": self._later()}
        self.begin_owned = self._giving(
            dialect.insert_new(heads).values(id=bindparam("name", type_=NAME), **owned, **begun)
        )
        self.move = self._move(named)
        self.enter = self._enter(named)
        self.claim = self._giving(self._claim(named))
        held = and_(named, heads.c.owner.is_not(None), heads.c.fence == bindparam("token"))
        self.renew = self._giving(update(heads).where(held).values(expires_at=self._later()))
        self.release = update(heads).where(held).values(owner=null(), expires_at=null())
        self.forget = delete(heads).where(named)
        self.revisions = select(heads.c.id, heads.c.revision).where(
            heads.c.id.in_(bindparam("names", expanding=True))
        )

        self.write = insert(batches)
        self.move_and_write = self.enter_and_write = None
        if dialect.returning:
            self.move_and_write = self._and_write(self.move)
            self.enter_and_write = self._and_write(self.enter)
        self.read = self._read(named)
        self.begin_runs = insert(tables.runs)

        self.new_hold = dialect.insert_new(holds)
        self.count_hold = dialect.hold(blobs)
        self.content = (
            select(blobs.c.digest, blobs.c.data)
            .join(holds, holds.c.digest == blobs.c.digest)
            .where(
                holds.c.conversation == bindparam("name"),
                blobs.c.digest.in_(bindparam("digests", expanding=True)),
            )
        )
        self.held = select(holds.c.digest).where(holds.c.conversation == bindparam("name"))
        self.held_of = self.held.where(holds.c.digest.in_(bindparam("digests", expanding=True)))
        chosen = blobs.c.digest.in_(bindparam("digests", expanding=True))
        self.count = update(blobs).where(chosen).values(holders=blobs.c.holders + bindparam("more"))
        self.sweep = delete(blobs).where(chosen, blobs.c.holders <= 0)

    def listed(
        self, status: str | None, limit: int, after: tuple[int, bytes] | None
    ) -> Select[*tuple[Any, ...]]:
        """Select heads in the order of a list, those after a time and an ID."""
        heads = self.tables.conversations.c
        query = select(self.tables.conversations)
        if status is not None:
            query = query.where(heads.status == status)
        if after is not None:
            at, name = after
            same = (heads.updated_at == at) & (heads.id > name)
            query = query.where(or_(heads.updated_at < at, same))
        return query.order_by(heads.updated_at.desc(), heads.id).limit(limit)

    def _giving(self, statement: Insert | Update) -> Executable:
        """Return a statement that changes one head, and gives its row back where it can."""
        heads = self.tables.conversations
        return statement.returning(*heads.c) if self.returning else statement

    def _later(self) -> ColumnElement[int]:
        return self.now + bindparam("lasting", type_=BigInteger)

    def _move(self, named: ColumnElement[bool]) -> Update:
        heads = self.tables.conversations
        allowed = or_(
            bindparam("anybody", type_=Boolean),
            and_(heads.c.owner.is_not(None), heads.c.fence == bindparam("token", type_=BigInteger)),
        )
        return self._moved(named, heads.c.owner, heads.c.expires_at).where(allowed)

    def _enter(self, named: ColumnElement[bool]) -> Update:
        """Claim and move in one."""
        heads = self.tables.conversations
        free = or_(heads.c.owner.is_(None), heads.c.expires_at <= self.now)
        since = bindparam("since", type_=BigInteger)
        owner = bindparam("by", type_=OWNER)
        return (
            self._moved(named, owner, self._later())
            .where(free, or_(since < 0, heads.c.created_at == since))
            .values(fence=heads.c.fence + 1)
        )

    def _moved(
        self, named: ColumnElement[bool], owner: ColumnElement[Any], until: ColumnElement[Any]
    ) -> Update:
        """Move a head by a batch, after which this one owns it, unless the batch ends that."""
        heads, ends = self.tables.conversations, bindparam("ends", type_=Boolean)
        needs = bindparam("needs", type_=Integer)
        return (
            update(heads)
            .where(
                named,
                heads.c.revision == bindparam("expected", type_=BigInteger),
                heads.c.reader <= READER,
            )
            .values(
                revision=heads.c.revision + 1,
                status=func.coalesce(bindparam("new_status", type_=String), heads.c.status),
                run_id=func.coalesce(bindparam("new_run", type_=NAME), heads.c.run_id),
                pending=heads.c.pending + bindparam("more_pending", type_=BigInteger),
                updated_at=self.now,
                reader=case((heads.c.reader < needs, needs), else_=heads.c.reader),
                owner=case((ends, null()), else_=owner),
                expires_at=case((ends, null()), else_=until),
            )
        )

    def _and_write(self, move: Update) -> Select[*tuple[Any, ...]]:
        """Select the new head, when one statement has moved it and written the batch."""
        heads, batches, runs = self.tables.conversations, self.tables.batches, self.tables.runs
        moved = move.returning(*heads.c).cte("moved")
        batch = select(moved.c.id, moved.c.revision, bindparam("batch", type_=CONTENT))
        written = insert(batches).from_select(["conversation", "revision", "data"], batch)
        each = func.unnest(bindparam("run_ids", type_=ARRAY(NAME)))
        begun = insert(runs).from_select(["id", "conversation"], select(each, moved.c.id))
        return select(moved).add_cte(written.cte("written"), begun.cte("begun"))

    def _claim(self, named: ColumnElement[bool]) -> Update:
        heads = self.tables.conversations
        free = or_(
            heads.c.owner.is_(None),
            heads.c.expires_at <= self.now,
            heads.c.fence == bindparam("instead_of", type_=BigInteger),
        )
        return (
            update(heads)
            .where(named, heads.c.reader <= READER, free)
            .values(
                fence=heads.c.fence + 1,
                owner=bindparam("by", type_=OWNER),
                expires_at=self._later(),
            )
        )

    def _read(self, named: ColumnElement[bool]) -> Select[*tuple[Any, ...]]:
        """Select the batches, or one row without any: so that one answer tells both."""
        heads, batches = self.tables.conversations, self.tables.batches
        beyond = batches.c.revision > bindparam("after", type_=BigInteger)
        through = batches.c.revision <= bindparam("through", type_=BigInteger)
        return (
            select(
                heads.c.reader,
                heads.c.revision.label("newest"),
                batches.c.revision,
                batches.c.data,
            )
            .select_from(
                heads.outerjoin(
                    batches, and_(batches.c.conversation == heads.c.id, beyond, through)
                )
            )
            .where(named)
            .order_by(batches.c.revision)
        )


def moving(name: bytes, move: Move) -> Parameters:
    """Return the parameters of `Statements.move`."""
    return {
        "name": name,
        "expected": move.expected,
        "anybody": move.anybody,
        "token": move.fence,
        "new_status": move.status,
        "new_run": None if move.run_id is None else move.run_id.encode(),
        "more_pending": move.pending,
        "ends": move.ends,
        "needs": move.reader,
    }
