"""Agents, swarms, plans and graphs as nodes: how they end, are tried again, and run out of time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.agent.nested import USAGE
from tests.agent.parts import Hanging
from tests.workflows.graph.wired import (
    Did,
    echo,
    entries_of,
    forked,
    kept,
    line,
    lone,
    recovering,
    says,
)
from treadle import (
    END,
    ON_FAILURE,
    ON_SUCCESS,
    ON_TOOL_CALL,
    START,
    Agent,
    Approve,
    Graph,
    Limits,
    MemoryStore,
    ModelRequest,
    NodeContext,
    PlanExecute,
    Swarm,
    tool,
)
from treadle.journal import StepEnded
from treadle.testing import FunctionModel, ScriptedModel, calls, raises, reply

STORES = [None, "memory"]


@pytest.mark.parametrize("store", STORES)
async def test_an_agent_is_tried_again(store: str | None) -> None:
    """From where it was: nothing that it had done is done again."""
    did = Did()
    asked: list[int] = []

    @tool
    async def mark() -> str:
        """Mark."""
        did.names.append("mark")
        return "marked"

    def answer(request: ModelRequest) -> Any:
        asked.append(sum(m.role == "assistant" for m in request.messages))
        if len(asked) == 1:
            return calls(("m", "mark", {}), usage=USAGE)
        if len(asked) < 4:
            raise ValueError("the model is out of order")
        return reply("done", usage=USAGE)

    agent = Agent("a", FunctionModel(answer), tools=[mark])
    result = await recovering(agent, retries=2).run("go", store=kept(store))
    assert (result.output, result.success, did.names) == ("done", True, ["mark"])
    assert asked == [0, 1, 1, 1]
    assert (result.usage.requests, result.turns, result.steps[0].tool_calls) == (2, 2, 1)


@pytest.mark.parametrize("store", STORES)
async def test_an_agent_fails_for_good(store: str | None) -> None:
    """An edge for it leads on, and its next visit is a new one."""
    model = ScriptedModel([raises(ValueError("first")), raises(ValueError("second")), "third"])
    graph = (
        Graph("g")
        .add_node("x", Agent("a", model))
        .add_node("told", lambda ctx: ctx.error("x"))
        .add_edge(START, "x")
        .add_edge("x", "told", when=ON_FAILURE)
        .add_edge("told", "x")
        .add_edge("x", END)
    )
    where = kept(store)
    result = await graph.run("go", store=where, conversation="c")
    assert (result.output, result.success) == ("third", False)
    assert result.execution_path == ["x", "told", "x", "told", "x"]
    assert [len(request.messages) for request in model.requests] == [1, 1, 1]
    if where is not None:
        ended = [e.step for e in await entries_of(where) if isinstance(e, StepEnded)]
        assert ended == ["x#1", "told#1", "x#2", "told#2", "x#3"]


@pytest.mark.parametrize("store", STORES)
async def test_an_agent_runs_out_of_time(store: str | None) -> None:
    """Its time is for each try, it ends as with a deadline, and the run goes on."""
    hanging, before = Hanging(), asyncio.all_tasks()
    result = await recovering(Agent("a", hanging), timeout=0.02).run("go", store=kept(store))
    assert result.output == "it timed out after 0.02 s."
    assert hanging.stopped.is_set()
    assert asyncio.all_tasks() - before == set()

    asked: list[int] = []

    async def slow_at_first(request: ModelRequest) -> Any:
        asked.append(1)
        if len(asked) == 1:
            await asyncio.sleep(60)
        return reply("quick", usage=USAGE)

    agent = Agent("a", FunctionModel(slow_at_first))
    result = await recovering(agent, timeout=0.05, retries=1).run("go", store=kept(store))
    assert (result.output, len(asked), result.success) == ("quick", 2, True)


async def test_an_agent_in_time_has_no_timer_left() -> None:
    """The time of one node is not that of the next."""
    graph = Graph("g").add_node("x", echo("a"), timeout=0.05).add_node("y", asyncio_sleeper(0.1))
    assert (await line("x", "y", graph=graph).run("go")).output == "slept"


def asyncio_sleeper(seconds: float) -> Any:
    """A node that sleeps."""

    async def sleep(ctx: NodeContext) -> str:
        await asyncio.sleep(seconds)
        return "slept"

    return sleep


@pytest.mark.parametrize("on_limit", ["answer", "error", "pause"])
async def test_an_agent_at_its_limit(on_limit: Any) -> None:
    """A forced answer is one; an error fails the node; a pause pauses the run."""

    def answer(request: ModelRequest) -> Any:
        return calls(("m", "mark", {}), usage=USAGE) if request.tools else reply("forced")

    @tool
    def mark() -> str:
        """Mark."""
        return "marked"

    agent = Agent(
        "a", FunctionModel(answer), tools=[mark], limits=Limits(max_turns=2), on_limit=on_limit
    )
    store = MemoryStore()
    result = await recovering(agent).run("go", store=store, run_id="r")
    if on_limit == "answer":
        assert (result.output, result.success, result.stop_reason) == ("forced", True, "answer")
    elif on_limit == "error":
        assert "turns" in str(result.output)
        assert not result.success
    else:
        assert result.stop_reason == "paused"


async def test_whether_a_tool_was_called() -> None:
    """ON_TOOL_CALL: of an agent, and of a swarm, a graph and an agent that is a tool within."""
    did = Did()

    def make(work: Any) -> Graph[Any]:
        made = Graph("g").add_node("x", work).add_node("used", says("used")).add_edge(START, "x")
        made.add_edge("x", "used", when=ON_TOOL_CALL, priority=1).add_edge(
            "x", END, when=ON_SUCCESS
        )
        return made.add_edge("used", END)

    uses = did.agent("a")
    inner = ScriptedModel([calls(("c", "a", {"input": "?"})), "done"])
    for work in (uses, Swarm("s", agents=[uses]), lone(uses), Agent("boss", inner, tools=[uses])):
        assert (await make(work).run("go")).output == "used"
    for work in (echo("e"), Swarm("s", agents=[echo("e")]), says("said")):
        assert (await make(work).run("go")).execution_path == ["x"]


async def test_swarms_plans_and_graphs_are_nodes() -> None:
    """Anything that can be started; usage is rolled up once."""
    plan = '{"goal": "g", "steps": [{"id": "a", "description": "Do it.", "dependencies": []}]}'
    planner = Agent("chef", ScriptedModel([plan, "planned"]))
    graph = (
        Graph("g")
        .add_node("swarm", Swarm("s", agents=[echo("m")]))
        .add_node("plan", PlanExecute("p", planner=planner, executor=echo("cook")))
        .add_node("graph", lone(echo("inner")))
        .add_node("agent", echo("last"))
    )
    result = await line("swarm", "plan", "graph", "agent", graph=graph).run("go")
    assert result.output == "last: inner: planned"
    assert result.execution_path == ["swarm", "plan", "graph", "agent"]
    assert [step.usage.requests for step in result.steps] == [1, 3, 1, 1]
    assert result.usage.requests == 6


async def test_an_agent_with_an_output_type() -> None:
    """The node's output is the value; the next agent is told it as JSON."""
    model = ScriptedModel(['{"n": 3}'])
    graph = (
        Graph("g")
        .add_node("x", Agent("a", model, output_type=dict[str, int]))
        .add_node("y", echo("e"))
    )
    result = await line("x", "y", graph=graph).run("go")
    assert result.state.get("node::x::output") == {"n": 3}
    assert result.output == 'e: {"n":3}'


