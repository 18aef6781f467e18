"""What becomes of agents in the background when their run answers, stops, pauses or goes on."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from tests.agent.nested import playing
from tests.agent.parts import Hanging, check_answered
from tests.workflows.crews import Crewed, boss, outputs, starts, states, waits
from tests.workflows.test_delegates import Gated, playing_from
from tests.workflows.test_delegates_pausing import deploying
from treadle import (
    Agent,
    Conversation,
    DefinitionChanged,
    Limits,
    MemoryStore,
    ModelRequest,
    RunFailed,
    tool,
)
from treadle.events import DelegateFinished
from treadle.journal import ChildBegan, ChildEnded
from treadle.testing.scripted import last_text


def tasks() -> set[asyncio.Task[Any]]:
    """What is at work besides this."""
    return asyncio.all_tasks() - {asyncio.current_task()}  # type: ignore[arg-type]


@pytest.mark.parametrize("stored", [False, True])
async def test_when_the_run_answers_they_are_cancelled(stored: bool) -> None:
    """Nothing outlives the run, and what became of them is told."""
    model, store = Hanging(), MemoryStore() if stored else None

    async def begun(_: ModelRequest) -> Any:
        await model.asked.wait()
        return "done"

    agent = boss(starts(("a", "scout", "look")), begun, agents=[Agent("scout", model)])
    run = agent.start("go", store=store)
    (event,) = [event async for event in run if isinstance(event, DelegateFinished)]
    result = await run
    assert result.output == "done"
    assert model.stopped.is_set()
    assert event.stop_reason == "cancelled"
    assert "The run that it worked for has ended." in str(event.error)
    assert not {task for task in tasks() if "scout" in task.get_name()}
    if store is not None:
        view = await (await Conversation.open(result.conversation_id, store=store)).view()
        ended = view.children["scout#1"].ended
        assert ended is not None
        assert ended.stop_reason == "cancelled"
        assert view.runs[result.run_id].status == "answered"


@pytest.mark.parametrize("stored", [False, True])
async def test_when_the_run_answers_they_are_waited_for(stored: bool) -> None:
    """With `on_end="wait"` the answer comes when their work is done."""
    scout, store = Gated(), MemoryStore() if stored else None

    async def begun(_: ModelRequest) -> Any:
        await scout.asked.wait()
        asyncio.get_running_loop().call_later(0.01, scout.gate.set)
        return "done"

    agent = boss(starts(("a", "scout", "look")), begun, agents=[scout.agent], on_end="wait")
    run = agent.start("go", store=store)
    (event,) = [event async for event in run if isinstance(event, DelegateFinished)]
    result = await run
    assert (result.output, event.stop_reason) == ("done", "answer")
    assert result.usage.requests == 3


async def test_steering_while_they_are_waited_for() -> None:
    """J8: the run takes another turn with it."""
    scout = Gated()

    async def begun(_: ModelRequest) -> Any:
        await scout.asked.wait()
        asyncio.get_running_loop().call_later(0.02, scout.gate.set)
        return "done"

    agent = boss(
        starts(("a", "scout", "look")), begun, last_text, agents=[scout.agent], on_end="wait"
    )
    run = agent.start("go", store=MemoryStore())
    await scout.asked.wait()
    await asyncio.sleep(0.01)
    await run.steer("One more thing.")
    assert (await run).output == "One more thing."


@pytest.mark.parametrize("ends", ["cancelled", "deadline", "failed"])
async def test_when_the_run_stops_they_rest(ends: str) -> None:
    """S48: ending the parent ends them; a resume goes on with them."""
    model, store = Hanging(), MemoryStore()

    async def begun(_: ModelRequest) -> Any:
        await model.asked.wait()
        if ends == "failed":
            raise ValueError("the boss is ill")
        return waits("w")

    limits = Limits(deadline=timedelta(seconds=0.05)) if ends == "deadline" else Limits()
    rounds = (starts(("a", "scout", "look")), begun)
    first = boss(*rounds, agents=[Agent("scout", model)])
    run = first.start("go", store=store, run_id="r", conversation="c", limits=limits)
    await model.asked.wait()
    if ends == "cancelled":
        await asyncio.sleep(0.01)
        await run.cancel()
    if ends == "failed":
        with pytest.raises(RunFailed, match="the boss is ill"):
            await run
    else:
        assert (await run).stop_reason == ends
    assert model.stopped.is_set()
    assert not {task for task in tasks() if "scout" in task.get_name()}
    entries = [e for b in await store.read("c") for e in b.entries]
    assert not [entry for entry in entries if isinstance(entry, ChildEnded)]

    later = boss(rounds[0], waits("w"), waits("x"), outputs, agents=[Agent("scout", playing("ok"))])
    result = await later.resume("r", store=store, limits=Limits())
    assert result.output.endswith("ok")
    entries = [e for b in await store.read("c") for e in b.entries]
    assert len([entry for entry in entries if isinstance(entry, ChildBegan)]) == 1
    assert len([entry for entry in entries if isinstance(entry, ChildEnded)]) == 1


async def test_when_the_task_of_a_run_is_cancelled() -> None:
    """As when a process is told to end: all let go, and can be resumed."""
    model, store = Hanging(), MemoryStore()
    agent = boss(starts(("a", "scout", "look")), waits("w"), agents=[Agent("scout", model)])
    task = asyncio.ensure_future(agent.run("go", store=store, run_id="r", conversation="c"))
    await model.asked.wait()
    for each in tasks():
        each.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    entries = [e for b in await store.read("c") for e in b.entries]
    assert not [entry for entry in entries if isinstance(entry, ChildEnded)]
    later = boss(
        starts(("a", "scout", "look")),
        waits("w"),
        waits("x"),
        outputs,
        agents=[Agent("scout", playing("ok"))],
    )
    assert (await later.resume("r", store=store)).output.endswith("ok")


async def test_what_had_ended_is_known_after_a_resume() -> None:
    """Its output, how much it took, and its ID."""
    store = MemoryStore()

    def broken(_: ModelRequest) -> Any:
        raise ValueError("the boss is ill")

    begins = starts(("a", "scout", "look"))
    first = boss(begins, waits("w"), broken, agents=[Agent("scout", playing("found"))])
    with pytest.raises(RunFailed):
        await first.run("go", store=store, run_id="r")
    later = boss(begins, waits("w"), waits("x"), outputs, agents=[Agent("scout", playing("never"))])
    result = await later.resume("r", store=store)
    assert result.output == "found"
    before, after = result.tool_results[1].value[0], result.tool_results[2].value[0]
    assert {**before, "seconds": 0} == {**after, "seconds": 0}


async def test_a_new_run_instead_of_a_resume() -> None:
    """It begins with nothing in the background; the old one's calls have marked results."""
    store = MemoryStore()
    agent = boss(starts(("a", "scout", "ship")), waits("w"), "done", agents=[deploying([])])
    await agent.run("go", store=store, conversation="c")
    later = boss(starts(("b", "scout", "again")), states, agents=[Agent("scout", playing("ok"))])
    later = boss(
        starts(("b", "scout", "x")), waits("v"), states, agents=[Agent("scout", playing("ok"))]
    )
    later = later.replace(model=playing_from(later.model))
    result = await later.run("another", store=store, conversation="c")
    assert result.output == "scout#1 done"
    check_answered(list(result.messages))


