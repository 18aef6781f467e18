"""Waiting for appends: at once within a process, one look for all beyond it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping, Sequence

import pytest

from treadle import ConversationNotFound
from treadle.errors import StoreUnavailable
from treadle.stores.waiting import Waiters


class Revisions:
    """A store with nothing but revisions; it counts how often it is asked, and for how many."""

    def __init__(self, **revisions: int) -> None:
        self.revisions = revisions
        self.looks: list[list[str]] = []
        self.broken = False
        self.often = asyncio.Event()

    async def look(self, ids: Sequence[str]) -> Mapping[str, int]:
        """Return what there is."""
        self.looks.append(sorted(ids))
        if len(self.looks) > 21:
            self.often.set()
        if self.broken:
            raise StoreUnavailable("gone")
        await asyncio.sleep(0)
        return {each: self.revisions[each] for each in ids if each in self.revisions}


def others() -> set[asyncio.Task[object]]:
    """Return the tasks that run beside the test."""
    current = asyncio.current_task()
    return {task for task in asyncio.all_tasks() if task is not current}


async def test_a_revision_that_is_there_already_comes_at_once() -> None:
    """So does the present one when there is no time to wait."""
    waiters = Waiters(Revisions(c=3).look)

    assert await waiters.wait("c", 2, 60) == 3
    assert await waiters.wait("c", 3, 0) == 3
    assert await waiters.wait("c", 3, 0.01) == 3
    assert not others()


async def test_a_notice_wakes_those_who_wait_for_it() -> None:
    """And nobody else: not those of another conversation, nor of a later revision."""
    waiters = Waiters(Revisions(c=0, d=0).look, first=60, longest=60)
    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        woken = [group.create_task(waiters.wait("c", 0, 60)) for _ in range(3)]
        asleep = [group.create_task(waiters.wait(*each, 60)) for each in (("d", 0), ("c", 7))]
        await asyncio.sleep(0.01)
        waiters.notify("c", 1)
        assert [await task for task in woken] == [1, 1, 1]
        await asyncio.sleep(0)
        assert not any(task.done() for task in asleep)
        for task in asleep:
            task.cancel()
    await asyncio.sleep(0)
    assert not others(), "nothing runs when nobody waits"


async def test_a_notice_between_looking_and_waiting_is_not_missed() -> None:
    """The waiter is known before the store is asked."""
    store = Revisions(c=0)
    waiters = Waiters(store.look, first=60, longest=60)
    waiting = asyncio.ensure_future(waiters.wait("c", 0, 60))
    await asyncio.sleep(0)
    assert store.looks == [["c"]]
    waiters.notify("c", 1)  # the look that is under way does not know it

    async with asyncio.timeout(5):
        assert await waiting == 1


async def test_one_look_serves_all_who_wait() -> None:
    """For appends by others; the pauses grow."""
    store = Revisions(**{f"c{n}": 0 for n in range(20)})
    waiters = Waiters(store.look, first=0.01, longest=0.02)
    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        waiting = [group.create_task(waiters.wait(f"c{n}", 0, 60)) for n in range(20)]
        await store.often.wait()
        store.revisions = dict.fromkeys(store.revisions, 4)
    assert [task.result() for task in waiting] == [4] * 20
    assert [len(look) for look in store.looks[:20]] == [1] * 20, "each asks once by itself"
    assert {len(look) for look in store.looks[20:]} == {20}


async def test_a_conversation_that_goes_away_ends_the_wait() -> None:
    """Whether this handle deletes it or another does."""
    store = Revisions(c=0, d=0)
    waiters = Waiters(store.look, first=0.01)
    with pytest.raises(ConversationNotFound, match="'x'"):
        await waiters.wait("x", 0, 1)
    told, seen = (asyncio.ensure_future(waiters.wait(each, 0, 60)) for each in ("c", "d"))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    waiters.notify("c", None)
    del store.revisions["d"]
    for waiting, name in ((told, "'c'"), (seen, "'d'")):
        with pytest.raises(ConversationNotFound, match=name):
            await waiting


async def test_a_store_that_fails_says_so_to_those_who_wait() -> None:
    """They may wait again."""
    store = Revisions(c=0)
    waiters = Waiters(store.look, first=0.01)
    waiting = [asyncio.ensure_future(waiters.wait("c", 0, 60)) for _ in range(2)]
    await asyncio.sleep(0.005)
    store.broken = True
    for each in waiting:
        with pytest.raises(StoreUnavailable):
            await each
    store.broken = False
    assert await waiters.wait("c", 0, 0.01) == 0


async def test_a_cancelled_wait_leaves_nothing_behind() -> None:
    """Neither a task nor a place in the list."""
    waiters = Waiters(Revisions(c=0).look)
    waiting = asyncio.ensure_future(waiters.wait("c", 0, 60))
    await asyncio.sleep(0.01)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await asyncio.sleep(0)
    assert not others()
    waiters.notify("c", 1)


async def test_loops_in_several_threads() -> None:
    """The one who waits and the one who writes need not share a thread."""
    store = Revisions(c=0)
    waiters = Waiters(store.look, first=60, longest=60)
    begun = threading.Event()

    async def wait() -> int:
        asyncio.get_running_loop().call_later(0.01, begun.set)
        return await waiters.wait("c", 0, 5)

    async with asyncio.TaskGroup() as group:
        # In debug mode an event loop refuses to be woken from a thread in any but the safe way.
        waiting = group.create_task(asyncio.to_thread(asyncio.run, wait(), debug=True))
        await asyncio.to_thread(begun.wait)
        waiters.notify("c", 1)
    assert waiting.result() == 1
