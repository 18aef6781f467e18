"""Graphs: with a cycle, with five branches and a join, and with a graph in it and an error edge."""

from __future__ import annotations

from typing import Any

from tests.crash.agent import Tell
from tests.crash.stories.parts import Cast, does, summed
from treadle import END, ON_FAILURE, START, Graph, GraphView, NodeContext

BRANCHES = [f"b{number}" for number in range(5)]


def cycle(store: Any, tell: Tell) -> Graph[Any]:
    """Return a graph that goes round three times."""
    cast = Cast(tell)

    async def count(ctx: NodeContext) -> int:
        await cast.step(ctx.idempotency_key, ctx.attempt)
        ctx.graph.set("times", ctx.get("times", 0) + 1)
        return int(ctx["times"])

    def again(s: GraphView[Any]) -> bool:
        return s.get("times", 0) < 3

    return (
        Graph("cycle")
        .add_node("count", count)
        .add_node("work", cast.agent("worker", does("look", "pay"), summed))
        .add_edge(START, "count")
        .add_edge("count", "work")
        .add_edge("work", "count", when=again)
        .add_edge("work", END)
    )


def fan_out(store: Any, tell: Tell) -> Graph[Any]:
    """Return a graph with five branches, which write what does not collide."""
    cast = Cast(tell)

    async def join(ctx: NodeContext) -> list[str]:
        await cast.step(ctx.idempotency_key, ctx.attempt)
        return [f"{name}: {text}" for name, text in ctx.output("split").items()]

    graph = (
        Graph("fan-out")
        .add_fan_out("split", BRANCHES, join="join")
        .add_node("join", join)
        .add_node("end", cast.agent("last", summed))
        .add_edge(START, "split")
        .add_edge("join", "end")
        .add_edge("end", END)
    )
    for place, name in enumerate(BRANCHES):
        work = does("look", "note", n=10 * place) if place % 2 else does("pay", "measure", n=place)
        graph.add_node(name, cast.agent(f"agent-{name}", work, summed))
    return graph


def within(store: Any, tell: Tell) -> Graph[Any]:
    """Return a graph with a graph in it; a node of that fails, and is dealt with."""
    cast = Cast(tell)

    async def breaks(ctx: NodeContext) -> str:
        await cast.step(ctx.idempotency_key, ctx.attempt)
        raise ValueError("it breaks")

    async def mends(ctx: NodeContext) -> str:
        await cast.step(ctx.idempotency_key, ctx.attempt)
        return f"after {ctx.error('breaks')}"

    inner = (
        Graph("inner")
        .add_node("work", cast.agent("worker", does("pay"), summed))
        .add_node("breaks", breaks)
        .add_node("mends", mends)
        .add_edge(START, "work")
        .add_edge("work", "breaks")
        .add_edge("breaks", "mends", when=ON_FAILURE)
        .add_edge("breaks", END)
        .add_edge("mends", END)
    )
    return (
        Graph("outer")
        .add_node("first", cast.agent("first", does("look"), summed))
        .add_node("inner", inner)
        .add_node("last", cast.agent("last", does("book", n=3), summed))
        .add_edge(START, "first")
        .add_edge("first", "inner")
        .add_edge("inner", "last")
        .add_edge("last", END)
    )
