"""Graphs whose process dies at every append: the same outcome, and nothing is repeated."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from tests.agent.parts import check_answered
from tests.agent.test_children_crashes import histories
from tests.workflows.desk import opened
from tests.workflows.dying import die_after, resume_and_die
from tests.workflows.graph.wired import Did, entries_of, fails, line
from treadle import (
    END,
    ON_FAILURE,
    ON_TOOL_CALL,
    START,
    Graph,
    GraphResult,
    MemoryStore,
    NodeContext,
    RunFailed,
    Swarm,
)
from treadle.journal import ChildBegan, StepBegan, StepEnded
from treadle.view import View


def cycle(did: Did) -> Graph[Any]:
    """A graph that goes round three times, over a router and a condition on tools."""
    graph = Graph("cycle").add_node("count", _counts(did)).add_node("work", did.agent("worker"))
    graph.add_router("again", {"count": lambda s: s["times"] < 3}, default="end")
    graph.add_node("end", did.node("end")).add_edge(START, "count").add_edge("count", "work")
    graph.add_edge("work", "again", when=ON_TOOL_CALL).add_edge("work", "end")
    return graph.add_edge("end", END)


def _counts(did: Did) -> Any:
    async def count(ctx: NodeContext) -> int:
        did.names.append("count")
        did.keys.append(ctx.idempotency_key)
        ctx.graph.set("times", ctx.get("times", 0) + 1)
        return int(ctx["times"])

    return count


def five(did: Did) -> Graph[Any]:
    """A fan-out of five with a join: agents, functions, an error edge and more than one node."""
    names = ["a", "b", "c", "d", "e"]
    graph = Graph("five").add_fan_out("split", names, join="join", limit=3)
    graph.add_node("a", did.agent("a")).add_node("b", did.node("b")).add_node("c", fails())
    graph.add_node("d", did.agent("d")).add_node("e", did.agent("e"))
    graph.add_node("mend c", did.node("mend c")).add_edge("c", "mend c", when=ON_FAILURE)
    graph.add_node("after d", did.node("after d")).add_edge("d", "after d")
    graph.add_edge("after d", "join").add_node("join", lambda ctx: ctx.output("split"))
    return graph.add_edge(START, "split").add_edge("join", END)


def within(did: Did) -> Graph[Any]:
    """A graph in a graph with an error edge, a swarm, and a map over what they came to."""
    inner = Graph("inner").add_node("broken", fails()).add_node("mended", did.agent("mender"))
    inner.add_edge(START, "broken").add_edge("broken", "mended", when=ON_FAILURE)
    inner.add_edge("broken", END).add_node("last", did.node("last", ["x", "y"]))
    inner.add_edge("mended", "last").add_edge("last", END)
    graph = Graph("outer").add_node("first", did.node("first")).add_node("inner", inner)
    graph.add_map("each", over=lambda s: s.output("inner"), node="item", join="end")
    graph.add_node("item", did.agent("item")).add_node("team", Swarm("s", agents=[did.agent("m")]))
    graph.add_node("end", lambda ctx: ctx.output("each"))
    graph.add_edge(START, "first").add_edge("first", "inner").add_edge("inner", "each")
    return graph.add_edge("end", "team").add_edge("team", END)


STORIES: list[tuple[Callable[[Did], Graph[Any]], int]] = [(cycle, 17), (five, 23), (within, 27)]
SWEEP = [(story, at) for story, appends in STORIES for at in range(appends)]


def seen(result: GraphResult[Any]) -> dict[str, Any]:
    """What has to be the same, whatever happened on the way."""
    return {
        "output": result.output,
        "path": result.execution_path,
        "steps": [
            (s.node, s.ok, s.output, s.error, s.next, s.branch, s.usage, s.tool_calls, s.turns)
            for s in result.steps
        ],
        "success": result.success,
        "usage": result.usage,
        "turns": result.turns,
        "state": result.state.packed(),
        "messages": list(result.messages),
    }


async def check(store: Any, did: Did, result: GraphResult[Any], whole: Any, lost: int) -> None:
    """Compare with the run that nothing happened to, and look at the journal."""
    assert seen(result) == seen(whole)
    repeated = {key: n for key, n in Counter(did.keys).items() if n > 1}
    assert len(repeated) <= lost, repeated
    view, entries = View(), await entries_of(store)
    for batch in await store.read("c"):
        view.take_in(batch.revision, batch.entries)
        for each in histories(view):
            check_answered(list(each.messages))
    assert view.children == {}
    ended = Counter((e.path, e.step) for e in entries if isinstance(e, StepEnded))
    assert set(ended.values()) == {1}
    began = Counter(e.path for e in entries if isinstance(e, ChildBegan))
    assert set(began.values()) == {1}


async def journaled(store: Any) -> set[str]:
    """The functions whose end was in the journal, by the keys that they have in a run "r"."""
    entries = await entries_of(store)
    paths = {
        f"{e.path}/{e.step}" if e.path else e.step for e in entries if isinstance(e, StepEnded)
    }
    began = {e.path for e in entries if isinstance(e, StepBegan)}
    return {f"r:{path}" for path in paths & began}


@pytest.mark.parametrize(("story", "at"), SWEEP, ids=[f"{s.__name__}-{n}" for s, n in SWEEP])
@pytest.mark.parametrize("url", ["memory:", "sqlite:///{}/s.db"])
async def test_dies_at_every_append(url: str, story: Any, at: int, tmp_path: Any) -> None:
    """S55: and the process that takes over dies again, before a third one comes to the end."""
    whole = await story(Did()).run("Go.", store=MemoryStore(), run_id="r", conversation="c")
    async with opened(url.format(tmp_path)) as store:
        did = Did()
        if not await die_after(at + 1, story(did), store, conversation="c"):
            pytest.fail("sweep less: it has answered")
        done = await journaled(store)
        before = Counter(did.keys)
        again = await resume_and_die(2, story(did), store)
        result = await story(did).resume("r", store=store)
        assert {key: Counter(did.keys)[key] for key in done} == {key: before[key] for key in done}
        await check(store, did, result, whole, 3 + 3 * again)


@pytest.mark.parametrize(("story", "appends"), STORIES, ids=lambda s: getattr(s, "__name__", ""))
async def test_how_many_appends(story: Any, appends: int) -> None:
    """The sweep goes to the last one."""
    store = MemoryStore()
    await story(Did()).run("Go.", store=store, run_id="r", conversation="c")
    assert (await store.head("c")).revision == appends + 1


class Refunds:
    """A branch whose node fails and whose handler refunds, and one that fails at first."""

    def __init__(self) -> None:
        self.did = Did()

    @property
    def graph(self) -> Graph[Any]:
        """The graph."""
        graph = Graph("g").add_fan_out("split", ["a", "b"], join="join")
        graph.add_node("a", self._fails).add_node("h", self.did.node("h"))
        graph.add_node("b", self.did.node("b", fail_first=1)).add_node(
            "join", self.did.node("join")
        )
        graph.add_edge(START, "split").add_edge("a", "h", when=ON_FAILURE)
        return graph.add_edge("join", END)

    def _fails(self, ctx: NodeContext) -> None:
        self.did.names.append("a")
        raise ValueError("a does not work")


@pytest.mark.parametrize("at", range(1, 8))
async def test_killed_after_the_handler_is_committed(at: int) -> None:
    """BS-34: wherever the process dies, the handler's end counts once it is stored."""
    store, refunds = MemoryStore(), Refunds()
    with contextlib.suppress(RunFailed):
        await die_after(at, refunds.graph, store, conversation="c")
    ended = [e.step for e in await entries_of(store) if isinstance(e, StepEnded)]
    counts = Counter(refunds.did.names)
    result: GraphResult[Any] | None = None
    for _ in range(3):
        try:
            result = await refunds.graph.resume("r", store=store)
        except RunFailed:
            continue
        break
    assert result is not None
    after = Counter(refunds.did.names)
    if "h#1" in ended:
        assert (after["h"], after["a"]) == (counts["h"], counts["a"]) == (1, 1)
    assert after["h"] <= 2
    assert (result.success, result.output) == (False, "join")
    log = [e.step for e in await entries_of(store) if isinstance(e, StepEnded)]
    assert Counter(log)["h#1"] == 1


async def test_the_handler_was_committed_before_the_run_failed() -> None:
    """BS-34 to the letter: h=1, b=2, a=1, and the log has one h."""
    store, refunds = MemoryStore(), Refunds()
    with pytest.raises(RunFailed, match="b does not work"):
        await refunds.graph.run("Go.", store=store, run_id="r", conversation="c")
    await refunds.graph.resume("r", store=store)
    counts = Counter(refunds.did.names)
    assert (counts["h"], counts["b"], counts["a"]) == (1, 2, 1)
    log = [e.step for e in await entries_of(store) if isinstance(e, StepEnded)]
    assert log.count("h#1") == 1


async def test_functions_on_the_line_are_not_repeated() -> None:
    """Between nodes: only the one that was under way is called again, with its key."""
    for at in range(1, 6):
        store, did = MemoryStore(), Did()
        graph = Graph("g")
        for name in "abc":
            graph.add_node(name, did.node(name))
        graph = line("a", "b", "c", graph=graph)
        died = await die_after(at, graph, store, conversation="c")
        result = await graph.resume("r", store=store)
        assert result.execution_path == ["a", "b", "c"]
        assert sum(Counter(did.keys).values()) - len(set(did.keys)) <= died
