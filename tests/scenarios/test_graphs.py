"""Graphs, as reports of other frameworks tell of them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from tests.agent.dying import Dying, die_after
from treadle import (
    END,
    ON_FAILURE,
    ON_SUCCESS,
    ON_TOOL_CALL,
    START,
    Agent,
    DeadEnd,
    Graph,
    GraphInvalid,
    GraphView,
    MemoryStore,
    NodeContext,
    RunFailed,
    State,
    TreadleError,
    tool,
)
from treadle.errors import BranchConflict
from treadle.journal import StepEnded
from treadle.state.reducers import last_wins
from treadle.testing import ScriptedModel, calls


def says(text: str) -> Callable[[NodeContext], str]:
    """A node that says this."""

    def node(ctx: NodeContext) -> str:
        return text

    return node


async def test_a_join_after_a_branch_that_was_not_taken() -> None:
    """BS-32: it waits for what was activated, and for nothing else."""
    graph = (
        Graph("g")
        .add_router("router", {"a": lambda s: s.input == "a"}, default="b")
        .add_node("a", says("a"))
        .add_node("b", says("b"))
        .add_node("join", says("joined"))
        .add_edge(START, "router")
        .add_edge("a", "join")
        .add_edge("b", "join")
        .add_edge("join", END)
    )
    result = await graph.run("a")
    assert (result.execution_path, result.output) == (["router", "a", "join"], "joined")


def split(**options: Any) -> Graph[Any]:
    return (
        Graph("g")
        .add_fan_out("split", ["a", "b"], join="join", **options)
        .add_node("a", says("a"))
        .add_node("b", says("b"))
        .add_node("join", lambda ctx: ctx.output("split"))
        .add_edge(START, "split")
        .add_edge("join", END)
    )


async def test_branches_that_were_chosen() -> None:
    """BS-32: the same with branches at once; where all are required, one left out is an error."""

    def one(_: GraphView[Any]) -> list[str]:
        return ["a"]

    assert (await split(choose=one).run("go")).output == {"a": "a"}
    with pytest.raises(RunFailed, match="waits for b"):
        await split(choose=one, all_required=True).run("go")
    assert (await split().run("go")).output == {"a": "a", "b": "b"}


def writers(reducers: Any = None, **topics: str) -> Graph[Any]:
    """Two branches that give the whole state back, each with a file more."""

    def writer(name: str) -> Callable[[NodeContext], str]:
        def write(ctx: NodeContext) -> str:
            ctx.graph.set("topic", topics.get(name, ctx["topic"]))
            ctx.graph.set("files", {**ctx["files"], name: 1})
            return name

        return write

    return (
        Graph("g", reducers=reducers or {})
        .add_fan_out("split", ["a", "b"], join="join")
        .add_node("a", writer("a"))
        .add_node("b", writer("b"))
        .add_node("join", lambda ctx: [ctx["topic"], ctx["files"]])
        .add_edge(START, "split")
        .add_edge("join", END)
    )


async def test_parallel_nodes_that_give_the_whole_state_back() -> None:
    """BS-33: an echo is no write, keys of a map come together, a real conflict is told of."""
    given: dict[str, Any] = {"graph::topic": "x", "graph::files": {}}
    assert (await writers().run("go", state=given)).output == ["x", {"a": 1, "b": 1}]

    state = State(given)
    with pytest.raises(TreadleError, match="topic") as caught:
        await writers(a="y", b="z").run("go", state=state)
    cause = caught.value.__cause__ or caught.value
    assert isinstance(cause, BranchConflict)
    assert (cause.key, set(cause.branches)) == ("graph::topic", {"a", "b"})
    assert (state.get("graph::topic"), state.get("graph::files")) == ("x", {})

    for _ in range(3):
        won = await writers({"graph::topic": last_wins}, a="y", b="z").run("go", state=given)
        assert won.output == ["z", {"a": 1, "b": 1}]


class Refunds:
    """A branch that fails and is handled, beside one that fails at first."""

    def __init__(self) -> None:
        self.did: list[str] = []

    def node(self, name: str, *, fails: bool = False, at_first: bool = False) -> Any:
        def run(ctx: NodeContext) -> str:
            self.did.append(name)
            if fails or (at_first and self.did.count(name) == 1):
                raise ValueError(f"{name} does not work")
            return name

        return run

    @property
    def graph(self) -> Graph[Any]:
        """The graph."""
        return (
            Graph("g")
            .add_fan_out("split", ["a", "b"], join="join")
            .add_node("a", self.node("a", fails=True))
            .add_node("h", self.node("h"))
            .add_node("b", self.node("b", at_first=True))
            .add_node("join", self.node("join"))
            .add_edge(START, "split")
            .add_edge("a", "h", when=ON_FAILURE)
            .add_edge("join", END)
        )


async def test_a_handler_that_ran_does_not_run_again() -> None:
    """BS-34: a resume does what is not done, and only that."""
    refunds, store = Refunds(), MemoryStore()
    with pytest.raises(RunFailed, match="b does not work"):
        await refunds.graph.run("go", store=store, run_id="r", conversation="c")
    assert Counter(refunds.did) == {"a": 1, "h": 1, "b": 1}

    result = await refunds.graph.resume("r", store=store)
    assert Counter(refunds.did) == {"a": 1, "h": 1, "b": 2, "join": 1}
    assert (result.stop_reason, result.success) == ("answer", False)


@pytest.mark.parametrize("appends", range(1, 8))
async def test_killed_around_the_handler(appends: int) -> None:
    """BS-34: whatever was stored when the process died, the handler's end counts once."""
    refunds, store = Refunds(), Dying()
    await die_after(appends, refunds.graph, store, conversation="c")
    ended = [e for b in await store.read("c") for e in b.entries if isinstance(e, StepEnded)]
    before, done = Counter(refunds.did), {each.step.partition("#")[0] for each in ended}
    for _ in range(3):
        try:
            result = await refunds.graph.resume("r", store=store)
        except RunFailed:
            continue
        break
    else:
        raise AssertionError("it never came to its end")
    assert result.stop_reason == "answer"
    for name in done & {"a", "h", "b"}:
        assert refunds.did.count(name) == before[name]


