"""SQLite files that are newer, damaged, no databases at all, or out of reach."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path

import pytest

from tests.stores.sqlite_files import LOOK, changed, content, counted, filled, write
from treadle.errors import CorruptJournal, NewerJournal, StoreUnavailable
from treadle.stores.sqlite import SQLiteStore
from treadle.stores.sqlite_file import STEPS, Place, opened
from treadle.testing.store_handles import queued


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the file of a test is."""
    return tmp_path / "chat.db"


async def test_a_newer_file_is_left_alone(path: Path) -> None:
    """BS-42: every method says so, and not a byte is changed."""
    await (await filled(path, "a")).close()
    changed(path, "UPDATE meta SET value = value + 1")
    before = content(path)
    store = SQLiteStore(path)
    for asking in (store.head("c"), store.append("c", 1, [queued("x")]), store.create("d")):
        with pytest.raises(NewerJournal, match=f"schema {len(STEPS) + 1}, this version knows"):
            await asking
    await store.close()
    assert content(path) == before


async def test_a_file_that_is_upgraded_meanwhile_is_not_written(path: Path) -> None:
    """BS-42: another process had the newer version."""
    store = await filled(path, "a")
    changed(path, "UPDATE meta SET value = value + 1")
    with pytest.raises(NewerJournal, match="Upgrade the package"):
        await store.append("c", 1, [queued("x")])
    await store.close()


async def test_a_journal_for_newer_readers_is_left_alone(path: Path) -> None:
    """The others in the same file are not."""
    store = await filled(path, "a")
    await store.create("d")
    changed(path, "UPDATE conversations SET reader = 99 WHERE id = 'c'")
    assert (await store.head("c")).reader == 99
    for asking in (
        store.read("c"),
        store.append("c", 1, [queued("x")]),
        store.claim("c", "o", 5),
        store.fork("c", 1, "e"),
    ):
        with pytest.raises(NewerJournal, match="needs format 99"):
            await asking
    assert await store.append("d", 0, [queued("x")]) == 1
    await store.close()


async def test_an_older_file_is_upgraded_once(path: Path) -> None:
    """BS-42: in place, by whoever comes first; what was there stays."""
    await (await filled(path, "a")).close()
    steps = (*STEPS, "ALTER TABLE runs ADD COLUMN agent TEXT;\nCREATE TABLE more (x)")
    place = Place(str(path), "full", 10)
    together = threading.Barrier(4)

    def upgrade() -> None:
        together.wait(5)
        opened(place, steps).close()

    async with asyncio.TaskGroup() as group:
        for _ in range(4):
            group.create_task(asyncio.to_thread(upgrade))
    assert counted(path, "SELECT value FROM meta") == len(steps)
    assert counted(path, "SELECT count(*) FROM batches") == 1


def test_an_upgrade_that_fails_changes_nothing(path: Path) -> None:
    """It is one transaction."""
    opened(Place(str(path), "full", 1)).close()
    steps = (*STEPS, "CREATE TABLE more (x);\nCREATE TABLE more (x)")
    with pytest.raises(StoreUnavailable, match="already exists"):
        opened(Place(str(path), "full", 1), steps)
    assert counted(path, "SELECT value FROM meta") == len(STEPS)
    assert counted(path, "SELECT count(*) FROM sqlite_schema WHERE name = 'more'") == 0


@pytest.mark.parametrize(
    ("statement", "tells"),
    [
        ("UPDATE batches SET data = '{\"x\n' WHERE place = (SELECT max(place) FROM batches)", "2"),
        ("UPDATE batches SET data = x'00ff0a' WHERE place = (SELECT min(place) FROM batches)", "1"),
        ("DELETE FROM batches WHERE place = (SELECT min(place) FROM batches)", "1"),
        ("DELETE FROM batches", "1"),
    ],
)
async def test_a_damaged_batch_is_named(path: Path, statement: str, tells: str) -> None:
    """W8: it is never passed over."""
    store = await filled(path, "a", "b")
    changed(path, statement)
    with pytest.raises(CorruptJournal, match=rf"chat\.db: conversation 'c': revision {tells}"):
        await store.read("c")
    await store.close()


async def test_a_damaged_head_is_an_error(path: Path) -> None:
    """W8: it is not an empty conversation."""
    store = await filled(path, "a")
    changed(path, "UPDATE conversations SET status = 'nonsense'")
    for asking in (store.head("c"), store.append("c", 1, [queued("x")])):
        with pytest.raises(CorruptJournal, match="conversations"):
            await asking
    await store.close()


async def test_missing_media_are_an_error(path: Path) -> None:
    """The digest is named."""
    store = await filled(path)
    _, lease = await store.claim("c", "o", 60)
    await store.append("c", 0, [LOOK], fence=lease.fence)
    changed(path, "DELETE FROM contents")
    with pytest.raises(CorruptJournal, match=r"content [0-9a-f]{64}"):
        await store.read("c")
    await store.close()


async def test_what_is_no_database_is_left_alone(path: Path) -> None:
    """A wrong path destroys nothing."""
    write(path, "my diary, " * 1000)
    store = SQLiteStore(path)
    with pytest.raises(CorruptJournal, match=r"chat\.db is not an SQLite database"):
        await store.create("c")
    await store.close()
    assert content(path) == b"my diary, " * 1000


async def test_a_place_where_nothing_can_be_is_an_error(tmp_path: Path) -> None:
    """And once it can, the same store works."""
    (tmp_path / "folder").write_text("")
    store = SQLiteStore(tmp_path / "folder" / "chat.db")
    for asking in (store.create("c"), store.head("c")):
        with pytest.raises(StoreUnavailable, match=r"chat\.db"):
            await asking
    (tmp_path / "folder").unlink()
    await store.create("c")
    await store.close()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anything")
async def test_a_read_only_file_is_an_error(path: Path) -> None:
    """It says what to look at."""
    await (await filled(path, "a")).close()
    await asyncio.to_thread(path.chmod, 0o444)
    store = SQLiteStore(path)
    with pytest.raises(StoreUnavailable, match="read-only"):
        await store.append("c", 1, [queued("x")])
    await store.close()
