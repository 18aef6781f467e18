"""What functions of a graph see, and what those of nodes can change."""

from __future__ import annotations

from operator import add
from typing import Annotated, Any, TypedDict

import pytest

from tests.workflows.graph.parts import FAILED, OK, facts_of, graph_of, view_of
from treadle import ConfigError, Graph, GraphView, NodeContext, NotStorable, State, ToolError, Usage
from treadle.errors import StateInvalid
from treadle.workflows.graph.context import NodeOutcome


class Story(TypedDict):
    topic: str
    lines: Annotated[list[str], add]


def context_of(graph: Graph[Any], state: Any = None, **options: Any) -> NodeContext[Any]:
    return NodeContext(facts_of(graph, state, **options), node="a", step="a#2", attempt=3)


def test_outputs() -> None:
    """B126: each node's is under a key of its own, whatever the node is called."""
    state = {"node::a::output": [1], "node::a%3A%3Ab::output": "odd", "node::c::output": None}
    view = view_of(graph_of("a", "a::b", "c", "d"), state)

    assert view.output("a") == [1]
    assert view.output("a::b") == "odd"
    assert view.output("d") is None
    assert dict(view.outputs) == {"a": [1], "a::b": "odd", "c": None}
    assert "d" not in view.outputs
    assert len(view.outputs) == 3
    with pytest.raises(KeyError):
        view.outputs["d"]
    view.output("a").append(2)
    assert view.output("a") == [1]


def test_what_came_of_nodes() -> None:
    """The last time they ran."""
    outcomes = {"a": NodeOutcome(tool_called=True, visits=2), "b": FAILED}
    view = view_of(graph_of("a", "b", "c"), None, outcomes)
    nodes = "abc"

    assert [view.success(node) for node in nodes] == [True, False, False]
    assert [view.tool_called(node) for node in nodes] == [True, False, False]
    assert [view.error(node) for node in nodes] == ["", "boom", ""]
    assert [view.visits(node) for node in nodes] == [2, 1, 0]


@pytest.mark.parametrize("name", ["output", "success", "tool_called", "error", "visits"])
def test_a_node_that_is_not_there(name: str) -> None:
    """A misspelled one is an error, and no silent None."""
    with pytest.raises(ConfigError, match="no node 'fetsh'; nearest first, it has fetch, a"):
        getattr(view_of(graph_of("a", "fetch")), name)("fetsh")


def test_keys_are_looked_up_from_the_graph_outwards() -> None:
    """The graph's, the session's, the global one; private ones by no name."""
    state = {"graph::x": 1, "session::x": 2, "x": 3, "session::y": 4, "y": 5, "z": None}
    view = view_of(graph_of("a"), state)

    assert [view[key] for key in "xyz"] == [1, 4, None]
    assert "z" in view
    assert "w" not in view
    assert view.get("w", 7) == 7
    with pytest.raises(KeyError, match="No state key 'w'"):
        view["w"]
    with pytest.raises(TypeError):
        list(view)  # pyright: ignore[reportArgumentType] that is the point


def test_private_keys_of_agents_are_not_found() -> None:
    """Not even by their whole name."""
    view = view_of(graph_of("a"), {"agent::billing::token": "secret"})
    assert "agent::billing::token" not in view
    assert view.get("agent::billing::token") is None


def test_input_and_current_output() -> None:
    """B126: before a node has an output, the current one is what the graph was given."""
    graph = graph_of("a")
    assert view_of(graph, {"graph::input": "hello"}).current_output == "hello"
    view = view_of(graph, {"graph::input": "hello", "graph::current_output": None})
    assert (view.input, view.current_output) == ("hello", None)


def test_the_run() -> None:
    """Its facts are the run's."""
    view = view_of(graph_of("a"))
    facts = (view.run_id, view.conversation_id, view.deps, view.metadata["user"])
    assert facts == ("run_1", "conv_1", {"db": 1}, "ann")


