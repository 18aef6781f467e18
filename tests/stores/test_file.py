"""What is special to the file store: lines, names, locks, and what crashes leave behind."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle import ConfigError, ConversationNotFound, InvalidId, RunNotFound
from treadle.errors import CorruptJournal, NewerJournal, StoreUnavailable
from treadle.journal import MessageAdded
from treadle.messages import Image, Message
from treadle.stores.file import FileStore
from treadle.stores.file_disk import file_name
from treadle.testing.store_handles import AT, began, queued

PICTURE = Image.from_bytes(b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 40, "image/png")
LOOK = MessageAdded(run_id="r", at=AT, message=Message.user("look", PICTURE))


async def filled(root: Path, *texts: str, name: str = "c") -> FileStore:
    """Return a store with one conversation of these texts."""
    store = FileStore(root)
    await store.create(name)
    for revision, text in enumerate(texts):
        await store.append(name, revision, [queued(text)])
    return store


def journal(root: Path, name: str = "c") -> Path:
    """Return the journal of a conversation."""
    return root / "conversations" / name / "journal.jsonl"


def lines(root: Path) -> list[bytes]:
    """Return the lines of the journal, and what is behind the last one."""
    return journal(root).read_bytes().split(b"\n")


def write(path: Path, data: bytes) -> None:
    """Write a file behind the store's back."""
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)


def files(folder: Path) -> list[Path]:
    """Return the files in a folder."""
    return sorted(folder.iterdir())


def is_one(one: Path, other: Path) -> bool:
    """Whether two names mean one file."""
    return os.path.samefile(one, other)


@contextmanager
def kept(path: Path) -> Generator[None]:
    """Keep a file locked, as another process would."""
    with path.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


async def test_a_journal_is_json_lines(tmp_path: Path) -> None:
    """Other tools can read it: the first line tells whose it is, each line how things stand."""
    store = await filled(tmp_path, "one", "two")
    first, *batches = [json.loads(line) for line in lines(tmp_path)[:-1]]
    assert (first["format"], first["conversation_id"]) == (1, "c")
    assert [batch["head"]["revision"] for batch in batches] == [1, 2]
    assert [batch["entries"][0]["id"] for batch in batches] == ["one", "two"]
    await store.close()


@pytest.mark.parametrize(
    "torn",
    [
        b"{",
        b'{"entries":[],"head":{"revision":3,"created_at":1,"updated_at":1}}',
        b"\0" * 5000,
        b"\0" * 100 + b'x"}}\n',
        b"x" * 100_000,
    ],
    ids=["begun", "all but its end", "zeros", "zeros and an end", "long"],
)
async def test_a_torn_last_line_is_cut_off(tmp_path: Path, torn: bytes) -> None:
    """J1: a crash in the middle of a write; nobody was told of it, so nobody reads it."""
    store = await filled(tmp_path, "a", "b")
    whole = b"\n".join(lines(tmp_path))
    write(journal(tmp_path), whole + torn)

    assert (await store.head("c")).revision == 2
    assert len(await store.read("c")) == 2
    assert len(await store.read("c", 1)) == 1
    assert await store.append("c", 2, [queued("c")]) == 3

    assert b"\n".join(lines(tmp_path)).startswith(whole + b'{"entries":')
    assert len(lines(tmp_path)) == 5
    assert lines(tmp_path)[-1] == b""
    await store.close()


@pytest.mark.parametrize(
    "damage", [b'{"entries":[{"x', b"", b'{"entries":[],"head":{"revision":2}}']
)
async def test_a_damaged_line_is_named(tmp_path: Path, damage: bytes) -> None:
    """W8: with its file and number; the others are not read as if it was not there."""
    store = await filled(tmp_path, "a", "b", "c")
    first, _, *rest = lines(tmp_path)
    write(journal(tmp_path), b"\n".join([first, damage, *rest]))
    with pytest.raises(CorruptJournal, match=r"journal\.jsonl: line 2"):
        await store.read("c")
    assert (await store.head("c")).revision == 3
    await store.close()


