"""What is special to the SQLite store: its file, its errors, and one transaction for many."""

from __future__ import annotations

import asyncio
import functools
import gc
import sqlite3
import threading
from collections.abc import Sequence
from pathlib import Path
from unittest import mock

import pytest

from tests.stores.sqlite_files import LOOK, PICTURE, changed, content, counted, filled
from treadle import ConfigError, ConversationNotFound, RevisionConflict
from treadle.errors import StoreUnavailable
from treadle.journal import AnyEntry
from treadle.ports.store import begins_writes
from treadle.stores.sqlite import SQLiteStore
from treadle.stores.sqlite_file import Place, Sync, opened
from treadle.testing.store_handles import queued, said


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the file of a test is."""
    return tmp_path / "chat.db"


async def test_one_failing_write_takes_no_other_with_it(path: Path) -> None:
    """Of many calls in one transaction each gets its own answer: refused, failed or written."""
    store = await filled(path)
    changed(
        path,
        "CREATE TRIGGER no BEFORE INSERT ON batches WHEN instr(NEW.data, 'poison') "
        "BEGIN SELECT RAISE(ABORT, 'poisoned'); END",
    )
    names = [f"c{number}" for number in range(20)]
    for name in names:
        await store.create(name)
    texts = ["poison" if number == 7 else "x" for number in range(20)]
    calls = [store.append(name, 0, [queued(t)]) for name, t in zip(names, texts, strict=True)]
    calls.append(store.append("c0", 5, [queued("x")]))
    calls.append(store.append("nobody", 0, [queued("x")]))

    answers = await asyncio.gather(*calls, return_exceptions=True)  # noqa: TID251 all answers

    failed = answers[7]
    assert isinstance(failed, StoreUnavailable)
    assert "poisoned" in str(failed)
    assert isinstance(answers[-2], RevisionConflict)
    assert isinstance(answers[-1], ConversationNotFound)
    assert answers[:7] + answers[8:20] == [1] * 19
    assert [(await store.head(name)).revision for name in names] == [1] * 7 + [0] + [1] * 12
    await store.close()


async def test_what_is_cancelled_is_written_whole(path: Path) -> None:
    """Whoever waited is gone; the batch and the head agree."""
    store = await filled(path)
    for revision in range(20):
        writing = asyncio.ensure_future(store.append("c", revision, [queued(f"{revision}")]))
        await asyncio.sleep(0)
        writing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await writing
    assert (await store.append("c", 20, [queued("20")])) == 21
    assert len(await store.read("c")) == 21
    await store.close()


async def test_reads_do_not_wait_for_writes(path: Path) -> None:
    """Another process may be writing for a long time."""
    store = await filled(path, "a")
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    writing = asyncio.ensure_future(store.append("c", 1, [queued("b")]))

    async with asyncio.timeout(5):
        assert len(await store.read("c")) == 1
        assert (await store.head("c")).revision == 1
    assert not writing.done()
    connection.execute("COMMIT")
    connection.close()
    assert await writing == 2
    await store.close()


async def test_a_file_that_stays_locked_is_an_error(path: Path) -> None:
    """It says who is to blame; afterwards all is well."""
    await (await filled(path)).close()
    store = SQLiteStore(path, patience=0.05)
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnavailable, match=r"chat\.db: another process has kept it locked"):
        await store.append("c", 0, [queued("x")])
    connection.execute("ROLLBACK")
    connection.close()
    assert await store.append("c", 0, [queued("x")]) == 1
    await store.close()


async def test_the_file_grows_with_what_is_new(path: Path) -> None:
    """BS-40, J6: linear, a picture is kept once, and a batch of any size fills its pages."""
    store = SQLiteStore(path)
    written = len(PICTURE.content or b"")
    sizes = [100, 700, 1500, 2100, 3100, 4200, 6000]
    leases: dict[str, int] = {}
    for number in range(20):
        leases[f"c{number}"] = (await store.claim(f"c{number}", "o", 600))[1].fence
        await store.append(f"c{number}", 0, [LOOK], fence=leases[f"c{number}"])
    for revision in range(1, 21):
        size = sizes[revision % len(sizes)]
        written += (size + 140) * len(leases)
        async with asyncio.TaskGroup() as group:
            for name, fence in leases.items():
                group.create_task(store.append(name, revision, [said("x" * size)], fence=fence))
    await store.close()
    assert len(content(path)) <= 1.3 * written
    assert counted(path, "SELECT count(*) FROM contents") == 1


async def test_content_goes_with_its_last_conversation(path: Path) -> None:
    """J9: a copy keeps what its original used."""
    store = await filled(path)
    _, lease = await store.claim("c", "o", 60)
    await store.append("c", 0, [LOOK], fence=lease.fence)
    await store.fork("c", 1, "d")
    await store.delete("c")
    assert (await store.read("d"))[0].entries == (LOOK,)
    await store.delete("d")
    await store.close()
    for table in ("batches", "contents", "uses", "runs", "conversations"):
        assert counted(path, f"SELECT count(*) FROM {table}") == 0, table  # noqa: S608


async def test_a_batch_of_any_size_comes_back(path: Path) -> None:
    """Large ones are cut into pieces, and may lie on many pages."""
    sizes = [0, 900, 999, 1000, 1001, 5000, 31_000, 33_000, 200_000]
    texts = [str(size) + "\u00e4" * size for size in sizes]
    store = await filled(path, *texts)
    for after in range(len(texts)):
        batches = await store.read("c", after)
        assert [batch.entries for batch in batches] == [(queued(text),) for text in texts[after:]]
    head = await store.fork("c", 5, "d")
    assert list(await store.read("d")) == list(await store.read("c"))[:5]
    assert head.pending == 5
    await store.close()


async def test_a_store_in_memory_ends_with_its_object() -> None:
    """Closing leaves it alone; another one has nothing of it."""
    store = SQLiteStore.from_url("sqlite:///:memory:")
    await store.create("c")
    await store.close()
    assert await store.append("c", 0, [queued("x")]) == 1
    assert (await store.head("c")).pending == 1
    with pytest.raises(ConversationNotFound):
        await SQLiteStore(":memory:").head("c")


async def test_event_loops_of_several_threads_share_it(path: Path) -> None:
    """Each gets its answers in its own; a loop that ends in between loses nothing."""
    store = await filled(path, *["x"] * 3)

    async def work(name: str) -> int:
        await store.create(name)
        for revision in range(20):
            await store.append(name, revision, [queued("x")])
        return await store.wait("c", 3, 5)

    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(asyncio.to_thread(asyncio.run, work(f"t{n}"), debug=True))
            for n in range(3)
        ]
        while sum(head.revision for head in await store.list()) < 63:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        await store.append("c", 3, [queued("x")])
    assert [task.result() for task in tasks] == [4] * 3
    await store.close()


def threads() -> set[threading.Thread]:
    """Return the threads of stores."""
    return {each for each in threading.enumerate() if each.name.startswith("treadle-sqlite")}


@pytest.mark.parametrize("ends", ["close", "forgotten"])
async def test_no_thread_is_left(path: Path, ends: str) -> None:
    """Whether the store is closed or only forgotten."""
    before = threads()  # of other tests; they end when they end
    store = await filled(path, "a")
    await store.read("c")
    mine = threads() - before
    assert len(mine) == 2
    if ends == "close":
        await store.close()
    del store
    gc.collect()
    async with asyncio.timeout(5):
        while threads() & mine:  # noqa: ASYNC110 a thread ends when it ends
            await asyncio.sleep(0.005)


def test_a_faster_mode_is_named(path: Path) -> None:
    """J1: only whoever asks for it by name gets it."""
    modes: list[tuple[Sync, int]] = [("full", 2), ("normal", 1)]
    for sync, number in modes:
        connection = opened(Place(str(path), sync, 1))
        assert connection.execute("PRAGMA synchronous").fetchone() == (number,)
        connection.close()
    assert repr(SQLiteStore.from_url(f"sqlite:///{path}")) == f"SQLiteStore('{path}')"
    fast = SQLiteStore.from_url(f"sqlite:///{path}?sync=normal")
    assert repr(fast) == f"SQLiteStore('{path}', sync='normal')"


class Wrapping(SQLiteStore):
    """A store whose method carries what it wraps, as decorators make it."""

    async def append(
        self,
        conversation_id: str,
        expected_revision: int,
        entries: Sequence[AnyEntry],
        *,
        fence: int | None = None,
    ) -> int:
        """Append as before."""
        return await super().append(conversation_id, expected_revision, entries, fence=fence)


functools.update_wrapper(Wrapping.append, SQLiteStore.append)


def test_what_wraps_a_store_is_asked(path: Path) -> None:
    """A wrapper has the attributes of what it wraps, and is not passed by for it."""
    store = SQLiteStore(path)
    assert begins_writes(store)
    assert not begins_writes(Wrapping(path))
    assert not begins_writes(mock.Mock(wraps=store))
    assert not begins_writes(mock.create_autospec(store))


@pytest.mark.parametrize(
    "url",
    [
        "sqlite:",
        "sqlite:chat.db",
        "sqlite://",
        "sqlite:///",
        "sqlite://me:secret@host/chat.db",
        "sqlite:///chat.db?sync=off",
        "sqlite:///chat.db?sync=full&mode=ro",
        "sqlite:///chat.db?mode",
    ],
)
def test_other_urls_are_refused(url: str) -> None:
    """The error says how they look, and tells no secret."""
    with pytest.raises(ConfigError, match=r"sync=normal|sqlite:///relative\.db") as caught:
        SQLiteStore.from_url(url)
    assert "secret" not in str(caught.value)