def test_items_of_a_map() -> None:
    """They are there in its branches only; None is one."""
    assert GraphView(facts_of(graph_of("a"), item=None)).item is None
    with pytest.raises(ConfigError, match="There is no item here"):
        _ = view_of(graph_of("a")).item


def test_a_node_writes_to_its_scope_the_graphs_and_the_sessions() -> None:
    """All of that is this node's writing."""
    state = State()
    ctx = context_of(graph_of("a::b"), state)
    ctx.node = "a::b"
    ctx.state.set("n", 1)
    ctx.graph.set("items", [1])
    ctx.session.set("user", "ann")
    ctx.state.root.set("all", True)

    keys = ["node::a%3A%3Ab::n", "graph::items", "session::user", "all"]
    assert [write.key for write in ctx.writes] == keys
    assert state.keys() == keys
    assert (ctx["items"], ctx.state.get_local("n"), ctx["user"]) == ([1], 1, "ann")


def test_a_node_that_has_ended_writes_no_more() -> None:
    """A thread that outlives it must not change anything."""
    ctx = context_of(graph_of("a"))
    graph = ctx.graph
    ctx.close()
    for scope in (graph, ctx.graph, ctx.state, ctx.session):
        with pytest.raises(ToolError, match="after the call 'a#2' had ended"):
            scope.set("x", 1)
    assert ctx.cancelled
    assert ctx.writes == ()


def test_a_nodes_facts() -> None:
    """A key that is the same however often it is tried, progress, and usage of its own."""
    reports: list[tuple[str, str, Any]] = []
    ctx = context_of(graph_of("a"), reports=reports)

    ctx.report(0.5)
    ctx.add_usage(Usage(input_tokens=2))
    ctx.add_usage(Usage(input_tokens=3))

    assert (ctx.idempotency_key, ctx.attempt) == ("run_1:a#2", 3)
    assert reports == [("a#2", "a", 0.5)]
    assert ctx.added_usage == Usage(input_tokens=5)
    assert ctx.usage == Usage()


def test_typed_state() -> None:
    """Read and written as the class has it."""
    graph = Graph("g", state=Story).add_node("a", lambda ctx: None)
    ctx = context_of(graph, {"graph::topic": "rain", "graph::lines": ["drip"]})

    assert ctx.values == {"topic": "rain", "lines": ["drip"]}
    ctx.update(topic="sun", lines=["drop"])
    assert ctx.values["topic"] == "sun"
    assert [write.key for write in ctx.writes] == ["graph::topic", "graph::lines"]
    assert graph.reducers == {"graph::lines": add}
    with pytest.raises(StateInvalid, match="'graph::lines' has no value"):
        _ = context_of(graph, {"graph::topic": "rain"}).values


@pytest.mark.parametrize("changes", [{"topic": "ok", "lines": 3}, {"topic": "ok", "nothing": 1}])
def test_an_update_is_all_or_nothing(changes: dict[str, Any]) -> None:
    """One bad value, and nothing is written."""
    ctx = context_of(Graph("g", state=Story).add_node("a", lambda ctx: None))
    with pytest.raises(StateInvalid):
        ctx.update(**changes)
    assert ctx.writes == ()


def test_an_update_that_cannot_be_stored() -> None:
    """Nothing of it is written, either."""

    class Loose(TypedDict):
        topic: str
        thing: Any

    ctx = context_of(Graph("g", state=Loose).add_node("a", lambda ctx: None))
    with pytest.raises(NotStorable):
        ctx.update(topic="ok", thing=object())
    assert ctx.writes == ()


def test_without_a_class_there_is_no_typed_state() -> None:
    """It says how to have one."""
    ctx = context_of(graph_of("a"))
    with pytest.raises(ConfigError, match=r"state=Class"):
        _ = ctx.values
    with pytest.raises(ConfigError, match=r"state=Class"):
        ctx.update(x=1)


def test_outcomes_are_small() -> None:
    """What a plain success comes to."""
    assert NodeOutcome(ok=True, tool_called=False, error="", chosen="", visits=1) == OK
