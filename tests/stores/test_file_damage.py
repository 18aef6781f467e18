"""Folders of a file store that were damaged, or into which the disk takes no more."""

from __future__ import annotations

import asyncio
import logging
import resource
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from treadle import ConversationNotFound, InvalidId, RunNotFound
from treadle.errors import CorruptJournal, StoreUnavailable
from treadle.stores.file import FileStore
from treadle.testing.store_handles import began, queued, said

Lines = list[bytes]


async def begun(root: Path, *run_ids: str) -> FileStore:
    """Return a store in which each of these runs is one batch of the conversation c."""
    store = FileStore(root)
    _, lease = await store.claim("c", "owner", 60)
    for revision, run_id in enumerate(run_ids):
        await store.append("c", revision, [began(run_id)], fence=lease.fence)
    await store.release(lease)
    return store


def journal(root: Path, name: str = "c") -> Path:
    """Return the journal of a conversation."""
    return root / "conversations" / name / "journal.jsonl"


def lines(root: Path) -> Lines:
    """Return the lines of the journal with their ends."""
    return journal(root).read_bytes().splitlines(keepends=True)


def write(path: Path, data: bytes) -> None:
    """Write a file behind the store's back."""
    path.write_bytes(data)


def content(path: Path) -> bytes:
    """Return what is in a file."""
    return path.read_bytes()


def names(folder: Path) -> list[str]:
    """Return the names in a folder."""
    return sorted(each.name for each in folder.iterdir())


@contextmanager
def full(path: Path, left: int) -> Generator[None]:
    """Let no file grow to more than this much beyond the size of one."""
    before, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    size = path.stat().st_size if path.exists() else 0
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + left, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (before, hard))


@pytest.mark.parametrize("damaged", [0, 1])
async def test_damage_does_not_free_the_id_of_a_run(tmp_path: Path, damaged: int) -> None:
    """W8: bytes that were put in before it or into it; the place is named, nothing is deleted."""
    store = await begun(tmp_path, "r1", "r2")
    found = lines(tmp_path)
    found[damaged] = b"\r" + found[damaged]
    write(journal(tmp_path), b"".join(found))
    _, there = await store.claim("d", "o", 60)
    for asking in (store.find("r1"), store.append("d", 0, [began("r1")], fence=there.fence)):
        with pytest.raises(
            CorruptJournal, match=r"c/journal\.jsonl: (the line at byte|revision 1)"
        ):
            await asking
    with pytest.raises(CorruptJournal, match=r"journal\.jsonl"):
        await store.claim_and_append("e", "o", 60, [began("r1")], known=None)
    assert names(tmp_path / "runs") == ["r1", "r2"]
    assert names(tmp_path / "conversations") == ["c", "d"]
    await store.close()


async def test_a_beginning_that_cannot_be_read_is_still_one(tmp_path: Path) -> None:
    """W8: the line stands where the run began, and is of that run."""
    store = await begun(tmp_path, "r1", "r2")
    whole = content(journal(tmp_path))
    write(journal(tmp_path), whole.replace(b"run.began", b"run.bagan"))
    assert await store.find("r1") == "c"
    write(journal(tmp_path), whole.replace(b'"agent":"a"', b'"agent":0a0'))
    with pytest.raises(CorruptJournal, match="revision 1"):
        await store.find("r1")
    await store.close()


async def test_a_note_where_another_batch_stands_is_free(tmp_path: Path) -> None:
    """A crash had left it, and another wrote there afterwards."""
    store = await begun(tmp_path, "r1")
    write(tmp_path / "runs" / "r9", content(tmp_path / "runs" / "r1"))
    with pytest.raises(RunNotFound):
        await store.find("r9")
    await store.claim_and_append("d", "o", 60, [began("r9")], known=None)
    assert (await store.find("r9"), await store.find("r1")) == ("d", "c")
    await store.close()


