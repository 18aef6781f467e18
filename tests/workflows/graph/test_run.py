"""Running a graph: every way to, on every store, and what its result and its state say."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.workflows.desk import opened
from tests.workflows.graph.wired import Did, echo, entries_of, fails, forked, line, lone, says
from treadle import (
    END,
    ON_FAILURE,
    START,
    Agent,
    ConfigError,
    Conversation,
    ConversationNotFound,
    Graph,
    GraphInvalid,
    GraphResult,
    Image,
    MemoryStore,
    NodeContext,
    State,
    StateInvalid,
)
from treadle.events import NodeStarted
from treadle.journal import RunEnded
from treadle.testing import ScriptedModel, calls

PICTURE = Image.from_bytes(b"\x89PNG\r\n\x1a\n" + b"\0" * 20, "image/png")


@dataclass
class Mine:
    """A graph's own keys."""

    count: int = 0
    names: list[str] = field(default_factory=list[str])


def built() -> Graph[Any]:
    """A graph with nodes of all kinds."""
    did = Did()
    return (
        Graph("all")
        .add_node("first", echo("ann"))
        .add_router("route", {"split": lambda s: "go" in s.output("first")}, default="last")
        .add_fan_out("split", ["a", "b"], join="each")
        .add_node("a", did.agent("a"))
        .add_node("b", did.node("b", {"n": (1, 2)}))
        .add_map("each", over=lambda s: sorted(s.output("split")), node="item", join="broken")
        .add_node("item", lambda ctx: ctx.item * 2)
        .add_node("broken", fails())
        .add_node("last", lambda ctx: [ctx.output("each"), ctx.error("broken")])
        .add_edge(START, "first")
        .add_edge("first", "route")
        .add_edge("broken", "last", when=ON_FAILURE)
        .add_edge("broken", END)
        .add_edge("last", END)
    )


def seen(result: GraphResult[Any]) -> dict[str, Any]:
    """What has to be the same, wherever the run is kept."""
    return {
        "output": result.output,
        "path": result.execution_path,
        "steps": [
            (s.node, s.ok, s.output, s.error, s.next, s.branch, s.usage, s.tool_calls, s.turns)
            for s in result.steps
        ],
        "success": result.success,
        "usage": result.usage,
        "turns": result.turns,
        "state": result.state.packed(),
        "messages": list(result.messages),
        "stop": result.stop_reason,
    }


async def test_the_same_on_every_store_and_without_one(tmp_path: Any) -> None:
    """J2: a store changes nothing but that the run is kept; kept, it gives its result again."""
    bare = await built().run("go")
    assert bare.output == [["aa", "bb"], "ValueError: it breaks"]
    path = ["first", "route", "split", "a", "b", "each", "item", "item", "broken", "last"]
    assert bare.execution_path == path
    assert (bare.iterations, bare.nodes_executed) == (10, list(dict.fromkeys(path)))
    assert not bare.success
    assert bare.seconds > 0
    for url in ("memory:", f"file://{tmp_path}/f", f"sqlite:///{tmp_path}/s.db"):
        async with opened(url) as store:
            kept = await built().run("go", store=store, run_id="r")
            assert seen(kept) == seen(bare), url
            again = await built().resume("r", store=store)
            assert seen(again) == seen(bare), url


async def test_every_way_of_running() -> None:
    """It is started, awaited, streamed, resumed and used as a tool like an agent."""
    graph, store = lone(echo("ann")), MemoryStore()
    assert (await graph.start("hi").result()).output == "ann: hi"
    assert (await graph.run("hi", store=store, run_id="r")).output == "ann: hi"
    assert (await asyncio.to_thread(graph.run_sync, "hi")).output == "ann: hi"
    found = [e.node async for e in graph.stream("hi") if isinstance(e, NodeStarted)]
    assert found == ["x"]
    assert (await graph.resume("r", store=store)).output == "ann: hi"
    again = await asyncio.to_thread(graph.resume_sync, "r", store=store)
    assert again.output == "ann: hi"
    boss = Agent(
        "boss", ScriptedModel([calls(("c", "g", {"input": "why?"})), "done"]), tools=[graph]
    )
    result = await boss.run("go")
    assert (result.output, result.tool_results[0].text) == ("done", "ann: why?")


async def test_what_the_state_has() -> None:
    """B126: outputs by node, the graph's input and its newest output."""
    graph = Graph("g").add_node("a", says(1)).add_node("b", says(None)).add_node("c::d", says("x"))
    state = State({"graph::mine": 5, "session::s": 6, "all": 7})
    result = await line("a", "b", "c::d", graph=graph).run("go", state=state)
    found = result.state.snapshot()
    assert found["graph::input"] == "go"
    assert found["graph::current_output"] == "x"
    assert found["node::a::output"] == 1
    assert "node::b::output" not in found
    assert result.output == "x"
    assert (found["graph::mine"], found["session::s"], found["all"]) == (5, 6, 7)
    assert [key for key in found if key.endswith("::output")] == [
        "node::a::output",
        next(key for key in found if "d::output" in key),
    ]


