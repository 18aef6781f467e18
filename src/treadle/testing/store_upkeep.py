"""Upkeep: runs are found, heads and lists tell how things stand, copies and waits are exact."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from msgspec.structs import replace

from treadle.errors import (
    ConversationNotFound,
    InvalidId,
    RunNotFound,
)
from treadle.fold import fold
from treadle.journal import (
    AnyEntry,
    CancelAsked,
    InboxApplied,
    InboxDiscarded,
    MessageAdded,
    RunBegan,
    RunEnded,
    RunResumed,
    RunSuspended,
)
from treadle.messages import Image, Message, ToolCall
from treadle.ports.store import ConversationStatus, Head, Lease
from treadle.testing.store_handles import AT, LONG, StoreHandles, began, queued, said
from treadle.view import View


@pytest.mark.asyncio
class UpkeepTests(StoreHandles):
    """What every store keeps of conversations as wholes."""

    async def test_a_run_is_found_and_begins_once(self) -> None:
        """BS-43: by its ID, from any handle; a second run of that ID writes nothing."""
        run = self.new_id("r")
        async with self.opened() as store, self.opened() as other:
            name, lease = await self.owned(store, began(run))
            assert await other.find(run) == name
            elsewhere, lease_there = await self.owned(other)
            for place, revision, fence in (
                (name, 1, lease.fence),
                (elsewhere, 0, lease_there.fence),
            ):
                with pytest.raises(InvalidId, match=run):
                    await store.append(place, revision, [began(run)], fence=fence)
                assert (await other.head(place)).revision == revision
            with pytest.raises(RunNotFound, match="nobody"):
                await store.find("nobody")
            await store.delete(name)
            with pytest.raises(RunNotFound):
                await other.find(run)

    async def test_the_head_tells_how_things_stand(self) -> None:
        """Status, newest run and waiting messages follow from what is written."""
        run = self.new_id("r")
        steps: list[tuple[Sequence[AnyEntry], ConversationStatus, int]] = [
            ([queued("1"), queued("2")], "new", 2),
            ([InboxApplied(run_id=run, at=AT, ids=("1",)), began(run)], "running", 1),
            ([RunBegan(run_id=run + "x", at=AT, agent="b", path="b#1")], "running", 1),
            ([RunEnded(run_id=run + "x", at=AT, stop_reason="answer", path="b#1")], "running", 1),
            ([RunSuspended(run_id=run, at=AT, reason="human")], "paused", 1),
            ([CancelAsked(run_id=run, at=AT)], "paused", 1),
            ([RunResumed(run_id=run, at=AT)], "running", 1),
            ([InboxDiscarded(run_id=run, at=AT, ids=("2",))], "running", 0),
            ([RunEnded(run_id=run, at=AT, stop_reason="answer")], "answered", 0),
        ]
        async with self.opened() as store, self.opened() as other:
            name = self.new_id()
            lease: Lease | None = None
            for revision, (entries, status, pending) in enumerate(steps):
                if lease is None:
                    _, lease = await store.claim(name, run, LONG)
                await store.append(name, revision, entries, fence=lease.fence)
                head = await other.head(name)
                assert (head.revision, head.status, head.pending) == (revision + 1, status, pending)
                assert head.run_id == (None if revision == 0 else run)
                ended = isinstance(entries[-1], RunEnded | RunSuspended) and not entries[-1].path
                assert (head.owner is None) is ended, "a run that stops lets go in the same write"
                lease = None if ended else lease

    async def test_listing_goes_by_time_and_status(self) -> None:
        """The last changed comes first; pages follow one another without gap or repetition."""
        async with self.opened() as store, self.opened() as other:
            names = [(await self.owned(store, began(self.new_id("r"))))[0] for _ in range(5)]
            fresh = self.new_id()
            await store.create(fresh)
            await store.append(names[1], 1, [queued("later")])

            async def listed(**options: Any) -> list[str]:
                found: list[Head] = []
                while page := await other.list(
                    limit=2, after=found[-1] if found else None, **options
                ):
                    assert len(page) <= 2
                    found += page
                    if len(found) > 5000:
                        break
                for before, later in pairwise(found):
                    assert before.updated_at >= later.updated_at
                mine = {*names, fresh}
                return [h.conversation_id for h in found if h.conversation_id in mine]

            everything = await listed()
            assert (everything[0], sorted(everything)) == (names[1], sorted([*names, fresh]))
            assert await listed(status="running") == [names[1], *reversed(names[2:]), names[0]]
            assert await listed(status="new") == [fresh]
            assert await listed(status="paused") == []
            (newest,) = await other.list(limit=1)
            assert newest == await store.head(newest.conversation_id)

    async def test_delete_forgets_one_conversation(self) -> None:
        """Its name is free again: nothing of the old one is left, no fence either."""
        async with self.opened() as store, self.opened() as other:
            name, _ = await self.owned(store, began(self.new_id("r")))
            stays, _ = await self.owned(store, said("other"))
            await store.delete(name)
            head = await other.create(name)
            assert (head.revision, head.status, head.run_id, head.owner) == (0, "new", None, None)
            assert list(await other.read(name)) == []
            assert len(await other.read(stays)) == 1

    async def test_a_fork_is_a_copy_of_its_own(self) -> None:
        """J9, S54: equal through the revision, whatever becomes of either afterwards."""
        picture = Image.from_bytes(b"\x89PNG\r\n\x1a\n" + b"x" * 5000, "image/png")
        look = MessageAdded(run_id="r", at=AT, message=Message.user(picture))
        async with self.opened() as store, self.opened() as other:
            name, lease = await self.owned(store, began(self.new_id("r")), look, said("later"))
            branch, again = self.new_id(), self.new_id()
            head = await store.fork(name, 2, branch)
            assert (head.revision, head.status, head.owner) == (2, "running", None)
            before = list(await other.read(branch))
            assert before == list(await store.read(name))[:2]
            await store.append(name, 3, [said("more")], fence=lease.fence)
            await store.append(branch, 2, [queued("elsewhere")])
            await store.delete(name)
            assert list(await other.read(branch))[:2] == before
            await other.fork(branch, 3, again)
            await other.delete(branch)
            assert [batch.revision for batch in await store.read(again)] == [1, 2, 3]
            for revision in (4, -1):
                with pytest.raises(ConversationNotFound, match="revisions 0 to 3"):
                    await store.fork(again, revision, self.new_id())
            with pytest.raises(InvalidId, match=again):
                await store.fork(again, 1, again)

    async def test_a_fork_asks_no_more_of_its_readers_than_what_was_copied(self) -> None:
        """Whoever can read what is in it, can read it."""
        inside = replace(said("in a child run"), path="a#1")
        async with self.opened() as store, self.opened() as other:
            name, _ = await self.owned(store, began(self.new_id("r")), said("x"), inside)
            for revision, reader in ((0, 1), (2, 1), (3, 2)):
                branch = self.new_id()
                await store.fork(name, revision, branch)
                assert (await other.head(branch)).reader == reader

    async def test_any_revision_is_the_view_of_what_was_written(self) -> None:
        """J3: reading a part gives what folding that part gives."""
        call = Message("assistant", (ToolCall.of("t", id="c1"),))
        entries = [
            began(self.new_id("r")),
            MessageAdded(run_id="r", at=AT, message=call),
            said("x"),
        ]
        async with self.opened() as store, self.opened() as other:
            name, _ = await self.owned(store, *entries)
            batches = [(batch.revision, batch.entries) for batch in await other.read(name)]
            for revision in range(4):
                view = View()
                for number, entry in enumerate(entries[:revision], 1):
                    view.take_in(number, [entry])
                assert fold(batches[:revision]).messages == view.messages

    async def test_wait_ends_with_the_next_append(self) -> None:
        """Long before its time is up, by any handle; at once when there is more already."""
        async with self.opened() as store, self.opened() as other:
            name, lease = await self.owned(store, said("a"), said("b"))
            assert await other.wait(name, 0, LONG) == 2
            async with asyncio.timeout(LONG), asyncio.TaskGroup() as group:
                waiting = [
                    group.create_task(each.wait(name, 2, 60)) for each in (store, other, other)
                ]
                await asyncio.sleep(0.05)
                await store.append(name, 2, [said("c")], fence=lease.fence)
            assert [task.result() for task in waiting] == [3, 3, 3]

    async def test_wait_gives_up_after_its_time(self) -> None:
        """The revision is what it was, and whoever is cancelled leaves nothing behind."""
        async with self.opened() as store:
            name, lease = await self.owned(store)
            assert await store.wait(name, 0, 0.01) == 0
            assert await store.wait(name, 7, 0) == 0
            waiting = asyncio.ensure_future(store.wait(name, 0, 60))
            await asyncio.sleep(0.02)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            assert await store.append(name, 0, [said("a")], fence=lease.fence) == 1

    async def test_a_closed_store_opens_again(self) -> None:
        """Closing lets go of files and connections, not of what is stored."""
        store = await self.open_store()
        name, _ = await self.owned(store, said("a"))
        await store.close()
        await store.close()
        assert len(await store.read(name)) == 1
        await store.close()
