"""A run owns its conversation for as long as it works, and stops when it no longer does."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from datetime import UTC, datetime
from typing import Any, TypeVar

import pytest

from treadle import (
    Agent,
    LeaseLost,
    MemoryStore,
    ModelRequest,
    Run,
    StoreUnavailable,
)
from treadle.agent.owner import is_dead, owner_here
from treadle.ports.store import Lease
from treadle.testing import FakeClock, FunctionModel

ResultT = TypeVar("ResultT")


class Hurried(asyncio.SelectorEventLoop):
    """An event loop whose seconds are a thousandth of a second long."""

    def time(self) -> float:
        """Tell the loop's own time."""
        return super().time() * 1_000


def hurry(work: Coroutine[Any, Any, ResultT]) -> ResultT:
    """Run to the end in hurried time. Who waits there must not sleep, but look again and again."""
    with asyncio.Runner(loop_factory=Hurried) as runner:
        return runner.run(asyncio.wait_for(work, 30_000))


class Watched(MemoryStore):
    """A memory store that notes which leases were renewed."""

    def __init__(self, *, clock: FakeClock | None = None, fails: Exception | None = None) -> None:
        super().__init__(clock=clock or FakeClock())
        self.fails = fails
        self.renewed: list[Lease] = []

    async def renew(self, lease: Lease, seconds: float) -> Lease:
        """Renew, and note it; or fail."""
        self.renewed.append(lease)
        if self.fails is not None:
            raise self.fails
        return await super().renew(lease, seconds)


async def busy(request: ModelRequest) -> str:
    """Never answer."""
    while True:  # noqa: ASYNC110 the loop has to go on for its time to pass
        await asyncio.sleep(0)


def start(store: MemoryStore, model: FunctionModel) -> Run[str]:
    """Start a run in a conversation of the store."""
    return Agent("a", model, store=store).start("x", conversation="c")


def test_a_lease_is_renewed_until_the_run_has_ended() -> None:
    """J7: however long the model takes, it is the same lease; then nobody owns the conversation."""
    store = Watched()
    owners: list[str | None] = []

    async def slow(request: ModelRequest) -> str:
        while len(store.renewed) < 3:  # noqa: ASYNC110 it lasts until then
            await asyncio.sleep(0)
        owners.append((await store.head("c")).owner)
        return "ok"

    async def main() -> None:
        run = start(store, FunctionModel(slow))
        assert (await run).output == "ok"
        assert [owner.partition("@")[0] for owner in owners if owner] == [run.id]
        renewals = len(store.renewed)
        until = asyncio.get_running_loop().time() + 60
        while asyncio.get_running_loop().time() < until:  # noqa: ASYNC110 nothing is to happen
            await asyncio.sleep(0)
        assert len(store.renewed) == renewals >= 3

    hurry(main())

    assert len({lease.fence for lease in store.renewed}) == 1
    assert asyncio.run(store.head("c")).owner is None


def test_a_run_that_was_taken_over_stops_and_writes_nothing() -> None:
    """J2, J7: it fails with what there is; the new owner's conversation is as that one left it."""
    clock = FakeClock()
    store = Watched(clock=clock)

    async def main() -> None:
        asked = asyncio.Event()

        async def hang(request: ModelRequest) -> str:
            asked.set()
            return await busy(request)

        run = start(store, FunctionModel(hang))
        await asked.wait()
        clock.advance(16)  # this process was frozen, and its lease has ended
        await store.claim("c", "elsewhere", 15)
        before = await store.head("c")

        with pytest.raises(LeaseLost) as caught:
            await run

        assert caught.value.result.stop_reason == "failed"
        assert [m.text for m in caught.value.result.messages] == ["x"]
        assert await store.head("c") == before
        assert before.owner == "elsewhere"

    hurry(main())


@pytest.mark.parametrize(
    ("fails", "kind", "again"),
    [(LeaseLost("gone"), LeaseLost, False), (OSError("no route"), StoreUnavailable, True)],
)
def test_a_renewal_that_fails_fails_the_run(
    fails: Exception, kind: type[Exception], again: bool
) -> None:
    """What may pass is tried again while the lease is alive; without it the run does not go on."""
    store = Watched(fails=fails)

    async def main() -> None:
        run = start(store, FunctionModel(busy))
        with pytest.raises(kind, match=str(fails)) as caught:
            await run
        assert isinstance(caught.value, LeaseLost | StoreUnavailable)
        assert caught.value.result.stop_reason == "failed"

    hurry(main())

    assert len(store.renewed) == 1 or again


def test_a_run_id_may_hold_what_parts_an_owner() -> None:
    """J7: whether such a run's process is dead is known as of any other."""
    here = owner_here("ann@example.com")
    at = datetime(2026, 1, 1, tzinfo=UTC)
    assert Lease("c", here, 1, at).run_id == "ann@example.com"
    assert Lease("c", "nobody", 1, at).run_id == "nobody"
    gone = f"{here.rpartition('-')[0]}-1"  # the same process ID, begun at another time
    assert (is_dead(here), is_dead(gone)) == (False, is_dead(gone.replace("ann@", "ann.")))
