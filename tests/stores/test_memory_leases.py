"""Leases of the memory store: one owner at a time, and no write by any other."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.stores.parts import BEGAN, said
from treadle import ConversationBusy, LeaseLost, MemoryStore
from treadle.testing import FakeClock


async def test_a_claim_keeps_others_out() -> None:
    """J7: the head names the owner, and the error how long that will last."""
    clock = FakeClock()
    store = MemoryStore(clock=clock)
    await store.create("c")

    lease = await store.claim("c", "r1", 15)
    clock.advance(5)
    with pytest.raises(ConversationBusy, match=r"run 'r1' for another 10\.0 s"):
        await store.claim("c", "r2", 15)

    assert (lease.conversation_id, lease.owner) == ("c", "r1")
    assert lease.expires_at == FakeClock().now() + timedelta(seconds=15)
    assert (await store.head("c")).owner == "r1"
    assert await store.append("c", 0, [BEGAN], fence=lease.fence) == 1


async def test_a_renewed_lease_lasts_longer() -> None:
    """J7: from then on, under the same fence."""
    clock = FakeClock()
    store = MemoryStore(clock=clock)
    await store.create("c")
    lease = await store.claim("c", "r1", 15)
    clock.advance(10)

    renewed = await store.renew(lease, 15)
    clock.advance(10)

    assert (renewed.fence, renewed.owner) == (lease.fence, "r1")
    assert renewed.expires_at == lease.expires_at + timedelta(seconds=10)
    with pytest.raises(ConversationBusy, match=r"5\.0 s"):
        await store.claim("c", "r2", 15)
    assert await store.append("c", 0, [BEGAN], fence=lease.fence) == 1


async def test_a_released_conversation_is_free() -> None:
    """J7: at once, for anybody; the old owner cannot write any more."""
    store = MemoryStore()
    await store.create("c")
    first = await store.claim("c", "r1", 15)
    await store.release(first)
    assert (await store.head("c")).owner is None
    with pytest.raises(LeaseLost, match="taken over or released"):
        await store.renew(first, 15)

    second = await store.claim("c", "r2", 15)

    assert second.fence > first.fence
    await store.release(first)
    assert (await store.head("c")).owner == "r2", "a lease that is not held lets nothing go"
    with pytest.raises(LeaseLost):
        await store.append("c", 0, [BEGAN], fence=first.fence)


async def test_an_expired_lease_is_taken_over() -> None:
    """J2, J7: by the store's clock, to the moment; a stale fence changes nothing and says so."""
    clock = FakeClock()
    store = MemoryStore(clock=clock)
    await store.create("c")
    frozen = await store.claim("c", "r1", 15)
    await store.append("c", 0, [BEGAN], fence=frozen.fence)
    clock.advance(14.999)
    with pytest.raises(ConversationBusy):
        await store.claim("c", "r2", 15)
    clock.advance(0.001)

    owner = await store.claim("c", "r2", 15)
    before = await store.head("c")

    assert (owner.fence > frozen.fence, before.owner) == (True, "r2")
    for fence in (frozen.fence, None, owner.fence + 1):
        with pytest.raises(LeaseLost, match=f"owned by fence {owner.fence}, not {fence};"):
            await store.append("c", 1, [said("too late")], fence=fence)
    with pytest.raises(LeaseLost):
        await store.renew(frozen, 15)
    await store.release(frozen)
    assert await store.head("c") == before
    assert await store.append("c", 1, [said("mine")], fence=owner.fence) == 2
    assert [entry for batch in await store.read("c") for entry in batch.entries] == [
        BEGAN,
        said("mine"),
    ]


async def test_each_conversation_has_leases_of_its_own() -> None:
    """Owning one says nothing of another."""
    store = MemoryStore()
    await store.create("c")
    await store.create("d")

    await store.claim("c", "r1", 15)
    lease = await store.claim("d", "r2", 15)

    assert [(await store.head(name)).owner for name in ("c", "d")] == ["r1", "r2"]
    assert await store.append("d", 0, [BEGAN], fence=lease.fence) == 1
