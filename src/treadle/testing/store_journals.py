"""Journals: every store writes at the right revision only, and gives back what was written."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from treadle.errors import (
    ConversationNotFound,
    RevisionConflict,
)
from treadle.ids import new_stamp
from treadle.journal import (
    ChildBegan,
    MessageAdded,
    MessageQueued,
    StateChanged,
)
from treadle.messages import Image, Message
from treadle.ports.store import NESTED, PLAIN, Batch, Store
from treadle.state.scoped import StateWrite
from treadle.testing.store_handles import AT, LONG, StoreHandles, began, queued, said
from treadle.values import pack

ODD_IDS = [
    "A",
    "a",
    "\u00e4",
    "a\u0308",
    "a ",
    " a",
    "%",
    "_",
    "a'b\"c",
    "\U0001f6fc",
    "a:b",
    "con",
    "x" * 200,
]
"""IDs that files and databases like to take for one another."""


@pytest.mark.asyncio
class JournalTests(StoreHandles):
    """What every store keeps of journals."""

    async def test_a_new_conversation(self) -> None:
        """It is at revision 0, and creating it again leaves it alone."""
        async with self.opened() as store:
            name = self.new_id()
            head = await store.create(name)
            assert (head.conversation_id, head.revision, head.status) == (name, 0, "new")
            assert (head.run_id, head.owner, head.pending, head.fence) == (None, None, 0, 0)
            _, lease = await store.claim(name, "owner", LONG)
            await store.append(name, 0, [began(self.new_id("r"))], fence=lease.fence)
            again = await store.create(name)
            assert (again.revision, again.created_at) == (1, head.created_at)
            assert again == await store.head(name)

    async def test_batches_come_back_as_they_were_written(self) -> None:
        """Each append is one batch and one revision; another handle reads on from any of them."""
        first, second = [began(self.new_id("r")), said("a")], [said("b\x00c \u2028 \U0001f6fc")]
        async with self.opened() as store, self.opened() as other:
            name, lease = await self.owned(store)
            assert await store.append(name, 0, first, fence=lease.fence) == 1
            assert await store.append(name, 1, second, fence=lease.fence) == 2
            expected = [Batch(1, tuple(first)), Batch(2, tuple(second))]
            assert list(await other.read(name)) == expected
            assert list(await other.read(name, 1)) == expected[1:]
            assert list(await other.read(name, 2)) == []

    async def test_a_journal_with_child_runs_says_so(self) -> None:
        """J11: it takes a newer reader from then on, as do its copies; others do not."""
        run = self.new_id("r")
        picture = Image(content=b"x" * 5000, media_type="image/png")
        asked = Message("user", (picture,))
        child = ChildBegan(
            run_id=run, at=AT, path="expert#1", agent="expert", call_id="c1", input=asked
        )
        async with self.opened() as store, self.opened() as other:
            name, lease = await self.owned(store)
            await store.append(name, 0, [began(run)], fence=lease.fence)
            assert (await other.head(name)).reader == PLAIN
            await store.append(name, 1, [child], fence=lease.fence)
            await store.append(name, 2, [said("more")], fence=lease.fence)
            assert (await other.head(name)).reader == NESTED
            assert (await other.read(name, 1))[0].entries == (child,)
            copy = await other.fork(name, 3, self.new_id())
            assert copy.reader == NESTED
            at_once = self.new_id()
            entries = [began(self.new_id("r")), replace(said("within"), path="expert#1")]
            head, lease = await store.claim_and_append(at_once, "o", LONG, entries, known=None)
            assert (head.reader, (await other.head(at_once)).reader) == (NESTED, NESTED)

    async def test_every_value_comes_back_in_its_own_type(self) -> None:
        """BS-37, S32: numbers keep their digits and types, bytes and times are what they were."""
        value = {
            "n": 2**63,
            "t": (1, 2),
            "z": AT,
            "b": b"\x00\xff",
            "f": 0.1,
            "\u2028\\u0000": None,
        }
        entry = StateChanged(run_id="r", at=AT, writes=(StateWrite("k", pack(value, "k")),))
        async with self.opened() as store, self.opened() as other:
            name, _ = await self.owned(store, entry)
            (batch,) = await other.read(name)
            assert batch.entries == (entry,)

    async def test_media_are_kept_once(self) -> None:
        """BS-40: a picture that comes twice comes back twice."""
        picture = Image.from_bytes(b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 40, "image/png")
        entry = MessageAdded(run_id="r", at=AT, message=Message.user("look", picture))
        async with self.opened() as store, self.opened() as other:
            name, _ = await self.owned(store, entry, entry)
            assert [batch.entries for batch in await other.read(name)] == [(entry,), (entry,)]

    async def test_a_url_is_never_taken_for_kept_media(self) -> None:
        """Whoever writes one can neither spoil the journal nor read what others have kept."""
        async with self.opened() as store, self.opened() as other:
            (name, _), (twin, _) = await self.owned(store), await self.owned(store)
            digest = await store.put(twin, b"secret" * 1000)
            entry = queued("x")
            looks = Message.user(Image(url=f"blob:sha256:{digest}", media_type="image/png"))
            await store.append(name, 0, [replace(entry, message=looks)])
            (batch,) = await other.read(name)
            assert batch.entries == (replace(entry, message=looks),)

    async def test_content_is_found_by_its_digest(self) -> None:
        """Until its conversation is deleted; another's stays."""
        async with self.opened() as store, self.opened() as other:
            (name, _), (twin, _) = await self.owned(store), await self.owned(store)
            digest = await store.put(name, b"large\x00content")
            assert await store.put(name, b"large\x00content") == digest
            assert await store.put(twin, b"large\x00content") == digest
            await store.delete(name)
            assert await other.get(twin, digest) == b"large\x00content"
            with pytest.raises(ConversationNotFound):
                await other.get(name, digest)
            with pytest.raises(ConversationNotFound, match="content"):
                await other.get(twin, digest.replace(digest[0], "0" if digest[0] != "0" else "1"))
            with pytest.raises(ConversationNotFound):
                await store.put(name, b"x")

    @pytest.mark.parametrize("expected", [0, 2, -1])
    async def test_a_wrong_revision_changes_nothing(self, expected: int) -> None:
        """J2, S51: older and newer ones are refused, with both numbers."""
        async with self.opened() as store:
            name, lease = await self.owned(store, said("a"))
            before = await store.head(name)
            with pytest.raises(RevisionConflict, match=f"at revision 1, not {expected};"):
                await store.append(name, expected, [said("b")], fence=lease.fence)
            assert await store.head(name) == before
            assert len(await store.read(name)) == 1

    async def test_many_handles_all_get_in(self) -> None:
        """S51: whoever is refused looks again and writes again; nothing is lost or doubled."""
        async with self.opened() as one, self.opened() as two:
            name = self.new_id()
            await one.create(name)

            async def write(store: Store, text: str) -> None:
                while True:
                    revision = (await store.head(name)).revision
                    await asyncio.sleep(0)  # the others have seen the same revision by now
                    try:
                        await store.append(name, revision, [queued(text)])
                    except RevisionConflict:
                        continue
                    return

            async with asyncio.TaskGroup() as group:
                for number in range(16):
                    group.create_task(write((one, two)[number % 2], f"{number:02}"))
            batches = await two.read(name)
            assert [batch.revision for batch in batches] == list(range(1, 17))
            assert sorted(
                entry.id
                for batch in batches
                for entry in batch.entries
                if isinstance(entry, MessageQueued)
            ) == [f"{n:02}" for n in range(16)]
            assert (await one.head(name)).pending == 16

    async def test_an_unknown_conversation(self) -> None:
        """Every method that needs one says that there is none, but those that forget."""
        async with self.opened() as store:
            name, lease = await self.owned(store)
            await store.delete(name)
            for asking in (
                store.head(name),
                store.read(name),
                store.append(name, 0, [queued("x")]),
                store.wait(name, 0, 1),
                store.renew(lease, LONG),
                store.fork(name, 0, self.new_id()),
            ):
                with pytest.raises(ConversationNotFound, match=name):
                    await asking
            await store.release(lease)
            await store.delete(name)

    async def test_ids_that_look_alike_are_not_one(self) -> None:
        """S58: upper and lower case, blanks at the end, composed letters, wildcards."""
        suffix = new_stamp()[-12:]
        names = [f"{odd}-{suffix}" if len(odd) < 100 else odd[:150] + suffix for odd in ODD_IDS]
        names += [f"{suffix}{odd}" for odd in ("A", "a", "a ", "a  ")]
        async with self.opened() as store, self.opened() as other:
            for number, name in enumerate(names):
                await store.create(name)
                for revision in range(number % 3):
                    await store.append(name, revision, [queued(f"{number}.{revision}")])
            assert [(await other.head(name)).revision for name in names] == [
                number % 3 for number in range(len(names))
            ]
            await store.delete(names[0])
            assert (await other.head(names[1])).conversation_id == names[1]
