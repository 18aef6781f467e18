"""What cannot be part of a graph is refused at once: what it was, and what to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypedDict

import pytest

from tests.workflows.graph.parts import graph_of, work
from treadle import END, START, Agent, ConfigError, Graph, GraphInvalid, NodeContext
from treadle.testing import ScriptedModel
from treadle.workflows.graph.nodes import FunctionNode, RunnableNode


class Story(TypedDict):
    topic: str


def yes(view: object) -> bool:
    return True


async def waits(view: Any) -> bool:
    return True


def none() -> int:
    return 1


def keyed(ctx: object, *, key: int) -> int:
    return 1


def two(first: Any, second: Any) -> None: ...


class Called:
    def __call__(self, ctx: NodeContext) -> str:
        return "called"


def refused(
    action: Callable[[], object], *words: str, kind: type[ConfigError] = ConfigError
) -> None:
    """Check that it is refused at once, in these words."""
    with pytest.raises(kind) as caught:
        action()
    for each in words:
        assert each in str(caught.value)


def test_each_method_returns_the_graph() -> None:
    """B122: it can be written in one go."""
    graph = (
        Graph("g")
        .add_node("a", work)
        .add_router("r", {"a": yes})
        .add_fan_out("f", ["a"], join="j")
        .add_map("m", over=lambda s: [], node="a", join="j")
        .add_edge("a", END)
        .set_entry("a")
        .set_finish("a")
    )
    assert repr(graph) == "Graph('g', 4 nodes, 2 edges)"


def test_what_nodes_are() -> None:
    """B125: an agent, or anything that can be run, or a function, sync or async."""
    agent = Agent("agent", ScriptedModel([]))
    graph = Graph("g").add_node("agent", agent, input=lambda s: f"About {s.input}", retries=1)
    graph.add_node("f", work, timeout=0.5).add_node("w", waits).add_node("c", Called())

    kinds = [type(node) for node in graph.layout.nodes.values()]

    assert kinds == [RunnableNode, FunctionNode, FunctionNode, FunctionNode]


@pytest.mark.parametrize("node", ["a::b", "a/b", "a#2", "node::x::output", "ä", " ", "start", "%"])
def test_an_id_may_hold_any_text(node: str) -> None:
    """No text means anything else in it."""
    graph = graph_of(node, "b").set_entry(node).add_edge(node, "b").set_finish("b")
    assert graph.validate() == []


@pytest.mark.parametrize("node", ["", START, END, None, 3, "a\0", "\ud800", b"a"])
def test_an_id_that_cannot_be(node: Any) -> None:
    """START and END are reserved, and there has to be a text that can be stored."""
    refused(lambda: Graph("g").add_node(node, work), repr(node), kind=GraphInvalid)
    refused(lambda: Graph("g").add_router(node, {"a": yes}), repr(node), kind=GraphInvalid)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"name": ""}, "needs a name"),
        ({"description": None}, "description=None: give a str"),
        ({"name": 3}, "name=3"),
        ({"max_steps": 0}, "max_steps=0: give a whole number from 1 on"),
        ({"max_steps": True}, "max_steps=True"),
        ({"limits": 3}, "limits=3"),
        ({"store": "sqlite:///x"}, "is no store"),
        ({"reducers": [len]}, "give a dict"),
        ({"reducers": {"x": 3}}, "The reducer of state key 'x' is not callable: 3"),
        ({"state": int}, "cannot be the type of a state"),
    ],
)
def test_options_that_cannot_be(options: dict[str, Any], words: str) -> None:
    """Those of the graph."""
    named: dict[str, Any] = {"name": "g"}
    refused(lambda: Graph(**(named | options)), words)


NODES: list[tuple[tuple[Any, ...], dict[str, Any], str]] = [
    (("a", "text"), {}, "not 'text'"),
    (("a", Agent), {}, "an agent, a swarm, a graph"),
    (("a", two), {}, "two does not fit"),
    (("a", none), {}, "called with a NodeContext alone"),
    (("a", keyed), {}, "does not fit"),
    (("a", work), {"retries": -1}, "retries=-1"),
    (("a", work), {"retries": 1.5}, "retries=1.5"),
    (("a", work), {"timeout": 0}, "timeout=0: give seconds above 0"),
    (("a", work), {"timeout": float("inf")}, "timeout=inf"),
    (("a", work), {"timeout": float("nan")}, "timeout=nan"),
    (("a", work), {"timeout": "30"}, "timeout='30'"),
    (("a", work), {"input": str}, "is a function, which reads what it needs"),
    (
        ("a", Agent("b", ScriptedModel([]))),
        {"input": "text"},
        "input= of node 'a' is a function",
    ),
    (("a", Agent("b", ScriptedModel([]))), {"input": waits}, "cannot be async: waits"),
]


@pytest.mark.parametrize(("arguments", "options", "words"), NODES)
def test_nodes_that_cannot_be(arguments: Any, options: dict[str, Any], words: str) -> None:
    """What it does, and how."""
    refused(lambda: Graph("g").add_node(*arguments, **options), words)


WAYS: list[tuple[Callable[[Any], object], str]] = [
    (lambda g: g.add_router("r", {}), "has nowhere to go"),
    (lambda g: g.add_router("r", ["a"]), "a dict of predicates"),
    (lambda g: g.add_router("r", {"a": "b"}), "The predicate of 'r' for 'a' is a function"),
    (lambda g: g.add_router("r", {"a": waits}), "cannot be async"),
    (lambda g: g.add_router("r", {3: yes}), "A target of router 'r'"),
    (lambda g: g.add_router("r", {"a": two}), "two does not fit"),
    (lambda g: g.add_router("r", {}, default=""), "default= of router 'r'"),
    (lambda g: g.add_fan_out("f", [], join="j"), "The branches of fan-out 'f': the list is empty"),
    (lambda g: g.add_fan_out("f", "ab", join="j"), "takes a list of nodes, not 'ab'"),
    (lambda g: g.add_fan_out("f", None, join="j"), "a list of nodes, not None"),
    (lambda g: g.add_fan_out("f", ["a", "a"], join="j"), "two branches that begin with 'a'"),
    (lambda g: g.add_fan_out("f", ["a", 3], join="j"), "not 3"),
    (lambda g: g.add_fan_out("f", ["a"], join=None), "not None"),
    (lambda g: g.add_fan_out("f", ["a"], join="j", limit=0), "limit=0"),
    (lambda g: g.add_fan_out("f", ["a"], join="j", choose=["a"]), "choose= of fan-out 'f'"),
    (lambda g: g.add_map("m", over=[1], node="a", join="j"), "over= of map 'm' is a function"),
    (lambda g: g.add_map("m", over=list, node="a", join="j"), "over= of map 'm' is a function"),
    (lambda g: g.add_map("m", over=waits, node="a", join="j"), "cannot be async"),
    (lambda g: g.add_map("m", over=len, node=None, join="j"), "not None"),
    (lambda g: g.add_map("m", over=len, node="a", join="j", limit=True), "limit=True"),
    (lambda g: g.add_edge("a"), "takes a target, or to=function, and not both"),
    (lambda g: g.add_edge("a", "b", to=len), "takes a target, or to=function, and not both"),
    (lambda g: g.add_edge("a", to="b"), "to= of the edge from 'a' is a function"),
    (lambda g: g.add_edge("a", "b", when="always"), "A condition is a function of the view"),
    (lambda g: g.add_edge("a", "b", when=waits), "A condition cannot be async: waits"),
    (lambda g: g.add_edge("a", "b", priority="high"), "priority='high'"),
    (lambda g: g.add_edge("a", "b", priority=True), "priority=True"),
    (lambda g: g.add_edge("a", "b", targets=["b"]), "no to= that could name them"),
    (lambda g: g.add_edge("a", to=len, targets="b"), "takes a list of nodes, not 'b'"),
    (lambda g: g.add_edge("a", to=len, targets=[]), "the list is empty"),
    (lambda g: g.add_edge(END, "a"), "cannot begin at END"),
    (lambda g: g.add_edge("a", START), "nor lead to START"),
    (lambda g: g.add_edge("", "a"), "The source of an edge"),
    (lambda g: g.set_finish(), "at least one node"),
    (lambda g: g.set_finish(None), "not None"),
    (lambda g: g.set_entry("a").set_entry("b"), "There is an entry already, so 'b'"),
    (lambda g: g.set_entry(END + END).set_entry(""), "There is an entry already"),
]


@pytest.mark.parametrize(("action", "words"), WAYS)
def test_ways_that_cannot_be(action: Any, words: str) -> None:
    """Routers, splits, edges, entry and finish."""
    refused(lambda: action(Graph("g")), words)


def test_what_was_refused_changes_nothing() -> None:
    """The graph is what it was before."""
    graph = graph_of("a")
    before = graph.to_mermaid()
    unfit: Any = two
    refused(lambda: graph.add_node("b", unfit), "does not fit")
    refused(lambda: graph.add_edge("a", "a", priority=0.5), "priority=0.5")  # pyright: ignore[reportArgumentType]
    assert graph.to_mermaid() == before


def test_a_layout_stays_as_it_was() -> None:
    """What is added later is in the next one."""
    graph = graph_of("a")
    before = graph.layout
    assert graph.layout is before
    graph.add_node("b", work)
    assert (list(before.nodes), list(graph.layout.nodes)) == (["a"], ["a", "b"])


def test_reducers_are_those_of_whole_keys() -> None:
    """A key without a scope is meant wherever the view would find it."""
    both = Graph("g", reducers={"items": max, "session::most": min}).reducers
    assert both == {
        "graph::items": max,
        "session::items": max,
        "items": max,
        "session::most": min,
    }


def test_the_class_of_the_state() -> None:
    """Said as an argument or in brackets."""
    named, bracketed = Graph("g", state=Story), Graph[Story]("g")
    assert named.typed is not None
    assert bracketed.typed is not None
    assert named.typed.kind is bracketed.typed.kind is Story
    assert Graph("g").typed is None
    assert Graph[Any]("g").typed is None


def test_what_is_added_to_a_graph_at_another_node_is_not_added_to_the_graph() -> None:
    """The two are apart from then on, either way."""
    graph = graph_of("a", "b").add_edge(START, "a").add_edge("a", "b").add_edge("b", END)

    later = graph.at("b").add_node("c", work).add_node("c", work)
    later.add_edge("b", "c", priority=1).set_finish("c")
    later.add_node("a", work)

    assert graph.set_finish("b").validate() == []
    assert list(graph.layout.nodes) == ["a", "b"]
    assert [str(edge) for edge in graph.layout.edges["b"]] == ["'b' → 'END'"]
    assert graph.layout.finishes == {"b"}
    graph.add_node("d", work)
    assert "d" not in later.set_finish("c").layout.nodes


@pytest.mark.parametrize("node", [None, 5, "", ["a"], {}])
def test_a_graph_begins_at_no_such_thing(node: Any) -> None:
    """In words, whatever it is."""
    refused(lambda: graph_of("a").at(node), "begin at", "non-empty text", kind=GraphInvalid)


def test_a_class_made_of_a_graph_has_its_state() -> None:
    """What stands in the brackets counts, wherever they stand."""

    class Telling(Graph[Story]): ...

    class Longer(Telling): ...

    for graph in (Graph[Story]("g"), Telling("g"), Longer("g")):
        assert graph.typed is not None
        assert graph.typed.kind is Story
    assert Graph[Any]("g").typed is None
    assert Graph("g").typed is None


def test_what_cannot_be_the_type_of_a_state_is_refused() -> None:
    """It is not left out in silence."""
    refused(lambda: Graph[dict[str, int]]("g").typed, "dict[str, int]", "no class")
