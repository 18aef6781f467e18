"""Functions of the user's that do what they should not: the node fails, and the process goes on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import pytest

from treadle import (
    END,
    ON_FAILURE,
    START,
    Agent,
    Graph,
    GraphView,
    Handoff,
    NodeContext,
    RunFailed,
)
from treadle.testing import ScriptedModel


def leave(*_: object) -> NoReturn:
    """Try to end the process."""
    raise SystemExit(3)


def lose(*_: object) -> NoReturn:
    """Fail in a way that no reducer should."""
    raise RuntimeError("lost")


def named(ctx: NodeContext) -> str:
    """Write a key, and give a text."""
    ctx.graph.set("who", ctx.node)
    return ctx.node


def start() -> Graph[Any]:
    """Two nodes that a graph may go on to after the first."""
    graph: Graph[Any] = Graph("g").add_node("a", named).add_node("b", named)
    return graph.add_edge(START, "a").add_edge("b", END)


def by_edge(graph: Graph[Any]) -> Graph[Any]:
    return graph.add_edge("a", "b", when=leave).add_edge("a", END)


def by_name(graph: Graph[Any]) -> Graph[Any]:
    return graph.add_edge("a", to=leave, targets=["b"])


def by_router(graph: Graph[Any]) -> Graph[Any]:
    return graph.add_router("r", {"b": leave}, default=END).add_edge("a", "r")


def by_map(graph: Graph[Any]) -> Graph[Any]:
    return (
        graph.add_map("m", over=leave, node="c", join="b").add_node("c", named).add_edge("a", "m")
    )


def by_items(graph: Graph[Any]) -> Graph[Any]:
    items: Callable[[GraphView[Any]], Any] = lambda s: (leave() for _ in range(2))  # noqa: E731
    return (
        graph.add_map("m", over=items, node="c", join="b").add_node("c", named).add_edge("a", "m")
    )


def by_choice(graph: Graph[Any]) -> Graph[Any]:
    graph.add_fan_out("f", ["c"], join="b", choose=leave).add_node("c", named)
    return graph.add_edge("a", "f")


def by_input(graph: Graph[Any]) -> Graph[Any]:
    graph.add_node("c", Agent("c", ScriptedModel(["hi"])), input=leave)
    return graph.add_edge("a", "c").add_edge("c", "b")


@pytest.mark.parametrize(
    "build", [by_edge, by_name, by_router, by_map, by_items, by_choice, by_input]
)
async def test_no_function_between_the_nodes_ends_the_process(
    build: Callable[[Graph[Any]], Graph[Any]],
) -> None:
    """What a function node may not do, those that only read may not either."""
    with pytest.raises(RunFailed, match="SystemExit: 3"):
        await build(start()).run("x")


@pytest.mark.parametrize(("reducer", "told"), [(leave, r"SystemExit\(3\)"), (lose, "lost")])
async def test_a_reducer_that_fails_is_a_failure_of_the_node(
    reducer: Callable[[Any, Any], Any], told: str
) -> None:
    """Whatever it raises: an edge for a failure is taken."""
    graph = (
        Graph("g", reducers={"who": reducer})
        .add_fan_out("f", ["a", "b"], join=END)
        .add_node("a", named)
        .add_node("b", named)
        .add_node("mend", lambda ctx: ctx.error("f"))
        .add_edge(START, "f")
        .add_edge("f", "mend", when=ON_FAILURE)
        .add_edge("mend", END)
    )

    result = await graph.run("x")

    assert result.execution_path[-1] == "mend"
    with pytest.raises(RunFailed, match=f"'graph::who' cannot merge str and str: {told}"):
        raise RunFailed(result.output)


async def test_a_node_cannot_hand_over() -> None:
    """A handoff is for members of a swarm: here it would be an output that nobody asked for."""
    graph = Graph("g").add_node("a", lambda ctx: Handoff("b")).add_edge(START, "a")
    graph.add_edge("a", END)

    with pytest.raises(RunFailed, match="cannot hand over with Handoff; edges say"):
        await graph.run("x")


async def test_a_branch_that_deletes_its_output_has_none() -> None:
    """Of a map like of a fan-out: the join gets None in its place."""

    def drop(ctx: NodeContext) -> None:
        ctx.graph.delete("current_output")

    def ended(graph: Graph[Any]) -> Graph[Any]:
        graph.add_node("a", named).add_node("drop", drop).add_edge("a", "drop")
        return graph.add_edge(START, "split")

    mapped = ended(Graph("g").add_map("split", over=lambda s: [1, 2], node="a", join=END))
    fanned = ended(Graph("g").add_fan_out("split", ["a"], join=END))

    assert (await mapped.run("x", state={"graph::who": "a"})).output == [None, None]
    assert (await fanned.run("x")).output == {"a": None}