async def test_none_leaves_the_newest_output() -> None:
    """A node that gives None says nothing; one that gave something before has no output then."""
    rounds = [1, None]

    def once(ctx: NodeContext) -> Any:
        return rounds[ctx.visits("x")]

    graph = (
        Graph("g")
        .add_node("x", once)
        .add_node("y", lambda ctx: [ctx.output("x"), ctx.current_output])
    )
    graph.add_edge(START, "x").add_edge("x", "x", when=lambda s: s.visits("x") < 2)
    graph.add_edge("x", "y").add_edge("y", END)
    assert (await graph.run("go")).output == [None, 1]


async def test_a_graph_that_says_nothing() -> None:
    """Its output is None, and its conversation has what was asked."""
    store = MemoryStore()
    result = await lone(says(None)).run("go", store=store, conversation="c")
    assert (result.output, result.stop_reason, result.success) == (None, "answer", True)
    assert [m.role for m in result.messages] == ["user"]
    second = await lone(says("")).run("again", store=store, conversation="c")
    assert second.output == ""
    kept = await (await Conversation.open("c", store=store)).messages()
    assert list(kept) == list(second.messages)


async def test_a_second_run_begins_anew() -> None:
    """What nodes gave in the run before is forgotten; the graph's own keys are not."""

    def count(ctx: NodeContext) -> list[Any]:
        ctx.graph.set("times", ctx.get("times", 0) + 1)
        return [ctx.output("x"), ctx.current_output, ctx.visits("x"), ctx["times"]]

    graph, store = lone(count), MemoryStore()
    first = await graph.run("one", store=store, conversation="c")
    second = await graph.run("two", store=store, conversation="c")
    assert first.output == [None, "one", 0, 1]
    assert second.output == [None, "two", 0, 2]
    assert second.execution_path == ["x"]
    assert [m.text for m in second.messages][::2] == ["one", "two"]


async def test_the_first_agent_hears_the_conversation() -> None:
    """It is told what was said before and the input with all parts; later ones hear outputs."""
    model, later = ScriptedModel(["one", "two"]), ScriptedModel(["LATER 1", "LATER 2"])
    graph = Graph("g").add_node("x", Agent("x", model)).add_node("y", Agent("y", later))
    graph, store = line("x", "y", graph=graph), MemoryStore()
    await graph.run("q1", store=store, conversation="c")
    await graph.run(["q2", PICTURE], store=store, conversation="c")
    assert [m.text for m in model.requests[1].messages] == ["q1", "LATER 1", "q2"]
    assert PICTURE in model.requests[1].messages[-1].parts
    assert [[m.text for m in r.messages] for r in later.requests] == [["one"], ["two"]]


async def test_what_an_agent_is_told() -> None:
    """B125: the newest output, or what `input` makes of the run: text, parts, or both."""
    model = ScriptedModel(["1", "2", "3", "4", "5"])
    agent = Agent("x", model)
    graph = (
        Graph("g")
        .add_node("value", says({"k": [1]}))
        .add_node("plain", agent)
        .add_node("text", agent, input=lambda s: f"{s.input}/{s.output('value')['k'][0]}")
        .add_node("part", agent, input=lambda s: PICTURE)
        .add_node("both", agent, input=lambda s: ["Look:", PICTURE])
        .add_node("image", lambda ctx: None)
        .add_node("other", agent, input=lambda s: {"a": 1})
    )
    await line("value", "plain", "text", "part", "both", "image", "other", graph=graph).run("go")
    heard = [request.messages[-1] for request in model.requests]
    assert [m.text for m in heard[:2]] == ['{"k":[1]}', "go/1"]
    assert heard[2].parts == (PICTURE,)
    assert (heard[3].text, heard[3].parts[-1]) == ("Look:", PICTURE)
    assert heard[4].text == '{"a":1}'


@pytest.mark.parametrize("given", ["", [], None])
async def test_an_agent_that_is_told_nothing(given: Any) -> None:
    """The node fails and says so; nothing was asked."""
    model = ScriptedModel(["never"])
    graph = (
        Graph("g")
        .add_node("x", Agent("x", model), input=lambda s: given)
        .add_node("y", lambda ctx: ctx.error("x"))
    )
    graph.add_edge(START, "x").add_edge("x", END).add_edge("x", "y", when=ON_FAILURE).add_edge(
        "y", END
    )
    result = await graph.run("go")
    told = str(result.output)
    assert model.requests == []
    assert "nothing to say" in told


