"""The tables of the SQL stores, how rows become heads, and how a schema comes up to date."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    RowMapping,
    String,
    Table,
    insert,
    select,
    update,
)
from sqlalchemy.dialects.mysql import BINARY, LONGBLOB, VARBINARY

from treadle.errors import NewerJournal
from treadle.ports.store import Head, Lease
from treadle.stores.heads import moment
from treadle.stores.refusals import head_damaged

OLDEST_READER = 1
"""The lowest version of the schema whose code may use these tables as they now are."""

# Text columns fold case, blanks and accents together and take no NUL: bytes are what they are.
NAME = LargeBinary().with_variant(VARBINARY(200), "mysql", "mariadb")
OWNER = LargeBinary().with_variant(VARBINARY(1000), "mysql", "mariadb")
DIGEST = LargeBinary().with_variant(BINARY(32), "mysql", "mariadb")
CONTENT = LargeBinary().with_variant(LONGBLOB(), "mysql", "mariadb")


class Tables:
    """The tables under one prefix. Times are microseconds since 1970, by the server's clock."""

    def __init__(self, prefix: str) -> None:
        self.metadata = MetaData()

        def table(name: str, *columns: Column[Any] | Index) -> Table:
            return Table(prefix + name, self.metadata, *columns, mysql_engine="InnoDB")

        self.schema = table(
            "schema",
            Column("id", Integer, primary_key=True, autoincrement=False),
            Column("version", Integer, nullable=False),
            Column("reader", Integer, nullable=False),
        )
        self.conversations = table(
            "conversations",
            Column("id", NAME, primary_key=True),
            Column("revision", BigInteger, nullable=False),
            Column("status", String(16), nullable=False),
            Column("run_id", NAME),
            Column("pending", BigInteger, nullable=False),
            Column("created_at", BigInteger, nullable=False),
            Column("updated_at", BigInteger, nullable=False),
            Column("fence", BigInteger, nullable=False),
            Column("owner", OWNER),
            Column("expires_at", BigInteger),
            Column("reader", Integer, nullable=False),
        )
        changed = self.conversations.c.updated_at.desc()
        name, status = self.conversations.c.id, self.conversations.c.status
        Index(f"{prefix}by_time", changed, name)
        Index(f"{prefix}by_status", status, changed, name)
        self.batches = table(
            "batches",
            Column("conversation", NAME, primary_key=True),
            Column("revision", BigInteger, primary_key=True, autoincrement=False),
            Column("data", CONTENT, nullable=False),
        )
        self.runs = table(
            "runs",
            Column("id", NAME, primary_key=True),
            Column("conversation", NAME, nullable=False),
            Index(f"{prefix}runs_of", "conversation"),
        )
        self.holds = table(
            "holds",
            Column("conversation", NAME, primary_key=True),
            Column("digest", DIGEST, primary_key=True),
        )
        self.blobs = table(
            "blobs",
            Column("digest", DIGEST, primary_key=True),
            Column("holders", BigInteger, nullable=False),
            Column("data", CONTENT, nullable=False),
        )


def head_of(row: RowMapping) -> Head:
    """Return the head that a row of `conversations` says, or raise `CorruptJournal`."""
    try:
        return _head_of(row)
    except (OverflowError, TypeError, ValueError) as error:
        raise head_damaged(row["id"].decode(errors="replace"), error) from error


def _head_of(row: RowMapping) -> Head:
    name: str = row["id"].decode()
    owner, run_id = row["owner"], row["run_id"]
    lease = None
    if owner is not None:
        lease = Lease(name, owner.decode(), row["fence"], moment(row["expires_at"]))
    return Head(
        conversation_id=name,
        revision=row["revision"],
        status=row["status"],
        run_id=None if run_id is None else run_id.decode(),
        pending=row["pending"],
        created_at=moment(row["created_at"]),
        updated_at=moment(row["updated_at"]),
        fence=row["fence"],
        lease=lease,
        reader=row["reader"],
    )


def bring_up_to_date(connection: Connection, tables: Tables) -> None:
    """Create what is not there, or take the steps that an older version had not; once is enough.

    The caller keeps others out. A step that broke off is taken again: each looks before it acts.

    Raises:
        NewerJournal: only a newer version of this package may use the tables.
    """
    tables.schema.create(connection, checkfirst=True)
    query = select(tables.schema.c.version, tables.schema.c.reader)
    row = connection.execute(query).first()
    found = 0 if row is None else int(row.version)
    if row is not None:
        check_schema(int(row.reader))
    for step in STEPS[found:]:
        step(connection, tables)
    values = {"version": max(found, len(STEPS)), "reader": OLDEST_READER}
    if row is None:
        connection.execute(insert(tables.schema).values(id=1, **values))
    elif found < len(STEPS):
        connection.execute(update(tables.schema).values(**values))


def check_schema(reader: int) -> None:
    """Refuse tables that take a newer version of this package.

    Raises:
        NewerJournal: these do.
    """
    if reader > len(STEPS):
        raise NewerJournal(
            "The tables in this database were made by a newer version of this package: they need "
            f"schema {reader}, this version knows {len(STEPS)}. Upgrade the package."
        )


def _create(connection: Connection, tables: Tables) -> None:
    for table in tables.metadata.sorted_tables:
        table.create(connection, checkfirst=True)
        for index in table.indexes:
            index.create(connection, checkfirst=True)


STEPS: tuple[Callable[[Connection, Tables], None], ...] = (_create,)
"""Step n brings a schema from version n to version n + 1."""
