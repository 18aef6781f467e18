"""Stores on servers that go away, refuse, are newer, and serve several event loops."""

# ruff: noqa: S608 the tables of these tests have names of their own
from __future__ import annotations

import asyncio
import gc
import logging
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from urllib.parse import urlsplit

import pytest

from tests.databases import PASSWORD, Kind, started, url_of
from tests.servers import free_port
from tests.stores.served import (
    OPENERS,
    apart,
    change,
    count,
    every_kind,
    every_sql,
    opened,
    raw_redis,
)
from treadle.errors import (
    ConfigError,
    CorruptJournal,
    NewerJournal,
    RevisionConflict,
    StoreUnavailable,
)
from treadle.ids import new_stamp
from treadle.testing.store_handles import queued

pytestmark = [pytest.mark.e2e]


@every_kind
async def test_what_was_confirmed_survives_a_killed_server(kind: Kind) -> None:
    """J1: nothing that was confirmed is lost; the same handle goes on with the server's return."""
    with ExitStack() as servers:
        server = await asyncio.to_thread(started, kind, servers)
        async with opened(kind, server.url) as store:
            confirmed: dict[str, int] = {}
            many = asyncio.Event()

            async def write(name: str) -> str:
                await store.create(name)
                try:
                    for revision in range(10_000):
                        await store.append(name, revision, [queued(f"{name}.{revision}")])
                        confirmed[name] = revision + 1
                        if sum(confirmed.values()) > 100:
                            many.set()
                except StoreUnavailable as error:
                    return str(error)
                return "never refused"

            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(write(f"c{number}")) for number in range(4)]
                await many.wait()
                await asyncio.to_thread(server.kill)
            assert all(f"127.0.0.1:{server.port}" in task.result() for task in tasks)
            await asyncio.to_thread(server.start)

            for name, revision in confirmed.items():
                batches = await store.read(name)
                assert len(batches) in (revision, revision + 1)
                assert [batch.revision for batch in batches] == list(range(1, len(batches) + 1))
                assert await store.append(name, len(batches), [queued("more")])


@every_kind
async def test_a_server_that_is_not_there(kind: Kind) -> None:
    """BS-39: the error names the place and never the password; the store may be closed."""
    port = free_port()
    url = f"{kind}://user:{PASSWORD}@127.0.0.1:{port}/0"
    async with opened(kind, url) as store:
        for asked in (
            store.create("c"),
            store.append("c", 0, [queued("x")]),
            store.wait("c", 0, 1),
        ):
            with pytest.raises(
                StoreUnavailable, match=rf"127\.0\.0\.1:{port}/0.*running"
            ) as caught:
                await asked
            assert PASSWORD not in f"{caught.value}{caught.value.__cause__!r}{store!r}"


REFUSED: dict[Kind, Callable[[str], str]] = {
    "postgresql": lambda place: f"postgresql://guarded:wr0ng@{place}/postgres",
    "mysql": lambda place: f"mysql://treadle:wr0ng@{place}/treadle",
    "redis": lambda place: f"redis://:wr0ng@{place}/0",
}
UNKNOWN: dict[Kind, str] = {
    "postgresql": "Create the database",
    "mysql": "Create the database",
    "redis": "out of range",
}


@every_kind
async def test_a_login_that_is_refused(kind: Kind) -> None:
    """The error says so, names the place and never the password."""
    place = urlsplit(url_of(kind)).netloc.rpartition("@")[2]
    async with opened(kind, REFUSED[kind](place)) as store:
        with pytest.raises(StoreUnavailable, match=rf"{place}.* refused the login") as caught:
            await store.head("c")
        assert "wr0ng" not in f"{caught.value}{caught.value.__cause__!r}{store!r}"


@every_kind
async def test_a_database_that_is_not_there(kind: Kind) -> None:
    """The error says what to do."""
    url = f"{url_of(kind).rpartition('/')[0]}/9876"
    async with opened(kind, url) as store:
        with pytest.raises(StoreUnavailable, match=rf"/9876.*{UNKNOWN[kind]}"):
            await store.head("c")


@every_kind
@pytest.mark.parametrize("option", ["pool_size=0", "pool_size=x"])
async def test_an_option_that_cannot_be(kind: Kind, option: str) -> None:
    """It is refused before anything is connected."""
    with pytest.raises(ConfigError, match="pool_size"):
        OPENERS[kind](f"{kind}://127.0.0.1:1/0?{option}")


