"""Graphs in graphs, in agents and in swarms; and the events that tell of it all."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from operator import add
from typing import Any

import pytest

from tests.agent.nested import asking, playing
from tests.workflows.desk import hands, member
from tests.workflows.desk import says as answers
from tests.workflows.graph.wired import Did, echo, fails, forked, line, lone, recovering, says
from treadle import (
    END,
    ON_FAILURE,
    START,
    Agent,
    Approve,
    Graph,
    GraphResult,
    MemoryStore,
    NodeContext,
    PlanExecute,
    RunFailed,
    Swarm,
)
from treadle.events import (
    AnyEvent,
    EdgeTaken,
    NodeFinished,
    NodeStarted,
    RunFinished,
    ToolFinished,
    ToolStarted,
)
from treadle.testing import ScriptedModel, calls, reply


def inner(did: Did) -> Graph[Any]:
    """A graph that writes into its own scope and the session's, and says what it sees."""

    def writes(ctx: NodeContext) -> list[Any]:
        did.names.append("inner")
        ctx.graph.set("topic", "inner")
        ctx.session.set("shared", [*ctx.get("shared", []), "inner"])
        ctx.state.set("own", 1)
        return [ctx.input, ctx.get("topic"), ctx.output("y"), ctx.visits("x")]

    graph = Graph("inner").add_node("x", writes).add_node("y", lambda ctx: ctx.output("x"))
    return line("x", "y", graph=graph)


async def test_a_graph_in_a_graph_has_a_scope_of_its_own() -> None:
    """Its nodes may have the names of those around it, and nothing of it is left but its output."""
    did = Did()
    graph = Graph("outer").add_node("x", inner(did)).add_node("y", inner(did))
    graph.add_node("z", lambda ctx: [ctx["topic"], ctx["shared"], ctx.output("x"), ctx.output("y")])
    line("x", "y", "z", graph=graph)
    given: dict[str, Any] = {"graph::topic": "outer"}
    for store in (None, MemoryStore()):
        result = await graph.run("go", state=given, store=store)
        first = ["go", "inner", None, 0]
        assert result.output[0] == "outer"
        assert result.output[1] == ["inner", "inner"]
        assert result.output[2] == first
        assert result.output[3][1:] == first[1:]
        assert not [key for key in result.state.snapshot() if key.startswith("within::")]
        assert "node::x::own" not in result.state


async def test_one_graph_in_many_branches_at_once() -> None:
    """Each run of it has its own scope, also of what is merged by reducers."""
    deep = Graph("deep", reducers={"graph::sum": add}).add_fan_out("s", ["p", "q"], join="r")
    deep.add_node("p", lambda ctx: ctx.graph.set("sum", 1)).add_node(
        "q", lambda ctx: ctx.graph.set("sum", 2)
    )
    deep.add_node("r", lambda ctx: [ctx.input, ctx["sum"]]).add_edge(START, "s").add_edge("r", END)
    graph = (
        Graph("g")
        .add_map("each", over=lambda s: ["a", "b", "c"], node="deep", join="end")
        .add_node("deep", deep)
        .add_node("end", lambda ctx: ctx.output("each"))
        .add_edge(START, "each")
        .add_edge("end", END)
    )
    for store in (None, MemoryStore()):
        result = await graph.run("go", store=store)
        assert result.output == [["a", 3], ["b", 3], ["c", 3]]
        assert not [key for key in result.state.snapshot() if "sum" in key]


async def test_a_failure_deep_within() -> None:
    """It is told of with the whole way; an edge for it may be at any depth; it may be resumed."""
    did, store = Did(), MemoryStore()

    def make(broken: Any) -> Graph[Any]:
        deep = line(
            "d", "e", graph=Graph("deep").add_node("d", did.node("d")).add_node("e", broken)
        )
        return line("m", graph=Graph("mid").add_node("m", deep))

    with pytest.raises(RunFailed, match=r"Node 'x' failed: Node 'm' failed: .*it breaks"):
        await lone(make(fails())).run("go")
    result = await recovering(make(fails())).run("go")
    assert "it breaks" in str(result.output)
    assert not [key for key in result.state.snapshot() if key.startswith("within::")]
    did.names.clear()
    graph = lone(make(did.node("e", fail_first=1)))
    with pytest.raises(RunFailed):
        await graph.run("go", store=store, run_id="r")
    result = await graph.resume("r", store=store)
    assert (result.output, did.names) == ("e", ["d", "e", "e"])


