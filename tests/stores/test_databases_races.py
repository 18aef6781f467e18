"""Stores on servers that several use at once, or that answer too late."""

# ruff: noqa: S608 the tables of these tests have names of their own
from __future__ import annotations

import asyncio
import hashlib
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from urllib.parse import urlsplit

import pytest
from sqlalchemy import text

from tests.databases import Kind, url_of
from tests.stores.served import (
    PICTURE,
    SQL,
    apart,
    count,
    every_kind,
    every_sql,
    opened,
    raw,
    raw_redis,
    shown,
)
from treadle.errors import (
    ConversationBusy,
    ConversationNotFound,
    InvalidId,
    RevisionConflict,
)
from treadle.ids import new_stamp
from treadle.testing.store_handles import began, queued

pytestmark = [pytest.mark.e2e]


BEGINS = """
import asyncio, sys
from treadle.stores.{module} import {name}

async def main():
    store = {name}.from_url(sys.argv[1])
    print("ready", flush=True)
    sys.stdin.readline()
    print((await store.create(sys.argv[2])).revision)
    await store.close()

asyncio.run(main())
"""


@pytest.mark.parametrize(
    ("kind", "module", "name"),
    [("postgresql", "postgres", "PostgresStore"), ("mysql", "mysql", "MySQLStore")],
)
def test_processes_make_the_tables_at_once(kind: Kind, module: str, name: str) -> None:
    """BS-42: one of them does, and the others find them."""
    url, program = apart(kind), BEGINS.format(module=module, name=name)
    begun = [
        subprocess.Popen(
            [sys.executable, "-c", program, url, f"c{number}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for number in range(3)
    ]
    for process in begun:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
    for process in begun:
        assert process.stdin is not None
        process.stdin.write(b"go\n")
        process.stdin.flush()
    ended = [process.communicate(timeout=30) for process in begun]
    assert b"".join(err for _, err in ended).decode() == ""
    assert [out for out, _ in ended] == [b"0\n"] * 3


@every_kind
async def test_many_handles_begin_at_once(kind: Kind) -> None:
    """BS-39: each of them in tables that none of them has seen."""
    for _ in range(4):
        url = apart(kind)
        async with AsyncExitStack() as stack:
            stores = [await stack.enter_async_context(opened(kind, url)) for _ in range(8)]
            async with asyncio.TaskGroup() as group:
                for number, store in enumerate(stores):
                    group.create_task(store.claim(f"c{number}", "o", 15))
            assert len(await stores[0].list()) == 8


@every_kind
async def test_who_is_cancelled_leaves_no_transaction_behind(kind: Kind) -> None:
    """Whenever it comes: the pool is whole, and the journal too."""
    async with opened(kind, apart(kind)) as store:
        await store.create("c")
        for attempt in range(60):
            revision = (await store.head("c")).revision
            entry = shown(str(attempt)) if attempt % 3 else queued(str(attempt))
            asked = asyncio.ensure_future(store.append("c", revision, [entry]))
            for _ in range(attempt % 30):
                await asyncio.sleep(0)
            await asyncio.sleep(0 if attempt % 2 else 0.0002 * (attempt % 7))
            asked.cancel()
            await asyncio.wait([asked])
        async with asyncio.timeout(10), asyncio.TaskGroup() as group:
            for _ in range(20):
                group.create_task(store.head("c"))
        batches = await store.read("c")
        assert len(batches) == (await store.head("c")).revision
        if kind in SQL:
            assert await open_transactions(kind) == 0


async def open_transactions(kind: Kind) -> int:
    """Return how many connections stay in a transaction."""
    counted = {
        "postgresql": "select count(*) from pg_stat_activity"
        " where state like 'idle in transaction%'",
        "mysql": "select count(*) from information_schema.innodb_trx",
    }
    left = -1
    for _ in range(50):  # a server takes a moment to see that a client is gone
        left = await count(kind, url_of(kind), counted[kind])
        if not left:
            break
        await asyncio.sleep(0.05)
    return left


@every_sql
async def test_a_deadlock_is_tried_again(kind: Kind) -> None:
    """Of two who wait for each other the server ends one; if it is ours, nobody hears of it."""
    url = apart(kind)
    plain, prefix = url.split("?prefix=")
    async with opened(kind, url) as store, raw(kind, plain) as other:
        await store.create("first")
        await store.put("first", PICTURE.content or b"")
        _, lease = await store.claim("c", "o", 60)
        # Ours is cheap to undo, so MySQL ends it; PostgreSQL ends the one that waited first.
        await other.execute(text(f"create table {prefix}many (n int)"))
        many = ",".join(["(1)"] * 500)
        await other.execute(text(f"insert into {prefix}many values {many}"))
        await other.execute(text(f"update {prefix}blobs set holders = holders"))
        async with asyncio.timeout(20), asyncio.TaskGroup() as group:
            append = group.create_task(store.append("c", 0, [shown("x")], fence=lease.fence))
            await asyncio.sleep(0.3)
            await other.execute(text(f"update {prefix}conversations set pending = pending"))
            await other.commit()
        assert append.result() == 1
        (batch,) = await store.read("c")
        assert batch.entries == (shown("x"),)


@every_kind
async def test_content_that_many_hold(kind: Kind) -> None:
    """J9: whoever comes and goes, it stays for those who hold it, and not for longer."""
    content = new_stamp().encode() * 100
    digest = hashlib.sha256(content).hexdigest()
    url = apart(kind)
    plain, prefix = url.split("?prefix=")
    async with opened(kind, url) as store:
        for turn in range(4):
            leaving = [f"leaving{turn}.{n}" for n in range(6)]
            for name in leaving:
                await store.create(name)
                assert await store.put(name, content) == digest
            async with asyncio.TaskGroup() as group:
                for n, name in enumerate(leaving):
                    await store.create(f"staying{turn}.{n}")
                    group.create_task(store.delete(name))
                    group.create_task(store.put(f"staying{turn}.{n}", content))
            for n in range(6):
                assert await store.get(f"staying{turn}.{n}", digest) == content
                await store.delete(f"staying{turn}.{n}")
            with pytest.raises(ConversationNotFound):
                await store.get("staying0.0", digest)
            if kind in SQL:
                assert await count(kind, plain, f"select count(*) from {prefix}blobs") == 0


@every_kind
async def test_the_same_batch_from_two_is_a_conflict_for_one(kind: Kind) -> None:
    """J2: that it is there already is no success for who did not write it."""
    url = apart(kind)
    async with opened(kind, url) as one, opened(kind, url) as two:
        await one.create("c")
        assert await one.append("c", 0, [queued("x")]) == 1
        with pytest.raises(RevisionConflict):
            await two.append("c", 0, [queued("x")])


@every_kind
async def test_an_answer_that_is_lost_is_no_conflict(kind: Kind) -> None:
    """J2: what was written before the connection broke is found again, and written once."""
    async with swallowing(url_of(kind), b"swallow this") as url, opened(kind, url) as store:
        name = f"c_{new_stamp()}"
        await store.create(name)
        assert await store.append(name, 0, [queued("first")]) == 1
        assert await store.append(name, 1, [queued("swallow this")]) == 2
        assert [batch.revision for batch in await store.read(name)] == [1, 2]


@asynccontextmanager
async def swallowing(url: str, marker: bytes) -> AsyncGenerator[str]:
    """Stand between: the first answer to a request with the marker is lost, and the connection."""
    parts = urlsplit(url)
    swallowed, tasks = asyncio.Event(), set[asyncio.Future[None]]()

    async def passed_on(client: asyncio.StreamReader, answers: asyncio.StreamWriter) -> None:
        server, requests = await asyncio.open_connection(parts.hostname, parts.port)
        lost = asyncio.Event()

        async def back() -> None:
            while (answer := await server.read(65536)) and not lost.is_set():
                answers.write(answer)
            answers.close()

        async with asyncio.TaskGroup() as group:
            group.create_task(back())
            while request := await client.read(65536):
                if marker in request and not swallowed.is_set():
                    swallowed.set()
                    lost.set()
                requests.write(request)
            requests.close()
        await answers.wait_closed()
        await requests.wait_closed()

    def begin(client: asyncio.StreamReader, answers: asyncio.StreamWriter) -> None:
        tasks.add(asyncio.ensure_future(passed_on(client, answers)))

    listener = await asyncio.start_server(begin, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    try:
        yield url.replace(f":{parts.port}/", f":{port}/")
    finally:
        listener.close()
        await asyncio.wait(tasks, timeout=5)
    assert swallowed.is_set()


@every_kind
async def test_a_store_that_is_closed_at_work_leaves_no_connection(kind: Kind) -> None:
    """What is under way is done; its connection goes with it, or what was closed stays open."""
    url = apart(kind)
    async with opened(kind, url) as store:
        before = await connected(kind)
        for number in range(20):
            async with asyncio.TaskGroup() as group:
                for name in ("a", "b", "c"):
                    group.create_task(store.create(f"{name}{number}"))
                await asyncio.sleep(number % 5 * 0.001)
                await store.close()
        await store.close()
        async with asyncio.timeout(30):
            while await connected(kind) > before:  # noqa: ASYNC110 the server hears of it by itself
                await asyncio.sleep(0.02)


async def connected(kind: Kind) -> int:
    """Return how many connections the server has."""
    if kind == "redis":
        async with raw_redis(url_of(kind)) as do:
            return str(await do("CLIENT", "LIST")).count("addr=")
    query = "SELECT count(*) FROM information_schema.processlist"
    if kind == "postgresql":
        query = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'"
    return await count(kind, url_of(kind), query)


async def test_what_is_there_already_is_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    """The driver would write one to the log for each, and ask the server for its words."""
    async with opened("mysql", apart("mysql")) as store:
        run = new_stamp()
        await store.claim_and_append("a", "one", 30, [began(run)], known=None)
        for asking in (
            store.claim("a", "two", 30),
            store.claim_and_append("a", "two", 30, [began(run + "x")], known=None),
            store.claim_and_append("b", "two", 30, [began(run)], known=None),
            store.fork("a", 1, "a"),
        ):
            with pytest.raises((ConversationBusy, InvalidId)):
                await asking
        async with asyncio.TaskGroup() as group:
            for _ in range(6):
                group.create_task(store.create("c"))
                group.create_task(store.put("a", b"x" * 2000))
    assert "Duplicate" not in caplog.text
