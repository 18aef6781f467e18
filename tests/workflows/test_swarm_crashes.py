"""Swarms whose process dies at every append: the same outcome, and nothing is repeated."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.agent.parts import check_answered
from tests.agent.test_children_crashes import histories
from tests.workflows.desk import Desk, opened
from tests.workflows.dying import die_after, resume_and_die
from treadle import END, START, Conversation, Graph, MemoryStore, SwarmResult
from treadle.journal import ChildBegan, ModelReplied, StepEnded
from treadle.view import View

HISTORIES = ("fresh", "full")


def seen(result: SwarmResult[Any]) -> dict[str, Any]:
    """Return what has to be the same, whatever happened on the way."""
    return {
        "output": result.output,
        "agent": result.agent,
        "chain": result.handoff_chain,
        "messages": list(result.messages),
        "steps": [
            (s.agent, s.input, s.output, s.handed_to, s.reason, s.usage, s.turns, s.tool_calls)
            for s in result.steps
        ],
        "usage": result.usage,
        "turns": result.turns,
    }


async def check(
    store: Any, desk: Desk, result: SwarmResult[Any], whole: SwarmResult[Any], lost: int = 1
) -> None:
    """Compare the result with that of a run that nothing happened to, and look at the journal."""
    calls = Counter(desk.did)
    assert set(calls.values()) == {1}, calls
    unknown = sum("is not known" in r.text or r.is_error for r in result.tool_results)
    assert unknown <= lost
    if not unknown:
        assert seen(result) == seen(whole)
        assert result.state.snapshot() == whole.state.snapshot()
    assert result.handoff_chain == whole.handoff_chain
    view, entries = View(), list[Any]()
    for batch in await store.read("c"):
        view.take_in(batch.revision, batch.entries)
        entries += batch.entries
        for each in histories(view):
            check_answered(list(each.messages))
    assert view.children == {}
    began = Counter(e.path for e in entries if isinstance(e, ChildBegan))
    assert set(began.values()) == {1}
    ended = Counter(e.step for e in entries if isinstance(e, StepEnded))
    assert ended == {"triage#1": 1, "billing#1": 1, "refund#1": 1}
    replied = sum(isinstance(e, ModelReplied) for e in entries)
    assert replied == whole.usage.requests == 7
    kept = await Conversation.open("c", store=store)
    assert list(await kept.messages()) == list(result.messages)
    again = await desk.swarm.resume("r", store=store)
    assert seen(again) == seen(result)


@pytest.mark.e2e
@pytest.mark.parametrize("kind", ["memory", "file", "sqlite"])
@pytest.mark.parametrize("history", HISTORIES)
async def test_after_a_crash_at_any_append(kind: str, history: Any, tmp_path: Path) -> None:
    """S55, J3, J4: what is over is not done again, who was at work goes on."""
    whole = await Desk(history=history).swarm.run("Go.")
    appends, died = 0, True
    while died:
        appends += 1
        urls = {
            "memory": "memory:",
            "file": f"file:{tmp_path}/{appends}",
            "sqlite": f"sqlite:///{tmp_path}/{appends}.db",
        }
        desk = Desk(history=history)
        async with opened(urls[kind]) as store:
            died = await die_after(appends, desk.swarm, store, conversation="c")
            entries = [e for b in await store.read("c") for e in b.entries]
            asked = len(desk.asked) - sum(isinstance(e, ModelReplied) for e in entries)
            assert asked <= 1, "the one that was being written"
            result = await desk.swarm.resume("r", store=store)
            await check(store, desk, result, whole)
    assert appends > 12


@pytest.mark.e2e
@pytest.mark.parametrize("second", range(1, 6))
async def test_after_two_crashes(second: int) -> None:
    """The process that took over dies, too."""
    whole = await Desk().swarm.run("Go.")
    appends, died = 0, True
    while died:
        appends += 1
        desk, store = Desk(), MemoryStore()
        died = await die_after(appends, desk.swarm, store, conversation="c")
        if died:
            await resume_and_die(second, desk.swarm, store)
        result = await desk.swarm.resume("r", store=store)
        await check(store, desk, result, whole, lost=2)


@pytest.mark.e2e
async def test_a_message_that_was_accepted_is_heard_after_a_crash() -> None:
    """J8: by who is at work, and told to who takes over; once, wherever the process died."""

    def make(store: MemoryStore) -> tuple[Desk, list[Any]]:
        receipts: list[Any] = []

        async def steer(who: str) -> None:
            if who == "triage 1" and not receipts:
                receipts.append(None)
                conversation = await Conversation.open("c", store=store)
                receipts[0] = await conversation.steer("Hurry.")

        return Desk(on_ask=steer), receipts

    appends, died, heard = 0, True, 0
    while died:
        appends += 1
        store = MemoryStore()
        desk, receipts = make(store)
        died = await die_after(appends, desk.swarm, store, conversation="c")
        result = await desk.swarm.resume("r", store=store)
        assert result.stop_reason == "answer"
        assert result.agent == "refund"
        assert all(times == 1 for times in Counter(desk.did).values())
        if receipts and receipts[0] is not None:
            heard += 1
            assert await receipts[0].refresh() == "applied"
            said = [m.text for m in result.messages if m.role == "user"]
            assert str(said).count("Hurry.") == 1, said
    assert heard > 5


@pytest.mark.e2e
async def test_in_a_node_of_a_graph() -> None:
    """S55: a swarm mid-chain within a graph."""

    def graph(desk: Desk) -> Graph:
        made = Graph("shop").add_node("help", desk.swarm)
        made.add_node("shout", lambda ctx: ctx.output("help").upper())
        made.add_edge(START, "help").add_edge("help", "shout").add_edge("shout", END)
        return made

    whole = await graph(Desk()).run("Go.")
    assert whole.output == "IT IS PAID."
    appends, died = 0, True
    while died:
        appends += 1
        desk, store = Desk(), MemoryStore()
        died = await die_after(appends, graph(desk), store, conversation="c")
        result = await graph(desk).resume("r", store=store)
        assert result.output == whole.output
        assert result.usage.requests == whole.usage.requests == 7
        assert len(desk.did) == len(set(desk.did)) <= 3
    assert appends > 12


@pytest.mark.e2e
async def test_in_parallel_branches_of_a_graph() -> None:
    """Each moves its state to the session of its branch; the branches are merged as ever."""

    def graph(left: Desk, right: Desk) -> Graph:
        made = Graph("both")
        made.add_node("left", left.swarm)
        made.add_node("right", right.swarm)
        made.add_node("join", lambda ctx: f"{ctx.output('left')} {ctx.output('right')}")
        made.add_fan_out("split", ["left", "right"], join="join")
        made.add_edge(START, "split").add_edge("join", END)
        return made

    whole = await graph(Desk(), Desk()).run("Go.")
    assert whole.output == "It is paid. It is paid."
    assert whole.state.snapshot()["session::invoice"] == 7
    appends, died = 0, True
    while died:
        appends += 1
        left, right, store = Desk(), Desk(), MemoryStore()
        made = graph(left, right)
        died = await die_after(appends, made, store, conversation="c")
        result = await made.resume("r", store=store)
        assert result.output == whole.output
        assert result.usage.requests == whole.usage.requests == 14
        for desk in (left, right):
            assert len(desk.did) == len(set(desk.did)) <= 3
    assert appends > 20