@pytest.mark.parametrize("note", [b"", b"xx", b'{"conversation_id":1}'])
async def test_a_damaged_note_of_a_run_is_named(tmp_path: Path, note: bytes) -> None:
    """W8: it is not free; its conversation can be deleted."""
    store = await begun(tmp_path, "r1", "r2")
    write(tmp_path / "runs" / "r1", note)
    for asking in (
        store.find("r1"),
        store.claim_and_append("d", "o", 60, [began("r1")], known=None),
    ):
        with pytest.raises(CorruptJournal, match="runs/r1 does not say"):
            await asking
    with pytest.raises(ConversationNotFound):
        await store.head("d")
    await store.delete("c")
    assert names(tmp_path / "conversations") == []
    assert names(tmp_path / "runs") == ["r1"], "it may be that of the original of a copy"
    await store.close()


async def test_a_note_of_no_place_is_damaged(tmp_path: Path) -> None:
    """No journal has lines before its first byte."""
    store = await begun(tmp_path, "r1")
    note = content(tmp_path / "runs" / "r1")
    write(tmp_path / "runs" / "r1", note.replace(b'"start":', b'"start":-'))
    with pytest.raises(CorruptJournal, match="no line begins there"):
        await store.find("r1")
    await store.close()


def _blank(found: Lines) -> None:
    found.insert(2, b"\n")


def _blanks(found: Lines) -> None:
    found.insert(2, b"  \n")


def _end_of_windows(found: Lines) -> None:
    found[2] = found[2][:-1] + b"\r\n"


def _return_inside(found: Lines) -> None:
    found[2] = found[2].replace(b',"head"', b'\r,"head"')


def _blank_inside(found: Lines) -> None:
    found[2] = found[2].replace(b',"head":', b', "head":')


def _two_on_a_line(found: Lines) -> None:
    found[2:4] = [found[2][:-1] + found[3]]


def _more_in_a_line(found: Lines) -> None:
    found[2] = found[2].replace(b'{"entries"', b'{"x":1,"entries"')


def _garbage_first(found: Lines) -> None:
    found[0] = b"garbage\n"


def _blank_first(found: Lines) -> None:
    found[0] = b"\n"


def _no_first(found: Lines) -> None:
    del found[0]


def _missing(found: Lines) -> None:
    del found[2]


def _zeros(found: Lines) -> None:
    found.insert(2, b"\0" * 40 + b"\n")


DAMAGE = [
    _blank,
    _blanks,
    _end_of_windows,
    _return_inside,
    _blank_inside,
    _two_on_a_line,
    _more_in_a_line,
    _garbage_first,
    _blank_first,
    _no_first,
    _missing,
    _zeros,
]


@pytest.mark.parametrize("damage", DAMAGE)
async def test_every_way_of_reading_refuses_the_same(
    tmp_path: Path, damage: Callable[[Lines], None]
) -> None:
    """W8: the quick way, that from a revision on, and that of a copy."""
    store = await begun(tmp_path, "r1", "r2", "r3", "r4")
    found = lines(tmp_path)
    damage(found)
    write(journal(tmp_path), b"".join(found))
    for asking in (store.read("c"), store.read("c", 1)):
        with pytest.raises(CorruptJournal, match=r"journal\.jsonl"):
            await asking
    if damage is not _more_in_a_line:  # a copy does not look into entries
        with pytest.raises(CorruptJournal, match=r"journal\.jsonl"):
            await store.fork("c", 3, "d")
    await store.close()


@pytest.mark.parametrize("time", ["updated_at", "created_at", "until"])
async def test_a_time_beyond_the_calendar_is_damage(
    tmp_path: Path, time: str, caplog: pytest.LogCaptureFixture
) -> None:
    """W8: and only that conversation is affected."""
    store = await begun(tmp_path, "r1")
    await store.claim("c", "o", 60)
    await store.create("d")
    path = journal(tmp_path)
    if time == "until":
        path = path.parent / "lease.json"
    write(path, content(path).replace(f'"{time}":'.encode(), f'"{time}":9999'.encode()))
    for asking in (store.head("c"), store.read("c"), store.append("c", 1, [queued("x")])):
        with pytest.raises(CorruptJournal, match="calendar"):
            await asking
    with caplog.at_level(logging.WARNING):
        assert [each.conversation_id for each in await store.list()] == ["d"]
    assert "c/journal.jsonl" in caplog.text
    await store.close()


