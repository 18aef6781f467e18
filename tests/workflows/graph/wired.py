"""Nodes and lines of nodes that tests of running graphs are made of."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from tests.agent.nested import USAGE
from treadle import (
    END,
    ON_FAILURE,
    START,
    Agent,
    Graph,
    MemoryStore,
    ModelReply,
    ModelRequest,
    NodeContext,
    RunContext,
    tool,
)
from treadle.journal import AnyEntry, StepEnded
from treadle.ports.runnable import Runnable
from treadle.testing import FunctionModel, calls, reply
from treadle.testing.scripted import last_text

Function = Callable[[NodeContext[Any]], Any]
Work = Runnable | Function


def says(output: Any) -> Function:
    """A node that gives this."""

    def say(ctx: NodeContext) -> Any:
        return output

    return say


def fails(text: str = "it breaks") -> Function:
    """A node that fails."""

    def fail(ctx: NodeContext) -> Any:
        raise ValueError(text)

    return fail


def echo(name: str, **options: Any) -> Agent[Any, str]:
    """An agent that repeats what it was told, with its name."""

    def answer(request: ModelRequest) -> ModelReply:
        return reply(f"{name}: {last_text(request)}", usage=USAGE)

    return Agent(name, FunctionModel(answer), **options)


def line(*ids: str, graph: Graph[Any] | None = None, **options: Any) -> Graph[Any]:
    """A graph, or this one, whose nodes come one after another."""
    made = Graph("g", **options) if graph is None else graph
    for source, target in pairwise((START, *ids, END)):
        made.add_edge(source, target)
    return made


def lone(work: Work, node: str = "x", **options: Any) -> Graph[Any]:
    """A graph of one node."""
    return line(node, graph=Graph("g").add_node(node, work, **options))


def forked(
    *branches: tuple[str, Work],
    join: Function | None = None,
    graph: Graph[Any] | None = None,
    **options: Any,
) -> Graph[Any]:
    """A graph that opens these branches of one node each, and joins them."""
    made = Graph("g") if graph is None else graph
    made.add_fan_out("split", [name for name, _ in branches], join="join", **options)
    for name, work in branches:
        made.add_node(name, work)
    made.add_node("join", (lambda ctx: ctx.output("split")) if join is None else join)
    return made.add_edge(START, "split").add_edge("join", END)


def recovering(work: Work, **options: Any) -> Graph[Any]:
    """A graph whose node may fail, and that then tells why."""
    return (
        Graph("g")
        .add_node("x", work, **options)
        .add_node("told", lambda ctx: ctx.error("x"))
        .add_edge(START, "x")
        .add_edge("x", "told", when=ON_FAILURE)
        .add_edge("x", END)
        .add_edge("told", END)
    )


def kept(store: str | None) -> Any:
    """A new store, or none."""
    return None if store is None else MemoryStore()


class Did:
    """What nodes and tools did, in order; each of their effects has its key."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.keys: list[str] = []

    def node(
        self,
        name: str,
        output: Any = None,
        *,
        fail_first: int = 0,
        wait: asyncio.Event | None = None,
    ) -> Any:
        """A node that notes that it was called, fails so often, and gives this."""

        async def run(ctx: NodeContext) -> Any:
            self.names.append(name)
            self.keys.append(ctx.idempotency_key)
            if wait is not None:
                await wait.wait()
            if self.names.count(name) <= fail_first:
                raise ValueError(f"{name} does not work")
            ctx.graph.set(f"by {name}", 1)
            return name if output is None else output

        return run

    def agent(self, name: str, *, approval: bool = False, **options: Any) -> Agent[Any, str]:
        """An agent that uses a tool once, and then says that it did."""

        @tool(idempotent=True, approval=approval)
        async def mark(ctx: RunContext) -> str:
            """Mark."""
            self.names.append(name)
            self.keys.append(ctx.idempotency_key)
            ctx.state.session.set(f"by {name}", 1)
            return "marked"

        def answer(request: ModelRequest) -> ModelReply:
            if request.messages[-1].tool_results:
                return reply(f"{name} did it", usage=USAGE)
            return calls(("m", "mark", {}), usage=USAGE)

        return Agent(name, FunctionModel(answer), tools=[mark], **options)


async def entries_of(store: Any, conversation: str = "c") -> list[AnyEntry]:
    """All that the journal of a conversation has."""
    return [entry for batch in await store.read(conversation) for entry in batch.entries]


async def ended_in(store: Any, conversation: str = "c") -> list[str]:
    """The steps that are over, by their paths."""
    found = [e for e in await entries_of(store, conversation) if isinstance(e, StepEnded)]
    return [f"{e.path}/{e.step}" if e.path else e.step for e in found]
