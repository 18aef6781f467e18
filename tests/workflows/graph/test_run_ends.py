"""Graphs that are steered, cancelled, run out of time or budget, and go on after that."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import timedelta
from typing import Any

import pytest

from tests.agent.nested import USAGE
from tests.agent.parts import Failing, Hanging
from tests.workflows.desk import said_in
from tests.workflows.graph.wired import Did, echo, fails, forked, line, lone, says
from treadle import (
    END,
    ON_FAILURE,
    ON_SUCCESS,
    START,
    Agent,
    Graph,
    GraphView,
    Limits,
    MemoryStore,
    ModelRequest,
    NodeContext,
    RunFailed,
    StoreUnavailable,
    TreadleError,
    Usage,
)
from treadle.testing import FunctionModel, ScriptedModel, raises, reply


class Held:
    """A node, or a model, that waits until it is let go."""

    def __init__(self, name: str = "held") -> None:
        self.name = name
        self.begun, self.go, self.ended = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.heard: list[ModelRequest] = []

    async def node(self, ctx: NodeContext) -> str:
        """Wait."""
        await self._wait()
        return self.name

    def agent(self, **options: Any) -> Agent[Any, str]:
        """An agent whose model waits."""

        async def answer(request: ModelRequest) -> Any:
            self.heard.append(request)
            await self._wait()
            return reply(self.name, usage=USAGE)

        return Agent(self.name, FunctionModel(answer), **options)

    async def _wait(self) -> None:
        self.begun.set()
        try:
            await self.go.wait()
        finally:
            self.ended.set()


@pytest.mark.parametrize("kind", ["function", "agent", "branches", "inner"])
@pytest.mark.parametrize("store", [None, "memory"])
async def test_cancelled_wherever_it_is(kind: str, store: str | None) -> None:
    """Nothing is left at work; what is done stays done, and a resume goes on from there."""
    did, held, before = Did(), Held(), asyncio.all_tasks()
    where = MemoryStore() if store else None

    def make(held: Held) -> Graph[Any]:
        made = Graph("g").add_node("a", did.node("a"))
        match kind:
            case "function":
                made.add_node("x", held.node)
            case "agent":
                made.add_node("x", held.agent())
            case "inner":
                made.add_node(
                    "x",
                    line(
                        "p",
                        "q",
                        graph=Graph("i").add_node("p", did.node("p")).add_node("q", held.agent()),
                    ),
                )
            case _:
                made.add_fan_out("x", ["p", "q"], join="end").add_node("p", held.node)
                made.add_node("q", did.agent("q")).add_node("end", says("held"))
                return made.add_edge(START, "a").add_edge("a", "x").add_edge("end", END)
        return line("a", "x", graph=made)

    run = make(held).start("go", store=where, run_id="r")
    await held.begun.wait()
    for _ in range(50):
        await asyncio.sleep(0)
    await run.cancel("enough")
    result = await run
    assert (result.stop_reason, result.execution_path[0]) == ("cancelled", "a")
    assert held.ended.is_set()
    assert asyncio.all_tasks() - before == set()
    if where is not None:
        other = Held()
        other.go.set()
        result = await make(other).resume("r", store=where)
        assert (result.output, result.stop_reason) == ("held", "answer")
        assert set(Counter(did.names).values()) == {1}


async def test_the_task_is_cancelled() -> None:
    """Cancelling who awaits it cancels the run, and nothing is left."""
    held, before = Held(), asyncio.all_tasks()
    task = asyncio.ensure_future(forked(("a", held.node), ("b", Held().agent())).run("go"))
    await held.begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert held.ended.is_set()
    assert asyncio.all_tasks() - before == set()


async def test_a_deadline_ends_all() -> None:
    """In functions, agents and branches; the result has what was done."""
    did, hanging, before = Did(), Hanging(), asyncio.all_tasks()
    held = Held()
    graph = forked(("a", Agent("h", hanging)), ("b", held.node), ("c", did.node("c")))
    store = MemoryStore()
    result = await graph.run(
        "go", limits=Limits(deadline=timedelta(seconds=0.05)), store=store, run_id="r"
    )
    assert result.stop_reason == "deadline"
    assert hanging.stopped.is_set()
    assert held.ended.is_set()
    assert did.names == ["c"]
    assert asyncio.all_tasks() - before == set()


async def test_one_budget_for_all() -> None:
    """What all agents use is what the run uses; a loop of agents ends, and may go on with more."""

    def again(s: GraphView[Any]) -> bool:
        return s.visits("x") < 9

    graph = Graph("g").add_node("x", echo("e")).add_edge(START, "x")
    graph.add_edge("x", "x", when=ON_SUCCESS & again).add_edge("x", END)
    store = MemoryStore()
    result = await graph.run("go", limits=Limits(max_tokens=35), store=store, run_id="r")
    assert (result.stop_reason, result.usage.requests) == ("budget", 3)
    assert "'x'" in result.reason
    assert [step.ok for step in result.steps] == [True, True, True, False]
    more = await graph.resume("r", store=store, limits=Limits(max_tokens=10_000))
    assert (more.stop_reason, more.usage.requests) == ("answer", 9)
    assert more.execution_path == ["x"] * 9


async def test_what_functions_use_is_spent() -> None:
    """`add_usage` counts against the limits of the run."""

    def uses(ctx: NodeContext) -> int:
        ctx.add_usage(Usage(input_tokens=10, requests=1))
        return ctx.usage.input_tokens

    graph = line("x", "e", graph=Graph("g").add_node("x", uses).add_node("e", echo("e")))
    result = await graph.run("go")
    assert (result.usage.input_tokens, result.usage.requests) == (20, 2)
    assert result.steps[0].usage.input_tokens == 10
    assert (await graph.run("go", limits=Limits(max_tokens=10))).stop_reason == "budget"


async def test_steering_reaches_the_agent_at_work() -> None:
    """At its next turn, or the next agent of the main walk; branches do not hear it."""
    held, later = Held(), ScriptedModel(["later"])
    graph = Graph("g").add_node("x", held.agent()).add_node("y", Agent("y", later))
    run = line("x", "y", graph=graph).start("go", store=MemoryStore())
    await held.begun.wait()
    receipt = await run.steer("By card.")
    held.go.set()
    result = await run
    assert receipt.status == "applied"
    heard = [*held.heard, *later.requests]
    assert any("By card." in " ".join(said_in(request)) for request in heard)
    assert result.stop_reason == "answer"


async def test_steering_of_branches() -> None:
    """Branches work on: the message waits for the next agent of the main walk."""
    held, later = Held("branch"), ScriptedModel(["later", "later"])
    graph = forked(("a", held.agent()), ("b", says("b")))
    graph.add_node("y", Agent("y", later)).add_edge("join", "y", priority=1).add_edge("y", END)
    run = graph.start("go", store=MemoryStore())
    await held.begun.wait()
    receipt = await run.steer("By card.")
    held.go.set()
    result = await run
    assert result.output == "later"
    assert receipt.status == "applied"
    assert all("By card." not in " ".join(said_in(request)) for request in held.heard)
    assert "By card." in " ".join(said_in(later.requests[-1]))


@pytest.mark.parametrize("on_steer", ["continue", "carry_over", "discard"])
async def test_steering_that_nobody_hears(on_steer: Any) -> None:
    """A graph of functions has nobody to hear it: the receipt says what becomes of it."""
    held, store = Held(), MemoryStore()
    run = lone(held.node).start("go", store=store, conversation="c", on_steer=on_steer)
    await held.begun.wait()
    receipt = await run.steer("By card.")
    held.go.set()
    result = await run
    assert (result.output, result.stop_reason) == ("held", "answer")
    assert receipt.status in ("carried_over", "discarded"), receipt.status
    if on_steer == "discard":
        assert receipt.status == "discarded"


async def test_a_failed_run_goes_on() -> None:
    """What is over is not done again; the failed node is, with its next visit's path."""
    did, store = Did(), MemoryStore()
    model = ScriptedModel(["one", raises(ValueError("out of order")), "two"])
    graph = Graph("g").add_node("a", did.node("a")).add_node("x", Agent("x", model))
    graph = line(
        "a",
        "x",
        "b",
        "y",
        graph=graph.add_node("b", did.node("b", fail_first=1)).add_node("y", Agent("x", model)),
    )
    with pytest.raises(TreadleError, match="b does not work"):
        await graph.run("go", store=store, run_id="r")
    with pytest.raises(TreadleError, match="out of order"):
        await graph.resume("r", store=store)
    result = await graph.resume("r", store=store)
    assert (result.output, result.success) == ("two", True)
    assert result.execution_path == ["a", "x", "b", "y"]
    assert did.names == ["a", "b", "b"]
    assert result.usage.requests == 2 or result.turns == 2


