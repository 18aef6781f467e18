"""Parallel branches of a graph that runs: fan-outs, maps, joins, and what is brought together."""

from __future__ import annotations

import asyncio
from collections import Counter
from operator import add
from typing import Any

import pytest

from tests.agent.nested import USAGE
from tests.workflows.graph.wired import Did, Function, Work, echo, ended_in, fails, forked, says
from treadle import (
    END,
    ON_FAILURE,
    START,
    Agent,
    BranchConflict,
    Graph,
    GraphView,
    Image,
    MemoryStore,
    ModelRequest,
    NodeContext,
    RunFailed,
    State,
    TreadleError,
)
from treadle.testing import FunctionModel, reply
from treadle.testing.scripted import last_text


def mapped(
    items: Any, work: Work, join: Function | None = None, max_steps: int = 50, **options: Any
) -> Graph[Any]:
    """A graph that does this with each of the items."""
    return (
        Graph("g", max_steps=max_steps)
        .add_map("each", over=lambda s: items, node="work", join="join", **options)
        .add_node("work", work)
        .add_node("join", (lambda ctx: ctx.output("each")) if join is None else join)
        .add_edge(START, "each")
        .add_edge("join", END)
    )


async def test_branches_are_walks_of_their_own() -> None:
    """They go along edges, routers, cycles and failures, to the join, and see their own outputs."""

    def up(ctx: NodeContext) -> int:
        return int(ctx.output("up") or 0) + 1

    graph = (
        Graph("g")
        .add_fan_out("split", ["up", "broken", "pick"], join="join")
        .add_node("up", up)
        .add_edge("up", "up", when=lambda s: s.output("up") < 3)
        .add_edge("up", "told")
        .add_node("told", lambda ctx: [ctx.output("up"), ctx.visits("up"), ctx.output("broken")])
        .add_edge("told", "join")
        .add_node("broken", fails())
        .add_edge("broken", "mended", when=ON_FAILURE)
        .add_node("mended", lambda ctx: ctx.error("broken"))
        .add_router("pick", {"left": lambda s: s.input == "left"}, default="right")
        .add_node("left", says("L"))
        .add_node("right", says("R"))
        .add_edge("right", END)
        .add_node("join", lambda ctx: [ctx.output("split"), ctx.error("broken"), ctx.visits("up")])
        .add_edge(START, "split")
        .add_edge("join", END)
    )
    for asked, chosen in (("left", "left"), ("x", "right")):
        result = await graph.run(asked)
        came = {"up": [3, 3, None], "broken": "ValueError: it breaks", "pick": chosen[0].upper()}
        assert result.output == [came, "ValueError: it breaks", 3]
        assert result.execution_path == [
            "split",
            *["up"] * 3,
            "told",
            *["broken", "mended"],
            *["pick", chosen],
            "join",
        ]
        branches = [step.branch for step in result.steps]
        assert len(set(branches)) == 4
        assert (branches[0], branches[-1]) == ("", "")


async def test_fan_outs_within_fan_outs() -> None:
    """Joins within joins, a map within a branch, and its items in their order."""
    graph = (
        Graph("g")
        .add_fan_out("out", ["one", "two"], join="end")
        .add_node("one", lambda ctx: ctx.graph.set("from one", 1))
        .add_edge("one", "inner")
        .add_fan_out("inner", ["x", "y"], join="inner end")
        .add_node("x", lambda ctx: ctx.graph.set("from x", ctx["from one"] + 1))
        .add_node("y", says("y"))
        .add_node("inner end", lambda ctx: [ctx.output("inner"), ctx["from x"], ctx.output("y")])
        .add_edge("inner end", "end")
        .add_map("two", over=lambda s: ["a", "b"], node="item", join="two end")
        .add_node("item", lambda ctx: [ctx.item])
        .add_edge("item", "deep")
        .add_fan_out("deep", ["p", "q"], join="deep end")
        .add_node("p", lambda ctx: ctx.item + "p")
        .add_node("q", lambda ctx: [*ctx.output("item"), "q"])
        .add_node("deep end", lambda ctx: list(ctx.output("deep").values()))
        .add_edge("deep end", "two end")
        .add_node("two end", lambda ctx: ctx.output("two"))
        .add_edge("two end", "end")
        .add_node("end", lambda ctx: ctx.output("out"))
        .add_edge(START, "out")
        .add_edge("end", END)
    )
    assert graph.validate() == []
    result = await graph.run("go")
    assert result.output == {
        "one": [{"x": None, "y": "y"}, 2, "y"],
        "two": [["ap", ["a", "q"]], ["bp", ["b", "q"]]],
    }
    assert result.state.get("graph::from x") == 2
    kept = await graph.run("go", store=MemoryStore())
    assert (kept.output, kept.state.packed()) == (result.output, result.state.packed())


