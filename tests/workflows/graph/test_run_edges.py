"""Where a graph goes that runs: conditions, priorities, routers, functions that name nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.workflows.graph.wired import Did, entries_of, fails, forked, line, says
from treadle import (
    END,
    ON_FAILURE,
    ON_SUCCESS,
    START,
    Condition,
    DeadEnd,
    Graph,
    GraphView,
    MemoryStore,
    NodeContext,
    RunFailed,
)
from treadle.journal import StepEnded


def truth(_: GraphView[Any]) -> bool:
    """Hold."""
    return True


Test = Callable[[GraphView[Any]], bool]


def says_y(s: GraphView[Any]) -> bool:
    """Do not hold after a node that says x."""
    return s.output("x") == "y"


def breaks_off(s: GraphView[Any]) -> bool:
    """Hold after a failure."""
    return not s.success("x") and "it breaks" in s.error("x")


def star(*edges: tuple[str, dict[str, Any]], work: Any = None) -> Graph[Any]:
    """A node with edges to others, each of which ends the run."""
    graph = Graph("g").add_node("x", says("x") if work is None else work).add_edge(START, "x")
    for target, options in edges:
        graph.add_edge("x", target, **options)
        if target not in graph.layout.nodes and target != END:
            graph.add_node(target, says(target)).add_edge(target, END)
    return graph


EDGES: list[tuple[Any, str]] = [
    ((("a", {"when": truth}), ("b", {"when": truth, "priority": 1})), "b"),
    ((("a", {"when": truth}), ("b", {"when": truth})), "a"),
    ((("a", {"priority": -1}), ("b", {"when": ON_SUCCESS})), "b"),
    ((("a", {"when": ON_FAILURE, "priority": 9}), ("b", {})), "b"),
    ((("a", {"when": says_y}), ("b", {})), "b"),
    ((("a", {"when": ON_SUCCESS & truth}), ("b", {})), "a"),
]


@pytest.mark.parametrize(("edges", "path"), EDGES)
async def test_the_first_edge_that_holds(edges: Any, path: str) -> None:
    """B127: the higher priority first, ties by order of definition, always the same."""
    for _ in range(3):
        assert (await star(*edges).run("go")).execution_path == ["x", path]


async def test_edges_after_a_failure() -> None:
    """Plain ones are not taken; a predicate decides alone; one that holds for both does."""
    after: list[tuple[Condition | Test, str]] = [
        (ON_FAILURE, "a"),
        (ON_SUCCESS | ON_FAILURE, "a"),
        (truth, "a"),
        (breaks_off, "a"),
    ]
    for when, path in after:
        result = await star((path, {"when": when}), ("b", {}), work=fails()).run("go")
        assert result.execution_path == ["x", "a"]
        assert (result.success, result.output) == (False, "a")
        assert [step.ok for step in result.steps] == [False, True]
    with pytest.raises(RunFailed, match="it breaks"):
        await star(("a", {}), ("b", {"when": ON_SUCCESS}), work=fails()).run("go")


async def test_a_target_that_a_function_names() -> None:
    """A node, END, or the node itself; asked once for each visit."""
    asked: list[Any] = []

    def where(s: GraphView[Any]) -> str:
        asked.append(s.visits("x"))
        return ["x", "y", END][min(len(asked), 3) - 1]

    graph = Graph("g").add_node("x", says("x")).add_node("y", says("y"))
    graph.add_edge(START, "x").add_edge("x", to=where).add_edge("y", to=where, targets=["x", END])
    result = await graph.run("go")
    assert (result.execution_path, asked) == (["x", "x", "y"], [1, 2, 2])


@pytest.mark.parametrize(
    ("named", "told"),
    [
        ("gone", "'gone', which is no node of the graph. It has 'x', 'y', and END"),
        (None, "None"),
        (5, "5"),
        ("", "''"),
        (START, "START"),
        (ValueError("no idea"), "ValueError: no idea"),
    ],
)
async def test_a_target_that_is_no_node(named: Any, told: str) -> None:
    """The error says which edge, what it named, and what there is; the node's work is kept."""
    did, store = Did(), MemoryStore()

    def where(_: GraphView[Any]) -> Any:
        if isinstance(named, Exception):
            raise named
        return named

    def make(target: Callable[[GraphView[Any]], Any]) -> Graph[Any]:
        made = Graph("g").add_node("x", did.node("x")).add_node("y", did.node("y"))
        return made.add_edge(START, "x").add_edge("x", to=target).add_edge("y", END)

    with pytest.raises(RunFailed, match="where") as caught:
        await make(where).run("go", store=store, run_id="r", conversation="c")
    assert told in str(caught.value)
    assert "'x'" in str(caught.value)
    assert caught.value.result is not None
    assert caught.value.result.execution_path == ["x"]

    result = await make(lambda s: "y").resume("r", store=store, on_change="accept")
    assert (result.execution_path, did.names) == (["x", "y"], ["x", "y"])


