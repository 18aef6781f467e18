"""SQLite files that are newer, damaged, no databases at all, or out of reach."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path

import pytest

from tests.stores.sqlite_files import LOOK, changed, content, counted, filled, write
from treadle.errors import CorruptJournal, InvalidId, NewerJournal, StoreUnavailable
from treadle.stores.sqlite import SQLiteStore
from treadle.stores.sqlite_file import STEPS, Place, opened
from treadle.testing.store_handles import began, queued


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


DAMAGED_HEADS = [
    "revision = 'x'",
    "created_at = 9223372036854775807",
    "updated_at = 9223372036854775807",
    "updated_at = 'x'",
    "updated_at = -9223372036854775807",
    "status = 'zzz'",
    "status = 'b'",
    "status = x'ff'",
    "owner = x'ff'",
    "run_id = CAST(x'ff41' AS TEXT)",
    "owner = 'o', expires_at = 'x'",
]


@pytest.mark.parametrize("damage", DAMAGED_HEADS)
async def test_a_damaged_head_spoils_no_other(
    path: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    """W8: not in one transaction with it, not in a list, and not while both are waited for."""
    store = await filled(path, "a")
    for name in ("d", "e"):
        await store.create(name)
    changed(path, f"UPDATE conversations SET {damage} WHERE id = 'c'")  # noqa: S608 ours
    calls = [store.append(name, 0, [queued("x")]) for name in ("d", "c", "e")]
    answers = await asyncio.gather(*calls, return_exceptions=True)  # noqa: TID251 all answers
    assert (answers[0], answers[2]) == (1, 1)
    for answer in (answers[1], *await asyncio.gather(store.read("c"), return_exceptions=True)):  # noqa: TID251 as above
        assert isinstance(answer, CorruptJournal)
        assert "conversation 'c'" in str(answer)
    for limit in (1, 100):
        caplog.clear()
        found = await store.list(limit=limit)
        assert [each.conversation_id for each in found] == ["e", "d"][:limit]
        assert limit == 1 or "conversation 'c'" in caplog.text
    assert [each.conversation_id for each in await store.list(after=found[0])] == ["d"]
    async with asyncio.timeout(30), asyncio.TaskGroup() as group:
        waiting = group.create_task(store.wait("d", 1, 60))
        if "revision" in damage:
            with pytest.raises(CorruptJournal, match="'c'"):
                await store.wait("c", 1, 60)
        await store.append("d", 1, [queued("y")])
    assert waiting.result() == 2
    await store.close()


@pytest.mark.parametrize("value", ["'x'", "x'ff'", "999"])
async def test_a_run_that_is_nowhere_is_damage(path: Path, value: str) -> None:
    """W8: it is not one that never began, and other runs may begin beside it."""
    store = await filled(path)
    await store.claim_and_append("d", "o", 60, [began("r1")], known=None)
    changed(path, f"UPDATE runs SET conversation = {value}")  # noqa: S608 ours
    with pytest.raises(CorruptJournal, match="run 'r1'"):
        await store.find("r1")
    calls = [
        store.claim_and_append(name, "o", 60, [began(run)], known=None)
        for name, run in (("e", "r1"), ("f", "r2"))
    ]
    first, second = await asyncio.gather(*calls, return_exceptions=True)  # noqa: TID251 all answers
    assert isinstance(first, InvalidId if value == "999" else CorruptJournal)
    assert "'r1'" in str(first)
    assert isinstance(second, tuple)
    await store.close()


@pytest.mark.parametrize(
    "damage", ["DELETE FROM meta", "UPDATE meta SET value = 'abc'", "UPDATE meta SET value = 0"]
)
async def test_a_file_that_does_not_say_its_schema_is_damaged(path: Path, damage: str) -> None:
    """W8: with words that say so, whether it was open already or not."""
    store = await filled(path, "a")
    changed(path, damage)
    with pytest.raises(CorruptJournal, match="the table 'meta'"):
        await store.append("c", 1, [queued("x")])
    await store.close()
    for asking in (store.head("c"), store.append("c", 1, [queued("x")])):
        with pytest.raises(CorruptJournal, match="the table 'meta'"):
            await asking
    await store.close()


async def test_a_head_that_is_older_than_its_batches_is_damaged(path: Path) -> None:
    """W8: alone and beside others, and no batch is written over."""
    store = await filled(path, "a", "b")
    await store.create("d")
    changed(path, "UPDATE conversations SET revision = 1 WHERE id = 'c'")
    calls = [store.append("c", 1, [queued("x")]), store.append("d", 0, [queued("x")])]
    first, second = await asyncio.gather(*calls, return_exceptions=True)  # noqa: TID251 all answers
    assert isinstance(first, CorruptJournal)
    assert second == 1
    with pytest.raises(CorruptJournal, match="conversation 'c': what should come next is there"):
        await store.append("c", 1, [queued("x")])
    await store.close()


async def test_a_lost_sequence_gives_no_number_twice(path: Path) -> None:
    """W8: a new conversation does not take the place of the first."""
    await (await filled(path, "a")).close()
    changed(path, "DELETE FROM sqlite_sequence")
    store = SQLiteStore(path)
    await store.create("d")
    await store.append("d", 0, [queued("x")])
    assert [(await store.head(each)).revision for each in ("c", "d")] == [1, 1]
    assert (await store.read("c"))[0].entries == (queued("a"),)
    await store.close()


@pytest.mark.parametrize(
    "data",
    [
        "data || x'0a'",
        "x'0a' || data",
        "replace(data, x'0a', x'0d0a')",
        "x'5b0d' || substr(data, 2)",
        "data || (SELECT data FROM batches ORDER BY place LIMIT 1 OFFSET 2)",
        "x'0a'",
        "x'00'",
        "x''",
    ],
)
async def test_every_way_of_reading_refuses_the_same(path: Path, data: str) -> None:
    """W8: many batches at once, those from a revision on, and those of a copy."""
    store = await filled(path, "a", "b", "c", "d")
    second = "place = (SELECT min(place) + 32 FROM batches)"
    changed(path, f"UPDATE batches SET data = CAST({data} AS BLOB) WHERE {second}")  # noqa: S608 ours
    if "OFFSET" in data:  # both stand in the place of the first
        changed(path, "DELETE FROM batches WHERE place = (SELECT min(place) + 64 FROM batches)")
    for asking in (store.read("c"), store.read("c", 1), store.fork("c", 3, "d")):
        with pytest.raises(CorruptJournal, match="conversation 'c': revision 2"):
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