@every_sql
@pytest.mark.parametrize("prefix", ["a b", "a;drop", "1a", "x" * 41])
async def test_a_prefix_that_cannot_begin_a_name(kind: Kind, prefix: str) -> None:
    """Nothing of it comes near a statement."""
    with pytest.raises(ConfigError, match="prefix"):
        OPENERS[kind](f"{kind}://127.0.0.1:1/0?prefix={prefix}&x=1")


@every_kind
async def test_an_option_that_the_driver_does_not_know(kind: Kind) -> None:
    """The driver says which."""
    async with opened(kind, f"{url_of(kind)}?nonsense=1") as store:
        with pytest.raises(ConfigError, match="nonsense"):
            await store.head("c")


@every_kind
async def test_prefixes_keep_apart(kind: Kind) -> None:
    """Two applications may share a database."""
    async with opened(kind, apart(kind)) as one, opened(kind, apart(kind)) as two:
        await one.create("c")
        assert len(await one.list()) == 1
        assert await two.list() == []


@every_kind
async def test_a_newer_schema_is_left_alone(kind: Kind) -> None:
    """BS-42: what a newer version made is neither read nor changed."""
    url = apart(kind)
    async with opened(kind, url) as store:
        await store.create("c")
    plain, prefix = url.split("?prefix=")
    if kind == "redis":
        async with raw_redis(plain) as command:
            await command("SET", f"{prefix}schema", 99)
    else:
        await change(kind, plain, f"update {prefix}schema set version=99, reader=99")
    async with opened(kind, url) as store:
        for _ in range(2):
            with pytest.raises(NewerJournal, match=r"schema 99, this version knows \d"):
                await store.create("d")


@every_sql
async def test_a_newer_schema_that_changed_nothing_here_is_used(kind: Kind) -> None:
    """J11: a newer version says which older ones may go on."""
    url = apart(kind)
    async with opened(kind, url) as store:
        await store.create("c")
    plain, prefix = url.split("?prefix=")
    await change(kind, plain, f"update {prefix}schema set version=99")
    async with opened(kind, url) as store:
        assert (await store.head("c")).revision == 0
    assert await count(kind, plain, f"select version from {prefix}schema") == 99


@every_kind
@pytest.mark.parametrize("needed", ["append", "claim", "read", "fork"])
async def test_a_journal_that_needs_a_newer_reader(kind: Kind, needed: str) -> None:
    """J11: it is listed, and otherwise left alone."""
    url = apart(kind)
    plain, prefix = url.split("?prefix=")
    async with opened(kind, url) as store:
        await store.create("c")
        if kind == "redis":
            async with raw_redis(plain) as command:
                await command("HSET", f"{prefix}head:c", "reader", 99)
        else:
            await change(kind, plain, f"update {prefix}conversations set reader=99")
        asked: dict[str, Callable[[], Awaitable[object]]] = {
            "append": lambda: store.append("c", 0, [queued("x")]),
            "claim": lambda: store.claim("c", "o", 5),
            "read": lambda: store.read("c"),
            "fork": lambda: store.fork("c", 0, "d"),
        }
        with pytest.raises(NewerJournal, match="format 99"):
            await asked[needed]()
        assert [(each.reader, each.revision) for each in await store.list()] == [(99, 0)]


@every_kind
def test_event_loops_one_after_another_and_at_once(kind: Kind) -> None:
    """BS-67: one store serves them all, and leaves nothing open with any."""
    store = OPENERS[kind](url_of(kind))
    name = f"c_{new_stamp()}"

    async def write() -> None:
        revision = (await store.create(name)).revision
        while True:
            try:
                await store.append(name, revision, [queued("x")])
            except RevisionConflict:
                revision = (await store.head(name)).revision
            else:
                return

    for _ in range(3):
        asyncio.run(write())
    with ThreadPoolExecutor(4) as threads:
        for ended in [threads.submit(asyncio.run, write()) for _ in range(4)]:
            ended.result()

    async def read() -> int:
        try:
            return len(await store.read(name))
        finally:
            await store.close()

    assert asyncio.run(read()) == 7
    gc.collect()  # an open connection would warn here


