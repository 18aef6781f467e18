"""Connections to an SQL server: pooled for each event loop, tried again where that helps."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import unquote

from sqlalchemy import URL, make_url, select
from sqlalchemy.exc import ArgumentError, DBAPIError, IntegrityError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from treadle.errors import ConfigError, MissingExtra, StoreUnavailable
from treadle.stores.heeded import heeded
from treadle.stores.pools import Pools
from treadle.stores.sql_tables import STEPS, Tables, bring_up_to_date, check_schema
from treadle.values.secret import know, secrets_of

ResultT = TypeVar("ResultT")
Work = Callable[[AsyncConnection], Awaitable[ResultT]]

PREFIX = "treadle_"
POOL_SIZE = 5
"""Connections that stay open for each event loop; twice as many under load."""
TRIES = 10
LONGEST_PAUSE = 0.25
FAILURES = (SQLAlchemyError, OSError, TimeoutError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wire:
    """What an SQL server and its driver call things.

    `passing`, `refused`, `unknown` and `missing` are its codes for a transaction that lost to
    another, a login that was refused, a database and a table that are not there; `hints` say what
    else a code may mean. `renamed` are options that go by another name at the driver.
    """

    product: str
    driver: str
    extra: str
    port: int
    code_of: Callable[[BaseException], object]
    passing: frozenset[object]
    refused: frozenset[object]
    unknown: frozenset[object]
    missing: frozenset[object]
    hints: Mapping[object, str]
    renamed: Mapping[str, str]
    lock: Callable[[AsyncConnection, str], Awaitable[None]]
    unlock: Callable[[AsyncConnection, str], Awaitable[None]]
    connect: Mapping[str, Any]
    pool: Mapping[str, Any]
    alone: Mapping[str, Any]


class _Pool:
    """The connections of one event loop."""

    def __init__(self, url: URL, wire: Wire, size: int) -> None:
        self.transactions = create_async_engine(
            url,
            pool_size=size,
            max_overflow=size,
            pool_timeout=30,
            isolation_level="READ COMMITTED",
            hide_parameters=True,  # conversations are nobody's business but their owner's
            connect_args=dict(wire.connect),
            **wire.pool,
        )
        self.single = self.transactions.execution_options(**wire.alone)
        self.lock = asyncio.Lock()
        self.checked = False


class Connections:
    """Runs work on a connection; the schema is there before the first."""

    def __init__(self, url: str, wire: Wire) -> None:
        know(*secrets_of({}, url))
        try:
            parsed = make_url(url)
        except (ArgumentError, ValueError) as error:
            raise ConfigError(f"{wire.product} takes a URL such as {_example(wire)}.") from error
        options = {wire.renamed.get(name, name): value for name, value in parsed.query.items()}
        self.prefix = str(options.pop("prefix", PREFIX))
        size = options.pop("pool_size", POOL_SIZE)
        if not self.prefix.isidentifier() or not self.prefix.isascii() or len(self.prefix) > 40:
            raise ConfigError(f"The prefix {self.prefix!r} cannot begin the name of a table.")
        if not str(size).isdecimal() or int(str(size)) < 1:
            raise ConfigError(f"pool_size is a number of connections, not {size!r}.")
        self._url = parsed.set(drivername=wire.driver, query=options)
        self._wire = wire
        self._size = int(str(size))
        self.tables = Tables(self.prefix)
        self._pools = Pools(self._opened, _disposed)

    @property
    def place(self) -> str:
        """Where the server is, without the password."""
        host, port = self._url.host or "localhost", self._url.port or self._wire.port
        return f"{host}:{port}/{unquote(self._url.database or '')}"

    async def single(
        self, work: Work[ResultT], doubts: list[BaseException] | None = None
    ) -> ResultT:
        """Do work that is one statement; else like `transaction`."""
        return await self._tried(work, lambda pool: pool.single, doubts)

    async def transaction(
        self, work: Work[ResultT], doubts: list[BaseException] | None = None
    ) -> ResultT:
        """Do work as one transaction, again from the beginning when it lost to another.

        So it is when the connection broke; nobody knows then whether the work was done before.
        `doubts` gets these errors.

        Raises:
            StoreUnavailable: it cannot be done.
            IntegrityError: a row is there already.
        """
        return await self._tried(work, lambda pool: pool.transactions, doubts)

    async def close(self) -> None:
        """Drop the connections."""
        await self._pools.close()

    async def _tried(
        self,
        work: Work[ResultT],
        chosen: Callable[[_Pool], AsyncEngine],
        doubts: list[BaseException] | None,
    ) -> ResultT:
        broken = 0
        for attempt in range(1, TRIES + 1):
            try:
                async with self._pools.here() as pool:
                    if not pool.checked:
                        await self._check(pool)
                    return await heeded(_begun(chosen(pool), work))
            except IntegrityError:
                raise
            except FAILURES as error:
                # A server that was started again leaves dead connections in the pool.
                if self._is_broken(error):
                    broken += 1
                    if doubts is not None:
                        doubts.append(error)
                if attempt == TRIES or broken > 1 or not (broken or self._passes(error)):
                    raise self._unavailable(error) from error
            except TypeError as error:
                raise self._bad_option(error) from error
            pause = min(0.005 * 2**attempt, LONGEST_PAUSE)
            await asyncio.sleep(random.uniform(0, pause))  # noqa: S311 spreads, keeps no secret
        raise AssertionError("unreachable")

    async def _check(self, pool: _Pool) -> None:
        """See that the schema is one that this version can use, and make it so."""
        async with pool.lock:
            if not pool.checked and await self._found(pool) < len(STEPS):
                await self._bring_up_to_date(pool)
            pool.checked = True

    async def _bring_up_to_date(self, pool: _Pool) -> None:
        async with pool.transactions.connect() as connection:
            await self._wire.lock(connection, self.prefix)
            try:
                await connection.run_sync(bring_up_to_date, self.tables)
                await connection.commit()  # before the next one gets the lock
            except BaseException:
                await connection.invalidate()  # a lock goes with its connection
                raise
            await self._wire.unlock(connection, self.prefix)
            await connection.commit()

    async def _found(self, pool: _Pool) -> int:
        schema = self.tables.schema.c
        try:
            async with pool.single.begin() as connection:
                row = (await connection.execute(select(schema.version, schema.reader))).first()
        except DBAPIError as error:
            if self._code(error) in self._wire.missing:
                return 0
            raise
        if row is None:
            return 0
        check_schema(int(row.reader))
        return int(row.version)

    def _opened(self) -> _Pool:
        try:
            return _Pool(self._url, self._wire, self._size)
        except ImportError as error:
            extra = self._wire.extra
            raise MissingExtra(
                f"{self._wire.product} needs a driver that is not installed: "
                f'pip install "treadle[{extra}]".'
            ) from error

    def _code(self, error: BaseException) -> object:
        original = error.orig if isinstance(error, DBAPIError) else error
        return None if original is None else self._wire.code_of(original)

    def _passes(self, error: BaseException) -> bool:
        return self._code(error) in self._wire.passing

    def _is_broken(self, error: BaseException) -> bool:
        return isinstance(error, DBAPIError) and error.connection_invalidated

    def _unavailable(self, error: BaseException) -> StoreUnavailable:
        code, where = self._code(error), f"{self._wire.product} at {self.place}"
        said = _said(error)
        if code in self._wire.refused:
            return StoreUnavailable(
                f"{where} refused the login of {self._url.username!r}: {said}. "
                "Check the user and the password in the URL."
            )
        if code in self._wire.unknown:
            return StoreUnavailable(
                f"{where}: {said}. Create the database, or name another in the URL."
            )
        return StoreUnavailable(
            f"{where} cannot be used: {said}. Check that the server is running and reachable "
            f"from here{self._wire.hints.get(code, '')}, and try again."
        )

    def _bad_option(self, error: TypeError) -> Exception:
        if "unexpected keyword argument" in str(error):
            return ConfigError(f"An option in the URL is not known to the driver: {error}.")
        return error


async def _begun(engine: AsyncEngine, work: Work[ResultT]) -> ResultT:
    async with engine.begin() as connection:
        return await work(connection)


async def _disposed(pool: _Pool) -> None:
    await pool.transactions.dispose()


def _said(error: BaseException) -> str:
    """Return the reason in the server's words, without statement, values and password."""
    original = error.orig if isinstance(error, DBAPIError) else error
    told = () if original is None else original.args
    text = str(told[1] if len(told) > 1 else original).strip() or type(original).__name__
    return text.partition("\n")[0].rstrip(".")


def _example(wire: Wire) -> str:
    return f"{wire.driver.partition('+')[0]}://user:password@host:{wire.port}/database"
