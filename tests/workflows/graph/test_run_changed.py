"""Graphs that go on under another definition, and at another node."""

from __future__ import annotations

from operator import add

import pytest

from tests.agent.dying import Dying, die_after
from treadle import (
    END,
    START,
    Approve,
    AskApproval,
    ConfigError,
    Conversation,
    DefinitionChanged,
    Graph,
    GraphInvalid,
    Interrupt,
    MemoryStore,
    NodeContext,
)


def wait(ctx: NodeContext) -> Interrupt:
    """Wait for somebody after the node."""
    return Interrupt("Look first.", output="one")


def after(ctx: NodeContext) -> str:
    """Follow on what was."""
    return f"after {ctx.current_output}"


def other(ctx: NodeContext) -> str:
    """Do something else."""
    return "other"


def graph_with(second: str = "two", *, extra: bool = False) -> Graph:
    """Two nodes in a row, and one more if asked for."""
    graph = Graph("changing").add_node("one", wait).add_node(second, after)
    graph.add_edge(START, "one").add_edge("one", second).add_edge(second, END)
    if extra:
        graph.add_node("extra", other).set_finish("extra")
        graph.add_edge("one", "extra", when=lambda s: False, priority=1)
    return graph


async def paused(graph: Graph) -> MemoryStore:
    """A store with a run that waits after its first node."""
    store = MemoryStore()
    result = await graph.run("go", store=store, run_id="r")
    assert (result.stop_reason, result.reason) == ("paused", "Look first.")
    return store


async def test_a_node_that_is_new_is_told_of() -> None:
    """Refused in words, or accepted by name."""
    store, changed = await paused(graph_with()), graph_with(extra=True)
    with pytest.raises(DefinitionChanged, match="node 'extra' is new"):
        await changed.resume("r", store=store)
    result = await changed.resume("r", store=store, on_change="accept")
    assert (result.output, result.execution_path) == ("after one", ["one", "two"])


async def test_a_node_that_is_gone_is_told_of() -> None:
    """One that the run has no need of may be."""
    store = await paused(graph_with(extra=True))
    with pytest.raises(DefinitionChanged, match="node 'extra' is gone"):
        await graph_with().resume("r", store=store)
    result = await graph_with().resume("r", store=store, on_change="accept")
    assert result.output == "after one"


async def test_a_renamed_node_is_told_of_and_found() -> None:
    """By a function that knows its new name; without one the run has nowhere to be."""
    store, changed = await paused(graph_with()), graph_with("second")
    with pytest.raises(DefinitionChanged, match="node 'two' is called 'second' now") as told:
        await changed.resume("r", store=store)
    assert not any("gone" in change for change in told.value.changes if "node" in change[:5])
    with pytest.raises(DefinitionChanged, match="is at node 'two'"):
        await changed.resume("r", store=store, on_change="accept")
    result = await changed.resume("r", store=store, on_change=lambda changes: {"two": "second"})
    assert result.execution_path == ["one", "second"]
    assert result.output == "after one"


async def test_a_node_with_another_function_has_changed() -> None:
    """It has no schema that could be another one."""
    store = await paused(graph_with())
    changed = Graph("changing").add_node("one", wait).add_node("two", other)
    changed.add_edge(START, "one").add_edge("one", "two").add_edge("two", END)
    with pytest.raises(DefinitionChanged, match="node 'two' has changed"):
        await changed.resume("r", store=store)


async def test_nodes_that_could_be_each_other_are_not_guessed() -> None:
    """Two are gone and two are new, all made of the same."""

    def alike(*names: str) -> Graph:
        graph = Graph("alike").add_node("one", wait).add_edge(START, "one")
        for name in names:
            graph.add_node(name, after)
        return graph.add_edge("one", names[0]).add_edge(*names).add_edge(names[1], END)

    store = await paused(alike("a", "b"))
    with pytest.raises(DefinitionChanged) as told:
        await alike("c", "d").resume("r", store=store)
    nodes = {change for change in told.value.changes if change.startswith("node")}
    words = {"node 'a' is gone", "node 'b' is gone", "node 'c' is new", "node 'd' is new"}
    assert nodes == words


