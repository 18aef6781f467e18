"""Runs of swarms that pause, are steered, cancelled, limited, forked, resumed, watched."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from tests.agent.parts import Hanging, check_answered
from tests.workflows.desk import Desk, consults, hands, member, opened, repeats, said_in, says
from treadle import (
    END,
    START,
    Agent,
    Approve,
    Conversation,
    DefinitionChanged,
    Deny,
    Graph,
    Limits,
    MemoryStore,
    Swarm,
    TreadleError,
)
from treadle.events import AgentEntered, AgentLeft, HandedOff, NodeStarted
from treadle.journal import InboxApplied
from treadle.testing import ScriptedModel, raises


class Held:
    """Holds a question to a model up until it is let go."""

    def __init__(self, *asked: str) -> None:
        self._asked = asked
        self.begun, self.go = asyncio.Event(), asyncio.Event()

    async def __call__(self, asked: str) -> None:
        if asked in self._asked:
            self.begun.set()
            await self.go.wait()


@pytest.mark.parametrize("decision", [Approve(), Deny("not today")])
@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_a_member_waits_for_somebody(decision: Any, kind: str, tmp_path: Any) -> None:
    """C1: decided with another handle, in a swarm that is built anew; nothing is repeated."""
    url = "memory:" if kind == "memory" else f"sqlite:///{tmp_path}/s.db"
    async with opened(url) as store:
        first = Desk(approval=True)
        paused = await first.swarm.run("I paid twice.", store=store, run_id="r")
        assert paused.stop_reason == "paused"
        assert [(c.call_id, c.name) for c in paused.pending] == [("refund#1:p", "pay")]
        assert (paused.agent, paused.handoff_chain) == ("refund", ["triage", "billing", "refund"])
        assert len(paused.steps) == 2
        other = Desk(approval=True)
        result = await other.swarm.resume("r", store=store, decisions={"refund#1:p": decision})
        assert result.output == "It is paid."
        assert other.asked == ["refund 1"]
        paid = isinstance(decision, Approve)
        assert [key.rpartition(":")[2] for key in other.did] == (["p"] if paid else [])
        assert len(result.steps) == 3
        assert result.usage.requests == 7
        check_answered(list(result.messages))


async def test_who_is_asked_waits_for_somebody() -> None:
    """A call of a member that another one asked."""
    store = MemoryStore()

    def make() -> Swarm[str]:
        desk = Desk(approval=True)
        one = member("one", consults("refund", "Pay."), repeats)
        return Swarm("s", agents=[one, desk.refund], store=store)

    paused = await make().run("Go.", run_id="r")
    assert [c.call_id for c in paused.pending] == ["one#1/refund#1:p"]
    assert (paused.agent, paused.handoff_chain) == ("one", ["one"])
    decisions = {paused.pending[0].call_id: Approve()}
    result = await make().resume("r", decisions=decisions)
    assert (result.output, result.agent) == ("It is paid.", "one")


async def test_steering_reaches_who_is_at_work() -> None:
    """S47: the member hears it at its next turn, and who takes over is told."""
    held = Held("triage 0")
    desk, store = Desk(on_ask=held), MemoryStore()
    run = desk.swarm.start("I paid twice.", store=store, conversation="c")
    await held.begun.wait()
    receipt = await run.steer("By card.")
    held.go.set()
    result = await run
    assert receipt.status == "applied"
    heard = [name for name, request in desk.requests[1:] if "By card." in said_in(request)[-1]]
    assert heard == ["triage", "triage", "billing", "billing", "refund", "refund"]
    told = "billing has handed this conversation over to you: Pay 50."
    assert said_in(result) == [f"{told}\nThe user said:\nI paid twice.\nThen:\nBy card."]
    paths = {
        e.path for b in await store.read("c") for e in b.entries if isinstance(e, InboxApplied)
    }
    assert paths == {"triage#1"}
    assert result.agent == "refund"
    check_answered(list(result.messages))


@pytest.mark.parametrize("on_steer", ["continue", "carry_over", "discard"])
async def test_steering_as_it_answers(on_steer: Any) -> None:
    """J8: the member goes on; or the next run does; or nobody."""
    held = Held("refund 1")
    desk, store = Desk(on_ask=held), MemoryStore()
    run = desk.swarm.start("I paid twice.", store=store, conversation="c", on_steer=on_steer)
    await held.begun.wait()
    receipt = await run.steer("Thanks.")
    held.go.set()
    result = await run
    assert (
        receipt.status
        == {
            "continue": "applied",
            "carry_over": "carried_over",
            "discard": "discarded",
        }[on_steer]
    )
    assert ("Thanks." in [m.text for m in result.messages]) == (on_steer == "continue")
    assert result.handoff_chain == ["triage", "billing", "refund"]
    assert result.agent == "refund"
    check_answered(list(result.messages))


@pytest.mark.parametrize("at", ["triage 0", "billing 0", "billing 1", "refund 1"])
async def test_cancel_and_go_on(at: str) -> None:
    """B17: wherever it is; nothing is left, and nothing is repeated."""
    held, before = Held(at), asyncio.all_tasks()
    desk, store = Desk(on_ask=held), MemoryStore()
    run = desk.swarm.start("I paid twice.", store=store, conversation="c", run_id="r")
    await held.begun.wait()
    await run.cancel("enough")
    result = await run
    assert (result.stop_reason, result.agent) == ("cancelled", at.split()[0])
    assert asyncio.all_tasks() - before == set()
    kept = await Conversation.open("c", store=store)
    assert list(await kept.messages()) == list(result.messages)
    check_answered(list(result.messages))
    other = Desk()
    after = await other.swarm.resume("r", store=store)
    assert after.output == "It is paid."
    assert other.asked[0] == at
    assert len(desk.asked) + len(other.asked) == 8
    assert len(desk.did) + len(other.did) == 3
    assert after.usage.requests == 7


@pytest.mark.parametrize("at", ["triage 1", "billing 1", "refund 1"])
async def test_a_conversation_goes_on_after_a_cancel(at: str) -> None:
    """With who was at work, in its history."""
    held = Held(at)
    desk, store = Desk(on_ask=held), MemoryStore()
    run = desk.swarm.start("I paid twice.", store=store, conversation="c")
    await held.begun.wait()
    await run.cancel("enough")
    stopped = await run
    model = ScriptedModel(["I am here."])
    after = await Desk().swarm.run("Who is there?", store=store, conversation="c", model=model)
    assert (after.output, after.agent) == ("I am here.", at.split()[0])
    said = [m.text for m in after.messages]
    assert said[: len(stopped.messages)] == [m.text for m in stopped.messages]
    assert said[-2:] == ["Who is there?", "I am here."]
    check_answered(list(after.messages))


async def test_deadline() -> None:
    """B20: of the whole run, for whoever is at work."""
    hanging, before = Hanging(), asyncio.all_tasks()
    swarm = Swarm("s", agents=[member("one", hands("two")), Agent("two", hanging)])
    limits = Limits(deadline=timedelta(milliseconds=100))
    result = await swarm.run("Go.", limits=limits)
    assert (result.stop_reason, result.agent) == ("deadline", "two")
    assert hanging.stopped.is_set()
    assert asyncio.all_tasks() - before == set()


async def test_limits_of_the_whole_run() -> None:
    """C21: members share them; what they used counts once."""
    result = await Desk(limits=Limits(max_turns=4)).swarm.run("Go.")
    assert (result.stop_reason, result.agent) == ("limit", "billing")
    assert result.usage.requests == 5, "and one more, to say what there is"
    check_answered(list(result.messages))
    tokens = Limits(max_turns=None, max_tokens=30)
    result = await Desk().swarm.run("Go.", limits=tokens)
    assert result.stop_reason == "budget"
    assert result.usage.total_tokens <= 30
    check_answered(list(result.messages))


async def test_a_member_that_fails() -> None:
    """The run fails with its error, and goes on where it failed."""
    store = MemoryStore()

    def make(*script: Any) -> Swarm[str]:
        return Swarm("s", agents=[member("one", hands("two")), Agent("two", ScriptedModel(script))])

    with pytest.raises(TreadleError, match="broken") as caught:
        await make(raises(ValueError("broken"))).run("Go.", store=store, run_id="r")
    assert caught.value.result.agent == "two"
    assert caught.value.result.handoff_chain == ["one", "two"]
    result = await make("hi").resume("r", store=store)
    assert (result.output, result.usage.requests) == ("hi", 2)


async def test_fork() -> None:
    """C6: another way on from the handoff; the first one stays as it was."""
    desk, store = Desk(), MemoryStore()
    first = await desk.swarm.run("Go.", store=store, conversation="c")
    fork = await (await Conversation.open("c", store=store)).fork()
    model = ScriptedModel(["Another."])
    other = await Desk().swarm.run("And?", store=store, conversation=fork.id, model=model)
    assert (other.agent, other.output) == ("refund", "Another.")
    kept = await Conversation.open("c", store=store)
    assert list(await kept.messages()) == list(first.messages)


def renaming(**names: str) -> Callable[[Any], dict[str, str]]:
    """Return what says how things are called now."""
    return lambda changes: names


async def test_a_member_is_renamed_while_it_waits() -> None:
    """B9: refused in words; with what it is called now it goes on."""
    store = MemoryStore()
    await Desk(approval=True).swarm.run("Go.", store=store, run_id="r")

    def make(name: str) -> Swarm[str]:
        desk = Desk(approval=True)
        return Swarm(
            "desk",
            agents=[desk.triage, desk.billing, desk.refund.replace(name=name)],
            handoffs={"triage": ["billing"], "billing": [name], name: ["triage"]},
        )

    decisions = {"refund#1:p": Approve()}
    with pytest.raises(DefinitionChanged) as caught:
        await make("cashier").resume("r", store=store, decisions=decisions)
    assert "member refund is called cashier now" in caught.value.changes
    result = await make("cashier").resume(
        "r", store=store, decisions=decisions, on_change=renaming(refund="cashier")
    )
    assert (result.output, result.usage.requests) == ("It is paid.", 7)


async def test_a_member_that_is_gone() -> None:
    """Accepted, it fails by name where that member was at work; another changes nothing."""
    store = MemoryStore()
    await Desk(approval=True).swarm.run("Go.", store=store, run_id="r")
    desk = Desk(approval=True)
    fewer = Swarm("desk", agents=[desk.triage, desk.billing])
    decisions = {"refund#1:p": Approve()}
    with pytest.raises(TreadleError, match="'refund' was at work and is no member any more"):
        await fewer.resume("r", store=store, decisions=decisions, on_change="accept")
    without = Swarm("desk", agents=[desk.refund, desk.billing])
    result = await without.resume("r", store=store, decisions=decisions, on_change="accept")
    assert result.output == "It is paid."


async def test_what_is_refused_by_itself() -> None:
    """A table, a tool of a member, a member: each in words."""
    store = MemoryStore()
    await Desk(approval=True).swarm.run("Go.", store=store, run_id="r")
    desk = Desk(approval=True)
    agents = [desk.triage, desk.billing.replace(tools=[]), desk.refund, member("new", says("x"))]
    changed = Swarm("desk", agents=agents, handoffs={"triage": ["billing", "refund"]}, consults={})
    with pytest.raises(DefinitionChanged) as caught:
        await changed.resume("r", store=store)
    told = caught.value.changes
    assert "member new is new" in told
    assert "handoff from billing to refund is gone" in told
    assert "handoff from triage to refund is new" in told
    assert "consult of refund by billing is gone" in told
    assert "tool pay of billing is gone" in told


async def test_events_have_their_paths() -> None:
    """One sequence; who entered and left, and where."""
    run = Desk().swarm.start("Go.")
    events = [event async for event in run]
    assert [e.seq for e in events] == sorted({e.seq for e in events})
    entered = [(e.path, e.agent) for e in events if isinstance(e, AgentEntered)]
    left = [(e.path, e.agent) for e in events if isinstance(e, AgentLeft)]
    assert entered == [
        ("triage#1", "triage"),
        ("billing#1", "billing"),
        ("billing#1/refund#1", "refund"),
        ("refund#1", "refund"),
    ]
    assert sorted(left) == sorted(entered)
    await run


async def test_the_tree_of_spans() -> None:
    """S70: graph, node, swarm, agent, model and tool; each that begins ends; own observers too."""
    desk = Desk()
    graph = Graph("shop").add_node("help", desk.swarm).add_edge(START, "help").add_edge("help", END)

    class Watching:
        def __init__(self) -> None:
            self.events: list[Any] = []

        def on_event(self, event: Any) -> None:
            self.events.append(event)

    watching = Watching()
    result = await graph.run("Go.", observers=[watching])
    assert result.output == "It is paid."
    events = watching.events
    parents = {e.span_id: e.parent_id for e in events}
    (node,) = [e for e in events if isinstance(e, NodeStarted)]
    begun = {e.agent: e for e in events if isinstance(e, AgentEntered) and e.path.count("/") < 3}
    root = events[0].span_id
    assert events[0].type == "run.started"
    assert parents[node.span_id] == root
    assert parents[begun["desk"].span_id] == node.span_id
    for name in ("triage", "billing"):
        assert parents[begun[name].span_id] == begun["desk"].span_id

    def above(event: Any) -> list[str]:
        found, at = list[str](), event.span_id
        while at is not None:
            found.append(at)
            at = parents.get(at)
        return found

    paid = next(e for e in events if e.type == "tool.started" and e.name == "pay")
    assert above(paid)[-1] == root
    assert begun["desk"].span_id in above(paid)
    handed = [e for e in events if isinstance(e, HandedOff)]
    assert [parents[e.span_id] for e in handed] == [begun["desk"].span_id] * 2
    for starts, ends in (
        ("run.started", "run.finished"),
        ("node.started", "node.finished"),
        ("agent.entered", "agent.left"),
        ("model.started", "model.finished"),
        ("tool.started", "tool.finished"),
    ):
        spans = [e.span_id for e in events if e.type == starts]
        done = [e for e in events if e.type == ends]
        assert spans
        assert sorted(spans) == sorted(e.span_id for e in done)
        assert all(getattr(e, "seconds", 0) >= 0 for e in done)


async def test_with_and_without_a_store() -> None:
    """The same result."""
    bare, kept = await Desk().swarm.run("Go."), await Desk().swarm.run("Go.", store=MemoryStore())
    assert list(bare.messages) == list(kept.messages)
    assert (bare.usage, bare.turns, bare.handoff_chain) == (
        kept.usage,
        kept.turns,
        kept.handoff_chain,
    )
    assert bare.state.snapshot() == kept.state.snapshot()


def test_from_sync_code() -> None:
    """As an agent."""
    assert Desk().swarm.run_sync("Go.").output == "It is paid."


async def test_two_runs_of_one_swarm_at_a_time() -> None:
    """They share nothing."""
    desk = Desk()
    runs = [desk.swarm.start("Go.") for _ in range(5)]
    results = [await run for run in runs]
    assert {r.output for r in results} == {"It is paid."}
    assert {r.usage.requests for r in results} == {7}