async def test_a_damaged_last_line_is_no_torn_one(tmp_path: Path) -> None:
    """It has its end, so it may have been acknowledged: nothing is cut off."""
    store = await filled(tmp_path, "a", "b")
    write(journal(tmp_path), b"\n".join(lines(tmp_path)[:2]) + b"\n{}\n")
    assert list(await store.list()) == [], "the others are not affected"
    for asking in (store.head("c"), store.append("c", 2, [queued("x")])):
        with pytest.raises(CorruptJournal, match=r"journal\.jsonl: the last line"):
            await asking
    assert lines(tmp_path)[2] == b"{}"
    write(journal(tmp_path), b"")
    with pytest.raises(CorruptJournal, match="no whole line"):
        await store.head("c")
    await store.close()


async def test_the_end_of_a_long_journal_is_read_from_its_end(tmp_path: Path) -> None:
    """J6: from any revision, whatever the sizes of lines."""
    texts = [f"{n}" + "x" * (n * 977 % 40_000) for n in range(40)]
    store = await filled(tmp_path, *texts)
    for after in range(41):
        found = await store.read("c", after)
        assert [batch.revision for batch in found] == list(range(after + 1, 41))
        assert [batch.entries for batch in found] == [(queued(text),) for text in texts[after:]]
    await store.close()


async def test_media_stand_beside_the_journal(tmp_path: Path) -> None:
    """J9, BS-40: once for each conversation; a copy shares them until either is deleted."""
    store = await filled(tmp_path)
    _, lease = await store.claim("c", "o", 60)
    await store.append("c", 0, [LOOK], fence=lease.fence)
    await store.append("c", 1, [LOOK], fence=lease.fence)
    await store.fork("c", 2, "d")
    (mine,) = files(journal(tmp_path).parent / "blobs")
    (copy,) = files(journal(tmp_path, "d").parent / "blobs")
    assert is_one(mine, copy)
    await store.delete("c")
    assert [batch.entries for batch in await store.read("d")] == [(LOOK,)] * 2
    with pytest.raises(ConversationNotFound, match="content"):
        await store.get("d", "../journal.jsonl")
    write(copy, b"something else")
    with pytest.raises(CorruptJournal, match="blobs"):
        await store.read("d")
    await store.close()


async def test_a_run_that_never_began_is_free(tmp_path: Path) -> None:
    """A crash between the note of a run and its batch; whoever comes next begins it."""
    store = await filled(tmp_path, "a", "b")
    _, lease = await store.claim("c", "o", 60)
    await store.append("c", 2, [began("r1")], fence=lease.fence)
    note = (tmp_path / "runs" / "r1").read_bytes()
    write(journal(tmp_path), b"\n".join(lines(tmp_path)[:3]) + b"\n")  # its batch is not there
    with pytest.raises(RunNotFound):
        await store.find("r1")
    _, there = await store.claim("d", "o", 60)
    await store.append("d", 0, [began("r1")], fence=there.fence)
    assert await store.find("r1") == "d"
    with pytest.raises(InvalidId, match="r1"):
        await store.append("c", 2, [began("r2"), began("r1")], fence=lease.fence)
    with pytest.raises(RunNotFound):
        await store.find("r2")
    write(tmp_path / "runs" / "r2", note.replace(b'"c"', b'"nobody"'))
    await store.append("c", 2, [began("r2")], fence=lease.fence)
    assert await store.find("r2") == "c"
    await store.close()


async def test_a_deleted_conversation_leaves_nothing(tmp_path: Path) -> None:
    """No folder, no note of a run; what a crash left of another is cleared away, too."""
    store = await filled(tmp_path)
    _, lease = await store.claim("c", "o", 60)
    await store.append("c", 0, [began("r1"), LOOK], fence=lease.fence)
    await store.delete("c")
    await store.close()
    write(tmp_path / "temp" / "gone-x" / "journal.jsonl", b"secret")
    await FileStore(tmp_path).list()
    for folder in ("conversations", "runs", "temp"):
        assert files(tmp_path / folder) == [], folder


async def test_a_lease_that_power_has_lost_is_nobodys(tmp_path: Path) -> None:
    """The fence goes on from what the journal knows."""
    store = await filled(tmp_path)
    _, lease = await store.claim("c", "o", 60)
    await store.append("c", 0, [LOOK], fence=lease.fence)
    write(journal(tmp_path).parent / "lease.json", b"")
    assert (await store.head("c")).owner is None
    _, after = await store.claim("c", "p", 60)
    assert after.fence > lease.fence
    await store.close()