async def test_back_in_time_to_any_node() -> None:
    """A copy as of any revision goes on at a node, with the outputs that it had by then."""
    graph = Graph("line").add_node("a", lambda ctx: f"a {ctx.input}")
    graph.add_node("b", lambda ctx: f"b {ctx.output('a')}").add_node("c", after)
    graph.add_edge(START, "a").add_edge("a", "b").add_edge("b", "c").add_edge("c", END)
    store = MemoryStore()
    whole = await graph.run("go", store=store, conversation="c")
    conversation = await Conversation.open("c", store=store)
    for revision in range(1, (await store.head("c")).revision + 1):
        copy = await conversation.fork(revision=revision)
        again = await graph.at("a").run(conversation=copy.id, store=store)
        assert (again.output, again.execution_path) == (whole.output, ["a", "b", "c"])
    copy = await conversation.fork()
    later = await graph.at("b").run("anew", conversation=copy.id, store=store)
    assert (later.output, later.execution_path) == ("after b a go", ["b", "c"])
    assert (await graph.run("x", conversation="c", store=store)).output == "after b a x"
    with pytest.raises(GraphInvalid, match="no node 'd'"):
        graph.at("d")


@pytest.mark.parametrize("appends", range(1, 12))
async def test_reducers_of_a_graph_in_a_graph_outlive_its_process(appends: int) -> None:
    """Branches of the inner one write one key; whoever takes over merges it as well."""

    def put(ctx: NodeContext) -> None:
        ctx.graph.set("items", [ctx.node])

    inner = Graph("inner", reducers={"items": add}).add_fan_out("split", ["x", "y"], join="join")
    inner.add_node("x", put).add_node("y", put).add_node("join", lambda ctx: ctx["items"])
    inner.add_edge(START, "split").add_edge("join", END)
    outer = Graph("outer").add_node("inner", inner).add_node("last", after)
    outer.add_edge(START, "inner").add_edge("inner", "last").add_edge("last", END)
    store = Dying()
    await die_after(appends, outer, store, conversation="c")
    result = await outer.resume("r", store=store)
    assert result.output == "after ['x', 'y']"


async def test_a_graph_in_a_graph_asks_and_goes_on() -> None:
    """Its branches and their reducers, too, in a process that knows nothing of the first."""

    def put(ctx: NodeContext) -> None:
        if ctx.node == "y" and ctx.answer is None:
            raise AskApproval("May y write?")
        ctx.graph.set("items", [ctx.node])

    inner = Graph("inner", reducers={"items": add}).add_fan_out("split", ["x", "y"], join="join")
    inner.add_node("x", put).add_node("y", put).add_node("join", lambda ctx: ctx["items"])
    inner.add_edge(START, "split").add_edge("join", END)
    outer = Graph("outer").add_node("inner", inner).add_edge(START, "inner").set_finish("inner")
    store = MemoryStore()
    waiting = await outer.run("go", store=store, run_id="r")
    (pending,) = waiting.pending
    assert pending.reason == "May y write?"
    result = await outer.resume("r", store=store, decisions={pending.call_id: Approve()})
    assert result.output == ["x", "y"]


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("second", "'second': it takes None to go on"),
        ([], "a dict of what things are called now"),
        ({"two": 2}, "give two names"),
        ({2: "second"}, "give two names"),
        ({"two": "third"}, "'two' is called 'third' now, and nothing has that name"),
    ],
)
async def test_names_that_nothing_has_are_refused(said: object, told: str) -> None:
    """Rather than to go on without what the node had given."""
    store, changed = await paused(graph_with()), graph_with("second")
    with pytest.raises(ConfigError, match=told):
        await changed.resume("r", store=store, on_change=lambda changes: said)
    also = {"two": "second", "older": "than that"}
    result = await changed.resume("r", store=store, on_change=lambda changes: also)
    assert result.output == "after one"