async def test_a_branch_does_not_see_its_siblings() -> None:
    """Each has the state as it was at the split; the join has it all."""
    met = asyncio.Barrier(2)

    def branch(name: str, other: str) -> Any:
        async def run(ctx: NodeContext) -> list[Any]:
            ctx.session.set(f"by {name}", 1)
            ctx.graph.set("files", {**ctx["files"], name: {"of": name}})
            await met.wait()
            return [ctx.get(f"by {other}"), ctx.output(other), sorted(ctx["files"])]

        return run

    def join(ctx: NodeContext) -> list[Any]:
        return [ctx.output("split"), ctx["files"], ctx["by a"], ctx["by b"], ctx.output("a")]

    graph = forked(("a", branch("a", "b")), ("b", branch("b", "a")), join=join)
    result = await graph.run("go", state={"graph::files": {"old": 0}})
    assert result.output == [
        {"a": [None, None, ["a", "old"]], "b": [None, None, ["b", "old"]]},
        {"old": 0, "a": {"of": "a"}, "b": {"of": "b"}},
        1,
        1,
        [None, None, ["a", "old"]],
    ]


async def test_reducers_bring_together() -> None:
    """In the order of definition, whoever was first; a map reduces the writes of its items."""
    slow = asyncio.Event()

    async def first(ctx: NodeContext) -> None:
        await slow.wait()
        ctx.graph.set("found", ["first"])

    def second(ctx: NodeContext) -> None:
        ctx.graph.set("found", ["second"])
        slow.set()

    options: dict[str, Any] = {"reducers": {"graph::found": add, "session::sum": add}}
    graph = forked(("a", first), ("b", second), graph=Graph("g", **options))
    result = await graph.run("go", state={"graph::found": ["old"]})
    assert result.state.get("graph::found") == ["old", "first", "second"] or (
        result.state.get("graph::found")
    ) == ["first", "second"]

    total = (
        Graph("g", **options)
        .add_map("each", over=lambda s: range(1, 5), node="work", join=END)
        .add_node("work", lambda ctx: ctx.session.set("sum", ctx.item))
        .add_edge(START, "each")
    )
    assert (await total.run("go")).state.get("session::sum") == 10


async def test_a_conflict_names_all_and_changes_nothing() -> None:
    """BS-33: node, key, both values; the state is as it was, in the journal, too."""
    did = Did()

    def writes(value: str) -> Any:
        def run(ctx: NodeContext) -> None:
            did.names.append(value)
            ctx.graph.set("topic", value)
            ctx.graph.set(f"only {value}", 1)

        return run

    graph = forked(("a", writes("y")), ("b", writes("z")))
    state, store = State({"graph::topic": "x"}), MemoryStore()
    run = graph.start("go", state=state, store=store, run_id="r", conversation="c")
    for _ in range(3):
        with pytest.raises(TreadleError, match="topic") as caught:
            await run
        cause = caught.value.__cause__ or caught.value
        assert isinstance(cause, BranchConflict)
        assert cause.key == "graph::topic"
        assert set(cause.branches) == {"a", "b"}
        assert all(word in str(cause) for word in ("'y'", "'z'"))
        assert caught.value.result is not None
        assert caught.value.result.state.get("graph::topic") == "x"
        run = graph.resume("r", store=store)
    await run.cancel()
    assert did.names == ["y", "z"], "a resume does not do it again"
    assert "graph::only y" not in state


async def test_a_conflict_may_be_dealt_with() -> None:
    """A failure edge of the fan-out leads on, with nothing of the branches."""

    def writes(value: int) -> Function:
        return lambda ctx: ctx.graph.set("topic", value)

    graph = forked(("a", writes(1)), ("b", writes(2)))
    graph.add_node("mend", lambda ctx: [ctx.error("split"), ctx.get("topic")])
    graph.add_edge("split", "mend", when=ON_FAILURE).add_edge("mend", END)
    result = await graph.run("go")
    assert "topic" in result.output[0]
    assert result.output[1] is None
    assert not result.success


async def test_a_failing_branch_may_be_dealt_with_outside() -> None:
    """A failure edge of the fan-out is for branches that fail; siblings come to their end."""
    did = Did()
    graph = forked(("a", fails()), ("b", did.node("b")), ("c", fails("that, too")))
    graph.add_node("mend", lambda ctx: [ctx.error("split"), ctx.get("by b")])
    graph.add_edge("split", "mend", when=ON_FAILURE).add_edge("mend", END)
    result = await graph.run("go")
    assert did.names == ["b"]
    assert "it breaks" in result.output[0]
    assert result.output[1] is None, "what branches wrote comes to the join, or nowhere"


async def test_a_map_of_anything() -> None:
    """No items, items of their own types, parts; each agent is told its item."""
    empty = await mapped([], fails()).run("go")
    assert (empty.output, empty.execution_path) == ([], ["each", "join"])

    items = [1, None, "two", {"k": (1, 2)}, [3], b"x"]
    result = await mapped(items, lambda ctx: [ctx.item, type(ctx.item).__name__]).run("go")
    assert result.output == [[item, type(item).__name__] for item in items]

    heard: list[Any] = []

    def answer(request: ModelRequest) -> Any:
        heard.append(request.messages[-1].parts)
        return reply(last_text(request) or "picture", usage=USAGE)

    picture = Image.from_bytes(b"\x89PNG\r\n\x1a\n" + b"\0" * 20, "image/png")
    agent = Agent("x", FunctionModel(answer))
    result = await mapped(["a", {"k": 1}, picture], agent, limit=1).run("go")
    assert result.output == ["a", '{"k":1}', "picture"]
    assert heard[2] == (picture,)
    assert result.usage.requests == 3


