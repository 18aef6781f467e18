"""Where a walk goes, given what has been."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.workflows.graph.parts import FAILED, OK, graph_of, view_of
from treadle import (
    END,
    ON_FAILURE,
    ON_SUCCESS,
    ON_TOOL_CALL,
    START,
    Condition,
    DeadEnd,
    Graph,
    GraphView,
    RunFailed,
)
from treadle.workflows.graph.context import NodeOutcome
from treadle.workflows.graph.nodes import FanOutNode, MapNode, RouterNode
from treadle.workflows.graph.walk import (
    MOST_BRANCHES,
    Taken,
    choose_branches,
    choose_route,
    first_step,
    items_of,
    next_step,
)

CALLED = NodeOutcome(tool_called=True)
View = GraphView[Any]
Listed = Callable[[View], Any]


def after(
    graph: Graph[Any],
    outcome: NodeOutcome = OK,
    source: str = "a",
    state: dict[str, Any] | None = None,
) -> str | None:
    """Return where the graph goes after a node."""
    taken = next_step(graph.layout, source, outcome, view_of(graph, state, {source: outcome}))
    return None if taken is None else taken.target


def test_the_first_edge_whose_condition_holds_is_taken() -> None:
    """S43: conditions, in their order of definition."""
    graph = graph_of("a", "billing", "other").add_edge(
        "a", "billing", when=lambda s: s.output("a") == "billing"
    )
    graph.add_edge("a", "other")

    assert after(graph, state={"node::a::output": "billing"}) == "billing"
    assert after(graph, state={"node::a::output": "?"}) == "other"


def boom(view: View) -> bool:
    return view.error("a") == "boom"


def called(view: View) -> bool:
    return view.tool_called("a")


def failed(view: View) -> object:
    return view.error("a")


def no(view: View) -> bool:
    return False


CONDITIONS: list[tuple[Any, list[str | None]]] = [
    (None, ["b", "b", None]),
    (ON_SUCCESS, ["b", "b", None]),
    (ON_FAILURE, [END, END, "b"]),
    (ON_TOOL_CALL, [END, "b", None]),
    (ON_SUCCESS | ON_FAILURE, ["b", "b", "b"]),
    (ON_FAILURE | ON_TOOL_CALL, [END, "b", "b"]),
    (ON_FAILURE & boom, [END, END, "b"]),
    (ON_FAILURE | called, [END, "b", "b"]),
    (no | ON_FAILURE, [END, END, "b"]),
    (no & (ON_FAILURE | ON_SUCCESS), [END, END, None]),
    (failed, [END, END, "b"]),
]


@pytest.mark.parametrize(("when", "targets"), CONDITIONS)
def test_conditions(when: Any, targets: list[str | None]) -> None:
    """After a success, one that called a tool, and a failure; then a finish leads to the end."""
    graph = graph_of("a", "b").add_edge("a", "b", when=when).set_finish("a")

    assert [after(graph, outcome) for outcome in (OK, CALLED, FAILED)] == targets


@given(st.lists(st.tuples(st.integers(-3, 3), st.booleans()), max_size=8))
def test_the_higher_priority_goes_first(edges: list[tuple[int, bool]]) -> None:
    """Ties go by order of definition, always."""
    graph = graph_of("a").set_finish("a")
    for number, (priority, holds) in enumerate(edges):
        graph.add_node(f"n{number}", lambda ctx: None)
        graph.add_edge("a", f"n{number}", when=lambda s, holds=holds: holds, priority=priority)
    that_hold = [(-priority, number) for number, (priority, holds) in enumerate(edges) if holds]

    expected = f"n{min(that_hold)[1]}" if that_hold else END

    assert after(graph) == expected


def test_why_it_was_taken_is_told() -> None:
    """In words, for those who watch."""

    def is_urgent(view: Any) -> bool:
        return True

    graph = graph_of("a", "b").add_edge("a", "b", when=ON_FAILURE | is_urgent)
    taken = next_step(graph.layout, "a", FAILED, view_of(graph))
    assert taken == Taken("b", "on failure or is_urgent")
    assert str(Condition("and", parts=(ON_SUCCESS, ON_FAILURE | ON_SUCCESS))) == (
        "on success and (on failure or on success)"
    )


def test_dynamic_targets() -> None:
    """The node's output may be the next node's ID."""
    graph = graph_of("a", "b::x/#").add_edge("a", to=lambda s: s.output("a"))

    assert after(graph, state={"node::a::output": "b::x/#"}) == "b::x/#"
    assert after(graph, state={"node::a::output": END}) == END
    assert after(graph, FAILED) is None
    with pytest.raises(
        RunFailed, match=r"names 'c', which is no node.*It has 'a', 'b::x/#', and END"
    ):
        after(graph, state={"node::a::output": "c"})
    with pytest.raises(RunFailed, match="names None, which is no node"):
        after(graph)
    among = graph_of("a", "b").add_edge("a", to=lambda s: "a", targets=["b"], when=ON_SUCCESS)
    with pytest.raises(RunFailed, match="names 'a', which is none of its targets=: 'b'"):
        after(among)


def test_a_dead_end_says_what_was_tried() -> None:
    """W47: it is an error, and no silent end."""
    graph = graph_of("a", "b").add_edge("a", "b", when=ON_TOOL_CALL)

    with pytest.raises(DeadEnd, match=r"node 'a', which succeeded: .*'a' → 'b' \(on tool call\)"):
        after(graph)
    assert after(graph, FAILED) is None


def test_what_fails_in_a_condition_is_named() -> None:
    """The user's error is the cause."""
    graph = graph_of("a", "b").add_edge("a", "b", when=lambda s: s["nothing"] > 1)
    with pytest.raises(
        RunFailed, match="The condition of edge 'a' → 'b' failed: KeyError"
    ) as caught:
        after(graph)
    assert isinstance(caught.value.__cause__, KeyError)
    graph = graph_of("a").add_edge("a", to=lambda s: s.output("typo"))
    with pytest.raises(RunFailed, match="to=<lambda> of the edge from 'a' failed: ConfigError"):
        after(graph)