@pytest.mark.parametrize("store", [None, "memory"])
async def test_a_graph_in_a_graph_is_tried_again(store: str | None) -> None:
    """It goes on with the node that failed: what was over is not done again."""
    did = Did()
    deep = Graph("deep").add_node("d", did.node("d")).add_node("e", did.node("e", fail_first=2))
    graph = lone(line("d", "e", graph=deep), retries=2)
    result = await graph.run("go", store=MemoryStore() if store else None)
    assert (result.output, did.names) == ("e", ["d", "e", "e", "e"])
    assert result.success


async def test_limits_of_a_graph_within() -> None:
    """Its max_steps are its own; what stops it at its limit has an output all the same."""
    did = Did()
    deep = Graph("deep", max_steps=3).add_node("d", did.node("d")).add_edge(START, "d")
    deep.add_edge("d", "d")
    result = await lone(deep).run("go")
    assert (result.output, result.stop_reason, did.names) == ("d", "answer", ["d"] * 3)
    assert result.execution_path == ["x"]

    assert not [key for key in result.state.snapshot() if key.startswith("within::")]
    kept = await lone(deep).run("go", store=MemoryStore())
    assert kept.state.packed() == result.state.packed()


async def test_a_graph_in_itself() -> None:
    """It may go down as far as it says, by itself or by an agent that asks it, and comes back."""
    graph = Graph("self").add_node("a", lambda ctx: len(ctx.input)).add_node("out", says("out"))
    graph.add_node("again", graph, input=lambda s: s.input[:-1]).add_edge(START, "a")
    graph.add_edge("a", "again", when=lambda s: s.output("a") > 1).add_edge("a", "out")
    graph.add_edge("again", END).add_edge("out", END)
    for store in (None, MemoryStore()):
        assert (await graph.run("x" * 20, store=store)).output == "out"

    asked = Graph("asked")
    agent = Agent("asks", playing(asking(("q", "asked")), reply("asked it")), tools=[asked])
    asked.add_router("r", {"agent": lambda s: s.input != "?"}, default="out")
    asked.add_node("agent", agent).add_node("out", says("out")).add_edge(START, "r")
    asked.add_edge("agent", END).add_edge("out", END)
    result = await asked.run("go", store=MemoryStore())
    assert result.output == "asked it"
    assert result.usage.tool_calls == 1


async def test_a_graph_as_a_tool() -> None:
    """An agent asks it; pauses, events and usage go through; two calls at once keep apart."""
    did, store = Did(), MemoryStore()
    deep = forked(("a", did.agent("ann", approval=True)), ("b", lambda ctx: ctx.input))
    ask = calls(("c", "g", {"input": "one"}), ("d", "g", {"input": "two"}))
    boss = Agent("boss", playing(ask, reply("done")), tools=[deep])
    paused = await boss.run("go", store=store, run_id="r")
    assert len(paused.pending) == 2
    assert len({call.call_id for call in paused.pending}) == 2
    decisions = {call.call_id: Approve() for call in paused.pending}
    result = await boss.resume("r", store=store, decisions=decisions)
    told = sorted(str(each.value) for each in result.tool_results)
    assert told == [str({"a": "ann did it", "b": text}) for text in ("one", "two")]
    assert did.names == ["ann", "ann"]
    assert not [key for key in result.state.snapshot() if key.startswith("within::")]


@pytest.mark.parametrize("store", [None, "memory"])
async def test_a_graph_as_a_tool_that_fails(store: str | None) -> None:
    """The model is told why, and may ask again; nothing of what failed is left in the state."""
    did = Did()
    deep = Graph("g").add_node("a", did.node("a")).add_node("b", lone(fails()))
    once, more = asking(("p", "g")), asking(("q", "g"))
    boss = Agent("boss", playing(once, more, reply("done")), tools=[line("a", "b", graph=deep)])
    where = MemoryStore() if store else None
    result = await boss.run("go", store=where, conversation="c" if store else None)
    assert [each.is_error for each in result.tool_results] == [True, True]
    assert "it breaks" in result.tool_results[0].text
    assert did.names == ["a", "a"]
    assert not [key for key in result.state.snapshot() if key.startswith("within::")]
    if where is not None:
        state = (await boss.run("again", store=where, conversation="c")).state
        assert not [key for key in state.snapshot() if key.startswith("within::")]


async def test_a_graph_in_an_agent_in_a_swarm_in_a_graph() -> None:
    """Any runnable in any other; usage is rolled up once."""
    deep = lone(echo("deep"))
    one = Agent("one", playing(asking(("q", "g")), hands("two")), tools=[deep])
    two = member("two", answers("from two"))
    graph = Graph("outer").add_node("team", Swarm("s", agents=[one, two]))
    result = await line("team", graph=graph).run("go")
    assert result.output == "from two"
    assert result.turns == 4


async def events_of(graph: Graph[Any], **options: Any) -> list[AnyEvent]:
    """All events of a run."""
    return [event async for event in graph.stream("go", **options)]


