"""Stores on the servers that tests start, and raw connections to look behind them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from redis.asyncio import Redis
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection, create_async_engine

from tests.databases import KINDS, Kind, url_of
from treadle.ids import new_stamp
from treadle.journal import MessageQueued
from treadle.messages import Image, Message
from treadle.ports.store import Store
from treadle.stores.mysql import MySQLStore
from treadle.stores.postgres import PostgresStore
from treadle.stores.redis import RedisStore
from treadle.testing.store_handles import AT

OPENERS: dict[Kind, Callable[[str], Store]] = {
    "postgresql": PostgresStore.from_url,
    "mysql": MySQLStore.from_url,
    "redis": RedisStore.from_url,
}
DRIVERS = {"postgresql": "postgresql+asyncpg", "mysql": "mysql+asyncmy"}
SQL: tuple[Kind, ...] = ("postgresql", "mysql")
PICTURE = Image.from_bytes(b"\x89PNG\r\n\x1a\n" + b"x" * 5000, "image/png")

every_kind = pytest.mark.parametrize("kind", KINDS)
every_sql = pytest.mark.parametrize("kind", SQL)


@asynccontextmanager
async def opened(kind: Kind, url: str | None = None) -> AsyncGenerator[Store]:
    """Give a store on the server of this kind, and close it."""
    store = OPENERS[kind](url or url_of(kind))
    try:
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def raw(kind: Kind, url: str) -> AsyncGenerator[AsyncConnection]:
    """Give a connection of our own to an SQL server."""
    plain = create_async_engine(url.replace(f"{kind}:", f"{DRIVERS[kind]}:"))
    try:
        async with plain.connect() as connection:
            yield connection
    finally:
        await plain.dispose()


async def change(kind: Kind, url: str, statement: str) -> None:
    """Change something behind the store's back."""
    async with raw(kind, url) as connection:
        await connection.execute(text(statement))
        await connection.commit()


async def count(kind: Kind, url: str, query: str) -> int:
    """Return the number that a query finds."""
    async with raw(kind, url) as connection:
        return int(await connection.scalar(text(query)))


@asynccontextmanager
async def raw_redis(url: str) -> AsyncGenerator[Callable[..., Awaitable[object]]]:
    """Give a way to send commands to Redis."""
    client = Redis.from_url(url)  # pyright: ignore[reportUnknownMemberType] its options have no types
    try:
        yield client.execute_command  # pyright: ignore[reportUnknownMemberType] nor have answers
    finally:
        await client.aclose()


def shown(id: str) -> MessageQueued:
    """Return an entry with a picture that is kept beside the journal."""
    return MessageQueued(run_id="", at=AT, id=id, message=Message.user("look", PICTURE))


def apart(kind: Kind) -> str:
    """Return the URL with tables or keys of its own."""
    return f"{url_of(kind)}?prefix=t{new_stamp()[-12:]}_"