async def waits(view: View) -> bool:
    return True


def test_what_would_have_to_be_awaited_is_no_answer() -> None:
    """It would count as true; nothing is left that was never awaited."""

    def later(view: View) -> Any:  # does not look async
        return waits(view)

    for graph in (
        graph_of("a", "b").add_edge("a", "b", when=later),
        graph_of("a", "b").add_edge("a", to=later),
    ):
        with pytest.raises(RunFailed, match="to be awaited; let a function node do that"):
            after(graph)
    graph = graph_of("a").add_router("r", {"a": later})
    with pytest.raises(RunFailed, match="The predicate of 'r' for 'a' failed: TypeError"):
        choose_route(router(graph), view_of(graph))


def test_the_beginning() -> None:
    """The edges from START are edges, too."""
    graph = graph_of("a", "b").add_edge(START, "a", when=lambda s: s.input == "a")
    assert first_step(graph.layout, view_of(graph, {"graph::input": "a"})).target == "a"
    with pytest.raises(DeadEnd, match="Dead end after START"):
        first_step(graph.layout, view_of(graph, {"graph::input": "b"}))
    graph.add_edge(START, "b")
    assert first_step(graph.layout, view_of(graph, {"graph::input": "b"})) == Taken("b")


def router(graph: Graph[Any], name: str = "r") -> RouterNode:
    node = graph.layout.nodes[name]
    assert isinstance(node, RouterNode)
    return node


def test_a_router_takes_the_first_that_is_true() -> None:
    """In order of definition, whatever else is true."""
    graph = graph_of("a", "b", "c").add_router(
        "r", {"a": lambda s: s["x"] == 1, "b": lambda s: s["x"] > 0}, default="c"
    )
    chosen = [choose_route(router(graph), view_of(graph, {"graph::x": x})) for x in (1, 2, 0)]
    assert chosen == ["a", "b", "c"]
    assert after(graph, NodeOutcome(chosen="b"), "r") == "b"
    assert after(graph.add_edge("r", "c", when=ON_FAILURE), FAILED, "r") == "c"


def test_a_router_without_a_way() -> None:
    """A dead end names the routes."""
    graph = graph_of("a").add_router("r", {"a": lambda s: False})
    with pytest.raises(DeadEnd, match=r"router 'r': none of its predicates is true \('a'\)"):
        choose_route(router(graph), view_of(graph))
    graph = graph_of("a").add_router("r", {"a": lambda s: 1 / 0})
    with pytest.raises(RunFailed, match="The predicate of 'r' for 'a' failed: ZeroDivisionError"):
        choose_route(router(graph), view_of(graph))


