"""Keep conversations in PostgreSQL, 14 or newer."""

from __future__ import annotations

import hashlib

from sqlalchemy import BigInteger, Insert, Table, func, literal, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from treadle.stores.sql import SqlStore
from treadle.stores.sql_connections import Wire
from treadle.stores.sql_statements import Dialect


def _insert_new(table: Table) -> Insert:
    return insert(table).on_conflict_do_nothing()


def _hold(blobs: Table) -> Insert:
    more = {"holders": blobs.c.holders + 1}
    return insert(blobs).on_conflict_do_update(index_elements=[blobs.c.digest], set_=more)


async def _lock(connection: AsyncConnection, prefix: str) -> None:
    """Keep other processes from the schema until the transaction ends."""
    number = hashlib.sha256(f"treadle {prefix}".encode()).digest()[:8]
    key = literal(int.from_bytes(number, "big", signed=True), BigInteger)
    await connection.execute(select(func.pg_advisory_xact_lock(key)))


async def _unlock(connection: AsyncConnection, prefix: str) -> None:
    """The end of the transaction does it."""


class PostgresStore(SqlStore):
    """Conversations in a PostgreSQL database: `postgresql://user:password@host:5432/database`.

    An append is one statement. What it returned is as durable as the server's
    `synchronous_commit` says: it survives a crash of the server unless that is off. Tables are made
    at the first use, under `?prefix=` (`treadle_`). Each event loop keeps up to `?pool_size=` (5)
    connections, and twice as many under load; other options go to asyncpg. Whoever waits
    looks now and then, so that no connection is taken for listening, and a pooler such as PgBouncer
    may stand in between (with `?prepared_statement_cache_size=0`). `?sslmode=require` asks for TLS.
    """

    wire = Wire(
        product="PostgreSQL",
        driver="postgresql+asyncpg",
        extra="postgres",
        port=5432,
        code_of=lambda error: getattr(error, "sqlstate", None),
        passing=frozenset({"40001", "40P01", "55P03"}),
        refused=frozenset({"28P01", "28000"}),
        unknown=frozenset({"3D000"}),
        missing=frozenset({"42P01"}),
        hints={},
        renamed={"sslmode": "ssl"},
        lock=_lock,
        unlock=_unlock,
        connect={"timeout": 10, "command_timeout": 60},
        pool={},
        alone={"isolation_level": "AUTOCOMMIT"},
    )
    dialect = Dialect(
        now="cast(extract(epoch from clock_timestamp()) * 1000000 as bigint)",
        returning=True,
        insert_new=_insert_new,
        hold=_hold,
    )
