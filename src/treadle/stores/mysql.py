"""Keep conversations in MySQL, 8.0 or newer, or in MariaDB, 10.6 or newer."""

from __future__ import annotations

import hashlib

from sqlalchemy import Insert, Table, func, insert, select
from sqlalchemy.dialects import mysql
from sqlalchemy.ext.asyncio import AsyncConnection

from treadle.errors import StoreUnavailable
from treadle.stores.sql import SqlStore
from treadle.stores.sql_connections import Wire
from treadle.stores.sql_statements import Dialect

LOCK_SECONDS = 60
# A server just hangs up on what is larger than it takes.
_TOO_LARGE = ", that what was written fits into its max_allowed_packet"


def _insert_new(table: Table) -> Insert:
    return insert(table)  # with IGNORE the driver asks for a warning, and prints it


def _hold(blobs: Table) -> Insert:
    return mysql.insert(blobs).on_duplicate_key_update(holders=blobs.c.holders + 1)


async def _lock(connection: AsyncConnection, prefix: str) -> None:
    """Keep other processes from the schema: changes of tables are no part of a transaction here."""
    if not await connection.scalar(
        select(func.get_lock(_lock_name(connection, prefix), LOCK_SECONDS))
    ):
        raise StoreUnavailable(
            f"Another process has kept the lock on the tables {prefix!r} for {LOCK_SECONDS} s."
        )


async def _unlock(connection: AsyncConnection, prefix: str) -> None:
    await connection.scalar(select(func.release_lock(_lock_name(connection, prefix))))


def _lock_name(connection: AsyncConnection, prefix: str) -> str:
    """Return a name of at most 64 characters: locks belong to the server, not to a database."""
    place = f"{connection.engine.url.database} {prefix}"
    return f"treadle {hashlib.sha256(place.encode()).hexdigest()[:40]}"


class MySQLStore(SqlStore):
    """Conversations in a MySQL or MariaDB database: `mysql://user:password@host:3306/database`.

    An append is one short transaction. What it returned is as durable as the server's
    `innodb_flush_log_at_trx_commit` says: at 1, the default, it survives a crash and power loss.
    Tables are made at the first use, under `?prefix=` (`treadle_`). Each event loop keeps up to
    `?pool_size=` (5) connections, and twice as many under load; other options go to asyncmy.
    A batch or a medium must fit into the server's `max_allowed_packet`.
    """

    wire = Wire(
        product="MySQL",
        driver="mysql+asyncmy",
        extra="mysql",
        port=3306,
        code_of=lambda error: error.args[0] if error.args else None,
        passing=frozenset({1205, 1213, 1020}),
        refused=frozenset({1045, 1044, 1698}),
        unknown=frozenset({1049}),
        missing=frozenset({1146}),
        hints=dict.fromkeys((1153, 2006, 2013), _TOO_LARGE),
        renamed={},
        lock=_lock,
        unlock=_unlock,
        connect={"connect_timeout": 10, "read_timeout": 60, "binary_prefix": True},
        pool={"pool_reset_on_return": None, "pool_recycle": 3600},  # every use ends its transaction
        alone={},
    )
    dialect = Dialect(
        now="timestampdiff(MICROSECOND, '1970-01-01', utc_timestamp(6))",
        returning=False,
        insert_new=_insert_new,
        hold=_hold,
    )