class Foreign:
    """Something that can be run, and is none of Treadle's own."""

    def __init__(self, name: str, inner: Any) -> None:
        self.name = name
        self._inner = inner

    def start(self, input: Any = None, **options: Any) -> Any:
        """Start it."""
        return self._inner.start(input, **options)

    def resume(self, run_id: str, **options: Any) -> Any:
        """Go on with it."""
        return self._inner.resume(run_id, **options)


async def test_what_is_none_of_treadles_own_is_a_node() -> None:
    """It runs by itself, and is tried again like a function."""
    model = ScriptedModel([raises(ValueError("no")), "yes"])
    result = await lone(Foreign("f", Agent("a", model)), retries=1).run("go")
    assert (result.output, len(model.requests)) == ("yes", 2)


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("kind", ["swarm", "graph", "branches", "plan"])
async def test_what_is_made_of_runs_runs_out_of_time(kind: str, store: str | None) -> None:
    """All that is in it ends, and the node has failed; nothing is left at work, or in the state."""
    hanging, before = Hanging(), asyncio.all_tasks()
    agent = Agent("a", hanging)
    plan = '{"goal": "g", "steps": [{"id": "a", "description": "Do it.", "dependencies": []}]}'
    works: dict[str, Any] = {
        "swarm": Swarm("s", agents=[agent]),
        "graph": lone(agent),
        "branches": forked(("p", agent), ("q", says("q"))),
        "plan": PlanExecute("p", planner=Agent("c", ScriptedModel([plan])), executor=agent),
    }
    result = await recovering(works[kind], timeout=0.05).run("go", store=kept(store))
    assert result.output == "it timed out after 0.05 s."
    assert hanging.stopped.is_set()
    assert asyncio.all_tasks() - before == set()
    assert not [key for key in result.state.snapshot() if key.startswith("within::")]


@pytest.mark.parametrize("store", STORES)
async def test_a_graph_within_goes_on_after_its_time(store: str | None) -> None:
    """The next try has its own time, and repeats nothing that is over."""
    did, tries = Did(), list[int]()

    async def slow_at_first(ctx: NodeContext) -> str:
        tries.append(ctx.attempt)
        if len(tries) == 1:
            await asyncio.sleep(60)
        return "quick"

    deep = Graph("deep").add_node("d", did.node("d")).add_node("e", slow_at_first)
    graph = recovering(line("d", "e", graph=deep), timeout=0.05, retries=1)
    result = await graph.run("go", store=kept(store))
    assert (result.output, did.names, len(tries)) == ("quick", ["d"], 2)


async def test_waiting_for_somebody_takes_no_time() -> None:
    """A node with a timeout may pause: the time is that of its work."""
    did, store = Did(), MemoryStore()
    graph = lone(did.agent("a", approval=True), timeout=0.2)
    paused = await graph.run("go", store=store, run_id="r")
    assert paused.stop_reason == "paused"
    await asyncio.sleep(0.25)
    decisions = {call.call_id: Approve() for call in paused.pending}
    assert (await graph.resume("r", store=store, decisions=decisions)).output == "a did it"