async def test_what_is_no_conversation_is_passed_over(tmp_path: Path) -> None:
    """Other programs leave files of their own in every folder."""
    store = await begun(tmp_path, "r1")
    write(tmp_path / "conversations" / ".DS_Store", b"x")
    (tmp_path / "conversations" / "empty").mkdir()
    digest = await store.put("c", b"x" * 5000)
    (journal(tmp_path).parent / "blobs" / "more").mkdir()
    assert [each.conversation_id for each in await store.list()] == ["c"]
    await store.fork("c", 1, "d")
    assert await store.get("d", digest) == b"x" * 5000
    await store.close()


async def test_a_folder_of_others_where_a_conversation_should_be_is_an_error(
    tmp_path: Path,
) -> None:
    """It is not deleted, and not tried for ever."""
    store = await begun(tmp_path, "r1")
    (tmp_path / "conversations" / "d").mkdir()
    write(tmp_path / "conversations" / "d" / "diary", b"x")
    for asking in (
        store.create("d"),
        store.claim("d", "o", 60),
        store.claim_and_append("d", "o", 60, [began("r2")], known=None),
        store.fork("c", 1, "d"),
    ):
        with pytest.raises(StoreUnavailable, match="conversations/d"):
            await asking
    assert names(tmp_path / "conversations" / "d") == ["diary"]
    await store.close()


async def test_a_damaged_conversation_ends_no_other_wait(tmp_path: Path) -> None:
    """All who wait are looked for together."""
    store, other = await begun(tmp_path, "r1"), FileStore(tmp_path)
    await store.create("d")
    async with asyncio.timeout(30), asyncio.TaskGroup() as group:
        healthy = group.create_task(store.wait("d", 0, 60))
        damaged = group.create_task(refused(store))
        await asyncio.sleep(0.02)
        write(journal(tmp_path), b"garbage\n")
        await damaged
        assert not healthy.done()
        await other.append("d", 0, [queued("x")])
    assert healthy.result() == 1
    await store.close()
    await other.close()


async def refused(store: FileStore) -> None:
    """Wait for a conversation that gets damaged."""
    with pytest.raises(CorruptJournal):
        await store.wait("c", 1, 60)


async def test_a_full_disk_leaves_nothing_behind(tmp_path: Path) -> None:
    """J2: no lease, no conversation, no note of a run, no piece of a file."""
    store = await begun(tmp_path, "r1")
    known = await store.head("c")
    large = [began("r2"), said("x" * 9000, "r2")]
    with full(journal(tmp_path), 200):
        for asking in (
            store.claim_and_append("c", "o", 60, large, known=known),
            store.claim_and_append("new", "o", 60, large, known=None),
        ):
            with pytest.raises(StoreUnavailable, match=r"disk is full.*Nothing was written"):
                await asking
    with full(tmp_path / "none", 10):
        for asking in (store.claim("c", "o" * 99, 60), store.claim("new", "o", 60)):
            with pytest.raises(StoreUnavailable, match="disk is full"):
                await asking
    with full(tmp_path / "none", 250), pytest.raises(StoreUnavailable, match="disk is full"):
        await store.claim("new", "o" * 500, 60)
    assert await store.head("c") == known
    assert names(tmp_path / "conversations") == ["c"]
    assert names(tmp_path / "runs") == ["r1"]
    assert names(tmp_path / "temp") == []
    assert names(journal(tmp_path).parent) == ["journal.jsonl", "lease.json"]
    await store.claim_and_append("c", "p", 60, large, known=known)
    assert await store.find("r2") == "c"
    with pytest.raises(InvalidId):
        await store.claim_and_append("new", "o", 60, large, known=None)
    await store.close()
