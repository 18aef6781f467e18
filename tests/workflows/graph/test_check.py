"""`validate()` lists everything that is wrong with a graph, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.workflows.graph.parts import graph_of, work
from treadle import END, ON_FAILURE, ON_SUCCESS, ON_TOOL_CALL, START, Graph, GraphInvalid
from treadle.workflows.graph.check import never_taken


def yes(view: object) -> bool:
    return True


def linear() -> Graph[Any]:
    return graph_of("a", "b").add_edge(START, "a").add_edge("a", "b").add_edge("b", END)


def only(graph: Graph[Any]) -> str:
    """Return the one problem that there is."""
    problems = graph.validate()
    assert len(problems) == 1, problems
    return problems[0]


def test_a_graph_that_can_run_has_no_problems() -> None:
    """B122: START and END, or entry and finish, say the same."""
    assert linear().validate() == []
    assert graph_of("a", "b").set_entry("a").add_edge("a", "b").set_finish("b").validate() == []


def test_all_three_are_reported() -> None:
    """S44: no entry, an edge to a missing node, and an unreachable node, at once."""
    graph = graph_of("fetch", "tell", "island")
    graph.add_edge("fetch", "tell").add_edge("tell", "fetsh").add_edge("island", END)

    problems = graph.validate()

    assert any("no entry" in each for each in problems)
    assert (
        "Edge 'tell' → 'fetsh' leads to the unknown node 'fetsh'. Did you mean 'fetch'?" in problems
    )
    assert any("'island' is unreachable" in each for each in problems)


def test_a_graph_without_nodes() -> None:
    """It has neither nodes nor an entry."""
    assert len(Graph("g").validate()) == 2


def test_a_graph_without_entry_and_one_beginning() -> None:
    """Then all that is missing is the entry."""
    graph = graph_of("a", "b").add_edge("a", "b").add_edge("b", "a", when=ON_FAILURE)
    graph.set_finish("b")
    assert "no entry" in only(graph_of("a", "b").add_edge("a", "b").set_finish("b"))
    assert any("no entry" in each for each in graph.validate())


def test_unreachable() -> None:
    """A node that nothing leads to, or only itself."""
    graph = linear().add_node("c", work).add_edge("c", "c").add_edge("c", "b")
    assert "Node 'c' is unreachable" in only(graph)


def test_a_dynamic_edge_can_reach_everything() -> None:
    """What its function names is known at run time only, unless it says among which."""
    anywhere = graph_of("a", "b").set_entry("a").set_finish("b").add_edge("a", to=lambda s: "b")
    assert anywhere.validate() == []
    named = graph_of("a", "b", "c").set_entry("a").set_finish("b", "c")
    named.add_edge("a", to=lambda s: "b", targets=["b", END])
    assert "Node 'c' is unreachable" in only(named)


@pytest.mark.parametrize("when", [None, ON_FAILURE])
def test_dead_end(when: Any) -> None:
    """A node after whose success nothing leads on, be there an edge for its failure."""
    graph = graph_of("a", "b").set_entry("a").add_edge("a", "b")
    if when is not None:
        graph.add_edge("b", "a", when=when)
    assert "Node 'b' is a dead end" in only(graph)


def test_duplicates() -> None:
    """Of a node, of a node and a router, and of an edge."""
    assert "Duplicate node 'a'" in only(linear().add_node("a", work))
    assert "Duplicate node 'b'" in only(linear().add_router("b", {"a": yes}))
    assert "Duplicate edge 'a' → 'b'" in only(linear().add_edge("a", "b"))
    assert linear().add_edge("a", "b", when=ON_TOOL_CALL).validate() == []


@pytest.mark.parametrize(
    ("graph", "words"),
    [
        (linear().add_edge("a", "x", when=yes), "Edge 'a' → 'x' leads to the unknown node 'x'"),
        (linear().add_edge("x", "a"), "Edge 'x' → 'a' begins at the unknown node 'x'"),
        (linear().set_finish("x"), "names the unknown node 'x'"),
        (linear().add_edge("a", to=yes, targets=["x"]), "leads to the unknown node 'x'"),  # pyright: ignore[reportArgumentType] never called
    ],
)
def test_unknown_nodes(graph: Graph[Any], words: str) -> None:
    """Wherever they are named."""
    assert words in only(graph)


def test_unknown_nodes_of_routers_and_splits() -> None:
    """These name nodes themselves."""
    graph = graph_of("a").set_entry("r").add_router("r", {"a": yes, "x": yes}, default="y")
    graph.add_fan_out("f", ["a", "z"], join="j").add_map("m", over=lambda s: [], node=END, join=END)
    problems = "\n".join(graph.validate())
    for words in ("Router 'r' leads to the unknown node 'x'", "'y'", "Fan-out 'f'", "'z'", "'j'"):
        assert words in problems
    assert "Map 'm' cannot begin a branch at END." in problems


def test_a_router_goes_its_own_way() -> None:
    """An edge from it is taken after a failure only."""
    graph = graph_of("a", "b").set_entry("r").add_router("r", {"a": yes}, default="b")
    graph.set_finish("a", "b")
    assert graph.validate() == []
    assert graph.add_edge("r", "b", when=ON_FAILURE).validate() == []
    assert "never taken: router 'r' goes to its routes" in only(graph.add_edge("r", "b"))


def fan() -> Graph[Any]:
    graph = graph_of("a", "b", "join").set_entry("split").set_finish("join")
    return graph.add_fan_out("split", ["a", "b"], join="join")


def test_branches_lead_to_their_join_by_themselves() -> None:
    """What nothing leads on from ends its branch; so does an edge to the join, and END."""
    assert fan().validate() == []
    assert fan().add_edge("a", "join").validate() == []
    assert fan().add_edge("a", END, when=yes).add_edge("a", "join").validate() == []
    assert fan().add_node("a2", work).add_edge("a", "a2").validate() == []
    assert "never taken: fan-out 'split' goes to its join, 'join'" in only(
        fan().add_edge("split", "join", when=ON_SUCCESS)
    )


def test_a_branch_that_leaves() -> None:
    """A node belongs to one branch, or to none."""
    shared = fan().add_node("c", work).add_edge("a", "c").add_edge("b", "c")
    assert only(shared).startswith(
        "Node 'c' is reached in branch 'a' of 'split' and also in branch 'b' of 'split', from 'b'."
    )
    outside = graph_of("a", "b", "join", "after").set_entry("split").add_edge("join", "after")
    outside.set_finish("after").add_fan_out("split", ["a", "b"], join="join")
    assert outside.validate() == []
    assert "'after' is reached outside of all branches and also in branch 'a'" in "\n".join(
        outside.add_edge("a", "after").validate()
    )
    assert any("'split' is reached" in each for each in fan().add_edge("a", "split").validate())


def test_a_branch_that_cannot_reach_its_join() -> None:
    """It goes round in circles, or ends the walk."""
    circle = fan().add_node("c", work).add_edge("a", "c").add_edge("c", "a")
    assert "Branch 'a' of 'split' cannot reach its join 'join'" in only(circle)
    assert "Branch 'a' of 'split' cannot reach" in only(fan().add_edge("a", END))


def test_a_join_without_fan_out() -> None:
    """A join is reached, and what it joins is not."""
    graph = graph_of("a", "b", "join").set_entry("join").set_finish("join")
    graph.add_fan_out("split", ["a", "b"], join="join")
    assert any("'join' is a join without fan-out" in each for each in graph.validate())
    own = graph_of("a").set_entry("split").set_finish("a").add_fan_out("split", ["a"], join="a")
    assert "begins a branch at its own join 'a'" in "\n".join(own.validate())


def test_splits_nest() -> None:
    """A branch may open branches, down to a map, and share the outer join."""
    graph = graph_of("a", "x", "y", "work", "inner", "join").set_entry("split").set_finish("join")
    graph.add_fan_out("split", ["a", "deep"], join="join").add_edge("inner", "each")
    graph.add_fan_out("deep", ["x", "y"], join="inner")
    graph.add_map("each", over=lambda s: [1], node="work", join="join")

    assert graph.validate() == []
    assert graph.layout.homes["x"] == (("split", "deep"), ("deep", "x"))
    assert graph.layout.homes["inner"] == (("split", "deep"),)
    assert graph.layout.homes["work"] == (("split", "deep"), ("each", "work"))
    assert graph.layout.homes["join"] == ()

    assert graph.add_edge("x", "join").validate()  # over the head of the inner join


def test_a_loop_around_a_fan_out() -> None:
    """The join may lead back to it."""
    assert fan().add_edge("join", "split", when=yes).validate() == []


def test_an_invalid_graph_says_everything() -> None:
    """The error has the list, and its text all of it."""
    graph = graph_of("a", "b")
    with pytest.raises(GraphInvalid) as caught:
        graph.check()
    assert list(caught.value.problems) == graph.validate()
    assert all(problem in str(caught.value) for problem in caught.value.problems)
    linear().check()


def test_edges_that_are_never_taken() -> None:
    """They are no problem, but are told of."""
    assert never_taken(linear().layout) == []
    assert "'a' → 'a' is never taken" in never_taken(linear().add_edge("a", "a").layout)[0]
    assert never_taken(linear().add_edge("a", "a", when=ON_TOOL_CALL).layout)
    for shown in (ON_FAILURE, yes, ON_FAILURE | ON_SUCCESS):
        assert never_taken(linear().add_edge("a", "a", when=shown).layout) == []
    always = linear().add_edge("a", "a", when=ON_FAILURE | ON_SUCCESS, priority=1)
    assert len(never_taken(always.add_edge("a", "a", when=yes).layout)) == 2
    assert never_taken(linear().add_edge("a", "a", priority=1).layout)[0].startswith(
        "Edge 'a' → 'b'"
    )


names = st.sampled_from(["a", "b", "c", "d", "split", END])
ways = st.lists(st.tuples(st.sampled_from("abcd"), names, st.sampled_from([None, ON_FAILURE])))


@given(edges=ways, first=st.lists(names, min_size=1, unique=True), join=names)
def test_any_graph_can_be_judged(edges: Any, first: list[str], join: str) -> None:
    """Whatever is connected with whatever: each node has one home, and the words come out."""
    graph = graph_of("a", "b", "c", "d").add_edge(START, "a")
    graph.add_fan_out("split", first, join=join)
    for source, target, when in edges:
        graph.add_edge(source, target, when=when)

    problems = graph.validate()

    assert len(set(problems)) == len(problems)
    assert set(graph.layout.homes) <= set(graph.layout.nodes)
    assert graph.to_mermaid().startswith("flowchart TD")
    if not problems:
        graph.check()


def test_what_is_wrong_with_a_graph_in_it_is_wrong_with_the_graph() -> None:
    """Before anything has run, and as deep as it is; a graph that is its own node is no matter."""
    inner, middle, outer = graph_of("a").set_entry("a"), Graph("middle"), Graph("outer")
    middle.add_node("in", inner).set_entry("in").set_finish("in")
    outer.add_node("mid", middle).add_node("own", outer).set_entry("mid")
    outer.add_edge("mid", "own").set_finish("own")

    assert only(outer).startswith("In node 'mid': In node 'in': Node 'a' is a dead end")
    with pytest.raises(GraphInvalid, match="In node 'mid'"):
        outer.check()
    inner.set_finish("a")
    assert outer.validate() == []