@every_kind
async def test_closing_reaches_other_loops(kind: Kind) -> None:
    """BS-67: also those of other threads that are running; they open again what they need."""
    async with opened(kind) as store:
        name = f"c_{new_stamp()}"
        await store.create(name)
        begun, closed = threading.Event(), threading.Event()

        async def elsewhere() -> int:
            await store.head(name)
            begun.set()
            await asyncio.to_thread(closed.wait, 10)
            return (await store.head(name)).revision

        there = asyncio.ensure_future(asyncio.to_thread(asyncio.run, elsewhere()))
        await asyncio.to_thread(begun.wait, 10)
        await store.close()
        closed.set()
        assert await there == 0


async def test_redis_that_forgets_is_named(caplog: pytest.LogCaptureFixture) -> None:
    """J1: without appendonly, or when keys may be evicted, a warning says so once."""
    url = url_of("redis")
    changes = {"appendonly": ("no", "yes"), "maxmemory-policy": ("allkeys-lru", "noeviction")}
    async with raw_redis(url) as command:
        for option, (value, _) in changes.items():
            await command("CONFIG", "SET", option, value)
        try:
            with caplog.at_level(logging.WARNING, logger="treadle"):
                async with opened("redis") as store:
                    await store.create("c")
                    await store.close()
                    await store.create("c")
        finally:
            for option, (_, value) in changes.items():
                await command("CONFIG", "SET", option, value)
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 2
    assert "has appendonly off: a restart forgets" in said[0]
    assert "may evict conversations" in said[1]
    assert PASSWORD not in "".join(said)


@every_kind
async def test_a_cancellation_is_heard(kind: Kind) -> None:
    """Drivers swallow some: whoever is cancelled at any step does not go on as if nothing was."""
    name = f"c_{new_stamp()}"
    async with opened(kind, url_of(kind)) as store:
        await store.create(name)
        ways: list[Callable[[], Awaitable[object]]] = [
            lambda: store.head(name),
            lambda: store.wait(name, 0, 10),
            lambda: store.read(name),
        ]
        for number in range(600):
            task = asyncio.ensure_future(ways[number % len(ways)]())
            for _ in range(number % 40):
                await asyncio.sleep(0)
            was_under_way = task.cancel()
            await asyncio.wait([task])
            assert task.cancelled() or not was_under_way
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert not left


@every_kind
@pytest.mark.parametrize("column", ["created_at", "updated_at"])
async def test_a_damaged_head_spoils_no_other(
    kind: Kind, column: str, caplog: pytest.LogCaptureFixture
) -> None:
    """W8: the error names it, and a list goes on without it, whatever the size of its pages."""
    url = apart(kind)
    plain, prefix = url.split("?prefix=")
    async with opened(kind, url) as store:
        for name in ("c", "d", "e"):
            await store.create(name)
            await store.append(name, 0, [queued("x")])
        if kind == "redis":
            async with raw_redis(plain) as command:
                await command("HSET", f"{prefix}head:e", column, 2**62)
        else:
            where = "where id = decode('65', 'hex')" if kind == "postgresql" else "where id = 'e'"
            await change(
                kind, plain, f"update {prefix}conversations set {column} = {2**62} {where}"
            )
        with pytest.raises(CorruptJournal, match="'e'"):
            await store.head("e")
        for limit in (1, 2, 100):
            caplog.clear()
            found = await store.list(limit=limit)
            assert [each.conversation_id for each in found] == ["d", "c"][:limit]
            assert "'e'" in caplog.text
        assert [each.conversation_id for each in await store.list(after=found[0])] == ["c"]
        assert await store.append("d", 1, [queued("y")]) == 2


@every_sql
@pytest.mark.parametrize("missing", [1, 2, 3])
async def test_a_missing_batch_is_named(kind: Kind, missing: int) -> None:
    """W8: it is never passed over."""
    url = apart(kind)
    plain, prefix = url.split("?prefix=")
    async with opened(kind, url) as store:
        await store.create("c")
        for revision in range(3):
            await store.append("c", revision, [queued("x")])
        await change(kind, plain, f"delete from {prefix}batches where revision = {missing}")
        for asking in (store.read("c"), store.read("c", missing - 1)):
            with pytest.raises(CorruptJournal, match=f"'c': revision {missing} is missing"):
                await asking
        assert [each.revision for each in await store.read("c", missing)] == [
            *range(missing + 1, 4)
        ]
