"""A store that really waits: a run that is cancelled meanwhile leaves nothing half done."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest

from tests.agent.parts import Failing
from treadle import Agent, Limits, MemoryStore, RunContext, RunFailed, TreadleError, tool
from treadle.fold import fold
from treadle.journal import AnyEntry, RunBegan, RunEnded
from treadle.ports.store import Head, Lease
from treadle.testing import ScriptedModel, calls


class Slow(Failing):
    """A memory store whose writes take a few turns of the event loop, before or after."""

    def __init__(self, *, before: int = 0, after: int = 0, works: int = 1_000) -> None:
        super().__init__(works, OSError("disk full"))
        self.before, self.after = before, after

    async def append(
        self,
        conversation_id: str,
        expected_revision: int,
        entries: Sequence[AnyEntry],
        *,
        fence: int | None = None,
    ) -> int:
        """Write slowly, or fail."""
        async with self._slowly():
            return await super().append(conversation_id, expected_revision, entries, fence=fence)

    async def claim_and_append(self, *args: Any, **options: Any) -> tuple[Head, Lease]:
        """Claim and write slowly, or fail."""
        async with self._slowly():
            return await super().claim_and_append(*args, **options)

    @asynccontextmanager
    async def _slowly(self) -> AsyncGenerator[None]:
        for _ in range(self.before):
            await asyncio.sleep(0)
        yield
        for _ in range(self.after):
            await asyncio.sleep(0)


@tool
async def pay(ctx: RunContext, amount: int) -> str:
    """Pay."""
    ctx.state.set("paid", amount)
    await asyncio.sleep(0)
    return "paid"


def agent_over(store: MemoryStore) -> Agent[None, str]:
    """An agent that pays twice and says so."""
    model = ScriptedModel(
        [calls(("1", "pay", {"amount": 1}), ("2", "pay", {"amount": 2})), "done", "next"]
    )
    return Agent("a", model, tools=[pay], store=store, max_parallel_tools=1)


@pytest.mark.parametrize(("before", "after"), [(2, 0), (0, 2), (1, 1)])
@pytest.mark.parametrize("steps", range(2, 60, 3))
async def test_cancelled_anywhere(steps: int, before: int, after: int) -> None:
    """The result and the journal tell the same, the end is stored, and the next run goes on."""
    store = Slow(before=before, after=after)
    agent = agent_over(store)
    run = agent.start("x", conversation="c")
    for _ in range(steps):
        await asyncio.sleep(0)
    result = await run.cancel("enough") or await run

    batches = [(batch.revision, batch.entries) for batch in await store.read("c")]
    entries = [entry for _, entries in batches for entry in entries]
    if any(isinstance(entry, RunBegan) for entry in entries):
        assert isinstance(entries[-1], RunEnded)
        assert entries[-1].stop_reason == result.stop_reason
        assert list(fold(batches).messages) == list(result.messages)
        assert fold(batches).state == result.state.packed()
    assert (await store.head("c")).status in ("new", "answered", "stopped")
    assert (await agent.run("go on", conversation="c")).stop_reason == "answer"


@pytest.mark.parametrize("works", range(5))
async def test_a_store_that_goes_on_failing(works: int) -> None:
    """The history on the error is one that any provider takes."""
    with pytest.raises(RunFailed, match="disk full") as caught:
        await agent_over(Slow(works=works)).run("x", conversation="c")

    messages = caught.value.result.messages
    for place, message in enumerate(messages):
        asked = [call.id for call in message.tool_calls]
        if asked:
            assert [found.call_id for found in messages[place + 1].tool_results] == asked


async def test_a_second_cancel_while_the_end_is_stored() -> None:
    """The end is stored all the same."""
    store = Slow(before=5)
    task = asyncio.ensure_future(agent_over(store).run("x", conversation="c"))
    for _ in range(12):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert (await store.head("c")).status == "stopped"


async def test_a_deadline_in_a_task_that_was_cancelled_before() -> None:
    """It ends the run as a deadline, and leaves no cancellation behind."""

    @tool
    async def hangs() -> str:
        """Hang."""
        await asyncio.get_running_loop().create_future()
        return ""

    limits = Limits(deadline=timedelta(milliseconds=5))
    model = ScriptedModel([calls(("1", "hangs", {}))] * 2)
    agent = Agent("a", model, tools=[hangs], limits=limits)
    reasons: list[str] = []
    counts: list[int] = []

    async def summarise() -> None:
        task = asyncio.current_task()
        assert task is not None
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            for _ in range(2):
                reasons.append((await agent.run("x")).stop_reason)
                counts.append(task.cancelling())

    task = asyncio.ensure_future(summarise())
    await asyncio.sleep(0)
    task.cancel()
    await task

    assert (reasons, counts) == (["deadline", "deadline"], [1, 1])


async def test_nobody_is_left_without_an_answer() -> None:
    """S3: a new conversation without input is refused, before anything is written."""
    store = MemoryStore()
    with pytest.raises(TreadleError, match="nothing to say"):
        await agent_over(store).run(conversation="new")

    assert (await store.read("new")) == []
