"""Kept views: going on with a conversation reads only what is new, and never another one."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from tests.agent.parts import Failing
from treadle import Agent, Image, MemoryStore, Message, RunFailed
from treadle.agent.views import MOST_MEDIA_BYTES, MOST_MESSAGES, MOST_VIEWS, Views, views_of
from treadle.journal import MessageAdded, RunBegan
from treadle.ports.store import Batch, Head
from treadle.testing import FakeClock, FunctionModel
from treadle.view import View

AT = datetime(2026, 1, 1, tzinfo=UTC)


class Watched(MemoryStore):
    """A memory store that notes from which revision it was read."""

    def __init__(self, *, clock: FakeClock | None = None) -> None:
        super().__init__(clock=clock or FakeClock())
        self.reads: list[int] = []

    async def read(self, conversation_id: str, from_revision: int = 0) -> Sequence[Batch]:
        """Read, and note it."""
        self.reads.append(from_revision)
        return await super().read(conversation_id, from_revision)


class Slotted(MemoryStore):
    """A store that cannot be looked up, as it has no hash: nothing of it is kept."""

    __hash__ = None  # pyright: ignore[reportAssignmentType, reportIncompatibleMethodOverride]

    def __init__(self) -> None:
        super().__init__(clock=FakeClock())
        self.reads: list[int] = []

    async def read(self, conversation_id: str, from_revision: int = 0) -> Sequence[Batch]:
        """Read, and note it."""
        self.reads.append(from_revision)
        return await super().read(conversation_id, from_revision)


def agent(answer: str = "ok") -> Agent:
    """An agent that always answers this."""
    return Agent("a", FunctionModel(lambda request: answer))


async def say(store: MemoryStore, text: str, conversation: str = "c") -> list[str]:
    """Run once and return the texts of the whole history."""
    result = await agent().run(text, conversation=conversation, store=store)
    return [message.text for message in result.messages]


async def test_what_this_process_wrote_is_not_read_again() -> None:
    """The second and the third run know the conversation already."""
    store = Watched()

    await say(store, "1")
    await say(store, "2")
    history = await say(store, "3")

    assert history == ["1", "ok", "2", "ok", "3", "ok"]
    assert store.reads == []


async def test_what_others_wrote_meanwhile_is_read() -> None:
    """Only the new entries are asked for."""
    store = Watched()
    await say(store, "1")
    head = await store.head("c")
    batches = await MemoryStore.read(store, "c")
    run_id = batches[0].entries[0].run_id
    note = MessageAdded(run_id=run_id, at=AT, message=Message.user("from elsewhere"))
    _, lease = await store.claim("c", "elsewhere", 15)
    await store.append("c", head.revision, [note], fence=lease.fence)
    await store.release(lease)

    history = await say(store, "2")

    assert history == ["1", "ok", "from elsewhere", "2", "ok"]
    assert store.reads == [head.revision]


@pytest.mark.parametrize("grown", [0, 1, 2])
async def test_a_conversation_that_comes_again_under_its_name(grown: int) -> None:
    """Deleted and begun anew, shorter, as long or longer: the old one is never mixed in."""
    clock = FakeClock()
    store, elsewhere = Watched(clock=clock), MemoryStore(clock=clock)
    await say(store, "old")
    await store.delete("c")
    clock.advance(0.001)
    await store.create("c")
    expected: list[str] = []
    for number in range(grown):  # what another process says in it, of which this one knows nothing
        expected = await say(elsewhere, f"new {number}")
    if grown:
        _, lease = await store.claim("c", "elsewhere", 15)
        for revision, batch in enumerate(await elsewhere.read("c")):
            if (await store.head("c")).owner is None:
                _, lease = await store.claim("c", "elsewhere", 15)
            await store.append("c", revision, batch.entries, fence=lease.fence)

    assert await say(store, "more") == [*expected, "more", "ok"]
    assert store.reads == ([0] if grown else [])


async def test_a_store_that_cannot_be_kept_in_mind() -> None:
    """It works; its conversations are read anew each time."""
    store = Slotted()

    await agent().run("1", conversation="c", store=store)
    result = await agent().run("2", conversation="c", store=store)

    assert [message.text for message in result.messages] == ["1", "ok", "2", "ok"]
    assert store.reads == [0]


async def test_a_store_is_not_kept_alive_by_its_views() -> None:
    """They go with it."""
    store = Watched()
    await say(store, "1")
    gone = weakref.ref(store)

    del store
    gc.collect()

    assert gone() is None


async def test_a_failed_run_leaves_no_wrong_view() -> None:
    """What the journal did not take is not in the next run's history either."""

    store = Failing(1, OSError("disk full"))
    with pytest.raises(RunFailed, match="disk full"):
        await say(store, "1")
    store.works = 10

    assert await say(store, "2") == ["1", "2", "ok"]


