"""What somebody approved runs once: a process that died in it has used the approval."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from treadle import Agent, Approve, Conversation, Deny, Edit, MemoryStore, RunContext, tool
from treadle.events import ApprovalRequested
from treadle.journal import ApprovalAsked, ApprovalDecided, CallBegan, RunResumed
from treadle.ports.approval import Decision
from treadle.testing import FunctionModel, calls
from treadle.testing.scripted import last_text

AGAIN = "Again?"


def agent_with(did: list[str], **options: Any) -> Agent[None, str]:
    """An agent that deploys once, which somebody has to approve."""

    @tool(approval=True, **options)
    async def deploy(ctx: RunContext, place: str) -> str:
        """Deploy."""
        did.append(f"{place} {ctx.idempotency_key}")
        return f"deployed to {place}"

    def answer(request: Any) -> Any:
        if len(request.messages) == 1:
            return calls(("c1", "deploy", {"place": "here"}))
        return last_text(request)

    return Agent("a", FunctionModel(answer), tools=[deploy])


async def die_in_the_call(store: MemoryStore, verdict: Any = "approve", raw: str = "") -> None:
    """Take the decision and begin the call, as a process does that dies then."""
    found = [e for batch in await store.read("c") for e in batch.entries]
    asked = [entry for entry in found if isinstance(entry, ApprovalAsked)][-1]
    now = datetime.now(UTC)
    decided = ApprovalDecided(
        run_id="r", at=now, call_id="c1", digest=asked.digest, verdict=verdict, raw=raw or None
    )
    head, lease = await store.claim("c", "dead", 60)
    resumed, began = RunResumed(run_id="r", at=now), CallBegan(run_id="r", at=now, call_id="c1")
    await store.append("c", head.revision, [resumed, decided, began], fence=lease.fence)
    await store.release(lease)


async def paused(agent: Agent[None, str]) -> MemoryStore:
    """Run until it waits for the approval."""
    store = MemoryStore()
    result = await agent.run("go", conversation="c", run_id="r", store=store)
    assert result.stop_reason == "paused"
    return store


async def pending_reason(store: MemoryStore) -> str:
    """The question of the one call that waits."""
    (call,) = await (await Conversation.open("c", store=store)).pending()
    return call.reason


async def test_an_approved_call_that_was_interrupted_does_not_run_again() -> None:
    """J5: the model is told that its outcome is unknown; an approval is not one to run twice."""
    did: list[str] = []
    agent = agent_with(did)
    store = await paused(agent)
    await die_in_the_call(store)
    result = await agent.resume("r", store=store, decisions={"c1": Approve()})

    assert did == []
    assert "unknown" in result.output
    assert [r.synthetic for r in result.tool_results] == [True]
    assert result.usage.tool_calls == 1


async def test_an_approved_call_that_is_idempotent_runs_again() -> None:
    """J5: nobody has to be asked a second time, and an edit still holds."""
    did: list[str] = []
    agent = agent_with(did, idempotent=True)
    store = await paused(agent)
    await die_in_the_call(store, "edit", '{"place": "there"}')
    result = await agent.resume("r", store=store)

    assert did == ["there r:c1"]
    assert "deployed to there" in result.output
    assert "changed the arguments" in result.output
    assert result.usage.tool_calls == 1


@pytest.mark.parametrize(
    ("decision", "made"),
    [(Approve(), ["here r:c1"]), (Edit({"place": "there"}), ["there r:c1"]), (Deny(), [])],
)
async def test_somebody_is_asked_whether_it_runs_again(decision: Decision, made: list[str]) -> None:
    """J5: with `on_unknown="ask"`, after every crash anew, and what is decided then counts."""
    did: list[str] = []
    agent = agent_with(did, on_unknown="ask")
    store = await paused(agent)
    key = ""
    for _ in range(3):
        await die_in_the_call(store)
        result = await agent.resume("r", store=store)
        assert result.stop_reason == "paused"
        assert AGAIN in await pending_reason(store)
        again = await agent.resume("r", store=store)
        assert again.stop_reason == "paused", "it was not decided meanwhile"
        key = again.pending[0].call_id
    result = await agent.resume("r", store=store, decisions={key: decision})

    assert did == made
    assert result.stop_reason == "answer"
    assert result.usage.tool_calls == 1


async def test_it_is_decided_while_the_run_asks_again() -> None:
    """S57: a decision that comes to the process that asked is the one that counts."""
    did: list[str] = []
    agent = agent_with(did, on_unknown="ask")
    store = await paused(agent)
    await die_in_the_call(store)
    run = agent.resume("r", store=store)
    async for event in run:
        if isinstance(event, ApprovalRequested):
            await run.decide({event.call_id: Approve()})
    result = await run

    if result.stop_reason == "paused":  # it paused before the decision was heard
        result = await agent.resume("r", store=store)
    assert did == ["here r:c1"]
    assert result.stop_reason == "answer"