async def test_a_target_outside_of_the_branch() -> None:
    """A function cannot lead a walk out of its branch, nor into one."""
    graph = forked(("a", says("a")), ("b", says("b")))
    graph.add_edge("a", to=lambda s: "b")
    with pytest.raises(RunFailed, match="branch 'b' of 'split'"):
        await graph.run("go")
    graph = forked(("a", says("a")), ("b", says("b")))
    graph.add_edge("join", to=lambda s: "a", priority=1)
    with pytest.raises(RunFailed, match="outside of all branches"):
        await graph.run("go")


async def test_a_function_leads_a_branch_to_its_join() -> None:
    """The join, and END, are where a branch may be led."""
    for target in ("join", END):
        graph = forked(("a", says("a")), ("b", says("b")))
        graph.add_edge("a", to=lambda s, target=target: target)
        assert (await graph.run("go")).output == {"a": "a", "b": "b"}


async def test_routers() -> None:
    """B125: the first that is true; the output is the chosen node, the newest one stays."""
    graph = (
        Graph("g")
        .add_node("x", says("said"))
        .add_router("r", {"a": lambda s: False, "b": truth, "c": truth})
        .add_node("a", says("a"))
        .add_node("b", lambda ctx: [ctx.output("r"), ctx.current_output])
        .add_node("c", says("c"))
    )
    for target in "abc":
        graph.add_edge(target, END)
    result = await graph.add_edge(START, "x").add_edge("x", "r").run("go")
    assert result.output == ["b", "said"]
    assert result.state.get("node::r::output") == "b"


async def test_a_router_that_goes_nowhere() -> None:
    """No predicate is true, or one fails: the run fails with words, or an edge is for that."""

    def breaks(_: GraphView[Any]) -> bool:
        raise KeyError("gone")

    def never(_: GraphView[Any]) -> bool:
        return False

    for test, told in ((never, "no default"), (breaks, "KeyError")):
        graph = Graph("g").add_router("r", {"a": test}).add_node("a", says("a")).add_edge("a", END)
        graph.add_edge(START, "r")
        with pytest.raises(RunFailed if test is breaks else DeadEnd, match=told) as caught:
            await graph.run("go")
        assert "'r'" in str(caught.value)
        graph.add_node("m", lambda ctx: ctx.error("r")).add_edge("r", "m", when=ON_FAILURE)
        result = await graph.add_edge("m", END).run("go")
        assert told in str(result.output)


async def test_entries_with_conditions() -> None:
    """Edges from START are like others; none that holds is a dead end."""

    def about(text: str) -> Test:
        return lambda s: text in s.input

    graph = Graph("g").add_node("a", says("a")).add_node("b", says("b"))
    graph.add_edge(START, "a", when=about("A")).add_edge(START, "b", when=about("B"))
    graph.add_edge("a", END).add_edge("b", END)
    assert (await graph.run("A?")).output == "a"
    assert (await graph.run("B?")).output == "b"
    with pytest.raises(DeadEnd, match="START"):
        await graph.run("C?")