async def test_typed_state() -> None:
    """`values` and `update` have the class; what does not fit is an error, and nothing changes."""

    def more(ctx: NodeContext[Mine]) -> int:
        ctx.update(count=ctx.values.count + 1, names=[*ctx.values.names, "n"])
        return ctx.values.count

    def wrong(ctx: NodeContext[Mine]) -> None:
        ctx.update(count="many")

    graph = Graph[Mine]("g").add_node("x", more).add_node("y", wrong)
    graph.add_edge(START, "x").add_edge("x", "x", when=lambda s: s.values.count < 3)
    graph.add_edge("x", "y").add_edge("y", END, when=ON_FAILURE).add_edge("y", "y")
    result = await graph.run("go")
    assert (result.output, result.state.get("graph::count")) == (3, 3)
    assert result.state.get("graph::names") == ["n"] * 3
    assert StateInvalid.__name__ in result.steps[-1].error or "count" in result.steps[-1].error


async def test_a_graph_that_is_wrong_does_not_start() -> None:
    """B122: all that is wrong is listed, whichever way it is run, and nothing is written."""
    graph, store = Graph("g").add_node("a", says(1)), MemoryStore()
    for run in (graph.start, graph.run_sync, graph.run):
        with pytest.raises(GraphInvalid, match="no entry") as caught:
            await run("go", store=store, conversation="c")  # type: ignore[misc]
        assert list(caught.value.problems) == graph.validate()
    with pytest.raises(ConversationNotFound):
        await store.read("c")


async def test_options_of_a_run() -> None:
    """Those for agents are laid over all of them; what makes no sense for several is refused."""
    model = ScriptedModel(["one", "two", "three"])
    graph = Graph("g").add_node("a", echo("a")).add_node("b", Agent("b"))
    result = await line("a", "b", graph=graph).run(
        "go", model=model, metadata={"k": 1}, deps={"d": 1}
    )
    assert result.output == "two"
    for refused in ({"instructions": "Be brief."}, {"output_type": int}):
        with pytest.raises(ConfigError, match=next(iter(refused))):
            await graph.run("go", model=model, **refused)  # type: ignore[arg-type]

    def sees(ctx: NodeContext) -> list[Any]:
        return [ctx.deps, dict(ctx.metadata), ctx.run_id, ctx.conversation_id, ctx.node]

    told = await lone(sees).run(
        "go", deps=5, metadata={"k": 1}, run_id="r", conversation="c", store=MemoryStore()
    )
    assert told.output == [5, {"k": 1}, "r", "c", "x"]


async def test_requirements_reach_those_that_answer() -> None:
    """Only the nodes that a walk may end after are told."""
    first, last = ScriptedModel(["one"]), ScriptedModel(["two"])
    graph = Graph("g").add_node("a", Agent("a", first)).add_node("b", Agent("b", last))
    await line("a", "b", graph=graph).run("go", requirements=["Write in verse."])
    assert "verse" not in str(first.requests[0])
    assert "verse" in str(last.requests[0])


async def test_what_is_added_later_does_not_change_a_run() -> None:
    """A run goes along the graph as it was when it began."""
    graph, go = Graph("g"), asyncio.Event()

    async def waits(ctx: NodeContext) -> str:
        await go.wait()
        return "a"

    line("a", graph=graph.add_node("a", waits))
    run = graph.start("go")
    await asyncio.sleep(0)
    graph.add_node("b", says("b")).add_edge("a", "b", priority=9).add_edge("b", END)
    go.set()
    assert (await run).execution_path == ["a"]
    assert (await graph.run("go")).execution_path == ["a", "b"]


async def test_many_runs_of_one_graph_at_once() -> None:
    """They share the graph and nothing else."""
    graph = forked(("a", echo("a")), ("b", lambda ctx: ctx.input * 2))
    runs = [graph.start(f"q{n}") for n in range(50)]
    assert [(await run).output for run in runs] == [
        {"a": f"a: q{n}", "b": f"q{n}" * 2} for n in range(50)
    ]


async def test_the_run_ends_in_the_journal_with_the_answer() -> None:
    """The answer, the last step and the end of the run are one write."""
    store = MemoryStore()
    await lone(says("yes")).run("go", store=store, conversation="c")
    assert isinstance((await entries_of(store))[-1], RunEnded)
    last = (await store.read("c"))[-1].entries
    assert [type(each).__name__ for each in last] == ["StepEnded", "MessageAdded", "RunEnded"]