def head_of(conversation: str, at: datetime = AT) -> Head:
    """The head of a conversation, as a store tells it."""
    return Head(
        conversation_id=conversation,
        revision=1,
        status="answered",
        run_id="r",
        created_at=at,
        updated_at=at,
    )


def view_of(messages: int) -> View:
    """A view at revision 1 that holds so many messages."""
    view = View()
    said = (Message.user("x"),) * messages
    view.take_in(1, [RunBegan(run_id="r", at=AT, agent="a", history=said)])
    return view


def test_a_view_is_only_trusted_for_the_same_conversation() -> None:
    """Another time of creation, or a lower revision, is another conversation."""
    for head, known in (
        (head_of("c"), True),
        (head_of("c", AT + timedelta(microseconds=1)), False),
        (replace(head_of("c"), revision=0), False),
        (replace(head_of("c"), revision=2), True),
    ):
        views = Views()
        views.put(head_of("c"), view_of(1))
        assert bool(views.take(head).messages) is known
        assert views.take(head).revision == 0, "it was taken out"


def test_the_oldest_views_give_way() -> None:
    """So many conversations are kept, those that were used last."""
    views = Views()
    for number in range(MOST_VIEWS + 2):
        views.put(head_of(f"c{number}"), view_of(1))

    kept = [bool(views.take(head_of(f"c{n}")).messages) for n in range(MOST_VIEWS + 2)]

    assert kept == [False, False] + [True] * MOST_VIEWS


def test_long_views_give_way_earlier() -> None:
    """All together they hold so many messages; one that is longer is not kept at all."""
    views = Views()
    half = MOST_MESSAGES // 2
    for name, size in (("a", half), ("b", half), ("huge", MOST_MESSAGES + 1), ("c", 1)):
        views.put(head_of(name), view_of(size))

    kept = [bool(views.take(head_of(name)).messages) for name in ("a", "b", "huge", "c")]

    assert kept == [False, True, False, True]


def test_a_view_that_replaces_another_counts_once() -> None:
    """Two runs at once in a store without leases put back two views of one conversation."""
    views = Views()
    for _ in range(3):
        views.put(head_of("a"), view_of(MOST_MESSAGES // 2))
    views.put(head_of("b"), view_of(1))

    assert views.take(head_of("a")).messages
    assert views.take(head_of("b")).messages


def test_each_store_has_views_of_its_own() -> None:
    """The same ones each time."""
    store, other = MemoryStore(), MemoryStore()

    assert views_of(store) is views_of(store)
    assert views_of(store) is not views_of(other)


def showing(size: int) -> View:
    """A view of one message with so many bytes of a picture."""
    view = View()
    picture = Image.from_bytes(b"x" * size, "image/png")
    view.take_in(1, [RunBegan(run_id="r", at=AT, agent="a", input=Message.user(picture))])
    return view


def test_media_count() -> None:
    """Views with many bytes of media give way, and one with too many is not kept at all."""
    views, size = Views(), MOST_MEDIA_BYTES // 3
    for name in ("a", "b", "c", "d"):
        views.put(head_of(name), showing(size))
    assert views.take(head_of("a")).messages == []
    assert len(views.take(head_of("d")).messages) == 1
    views.put(head_of("e"), showing(MOST_MEDIA_BYTES + 1))
    assert views.take(head_of("e")).messages == []


def test_threads_may_share_them() -> None:
    """What is counted stays right: each view that is put can be taken once."""
    views = Views()

    def work(number: int) -> int:
        found = 0
        for turn in range(300):
            name = f"{number}-{turn % 7}"
            views.put(head_of(name), view_of(MOST_MESSAGES // 50))
            found += bool(views.take(head_of(name)).messages)
        return found

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(4)))
    for number in range(4):
        for turn in range(7):
            views.take(head_of(f"{number}-{turn}"))
    views.put(head_of("last"), view_of(MOST_MESSAGES))
    assert len(views.take(head_of("last")).messages) == MOST_MESSAGES
