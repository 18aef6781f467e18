"""Leases: one owner at a time, and no write by any other."""

from __future__ import annotations

import asyncio

import pytest

from treadle.errors import (
    ConversationBusy,
    LeaseLost,
)
from treadle.journal import (
    AnyEntry,
    ApprovalDecided,
    CancelAsked,
)
from treadle.ports.store import Store
from treadle.testing.store_handles import AT, LONG, SHORT, StoreHandles, queued, said


@pytest.mark.asyncio
class LeaseTests(StoreHandles):
    """What every store keeps of leases."""

    async def test_a_claim_keeps_others_out(self) -> None:
        """J7: from every handle; the error names the owner and says how long."""
        async with self.opened() as store, self.opened() as other:
            name = self.new_id()
            head, lease = await store.claim(name, "run-1@here", LONG)
            assert (head.revision, head.owner, head.lease) == (0, "run-1@here", lease)
            assert (lease.conversation_id, lease.owner) == (name, "run-1@here")
            for owner in ("run-2", "run-1@here"):
                with pytest.raises(
                    ConversationBusy, match=r"run 'run-1' for another 1\d\."
                ) as caught:
                    await other.claim(name, owner, LONG)
                assert caught.value.lease.fence == lease.fence
                assert 10 < caught.value.seconds_left <= LONG
            assert await store.append(name, 0, [said("a")], fence=lease.fence) == 1

    async def test_only_the_owner_writes(self) -> None:
        """J2: without a lease, and under any fence but its own, nothing is written."""
        async with self.opened() as store, self.opened() as other:
            name, lease = await self.owned(store, said("a"))
            for fence in (None, lease.fence + 1, 0, -1):
                with pytest.raises(LeaseLost, match=f"fence {lease.fence}, not by {fence};"):
                    await other.append(name, 1, [queued("x"), said("b")], fence=fence)
            outside: list[AnyEntry] = [
                queued("x"),
                CancelAsked(run_id="r", at=AT),
                ApprovalDecided(run_id="r", at=AT, call_id="c", digest="d", verdict="deny"),
            ]
            assert await other.append(name, 1, outside) == 2
            await store.release(lease)
            with pytest.raises(LeaseLost, match="by nobody"):
                await store.append(name, 2, [said("b")], fence=lease.fence)
            assert len(await store.read(name)) == 2

    async def test_a_released_conversation_is_free_at_once(self) -> None:
        """J7: a lease that is not held lets nothing go, and cannot be renewed."""
        async with self.opened() as store, self.opened() as other:
            name, first = await self.owned(store)
            await store.release(first)
            assert (await other.head(name)).owner is None
            with pytest.raises(LeaseLost):
                await store.renew(first, LONG)
            head, second = await other.claim(name, "next", LONG)
            assert second.fence == head.fence > first.fence
            await store.release(first)
            assert (await store.head(name)).owner == "next"
            with pytest.raises(LeaseLost):
                await store.append(name, 0, [said("a")], fence=first.fence)

    async def test_an_ended_lease_is_taken_over(self) -> None:
        """J7: by the store's own clock. The old owner may still write until somebody takes it."""
        async with self.opened() as store, self.opened() as other:
            name = self.new_id()
            _, frozen = await store.claim(name, "frozen", SHORT)
            renewed = await store.renew(frozen, SHORT * 2)
            assert (renewed.fence, renewed.expires_at > frozen.expires_at) == (frozen.fence, True)
            await asyncio.sleep(SHORT * 3)
            assert await store.append(name, 0, [said("a")], fence=frozen.fence) == 1
            _, taken = await other.claim(name, "awake", LONG)
            with pytest.raises(LeaseLost, match=f"fence {taken.fence}, not by {frozen.fence};"):
                await store.append(name, 1, [said("too late")], fence=frozen.fence)
            with pytest.raises(LeaseLost):
                await store.renew(frozen, LONG)
            await store.release(frozen)
            assert (await store.head(name)).owner == "awake"
            assert await other.append(name, 1, [said("b")], fence=taken.fence) == 2

    async def test_one_known_to_be_dead_is_taken_over_at_once(self) -> None:
        """J7: only that very lease; a newer one is safe."""
        async with self.opened() as store, self.opened() as other:
            name, dead = await self.owned(store)
            _, taken = await other.claim(name, "second", LONG, instead_of=dead.fence)
            assert taken.fence > dead.fence
            with pytest.raises(ConversationBusy, match="second"):
                await store.claim(name, "third", LONG, instead_of=dead.fence)

    async def test_of_many_claims_one_succeeds(self) -> None:
        """J7: whatever handles they come from."""
        async with self.opened() as one, self.opened() as two:
            name = self.new_id()

            async def claim(store: Store) -> int:
                try:
                    return (await store.claim(name, "x", LONG))[1].fence
                except ConversationBusy:
                    return 0

            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(claim((one, two)[n % 2])) for n in range(12)]
            assert sorted(task.result() for task in tasks) == [0] * 11 + [1]