async def test_a_file_that_stays_locked_is_an_error(tmp_path: Path) -> None:
    """It says who is to blame; afterwards all is well."""
    await (await filled(tmp_path, "a")).close()
    store = FileStore(tmp_path, patience=0.02)
    with kept(journal(tmp_path)):
        for asking in (store.head("c"), store.append("c", 1, [queued("x")])):
            with pytest.raises(StoreUnavailable, match=r"journal\.jsonl: another process has kept"):
                await asking
    assert await store.append("c", 1, [queued("x")]) == 2
    await store.close()


async def test_a_lock_is_of_the_file_that_has_the_name(tmp_path: Path) -> None:
    """Who waits for a conversation that is deleted and made anew writes to the new one."""
    store, other = await filled(tmp_path, "old"), FileStore(tmp_path)
    with kept(journal(tmp_path)):
        writing = asyncio.ensure_future(store.append("c", 0, [queued("new")]))
        await asyncio.sleep(0.02)
        os.rename(journal(tmp_path).parent, tmp_path / "temp" / "gone-x")
        await other.create("c")
    assert await writing == 1
    assert [batch.entries for batch in await other.read("c")] == [(queued("new"),)]
    with kept(journal(tmp_path)):
        reading = asyncio.ensure_future(store.read("c"))
        await asyncio.sleep(0.02)
        os.rename(journal(tmp_path).parent, tmp_path / "temp" / "gone-y")
    with pytest.raises(ConversationNotFound):
        await reading
    await store.close()
    await other.close()


async def test_a_newer_folder_is_left_alone(tmp_path: Path) -> None:
    """BS-42: every method says so."""
    await (await filled(tmp_path, "a")).close()
    write(tmp_path / "format", b"2\n")
    store = FileStore(tmp_path)
    for asking in (store.head("c"), store.append("c", 1, [queued("x")]), store.create("d")):
        with pytest.raises(NewerJournal, match="format 2, this version knows 1"):
            await asking
    assert len(lines(tmp_path)) == 3
    assert [each.name for each in files(tmp_path / "conversations")] == ["c"]
    await store.close()


async def test_a_place_where_nothing_can_be_is_an_error(tmp_path: Path) -> None:
    """And once it can, the same store works."""
    write(tmp_path / "chats", b"")
    store = FileStore(tmp_path / "chats")
    with pytest.raises(StoreUnavailable, match="chats"):
        await store.create("c")
    (tmp_path / "chats").unlink()
    await store.create("c")
    await store.close()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anything")
async def test_a_read_only_folder_is_an_error(tmp_path: Path) -> None:
    """It says what to look at."""
    store = await filled(tmp_path, "a")
    journal(tmp_path).chmod(0o444)
    with pytest.raises(StoreUnavailable, match="read-only"):
        await store.append("c", 1, [queued("x")])
    await store.close()


@given(st.text(min_size=1, max_size=200), st.text(min_size=1, max_size=200))
def test_file_names_are_safe_and_never_meet(one: str, other: str) -> None:
    """S58, W12: also where case does not count, and however long the ID is."""
    try:
        names = [file_name(one), file_name(other)]
    except UnicodeEncodeError:  # lone surrogates are no IDs
        return
    assert (names[0].lower() == names[1].lower()) is (one == other)
    for name in names:
        assert len(name) <= 150
        assert not set(name) & set("/\\.: \0")
        assert name.isascii()


@pytest.mark.parametrize("name", ["CON", "con", "..", "a.b", "a" * 151, "%61", "\u00e4"])
def test_odd_names_are_escaped(name: str) -> None:
    """What a file system reserves, and what would look like an escape."""
    assert file_name(name) != name


@pytest.mark.parametrize(
    ("url", "folder"),
    [
        ("file:chats", Path.cwd() / "chats"),
        ("file:./a%20b", Path.cwd() / "a b"),
        ("file:/var/chats", Path("/var/chats")),
        ("file:///var/chats", Path("/var/chats")),
    ],
)
def test_urls_name_folders(url: str, folder: Path) -> None:
    """Relative and absolute."""
    assert repr(FileStore.from_url(url)) == f"FileStore({str(folder)!r})"


@pytest.mark.parametrize("url", ["file:", "file://me:secret@host/x", "file:x?sync=no", "file:x#y"])
def test_other_urls_are_refused(url: str) -> None:
    """The error says how they look, and tells no secret."""
    with pytest.raises(ConfigError, match="file:relative/folder") as caught:
        FileStore.from_url(url)
    assert "secret" not in str(caught.value)
