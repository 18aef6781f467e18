"""What is special to the memory store: threads share it, and its clock may be set."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta

import pytest

from treadle import ConversationBusy, MemoryStore, RevisionConflict
from treadle.journal import AnyEntry
from treadle.testing import FakeClock
from treadle.testing.store_handles import queued, said


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
    entries = MeetingPoint([queued("x")])
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


async def test_wait_wakes_up_in_another_event_loop() -> None:
    """The one who waits and the one who writes need not share a thread."""
    store = MemoryStore()
    await store.create("c")
    begun = threading.Event()

    async def wait() -> int:
        asyncio.get_running_loop().call_soon(begun.set)
        return await store.wait("c", 0, 5)

    async with asyncio.TaskGroup() as group:
        # In debug mode an event loop refuses to be woken from a thread in any but the safe way.
        waiting = group.create_task(asyncio.to_thread(asyncio.run, wait(), debug=True))
        await asyncio.to_thread(begun.wait)
        await store.append("c", 0, [queued("x")])

    assert waiting.result() == 1


async def test_a_lease_ends_to_the_moment() -> None:
    """J7: by the clock that the store was given."""
    clock = FakeClock()
    store = MemoryStore(clock=clock)
    head, lease = await store.claim("c", "r1", 15)
    assert head.created_at == head.updated_at == clock.now()
    assert lease.expires_at == clock.now() + timedelta(seconds=15)
    clock.advance(5)
    with pytest.raises(ConversationBusy, match=r"run 'r1' for another 10\.0 s"):
        await store.claim("c", "r2", 15)
    renewed = await store.renew(lease, 15)
    assert renewed.expires_at == lease.expires_at + timedelta(seconds=5)
    clock.advance(14.999)
    with pytest.raises(ConversationBusy):
        await store.claim("c", "r2", 15)
    clock.advance(0.001)
    _, taken = await store.claim("c", "r2", 15)
    assert await store.append("c", 0, [said("x")], fence=taken.fence) == 1
    assert (await store.head("c")).updated_at == clock.now()
