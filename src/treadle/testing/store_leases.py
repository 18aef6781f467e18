"""Leases: one owner at a time, and no write by any other."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from treadle.errors import (
    ConversationBusy,
    ConversationNotFound,
    InvalidId,
    LeaseLost,
    RevisionConflict,
)
from treadle.journal import AnyEntry, ApprovalDecided, CancelAsked, MessageAdded, RunEnded
from treadle.messages import Image, Message
from treadle.ports.store import Store
from treadle.testing.store_handles import AT, LONG, SHORT, StoreHandles, began, queued, said


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

    async def test_a_claim_may_come_with_a_batch(self) -> None:
        """J2, J7: the batch and the lease stand together, in a new conversation and a known one."""
        async with self.opened() as store, self.opened() as other:
            name, run, second = self.new_id(), self.new_id("r"), self.new_id("r")
            batch = [began(run), said("a", run)]
            head, lease = await store.claim_and_append(name, "one", LONG, batch, known=None)
            assert (head.revision, head.status, head.run_id) == (1, "running", run)
            assert (head.owner, head.lease, lease.fence) == ("one", lease, head.fence)
            assert await other.head(name) == head
            assert [each.entries for each in await other.read(name)] == [tuple(batch)]
            assert await other.find(run) == name
            with pytest.raises(ConversationBusy, match="one"):
                await other.claim(name, "two", LONG)
            assert await store.append(name, 1, [said("b", run)], fence=lease.fence) == 2
            await store.release(lease)
            known = await store.head(name)
            head, again = await other.claim_and_append(
                name, "two", LONG, [began(second)], known=known
            )
            assert (head.revision, head.run_id, again.fence > lease.fence) == (3, second, True)
            assert head.created_at == known.created_at
            with pytest.raises(LeaseLost):
                await store.append(name, 3, [said("c", run)], fence=lease.fence)

    async def test_a_claim_with_a_batch_that_is_refused_changes_nothing(self) -> None:
        """J2, J7: a lease that is alive, another revision, a run of that ID, what is gone."""
        async with self.opened() as store, self.opened() as other:
            name, lease = await self.owned(store, said("a"))
            held = await store.head(name)
            run = self.new_id("r")
            with pytest.raises(ConversationBusy, match="owner"):
                await other.claim_and_append(name, "x", LONG, [began(run)], known=held)
            await store.release(lease)
            free = await store.head(name)
            for known in (None, replace(free, revision=0), replace(free, revision=2)):
                with pytest.raises(RevisionConflict, match="at revision 1, not"):
                    await other.claim_and_append(name, "x", LONG, [began(run)], known=known)
            before = replace(free, created_at=AT)
            with pytest.raises(RevisionConflict, match="deleted"):
                await other.claim_and_append(name, "x", LONG, [began(run)], known=before)
            gone = self.new_id()
            with pytest.raises(RevisionConflict, match="deleted"):
                await other.claim_and_append(gone, "x", LONG, [began(run)], known=free)
            await store.claim_and_append(self.new_id(), "y", LONG, [began(run)], known=None)
            with pytest.raises(InvalidId, match=run):
                await other.claim_and_append(name, "x", LONG, [began(run)], known=free)
            with pytest.raises(InvalidId, match=run):
                await other.claim_and_append(gone, "x", LONG, [began(run)], known=None)
            assert await store.head(name) == free
            with pytest.raises(ConversationNotFound):
                await store.head(gone)

    async def test_a_claim_that_is_refused_deletes_nothing(self) -> None:
        """J2: a conversation without a batch is one, too; its next claim finds it as it was."""
        async with self.opened() as store, self.opened() as other:
            name, run = self.new_id(), self.new_id("r")
            await store.claim_and_append(self.new_id(), "y", LONG, [began(run)], known=None)
            created = await store.create(name)
            for known in (None, created):
                with pytest.raises(InvalidId, match=run):
                    await other.claim_and_append(name, "x", LONG, [began(run)], known=known)
                assert await store.head(name) == created
            batch = [began(self.new_id("r"))]
            head, _ = await other.claim_and_append(name, "x", LONG, batch, known=None)
            assert (head.revision, head.created_at) == (1, created.created_at)

    async def test_a_claim_that_is_refused_takes_nothing_from_others(self) -> None:
        """J2: what one was told of stays, whoever is refused there at the same time."""
        async with self.opened() as store, self.opened() as other:
            run = self.new_id("r")
            await store.claim_and_append(self.new_id(), "y", LONG, [began(run)], known=None)

            async def refused(name: str) -> None:
                with pytest.raises((InvalidId, ConversationBusy)):
                    await other.claim_and_append(name, "x", LONG, [began(run)], known=None)

            for number in range(20):
                name, batch = self.new_id(), [began(self.new_id("r"))]
                async with asyncio.TaskGroup() as group:
                    group.create_task(refused(name))
                    await asyncio.sleep(number % 5 * 0.0003)
                    head, _ = await store.claim_and_append(name, "y", LONG, batch, known=None)
                assert await other.head(name) == head
                assert [each.entries for each in await other.read(name)] == [tuple(batch)]

    async def test_a_run_does_not_begin_twice_in_one_batch(self) -> None:
        """BS-43: nothing is written, and the ID is free."""
        async with self.opened() as store:
            name, lease = await self.owned(store)
            run, new = self.new_id("r"), self.new_id()
            twice = [began(run), said("a", run), began(run)]
            with pytest.raises(InvalidId, match=run):
                await store.append(name, 0, twice, fence=lease.fence)
            with pytest.raises(InvalidId, match=run):
                await store.claim_and_append(new, "x", LONG, twice, known=None)
            assert (await store.head(name)).revision == 0
            with pytest.raises(ConversationNotFound):
                await store.head(new)
            assert await store.append(name, 0, twice[:2], fence=lease.fence) == 1

    async def test_a_claim_with_a_batch_takes_over_what_has_ended(self) -> None:
        """J7: like one without."""
        async with self.opened() as store, self.opened() as other:
            name = self.new_id()
            _, frozen = await store.claim(name, "frozen", SHORT)
            known = await store.head(name)
            await asyncio.sleep(SHORT * 2)
            batch = [began(self.new_id("r"))]
            head, lease = await other.claim_and_append(name, "awake", LONG, batch, known=known)
            assert (head.owner, lease.fence > frozen.fence) == ("awake", True)
            with pytest.raises(LeaseLost):
                await store.append(name, 1, [said("too late")], fence=frozen.fence)

    async def test_a_batch_that_ends_its_run_lets_the_claim_go(self) -> None:
        """J7: a claim may come and go in one batch; its media are kept."""
        async with self.opened() as store:
            name, run = self.new_id(), self.new_id("r")
            picture = Image.from_bytes(b"x" * 5_000, "image/png")
            shown = MessageAdded(run_id=run, at=AT, message=Message.user(picture))
            ended = RunEnded(run_id=run, at=AT, stop_reason="answer")
            head, _ = await store.claim_and_append(
                name, "one", LONG, [began(run), shown, ended], known=None
            )
            assert (head.owner, head.status, head.revision) == (None, "answered", 1)
            assert (await store.read(name))[0].entries[1] == shown
            await store.claim(name, "two", LONG)

    async def test_of_many_claims_with_a_batch_one_succeeds(self) -> None:
        """J2, J7: whatever handles they come from."""
        async with self.opened() as one, self.opened() as two:
            name = self.new_id()

            async def enter(number: int) -> int:
                batch = [began(self.new_id("r"))]
                try:
                    store = (one, two)[number % 2]
                    head, _ = await store.claim_and_append(name, "x", LONG, batch, known=None)
                except (ConversationBusy, RevisionConflict):
                    return 0
                return head.revision

            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(enter(number)) for number in range(12)]
            assert sorted(task.result() for task in tasks) == [0] * 11 + [1]
            assert len(await one.read(name)) == 1