def test_a_join_after_a_branch_that_was_not_taken() -> None:
    """BS-32: what a router did not choose, nobody waits for."""
    graph = graph_of("a", "b", "join").set_entry("route").set_finish("join")
    graph.add_router("route", {"a": lambda s: True, "b": lambda s: True})
    graph.add_edge("a", "join").add_edge("b", "join")
    assert graph.validate() == []

    path, view = [first_step(graph.layout, view_of(graph)).target], view_of(graph)
    while path[-1] != END:
        chosen = choose_route(router(graph, "route"), view) if path[-1] == "route" else ""
        taken = next_step(graph.layout, path[-1], NodeOutcome(chosen=chosen), view)
        assert taken is not None
        path.append(taken.target)

    assert path == ["route", "a", "join", END]


def split(choose: Listed | None = None, *, all_required: bool = False) -> Graph[Any]:
    return graph_of("a", "b", "j").add_fan_out(
        "split", ["a", "b"], join="j", choose=choose, all_required=all_required
    )


def opened(graph: Graph[Any]) -> tuple[str, ...]:
    node = graph.layout.nodes["split"]
    assert isinstance(node, FanOutNode)
    return choose_branches(node, view_of(graph))


def test_branches_are_chosen() -> None:
    """BS-32: the join waits for what was opened in this pass, in order of definition."""
    assert opened(split()) == ("a", "b")
    assert opened(split(choose=lambda s: ["b", "a"])) == ("a", "b")
    assert opened(split(choose=lambda s: ["b"])) == ("b",)
    assert opened(split(choose=lambda s: [])) == ()
    assert opened(split(choose=lambda s: {"a", "b"}, all_required=True)) == ("a", "b")


NO_BRANCHES: list[tuple[Listed, bool, str]] = [
    (lambda s: ["a"], True, "join waits for b"),
    (lambda s: ["x"], False, "names 'x', which is none of its branches: 'a', 'b'"),
    (lambda s: "ab", False, "choose= of fan-out 'split' failed: TypeError"),
    (lambda s: None, False, "choose= of fan-out 'split' failed: TypeError"),
]


@pytest.mark.parametrize(("choose", "all_required", "words"), NO_BRANCHES)
def test_branches_that_cannot_be(choose: Listed, all_required: bool, words: str) -> None:
    """A join with all_required fails by name, and so does what names no branch."""
    with pytest.raises(RunFailed, match=words):
        opened(split(choose, all_required=all_required))


def items(over: Listed) -> list[Any]:
    graph = graph_of("work").add_map("each", over=over, node="work", join=END)
    node = graph.layout.nodes["each"]
    assert isinstance(node, MapNode)
    return items_of(node, view_of(graph, {"session::items": [1, 2]}))


def test_a_map_has_items() -> None:
    """From anything that one can go over, with a bound."""
    assert items(lambda s: s["items"]) == [1, 2]
    assert items(lambda s: (n * n for n in range(3))) == [0, 1, 4]
    with pytest.raises(RunFailed, match="over= of map 'each' failed: TypeError"):
        items(lambda s: "text")
    with pytest.raises(RunFailed, match="over= of map 'each' failed: TypeError"):
        items(lambda s: 3)
    with pytest.raises(RunFailed, match=f"more than {MOST_BRANCHES} items"):
        items(lambda s: iter(int, 1))


def test_in_a_branch() -> None:
    """It ends at its join, by itself where nothing leads on; dynamic edges stay inside."""
    graph = split().set_entry("split").set_finish("j").add_edge("b", "j", when=ON_TOOL_CALL)
    graph.add_node("a2", lambda ctx: None).add_edge("a", to=lambda s: s["next"])

    def inside(source: str, outcome: NodeOutcome = OK, **state: Any) -> Taken | None:
        home = (("split", source),)
        return next_step(graph.layout, source, outcome, view_of(graph, state), home)

    assert inside("a", next="a2") == Taken("a2")
    assert inside("a", next="j") == Taken("j")
    assert inside("a", next=END) == Taken(END)
    assert inside("a2") == Taken("j")
    assert inside("b", CALLED) == Taken("j", "on tool call")
    assert inside("b", FAILED) is None
    with pytest.raises(
        RunFailed, match="names 'b', which is in branch 'b' of 'split'; the walk is in"
    ):
        inside("a", next="b")
    with pytest.raises(RunFailed, match="names 'split', which is outside of all branches"):
        inside("a", next="split")
    with pytest.raises(DeadEnd):
        inside("b")
    assert next_step(graph.layout, "split", OK, view_of(graph)) == Taken("j")
    assert next_step(graph.layout, "split", FAILED, view_of(graph)) is None