async def test_a_condition_that_fails() -> None:
    """It fails the run after the node, whose work is kept: a resume asks again, and goes on."""
    did, store, broken = Did(), MemoryStore(), [True]

    def condition(s: GraphView[Any]) -> bool:
        if broken:
            raise ZeroDivisionError("by zero")
        return True

    graph = Graph("g").add_node("x", did.node("x")).add_node("y", did.node("y"))
    graph.add_edge(START, "x").add_edge("x", "y", when=condition).add_edge("x", END).add_edge(
        "y", END
    )
    with pytest.raises(RunFailed, match="'x' → 'y' failed: ZeroDivisionError") as caught:
        await graph.run("go", store=store, run_id="r")
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    broken.clear()
    result = await graph.resume("r", store=store)
    assert (result.execution_path, did.names) == (["x", "y"], ["x", "y"])
    assert result.success


async def test_conditions_are_not_asked_again() -> None:
    """Where a walk goes is in the journal with the end of its node."""
    asked: list[str] = []
    store, fail = MemoryStore(), [True]

    def condition(s: GraphView[Any]) -> bool:
        asked.append("x")
        return True

    def breaks(ctx: NodeContext) -> str:
        if fail:
            raise ValueError("no")
        return "y"

    graph = Graph("g").add_node("x", says("x")).add_node("y", breaks)
    graph.add_edge(START, "x").add_edge("x", "y", when=condition).add_edge("y", END)
    with pytest.raises(RunFailed):
        await graph.run("go", store=store, run_id="r", conversation="c")
    ended = [e for e in await entries_of(store) if isinstance(e, StepEnded)]
    assert [(e.step, e.to) for e in ended] == [("x#1", "y")]
    fail.clear()
    assert (await graph.resume("r", store=store)).output == "y"
    assert asked == ["x"]


async def test_finishes() -> None:
    """A walk may end after them, where no edge is taken."""
    graph = Graph("g").add_node("x", lambda ctx: ctx.visits("x"))
    graph.set_entry("x").set_finish("x").add_edge("x", "x", when=lambda s: s.output("x") < 2)
    result = await graph.run("go")
    assert (result.output, result.execution_path) == (2, ["x"] * 3)


@pytest.mark.parametrize("steps", [1, 2, 3, 7])
async def test_max_steps(steps: int) -> None:
    """S43: it stops after so many visits, with the newest output; a resume goes on from there."""
    did, store = Did(), MemoryStore()

    def make(most: int) -> Graph[Any]:
        made = Graph("g", max_steps=most).add_node("x", did.node("x")).add_node("y", did.node("y"))
        return made.add_edge(START, "x").add_edge("x", "y").add_edge("y", "x")

    result = await make(steps).run("go", store=store, run_id="r")
    assert (result.stop_reason, len(did.names)) == ("limit", steps)
    assert result.output == did.names[-1]
    assert f"all of its {steps} steps (max_steps)" in result.reason
    assert result.execution_path == did.names
    assert result.messages[-1].text == did.names[-1]


@pytest.mark.parametrize(
    "name", ["a::b", "a/b", "a#1", "ä ö", "a'\"b", "%3A", "node::x::output", " "]
)
async def test_nodes_may_be_called_anything(name: str) -> None:
    """Names have no meaning: their state, their steps and their edges are theirs alone."""
    did, store = Did(), MemoryStore()

    def make(*, broken: bool) -> Graph[Any]:
        def last(ctx: NodeContext) -> list[Any]:
            if broken:
                raise ValueError("broken")
            return [ctx.output(name), ctx.output("b")]

        made = Graph("g").add_node(name, did.node("x", 1)).add_node("b", did.node("b", 2))
        return line(name, "b", "last", graph=made.add_node("last", last))

    with pytest.raises(RunFailed):
        await make(broken=True).run("go", store=store, run_id="r", conversation="c")
    result = await make(broken=False).resume("r", store=store, on_change="accept")
    assert result.output == [1, 2]
    assert did.names == ["x", "b"]
    assert result.execution_path == [name, "b", "last"]