async def test_edges_of_every_kind() -> None:
    """S43: conditions, priority, a dynamic target, tool calls; the path is always the same."""

    @tool
    def look() -> str:
        """Look."""
        return "seen"

    def found(s: GraphView[Any]) -> bool:
        return s.output("work") == "found"

    def route(s: GraphView[Any]) -> str:
        return "end" if s.output("work") else "never"

    for _ in range(3):
        worker = Agent("w", ScriptedModel([calls(("c", "look", {})), "found"]), tools=[look])
        graph = (
            Graph("g")
            .add_node("work", worker)
            .add_node("low", says("low"))
            .add_node("high", says("high"))
            .add_node("never", says("never"))
            .add_node("end", says("end"))
            .add_edge(START, "work")
            .add_edge("work", "never", when=ON_FAILURE, priority=99)
            .add_edge("work", "low", when=ON_TOOL_CALL)
            .add_edge(
                "work",
                "high",
                when=ON_TOOL_CALL & found,
                priority=5,
            )
            .add_edge("high", to=route)
            .add_edge("low", "end")
            .add_edge("never", "end")
            .add_edge("end", END, when=ON_SUCCESS)
        )
        result = await graph.run("go")
        assert result.execution_path == ["work", "high", "end"]
        assert (result.success, result.stop_reason) == (True, "answer")


async def test_a_failure_that_is_dealt_with() -> None:
    """S43: the edge for it leads on; the run answers, and is no full success."""

    def fails(ctx: NodeContext) -> str:
        raise ValueError("no luck")

    graph = (
        Graph("g")
        .add_node("try", fails)
        .add_node("recover", lambda ctx: f"after: {ctx.error('try')}")
        .add_edge(START, "try")
        .add_edge("try", "recover", when=ON_FAILURE)
        .add_edge("try", END)
        .add_edge("recover", END)
    )
    result = await graph.run("go")
    assert (result.success, result.execution_path) == (False, ["try", "recover"])
    assert "no luck" in str(result.output)


async def test_a_cycle_stops() -> None:
    """S43: at 50 steps by default, with what there is."""
    seen: list[int] = []

    def turn(ctx: NodeContext) -> int:
        seen.append(1)
        return len(seen)

    graph = Graph("g").add_node("x", turn).add_edge(START, "x").add_edge("x", "x")
    result = await graph.run("go")
    assert (result.stop_reason, len(seen), result.output) == ("limit", 50, 50)
    assert "max_steps" in result.reason


def test_everything_that_is_wrong_is_told() -> None:
    """S44: no entry, an edge to a node that there is not, and one that nothing leads to."""
    graph = Graph("g").add_node("a", says("a")).add_node("lost", says("l")).add_edge("a", "gone")
    problems = graph.validate()
    assert any("gone" in each for each in problems)
    assert any("lost" in each for each in problems)
    assert any("entry" in each or "START" in each for each in problems)
    with pytest.raises(GraphInvalid, match="gone"):
        graph.run_sync("go")


async def test_a_dead_end_is_told() -> None:
    """The node and the edges that were tried are named."""
    graph = (
        Graph("g")
        .add_node("a", says("a"))
        .add_node("b", says("b"))
        .add_edge(START, "a")
        .add_edge("a", "b", when=lambda s: False)
        .add_edge("b", END)
    )
    with pytest.raises(DeadEnd, match="'a'"):
        await graph.run("go")


async def test_retries_and_timeouts() -> None:
    """A function is tried again with nothing left of the try before; one that hangs is ended."""
    tries: list[Any] = []

    def flaky(ctx: NodeContext) -> str:
        tries.append(ctx.get("half"))
        ctx.graph.set("half", 1)
        if len(tries) < 3:
            raise ValueError("not yet")
        return f"try {ctx.attempt}"

    async def hangs(ctx: NodeContext) -> None:
        await asyncio.sleep(60)

    graph = (
        Graph("g")
        .add_node("flaky", flaky, retries=2)
        .add_node("hangs", hangs, timeout=0.01)
        .add_node("end", lambda ctx: [ctx.output("flaky"), ctx.error("hangs")])
        .add_edge(START, "flaky")
        .add_edge("flaky", "hangs")
        .add_edge("hangs", "end", when=ON_FAILURE)
        .add_edge("hangs", END)
        .add_edge("end", END)
    )
    result = await graph.run("go")
    assert tries == [None, None, None]
    assert result.output == ["try 3", "it timed out after 0.01 s."]


async def test_a_map_over_items() -> None:
    """In the order of the items, at most so many at once; the first agent sees its item."""
    now, most = 0, 0

    async def work(ctx: NodeContext) -> int:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0.001)
        now -= 1
        return ctx.item * 2

    graph = (
        Graph("g")
        .add_map("each", over=lambda s: s["items"], node="work", join="sum", limit=3)
        .add_node("work", work)
        .add_node("sum", lambda ctx: sum(ctx.output("each")))
        .add_edge(START, "each")
        .add_edge("sum", END)
    )
    result = await graph.run("go", state={"graph::items": list(range(10))})
    assert (result.output, most) == (90, 3)
    assert result.execution_path.count("work") == 10
