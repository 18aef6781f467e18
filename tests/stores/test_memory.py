"""The memory store: appended at the right revision, listed, deleted, and seen by all who wait."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest

from tests.stores.parts import BEGAN, ENDED, PAUSED, said
from treadle import ConversationBusy, ConversationNotFound, MemoryStore, RevisionConflict
from treadle.journal import AnyEntry
from treadle.ports.store import ConversationStatus
from treadle.testing import FakeClock


async def begun(store: MemoryStore, conversation: str = "c", *entries: AnyEntry) -> None:
    """Create a conversation and write these entries one by one."""
    revision = (await store.create(conversation)).revision
    for entry in entries:
        revision = await store.append(conversation, revision, [entry])


async def test_a_new_conversation() -> None:
    """It is at revision 0, and creating it again leaves it alone."""
    clock = FakeClock()
    store = MemoryStore(clock=clock)
    head = await store.create("c")

    assert (head.conversation_id, head.revision, head.status) == ("c", 0, "new")
    assert (head.run_id, head.owner) == (None, None)
    assert head.created_at == head.updated_at == clock.now()
    await store.append("c", 0, [BEGAN])
    clock.advance(5)

    again = await store.create("c")
    assert (again.revision, again.created_at) == (1, head.created_at)
    assert again == await store.head("c")


async def test_batches_come_back_as_they_were_written() -> None:
    """Each append is one batch and one revision; reading goes on from any of them."""
    store = MemoryStore()
    await store.create("c")

    assert await store.append("c", 0, [BEGAN, said("a")]) == 1
    assert await store.append("c", 1, [said("b")]) == 2

    batches = await store.read("c")
    assert [(batch.revision, batch.entries) for batch in batches] == [
        (1, (BEGAN, said("a"))),
        (2, (said("b"),)),
    ]
    assert [batch.revision for batch in await store.read("c", 1)] == [2]
    assert list(await store.read("c", 2)) == []
    assert [batch.revision for batch in await store.read("c", -1)] == [1, 2]


async def test_what_is_given_and_what_is_had_is_not_shared() -> None:
    """S51: changing a list that was passed, or one that was returned, changes nothing stored."""
    store = MemoryStore()
    await store.create("c")
    entries: list[AnyEntry] = [BEGAN]
    await store.append("c", 0, entries)
    entries.append(ENDED)
    had = await store.read("c")
    assert isinstance(had, list)
    had.clear()

    assert [batch.entries for batch in await store.read("c")] == [(BEGAN,)]


@pytest.mark.parametrize("expected", [0, 2, -1])
async def test_a_wrong_revision_changes_nothing(expected: int) -> None:
    """S51: older and newer ones are refused, with both numbers."""
    store = MemoryStore()
    await begun(store, "c", BEGAN)
    before = await store.head("c")

    with pytest.raises(RevisionConflict, match=f"at revision 1, not {expected};"):
        await store.append("c", expected, [ENDED])

    assert await store.head("c") == before
    assert len(await store.read("c")) == 1


async def test_many_at_once_all_get_in() -> None:
    """S51: whoever is refused reads on and writes again."""
    store = MemoryStore()
    await store.create("c")

    async def write(text: str) -> None:
        while True:
            revision = (await store.head("c")).revision
            await asyncio.sleep(0)  # the others have read the same revision by now
            try:
                await store.append("c", revision, [said(text)])
            except RevisionConflict:
                continue
            return

    async with asyncio.TaskGroup() as group:
        for number in range(8):
            group.create_task(write(str(number)))

    batches = await store.read("c")
    assert [batch.revision for batch in batches] == list(range(1, 9))
    assert sorted(str(batch.entries[0]) for batch in batches) == sorted(
        str(said(str(number))) for number in range(8)
    )


class MeetingPoint(tuple[AnyEntry, ...]):
    """Entries that are not read before two threads read them, or a while has passed."""

    both: threading.Barrier

    def __iter__(self) -> Iterator[AnyEntry]:
        """Wait for the other one."""
        with suppress(threading.BrokenBarrierError):
            self.both.wait(timeout=0.05)
        return super().__iter__()


async def test_threads_never_write_the_same_revision() -> None:
    """Several event loops may share the store: run_sync() has one, a program has its own."""
    store = MemoryStore()
    await store.create("c")
    entries = MeetingPoint([BEGAN])
    entries.both = threading.Barrier(2)

    def write() -> object:
        try:
            store.append("c", 0, entries).send(None)  # it waits for nothing, so it ends at once
        except StopIteration as done:
            return done.value
        except RevisionConflict as error:
            return type(error)
        return None

    async with asyncio.TaskGroup() as group:
        writing = [group.create_task(asyncio.to_thread(write)) for _ in range(2)]

    assert [batch.revision for batch in await store.read("c")] == [1]
    assert {task.result() for task in writing} == {1, RevisionConflict}


async def test_an_unknown_conversation() -> None:
    """Every method that needs one says that there is none, but those that forget."""
    store = MemoryStore()
    await store.create("c")
    lease = await store.claim("c", "r1", 15)
    await store.delete("c")

    for asking in (
        store.head("c"),
        store.read("c"),
        store.append("c", 0, [BEGAN]),
        store.wait("c", 0, 1),
        store.claim("c", "r1", 15),
        store.renew(lease, 15),
    ):
        with pytest.raises(ConversationNotFound, match="'c'"):
            await asking
    await store.release(lease)
    await store.delete("c")


async def test_conversations_are_listed_by_status() -> None:
    """The last changed comes first; not more than were asked for."""
    clock = FakeClock()
    store = MemoryStore(clock=clock)
    for conversation, entries in {
        "new": (),
        "running": (BEGAN,),
        "paused": (BEGAN, PAUSED),
        "settled": (BEGAN, ENDED),
        "again": (BEGAN, PAUSED, BEGAN),
        "done later": (BEGAN, PAUSED, BEGAN, ENDED),
    }.items():
        clock.advance(1)
        await begun(store, conversation, *entries)

    async def listed(status: ConversationStatus | None = None, limit: int = 100) -> list[str]:
        return [head.conversation_id for head in await store.list(status=status, limit=limit)]

    assert await listed() == ["done later", "again", "settled", "paused", "running", "new"]
    assert await listed(limit=2) == ["done later", "again"]
    assert await listed(status="new") == ["new"]
    assert await listed(status="running") == ["again", "running"]
    assert await listed(status="running", limit=1) == ["again"]
    assert await listed(status="paused") == ["paused"]
    assert await listed(status="settled") == ["done later", "settled"]
    clock.advance(1)
    await store.append("new", 0, [BEGAN])
    assert (await listed())[0] == "new"
    head = (await store.list(limit=1))[0]
    assert head == await store.head("new")
    assert (head.run_id, head.updated_at) == ("r1", clock.now())


async def test_delete_forgets_one_conversation() -> None:
    """The others stay, and its name is free: nothing of the old one is left."""
    store = MemoryStore()
    await begun(store, "c", BEGAN, ENDED)
    await begun(store, "other", BEGAN)
    await store.claim("c", "r1", 15)

    await store.delete("c")
    await store.delete("c")

    assert [head.conversation_id for head in await store.list()] == ["other"]
    head = await store.create("c")
    assert (head.revision, head.status, head.run_id, head.owner) == (0, "new", None, None)
    assert list(await store.read("c")) == []
    assert await store.append("c", 0, [BEGAN]) == 1, "no fence is left either"


async def test_wait_returns_at_once_when_there_is_more() -> None:
    """And tells the revision, not only that there is one."""
    store = MemoryStore()
    await begun(store, "c", BEGAN, said("a"), said("b"))

    assert await store.wait("c", 1, 60) == 3


async def test_wait_wakes_up_at_the_next_append() -> None:
    """All who wait do, long before their time is up."""
    store = MemoryStore()
    await store.create("c")
    await store.create("other")

    async with asyncio.timeout(5):
        async with asyncio.TaskGroup() as group:
            waiting = [group.create_task(store.wait("c", 0, 60)) for _ in range(3)]
            elsewhere = group.create_task(store.wait("other", 0, 60))
            await asyncio.sleep(0)
            await store.append("c", 0, [BEGAN])
            woken, _ = await asyncio.wait(waiting)
            assert not elsewhere.done()
            elsewhere.cancel()

    assert [task.result() for task in woken] == [1, 1, 1]


async def test_wait_gives_up_after_its_time() -> None:
    """The revision is what it was; nobody is left waiting."""
    store = MemoryStore()
    await store.create("c")

    assert await store.wait("c", 0, 0.001) == 0
    assert await store.wait("c", 7, 0) == 0
    assert await store.append("c", 0, [BEGAN]) == 1


async def test_wait_can_be_cancelled() -> None:
    """The store goes on without whoever waited."""
    store = MemoryStore()
    await store.create("c")
    waiting = asyncio.ensure_future(store.wait("c", 0, 60))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting

    assert await store.append("c", 0, [BEGAN]) == 1


async def test_wait_wakes_up_in_another_event_loop() -> None:
    """The one who waits and the one who writes need not share a thread."""
    store = MemoryStore()
    await store.create("c")
    begins = threading.Event()

    async def wait() -> int:
        asyncio.get_running_loop().call_soon(begins.set)
        return await store.wait("c", 0, 5)

    async with asyncio.TaskGroup() as group:
        # In debug mode an event loop refuses to be woken from a thread in any but the safe way.
        waiting = group.create_task(asyncio.to_thread(asyncio.run, wait(), debug=True))
        await asyncio.to_thread(begins.wait)
        await store.append("c", 0, [BEGAN])

    assert waiting.result() == 1


async def test_a_lease_keeps_its_own_owner_out_too() -> None:
    """Two runs of one ID are two runs: the second waits until the lease is released or expired."""
    clock = FakeClock()
    store = MemoryStore(clock=clock)
    await store.create("c")
    first = await store.claim("c", "r1", 15)

    with pytest.raises(ConversationBusy, match="owned by run 'r1'"):
        await store.claim("c", "r1", 15)
    assert await store.append("c", 0, [BEGAN], fence=first.fence) == 1, "the first still owns it"
    await store.release(first)
    second = await store.claim("c", "r1", 15)
    clock.advance(15)
    third = await store.claim("c", "r1", 15)

    assert first.fence < second.fence < third.fence
    await store.release(second)
    with pytest.raises(ConversationBusy):
        await store.claim("c", "r1", 15)
