"""Agents in the background that wait for somebody, or whose run does."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.agent.nested import playing
from tests.agent.parts import check_answered
from tests.agent.test_slow_stores import Slow
from tests.workflows.crews import boss, outputs, starts, waits
from tests.workflows.test_delegates import Gated
from treadle import (
    Agent,
    Approve,
    Conversation,
    Deny,
    Interrupt,
    MemoryStore,
    ModelRequest,
    delegates,
    open_store,
    tool,
)
from treadle.events import AgentLeft, ApprovalRequested
from treadle.journal import ChildEnded
from treadle.ports.approval import Decision
from treadle.testing import calls
from treadle.testing.scripted import last_text


def deploying(did: list[str]) -> Agent[Any, Any]:
    """An agent whose tool somebody has to approve."""

    @tool(approval=True)
    async def deploy(place: str) -> str:
        """Deploy."""
        did.append(place)
        return f"deployed {place}"

    return Agent(
        "scout", playing(calls(("d", "deploy", {"place": "here"})), last_text), tools=[deploy]
    )


@pytest.mark.parametrize(
    ("decision", "made", "told"),
    [(Approve(), ["here"], "deployed here"), (Deny("not today"), [], "not today")],
)
@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_waiting_for_one_that_waits_for_somebody(
    kind: str, tmp_path: Path, decision: Decision, made: list[str], told: str
) -> None:
    """The run pauses; another process decides, and both go on where they were."""
    did: list[str] = []
    store = open_store("memory:" if kind == "memory" else f"sqlite:///{tmp_path}/chat.db")
    rounds = (starts(("a", "scout", "ship it")), waits("w"), outputs)
    run = boss(*rounds, agents=[deploying(did)]).start("go", store=store, run_id="r")
    events = [event async for event in run]
    paused = await run
    (call,) = paused.pending
    assert (call.path, call.call_id, call.name) == ("scout#1", "scout#1:d", "deploy")
    assert paused.reason == "Somebody has to decide on deploy."
    assert [e.path for e in events if isinstance(e, ApprovalRequested)] == ["scout#1"]
    assert [e.stop_reason for e in events if isinstance(e, AgentLeft)] == ["paused"]
    assert events[-1].type == "run.paused"
    assert did == []
    conversation = await Conversation.open(paused.conversation_id, store=store)
    assert await conversation.pending() == paused.pending

    later = boss(*rounds, agents=[deploying(did)])
    result = await later.resume("r", store=store, decisions={call.call_id: decision})
    assert told in result.output
    assert did == made
    check_answered(list(result.messages))
    await store.close()


async def test_a_decision_while_the_run_is_at_work() -> None:
    """The agent goes on at once, and the run that waits for it never pauses."""
    did: list[str] = []
    other = Gated("other")
    begins = starts(("a", "scout", "ship it"), ("b", "other", "hold"))
    agent = boss(begins, waits("w"), outputs, agents=[deploying(did), other.agent])
    run = agent.start("go", store=MemoryStore())
    async for event in run:
        if isinstance(event, ApprovalRequested):
            await run.decide({event.call_id: Approve()})
        if isinstance(event, AgentLeft) and event.stop_reason == "answer":
            other.gate.set()
    result = await run
    assert result.output == "deployed here; heard hold"
    assert did == ["here"]


async def test_a_run_that_pauses_lets_them_finish() -> None:
    """Its own call waits for somebody: it pauses when nothing else can go on."""
    scout, did = Gated(), list[str]()

    @tool(approval=True)
    async def pay() -> str:
        """Pay."""
        did.append("paid")
        return "paid"

    rounds = (starts(("a", "scout", "look")), calls(("p", "pay", {})), waits("w"), outputs)

    def agent() -> Agent[Any, Any]:
        tools = [pay, *delegates([scout.agent])]
        return Agent("boss", playing(*rounds), tools=tools)

    store = MemoryStore()
    run = agent().start("go", store=store, run_id="r")
    await scout.asked.wait()
    await asyncio.sleep(0.01)
    assert not run.done
    scout.gate.set()
    paused = await run
    assert [call.call_id for call in paused.pending] == ["p"]
    result = await agent().resume("r", store=store, decisions={"p": Approve()})
    assert (result.output, did) == ("heard look", ["paid"])


async def test_a_decision_while_only_they_are_at_work() -> None:
    """The run goes on at once; it does not wait for them to finish first."""
    scout = Gated()

    @tool(approval=True)
    async def pay() -> str:
        """Pay."""
        scout.gate.set()
        return "paid"

    rounds = (starts(("a", "scout", "look")), calls(("p", "pay", {})), waits("w"), outputs)
    agent = Agent("boss", playing(*rounds), tools=[pay, *delegates([scout.agent])])
    run = agent.start("go", store=MemoryStore())
    async for event in run:
        if isinstance(event, ApprovalRequested):
            await run.decide({event.call_id: Approve()})
    assert (await run).output == "heard look"


async def test_both_wait_for_somebody() -> None:
    """All calls that wait are told, each once."""
    did: list[str] = []

    @tool(approval=True)
    async def pay() -> str:
        """Pay."""
        return "paid"

    rounds = (
        starts(("a", "scout", "ship")),
        calls(("p", "pay", {}), ("w", "wait_for_delegate", {})),
        outputs,
    )
    tools = [pay, *delegates([deploying(did)])]
    store = MemoryStore()
    agent = Agent("boss", playing(*rounds), tools=tools)
    paused = await agent.run("go", store=store, run_id="r")
    assert sorted(call.call_id for call in paused.pending) == ["p", "scout#1:d"]
    decisions = {call.call_id: Approve() for call in paused.pending}
    result = await agent.resume("r", store=store, decisions=decisions)
    assert (result.output, did) == ("deployed here", ["here"])


@pytest.mark.parametrize("on_end", ["cancel", "wait"])
async def test_the_run_answers_while_one_waits_for_somebody(on_end: str) -> None:
    """It is cancelled; or the run pauses until somebody has decided."""
    did, store = list[str](), MemoryStore()
    rounds = (starts(("a", "scout", "ship")), waits("w", "scout#1", timeout=0.01), "done")
    begins, _, done = rounds

    async def begun(_: ModelRequest) -> Any:
        await asyncio.sleep(0.01)
        return done

    agent = boss(begins, begun, "done again", agents=[deploying(did)], on_end=on_end)
    result = await agent.run("go", store=store, run_id="r", conversation="c")
    if on_end == "cancel":
        assert (result.output, did) == ("done", [])
        ends = [e for b in await store.read("c") for e in b.entries if isinstance(e, ChildEnded)]
        assert [(e.path, e.stop_reason) for e in ends] == [("scout#1", "cancelled")]
        assert await (await Conversation.open("c", store=store)).pending() == []
    else:
        assert result.stop_reason == "paused"
        (call,) = result.pending
        result = await agent.resume("r", store=store, decisions={call.call_id: Approve()})
        assert (result.output, did) == ("done again", ["here"])
    assert result.stop_reason == "answer"


async def test_one_that_interrupts() -> None:
    """Waiting for it pauses the run; a resume goes on with both."""

    @tool
    async def stop() -> Interrupt:
        """Stop."""
        return Interrupt("Have a look.")

    def agent() -> Agent[Any, Any]:
        scout = Agent("scout", playing(calls(("s", "stop", {})), "looked"), tools=[stop])
        return boss(starts(("a", "scout", "look")), waits("w"), outputs, agents=[scout])

    store = MemoryStore()
    paused = await agent().run("go", store=store, run_id="r")
    assert (paused.stop_reason, paused.reason, paused.pending) == ("paused", "Have a look.", [])
    result = await agent().resume("r", store=store)
    assert result.output == "looked"


async def test_without_a_store_one_that_waits_pauses_the_run() -> None:
    """Nothing can be decided later, and the run says so by pausing."""
    agent = boss(starts(("a", "scout", "ship")), waits("w"), "done", agents=[deploying([])])
    paused = await agent.run("go")
    assert paused.stop_reason == "paused"
    assert [call.name for call in paused.pending] == ["deploy"]


@pytest.mark.parametrize("ends", ["cancel", "answer"])
async def test_the_run_stops_as_one_comes_to_wait_for_somebody(ends: str) -> None:
    """Whenever it does, it ends, and leaves nothing at work."""
    for turns in range(60):
        did, gate = list[str](), asyncio.Event()

        async def answers(_: ModelRequest, gate: asyncio.Event = gate) -> str:
            await gate.wait()
            return "done"

        agent = boss(starts(("a", "scout", "ship")), answers, agents=[deploying(did)])
        run = agent.start("go", store=Slow(after=1))
        for _ in range(turns):
            await asyncio.sleep(0)
        async with asyncio.timeout(20):
            if ends == "cancel":
                await run.cancel()
            else:
                gate.set()
                assert (await run).output == "done"
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert not did