async def test_a_run_that_has_answered_is_not_run_again() -> None:
    """A resume gives its result; a failed one of branches runs only those that failed."""
    did, store = Did(), MemoryStore()
    graph = forked(*((name, did.node(name, fail_first=name == "b")) for name in "abc"))
    with pytest.raises(RunFailed, match="b does not work"):
        await graph.run("go", store=store, run_id="r")
    assert did.names == ["a", "b", "c"]
    first = await graph.resume("r", store=store)
    assert did.names == ["a", "b", "c", "b"]
    again = await graph.resume("r", store=store)
    assert (again.output, again.execution_path) == (first.output, first.execution_path)
    assert did.names == ["a", "b", "c", "b"]


@pytest.mark.parametrize("works", range(1, 9))
async def test_a_store_that_fails(works: int) -> None:
    """The run fails with the store's error, at once, and nothing is left at work."""
    before = asyncio.all_tasks()
    store = Failing(works, StoreUnavailable("the disk is full"))
    did = Did()
    graph = forked(("a", did.agent("a")), ("b", did.node("b")), ("c", fails()))
    graph.add_node("h", did.node("h")).add_edge("c", "h", when=ON_FAILURE).add_edge("h", "join")
    with pytest.raises(StoreUnavailable, match="the disk is full"):
        await graph.run("go", store=store, run_id="r")
    assert asyncio.all_tasks() - before == set()