async def test_events_of_a_walk() -> None:
    """In one sequence: each node starts and finishes, and each edge is told of."""
    graph = (
        Graph("g")
        .add_node("a", fails())
        .add_node("b", says("b"))
        .add_router("r", {"c": lambda s: True})
        .add_node("c", says("c"))
        .add_edge(START, "a")
        .add_edge("a", "b", when=ON_FAILURE)
        .add_edge("a", END)
        .add_edge("b", "r")
        .add_edge("c", END)
    )
    events = await events_of(graph)
    told = [
        (e.type, getattr(e, "node", None) or (getattr(e, "source", ""), getattr(e, "target", "")))
        for e in events
        if isinstance(e, NodeStarted | NodeFinished | EdgeTaken)
    ]
    assert told == [
        (EdgeTaken.type, (START, "a")),
        *((kind.type, "a") for kind in (NodeStarted, NodeFinished)),
        (EdgeTaken.type, ("a", "b")),
        *((kind.type, "b") for kind in (NodeStarted, NodeFinished)),
        (EdgeTaken.type, ("b", "r")),
        *((kind.type, "r") for kind in (NodeStarted, NodeFinished)),
        (EdgeTaken.type, ("r", "c")),
        *((kind.type, "c") for kind in (NodeStarted, NodeFinished)),
        (EdgeTaken.type, ("c", END)),
    ]
    finished = [e for e in events if isinstance(e, NodeFinished)]
    assert "it breaks" in str(finished[0].error)
    assert [e.error for e in finished[1:]] == [None, None, None]
    assert all(e.seconds >= 0 for e in finished)
    assert [e.seq for e in events] == list(range(events[0].seq, events[-1].seq + 1))
    assert isinstance(events[-1], RunFinished)


async def test_spans_of_branches() -> None:
    """S70: what happens in a branch is below its node, and that below the fan-out."""
    did = Did()
    graph = lone(forked(("a", did.agent("a")), ("b", did.agent("b"))))
    events = await events_of(graph, store=MemoryStore())
    started = {e.span_id: e for e in events if isinstance(e, NodeStarted)}
    parents = {e.span_id: e.parent_id for e in events}
    below: dict[str, list[str]] = defaultdict(list)
    for event in events:
        if isinstance(event, ToolStarted):
            span: str | None = event.span_id
            while span is not None:
                if span in started:
                    below[event.path].append(started[span].node)
                span = parents.get(span)
    assert sorted(below.values()) == [["a", "split", "x"], ["b", "split", "x"]]
    assert sorted(below) == ["x#1/split#1/branch#1/a#1", "x#1/split#1/branch#2/b#1"]
    ended = {e.span_id for e in events if isinstance(e, NodeFinished)}
    assert set(started) == ended
    assert len([e for e in events if isinstance(e, ToolFinished)]) == 2


async def test_every_node_that_starts_finishes() -> None:
    """Also those that fail for good, that are tried again, and whose run pauses or is cancelled."""
    did = Did()
    go = asyncio.Event()
    for graph in (
        lone(fails(), retries=2),
        forked(("a", fails()), ("b", did.node("b"))),
        lone(lone(fails())),
    ):
        run = graph.start("go")
        events = [event async for event in run]
        with pytest.raises(RunFailed):
            await run
        started = {e.span_id for e in events if isinstance(e, NodeStarted)}
        finished = {e.span_id for e in events if isinstance(e, NodeFinished)}
        assert started == finished
    run = lone(did.node("w", wait=go)).start("go")
    await asyncio.sleep(0)
    await run.cancel()
    assert (await run).stop_reason == "cancelled"


class Watches:
    """An observer that keeps what it sees."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    async def on_event(self, event: AnyEvent) -> None:
        """Keep it."""
        self.seen.append(f"{event.type} {event.agent} {event.path}")


async def test_an_observer_of_the_run_sees_all() -> None:
    """S70: also what happens in swarms and plans that are nodes."""
    plan = '{"goal": "g", "steps": [{"id": "a", "description": "Do it.", "dependencies": []}]}'
    planner = Agent("chef", ScriptedModel([plan, "planned"]))
    did, watch = Did(), Watches()
    graph = Graph("g").add_node("team", Swarm("s", agents=[did.agent("m")]))
    graph.add_node("plan", PlanExecute("p", planner=planner, executor=did.agent("cook")))
    result = await line("team", "plan", graph=graph).run("go", observers=[watch])
    assert isinstance(result, GraphResult)
    tools = [each for each in watch.seen if each.startswith("tool.started")]
    assert [each.split()[1] for each in tools] == ["m", "cook"]
    assert any("team#1/m#1" in each for each in watch.seen)