@pytest.mark.parametrize("limit", [1, 2, 7, None])
async def test_a_limit_holds(limit: int | None) -> None:
    """So many branches are at work at a time, from their first node to their last."""
    now, most = 0, 0

    async def begin(ctx: NodeContext) -> None:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0)

    async def end(ctx: NodeContext) -> Any:
        nonlocal now
        await asyncio.sleep(0)
        now -= 1
        return ctx.item

    graph = mapped(list(range(20)), begin, limit=limit)
    graph.add_node("end", end).add_edge("work", "end").add_edge("end", "join")
    result = await graph.run("go", store=MemoryStore())
    assert (result.output, most) == (list(range(20)), limit or 20)


async def test_the_join_waits_for_what_was_opened() -> None:
    """BS-32: in the order of definition, each time anew; nothing chosen is nothing to wait for."""
    did, chosen = Did(), [["c", "a"], ["b"], []]

    def choose(s: GraphView[Any]) -> list[str]:
        return chosen[s.visits("split")]

    names = ("a", "b", "c")
    graph = forked(
        *((name, did.node(name)) for name in names),
        join=lambda ctx: [*(ctx.output("join") or []), ctx.output("split")],
        choose=choose,
    )
    graph.add_edge("join", "split", when=lambda s: s.visits("join") < 3, priority=1)
    result = await graph.run("go")
    assert result.output == [{"a": "a", "c": "c"}, {"b": "b"}, {}]
    assert did.names == ["a", "c", "b"]


@pytest.mark.parametrize(
    ("chosen", "told"),
    [
        (["a", "x"], "none of its branches"),
        ("a", "takes a list"),
        (None, "choose="),
        (ValueError("no idea"), "no idea"),
    ],
)
async def test_a_choice_that_cannot_be(chosen: Any, told: str) -> None:
    """It fails the fan-out, which says so and opens nothing."""
    did, store = Did(), MemoryStore()

    def choose(_: GraphView[Any]) -> Any:
        if isinstance(chosen, Exception):
            raise chosen
        return chosen

    graph = forked(("a", did.node("a")), ("b", did.node("b")), choose=choose)
    with pytest.raises(RunFailed, match=told) as caught:
        await graph.run("go", store=store, conversation="c")
    assert "split" in str(caught.value)
    assert did.names == []
    assert await ended_in(store) == []


@pytest.mark.parametrize("over", [5, "abc", [object()], range(10_001)])
async def test_items_that_cannot_be(over: Any) -> None:
    """The error names the map, and the item where it is one."""
    with pytest.raises(RunFailed, match="each"):
        await mapped(over, says(1)).run("go")


async def test_a_hundred_agents_at_once() -> None:
    """Nothing is lost: usage, turns, outputs, one revision order."""
    did, store = Did(), MemoryStore()
    result = await mapped(
        list(range(100)), did.agent("w"), lambda ctx: len(ctx.output("each")), 102
    ).run("go", store=store, conversation="c")
    assert result.output == 100
    assert (result.usage.requests, result.turns, result.usage.tool_calls) == (200, 200, 100)
    assert set(Counter(did.keys).values()) == {1}
    revisions = [batch.revision for batch in await store.read("c")]
    assert revisions == list(range(1, len(revisions) + 1))


async def test_max_steps_bounds_branches_too() -> None:
    """All steps of the run count; the walk that has none left stops all, and nothing is lost."""
    did = Did()
    graph = forked(("a", did.node("a")), ("b", did.node("b")), graph=Graph("g", max_steps=9))
    for name in "ab":
        graph.add_edge(name, name, when=lambda s: True).add_edge(name, "join")
    result = await graph.run("go")
    assert (result.stop_reason, len(did.names)) == ("limit", 8)
    assert "max_steps" in result.reason


async def test_what_a_branch_ended_with_is_kept_at_once() -> None:
    """BS-34: the end of its last node is in the journal while others are still at work."""
    go, did, store = asyncio.Event(), Did(), MemoryStore()
    graph = forked(("a", fails()), ("b", did.node("b", wait=go)), ("c", did.agent("c")))
    graph.add_node("h", did.node("h")).add_edge("a", "h", when=ON_FAILURE).add_edge("h", "join")
    run = graph.start("go", store=store, conversation="c")
    ended: list[str] = []
    async with asyncio.timeout(30):
        while "h#1" not in ended:  # "b" is still at work
            await asyncio.sleep(0.001)
            ended = [step.rpartition("/")[2] for step in await ended_in(store)]
    go.set()
    await run
    assert set(did.names) == {"h", "b", "c"}


async def test_agents_in_branches_that_say_the_same_key() -> None:
    """State of agents is merged like that of functions."""
    graph = forked(("a", echo("a")), ("b", echo("b")))
    result = await graph.run("go", store=MemoryStore())
    assert result.output == {"a": "a: go", "b": "b: go"}
