"""Functions as nodes of a graph that runs: how they end, are tried again, run out of time."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from tests.workflows.graph.wired import (
    Did,
    entries_of,
    kept,
    line,
    lone,
    recovering,
    says,
)
from treadle import (
    END,
    ON_FAILURE,
    START,
    Agent,
    Finish,
    Graph,
    Interrupt,
    MemoryStore,
    Next,
    NodeContext,
    RunFailed,
    ToolError,
    Usage,
)
from treadle.journal import RunEnded, StepBegan
from treadle.testing import ScriptedModel

STORES = [None, "memory"]


class Flaky:
    """A node that fails so often, after it wrote something; sync or async."""

    def __init__(self, times: int) -> None:
        self.left = times
        self.seen: list[Any] = []

    def sync(self, ctx: NodeContext) -> str:
        """Fail or answer."""
        self.seen.append((ctx.attempt, ctx.get("half"), ctx.state.get("own"), ctx.idempotency_key))
        ctx.graph.set("half", ctx.attempt)
        ctx.state.set("own", ctx.attempt)
        ctx.add_usage(Usage(input_tokens=1))
        self.left -= 1
        if self.left >= 0:
            raise OSError("not yet")
        return f"try {ctx.attempt}"

    async def slow(self, ctx: NodeContext) -> str:
        """Fail or answer, later."""
        await asyncio.sleep(0)
        return self.sync(ctx)


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("kind", ["sync", "slow"])
async def test_a_function_is_tried_again(kind: str, store: str | None) -> None:
    """From its start, with one key, and nothing is left of a try that failed but its usage."""
    flaky = Flaky(2)
    work = getattr(flaky, kind)
    result = await recovering(work, retries=2).run("go", run_id="r", store=kept(store))
    assert (result.output, result.success, result.execution_path) == ("try 3", True, ["x"])
    assert [seen[:3] for seen in flaky.seen] == [(n, None, None) for n in (1, 2, 3)]
    assert {seen[3] for seen in flaky.seen} == {"r:x#1"}
    assert result.state.get("graph::half") == 3
    assert result.usage.input_tokens == 3, "what failed tries used is spent, too"

    spent = Flaky(3)
    result = await recovering(getattr(spent, kind), retries=2).run("go", store=kept(store))
    assert (result.output, len(spent.seen)) == ("OSError: not yet", 3)
    assert "graph::half" not in result.state
    assert not result.success


@pytest.mark.parametrize("store", STORES)
async def test_a_node_that_fails_the_run_has_used_what_it_used(store: str | None) -> None:
    """Its usage counts in the run that failed, and in the one that goes on with it."""
    flaky, where = Flaky(3), kept(store)
    with pytest.raises(RunFailed) as caught:
        await lone(flaky.sync, retries=1).run("go", run_id="r", store=where)
    assert caught.value.result is not None
    assert caught.value.result.usage.input_tokens == 2
    if where is not None:
        result = await lone(flaky.sync, retries=1).resume("r", store=where)
        assert (result.output, result.usage.input_tokens) == ("try 4", 4)


@pytest.mark.parametrize(
    ("raised", "told"),
    [
        (ValueError("bad"), "ValueError: bad"),
        (ToolError("so it is"), "so it is"),
        (SystemExit(3), "SystemExit"),
        (asyncio.CancelledError(), "ancelled"),
        (TimeoutError(), "TimeoutError"),
    ],
)
@pytest.mark.parametrize("waits", [False, True])
async def test_whatever_a_function_raises(raised: BaseException, told: str, waits: bool) -> None:
    """It fails the node with words for it, and neither the run nor the process."""

    def breaks(ctx: NodeContext) -> None:
        raise raised

    async def later(ctx: NodeContext) -> None:
        await asyncio.sleep(0)
        raise raised

    work = later if waits else breaks
    result = await recovering(work).run("go")
    assert told in str(result.output)
    with pytest.raises(RunFailed, match="Node 'x' failed") as caught:
        await lone(work).run("go")
    assert caught.value.result is not None
    assert caught.value.result.execution_path == ["x"]
    assert not caught.value.result.success


async def test_a_sync_function_does_not_block() -> None:
    """It works in a thread: others go on meanwhile."""
    turns = 0

    def works(ctx: NodeContext) -> int:
        began = turns
        threading.Event().wait(0.05)
        return turns - began

    run = lone(works).start("go")
    while not run.done:
        turns += 1
        await asyncio.sleep(0.001)
    assert (await run).output > 3


@pytest.mark.parametrize("store", STORES)
async def test_functions_run_out_of_time(store: str | None) -> None:
    """Each try has the time; a thread that still works changes nothing any more."""
    tries: list[int] = []
    late: list[Any] = []

    async def hangs(ctx: NodeContext) -> None:
        tries.append(ctx.attempt)
        ctx.graph.set("half", 1)
        await asyncio.sleep(60)

    result = await recovering(hangs, timeout=0.01, retries=1).run("go", store=kept(store))
    assert (result.output, tries) == ("it timed out after 0.01 s.", [1, 2])
    assert "graph::half" not in result.state

    def sleeps(ctx: NodeContext) -> None:
        while not ctx.cancelled:
            threading.Event().wait(0.005)
        try:
            ctx.graph.set("late", 1)
        except Exception as error:  # noqa: BLE001
            late.append(error)

    result = await recovering(sleeps, timeout=0.02).run("go", store=kept(store))
    assert "timed out" in str(result.output)
    async with asyncio.timeout(5):
        while not late:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
    assert "graph::late" not in result.state


async def test_what_a_function_may_return() -> None:
    """Interrupt pauses after it, Finish ends the run, Next is for tools, and values are stored."""
    graph = line(
        "x",
        "y",
        graph=Graph("g").add_node("y", says("y")).add_node("x", lambda ctx: Finish("early")),
    )
    result = await graph.run("go")
    assert (result.output, result.execution_path, result.stop_reason) == ("early", ["x"], "answer")
    assert "edges say" in str((await recovering(lambda ctx: Next("t", {})).run("go")).output)
    told = (await recovering(lambda ctx: object()).run("go")).output
    assert "stor" in str(told), told


async def test_an_interrupt_pauses_after_its_node() -> None:
    """Its output counts; the run goes on with the next node, in another process."""
    did, store = Did(), MemoryStore()

    def stops(ctx: NodeContext) -> Interrupt:
        did.names.append("x")
        ctx.graph.set("half", 1)
        return Interrupt("have a look", output="so far")

    def make() -> Graph[Any]:
        made = (
            Graph("g")
            .add_node("x", stops)
            .add_node("y", lambda ctx: [ctx.current_output, ctx["half"]])
        )
        return line("x", "y", graph=made)

    paused = await make().run("go", store=store, run_id="r")
    assert (paused.stop_reason, paused.pending) == ("paused", [])
    assert "have a look" in paused.reason
    assert (paused.execution_path, paused.state.get("node::x::output")) == (["x"], "so far")
    result = await make().resume("r", store=store)
    assert (result.output, did.names) == (["so far", 1], ["x"])
    assert result.execution_path == ["x", "y"]


async def test_what_began_is_in_the_journal() -> None:
    """Each try is written before the function is called, as its effects may be."""
    store, seen = MemoryStore(), list[int]()

    async def looks(ctx: NodeContext) -> None:
        began = [e for e in await entries_of(store) if isinstance(e, StepBegan)]
        seen.append(len(began))
        if ctx.attempt == 1:
            raise ValueError("again")

    await lone(looks, retries=1).run("go", store=store, conversation="c")
    assert seen == [1, 2]
    assert any(isinstance(e, RunEnded) for e in await entries_of(store))


async def test_input_that_fails_is_a_failure_of_the_node() -> None:
    """The agent is not asked; the error says what failed."""
    model = ScriptedModel(["never"])
    graph = Graph("g").add_node("x", Agent("a", model), input=lambda s: s["gone"], retries=2)
    with pytest.raises(RunFailed, match="cannot be told its input: KeyError"):
        await line("x", graph=graph).run("go")
    assert model.requests == []


async def test_a_node_after_one_that_failed_sees_no_output_of_it() -> None:
    """An output of an earlier visit is gone with the failure."""

    def once(ctx: NodeContext) -> str:
        if ctx.visits("x"):
            raise ValueError("the second time")
        return "good"

    graph = (
        Graph("g")
        .add_node("x", once)
        .add_node("y", lambda ctx: [ctx.output("x"), ctx.success("x"), dict(ctx.outputs)])
        .add_edge(START, "x")
        .add_edge("x", "x")
        .add_edge("x", "y", when=ON_FAILURE)
        .add_edge("y", END)
    )
    assert (await graph.run("go")).output == [None, False, {}]