async def test_forks_at_every_revision() -> None:
    """J9: the copy is a valid history, in which nobody works or waits."""
    store = MemoryStore()
    await Crewed().boss.run("go", store=store, conversation="c")
    did: list[str] = []
    agent = boss(starts(("a", "scout", "ship")), waits("w"), "done", agents=[deploying(did)])
    await agent.run("go", store=store, conversation="d")
    for name in ("c", "d"):
        conversation = await Conversation.open(name, store=store)
        for revision in range(1, conversation.head.revision + 1):
            copy = await conversation.fork(revision=revision)
            assert (await copy.view()).children == {}
            assert await copy.pending() == []
            again = Agent("boss", playing_from(playing("I see.")))
            result = await again.run("Well?", store=store, conversation=copy.id)
            check_answered(list(result.messages))
            assert result.output == "I see."


async def test_agents_belong_to_the_definition() -> None:
    """A resume notices when one has changed."""

    def broken(_: ModelRequest) -> Any:
        raise ValueError("the boss is ill")

    @tool
    async def look() -> str:
        """Look."""
        return "seen"

    store = MemoryStore()
    begins = starts(("a", "scout", "look"))
    agent = boss(begins, broken, agents=[Agent("scout", Hanging(), tools=[look])])
    with pytest.raises(RunFailed):
        await agent.run("go", store=store, run_id="r")
    changed = boss(begins, "done", agents=[Agent("scout", playing("ok"))])
    with pytest.raises(DefinitionChanged, match="tool look of delegate scout is gone"):
        await changed.resume("r", store=store)
    gone = boss(begins, waits("w"), outputs, agents=[Agent("other", playing("ok"))])
    result = await gone.resume("r", store=store, on_change="accept")
    assert "There is no agent 'scout'" in result.output
