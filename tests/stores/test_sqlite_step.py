"""The usual write, by one statement that holds what was known against the file."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

import pytest

from tests.stores.sqlite_files import changed
from treadle.errors import InvalidId, LeaseLost, RevisionConflict
from treadle.stores import sqlite, sqlite_step
from treadle.stores.sqlite import SQLiteStore
from treadle.stores.sqlite_file import Place, opened
from treadle.testing.store_handles import began, queued


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the file of a test is."""
    return tmp_path / "chat.db"


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the writing connection is asked, from its opening on."""
    seen: list[str] = []

    def learn(connection: sqlite3.Connection) -> None:
        sqlite_step.learn_steps(connection)
        connection.set_trace_callback(seen.append)

    monkeypatch.setattr(sqlite, "learn_steps", learn)
    return seen


def steps(statements: list[str]) -> list[bool]:
    """Return of each statement whether it is a step; those of its trigger are told as it again."""
    return [each.startswith("INSERT INTO step") for each in dict.fromkeys(statements)]


async def test_a_write_to_what_is_known_is_one_statement(path: Path, statements: list[str]) -> None:
    """It is its own transaction."""
    store = SQLiteStore(path)
    await store.create("c")
    await store.append("c", 0, [queued("a")])
    statements.clear()
    await store.append("c", 1, [queued("b")])
    head = await store.head("c")
    _, lease = await store.claim_and_append("c", "o", 60, [began("r")], known=head)
    await store.append("c", 3, [queued("d")], fence=lease.fence)
    assert steps(statements) == [True] * 3
    assert [each.revision for each in await store.read("c")] == [1, 2, 3, 4]
    assert await store.find("r") == "c"
    await store.close()


@pytest.mark.parametrize("size", [0, 900, 1_000, 2_500, 31_000, 40_000])
async def test_a_batch_of_any_size_is_one_statement(
    path: Path, statements: list[str], size: int
) -> None:
    """It stands in the file as the other way would have written it."""
    store = SQLiteStore(path)
    await store.create("c")
    entry = queued("x" * size)
    await store.append("c", 0, [queued("a")])
    statements.clear()
    await store.append("c", 1, [entry])
    assert steps(statements) == [True]
    assert (await store.read("c", 1))[0].entries == (entry,)
    await store.close()
    other = SQLiteStore(path)  # which knows nothing
    await other.create("d")
    await other.append("d", 0, [queued("a")])
    other = SQLiteStore(path)
    await other.append("d", 1, [entry])
    sizes = [await asyncio.to_thread(sizes_of, path, key) for key in (1, 2)]
    assert sizes[0] == sizes[1]
    await other.close()


def sizes_of(path: Path, key: int) -> list[int]:
    """Return how long the pieces of a conversation are."""
    connection = opened(Place(str(path), "full", 1.0))
    rows = connection.execute(
        "SELECT length(data) FROM batches WHERE place >> 32 = ? ORDER BY place", (key,)
    ).fetchall()
    connection.close()
    return [row[0] for row in rows]


async def test_what_others_wrote_meanwhile_stays(path: Path) -> None:
    """A stale revision writes nothing; a fresh one goes on from there."""
    one, other = SQLiteStore(path), SQLiteStore(path)
    await one.create("c")
    await one.append("c", 0, [queued("a")])
    await other.append("c", 1, [queued("b")])
    with pytest.raises(RevisionConflict):
        await one.append("c", 1, [queued("lost")])
    assert await one.append("c", 2, [queued("c")]) == 3
    await other.delete("c")
    await other.create("c")
    assert await one.append("c", 0, [queued("new")]) == 1
    assert len(await one.read("c")) == 1
    await one.close()
    await other.close()


async def test_a_lease_that_others_took_meanwhile_holds(path: Path) -> None:
    """The owner that was known has no right any more."""
    one, other = SQLiteStore(path), SQLiteStore(path)
    head, lease = await one.claim_and_append("c", "o", 60, [began("r")], known=None)
    await other.release(lease)
    with pytest.raises(LeaseLost):
        await one.append("c", head.revision, [began("s")], fence=lease.fence)
    assert len(await one.read("c")) == 1
    await one.close()
    await other.close()


async def test_a_run_begins_once(path: Path) -> None:
    """Nothing of the second beginning is written."""
    store = SQLiteStore(path)
    for name in ("c", "d"):
        await store.create(name)
        await store.append(name, 0, [queued("a")])
    head = await store.head("c")
    await store.claim_and_append("c", "o", 60, [began("r")], known=head)
    head = await store.head("d")
    with pytest.raises(InvalidId, match="'r'"):
        await store.claim_and_append("d", "o", 60, [began("r")], known=head)
    after = await store.head("d")
    assert (after.revision, after.fence, await store.find("r")) == (1, 0, "c")
    await store.close()


async def test_the_log_has_its_room_from_the_start(path: Path) -> None:
    """Where the disk has plenty; a file whose log was cut is written all the same."""
    store = SQLiteStore(path)
    await store.create("c")
    log = path.with_name("chat.db-wal")
    assert log.stat().st_size > 4_000_000
    await store.append("c", 0, [queued("a")])
    await store.close()
    assert not log.exists()
    changed(path, "UPDATE conversations SET pending = 0")
    again = SQLiteStore(path)
    await again.append("c", 1, [queued("b")])
    assert len(await again.read("c")) == 2
    await again.close()
