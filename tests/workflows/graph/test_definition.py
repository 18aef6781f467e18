"""A graph as a drawing, and as hashes that tell what has changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.workflows.graph.parts import graph_of, work
from treadle import END, ON_FAILURE, START, Agent, Graph
from treadle.testing import ScriptedModel
from treadle.workflows.graph.fingerprint import fingerprint


def is_billing(view: Any) -> bool:
    return True


def pick(view: Any) -> str:
    return "log"


def pipeline() -> Graph[Any]:
    graph = graph_of("log", "fix").add_node("classify", Agent("c", ScriptedModel([])))
    graph.add_router("route", {"log": is_billing}, default="split")
    graph.add_fan_out("split", ["a"], join="each").add_node("a", work)
    graph.add_map("each", over=lambda s: [], node="work", join="log").add_node("work", work)
    graph.add_edge(START, "classify").add_edge("classify", "route")
    graph.add_edge("classify", "fix", when=ON_FAILURE, priority=2).add_edge("fix", to=pick)
    return graph.set_finish("log")


def test_a_drawing() -> None:
    """Each kind of node has a shape, each edge says when it is taken."""
    assert (
        pipeline().to_mermaid()
        == """\
flowchart TD
    start(["START"])
    n0["log"]
    n1["fix"]
    n2("classify")
    n3{"route"}
    n4[/"split"\\]
    n5["a"]
    n6[["each"]]
    n7["work"]
    finish(["END"])
    start --> n2
    n0 --> finish
    n1 -.->|"to pick"| anyn1{{"any node"}}
    n2 -->|"on failure, priority 2"| n1
    n2 --> n3
    n3 -->|"is_billing"| n0
    n3 -->|"default"| n4
    n4 ==> n5
    n5 ==>|"join"| n6
    n6 ==>|"each item"| n7
    n7 ==>|"join"| n0
    n6 -.->|"none"| n0
"""
    )


def test_a_drawing_of_odd_names() -> None:
    """Nothing in a name is read as Mermaid."""
    graph = graph_of('a"b', "x|y\nz", "end").add_edge('a"b', "x|y\nz").add_edge("end", "nowhere")
    lines = graph.to_mermaid().splitlines()
    assert lines[2:5] == ['    n0["a#34;b"]', '    n1["x#124;y<br/>z"]', '    n2["end"]']
    assert lines[-1] == '    n2 --> unknown6e6f7768657265["nowhere #40;unknown#41;"]'


@given(st.text(min_size=1).filter(lambda name: name.isprintable()))
def test_labels_hold_any_text(name: str) -> None:
    """No label can end early, or begin a comment, an entity or a tag."""
    line = (
        graph_of(name).to_mermaid().splitlines()[2] if name not in (START, END) else '    n0["x"]'
    )
    label = line.removeprefix('    n0["').removesuffix('"]')
    assert not set(label) & set('"<>&`[]{}()|')


def changed(change: Callable[[Graph[Any]], Graph[Any] | None]) -> set[str]:
    """Return what differs after a change of the pipeline."""
    before, graph = fingerprint(pipeline().layout), pipeline()
    now = fingerprint((change(graph) or graph).layout)
    return {name for name in {*before, *now} if before.get(name) != now.get(name)}


def test_the_same_graph_has_the_same_hashes() -> None:
    """Built anew, with other objects, it is the same."""
    assert changed(lambda graph: None) == set()


def test_every_change_is_told() -> None:
    """By the name of what changed."""
    assert changed(lambda g: g.add_node("new", work)) == {"node 'new'"}
    assert changed(lambda g: g.add_edge("a", "each")) == {"edge 'a' → 'each'"}
    assert changed(lambda g: g.add_edge("fix", END, priority=3)) == {"edge 'fix' → 'END'"}
    assert changed(lambda g: g.set_finish("fix")) == {"edge 'fix' → 'END' (finish)"}
    assert changed(lambda g: g.add_edge("classify", "route", when=is_billing)) == {
        "edge 'classify' → 'route'"
    }


def test_a_renamed_node() -> None:
    """It is one that is gone, and one that is new."""
    before = fingerprint(graph_of("a").layout)
    assert set(before) ^ set(fingerprint(graph_of("b").layout)) == {"node 'a'", "node 'b'"}


def test_what_a_node_does_counts_by_name() -> None:
    """Another function, other routes, another join; retries and limits do not count."""

    def hashes(graph: Graph[Any]) -> dict[str, str]:
        return fingerprint(graph.layout)

    assert hashes(Graph("g").add_node("a", work)) != hashes(Graph("g").add_node("a", pick))
    agents = [Graph("g").add_node("a", Agent(name, ScriptedModel([]))) for name in "xy"]
    assert hashes(agents[0]) != hashes(agents[1])
    assert hashes(Graph("g").add_node("a", work, retries=1)) == hashes(graph_of("a"))
    routers = [
        Graph("g").add_router("r", dict(routes))
        for routes in ([("a", is_billing), ("b", pick)], [("b", pick), ("a", is_billing)])
    ]
    assert hashes(routers[0]) != hashes(routers[1])
    fans = [Graph("g").add_fan_out("f", ["a", "b"], join=join) for join in "xy"]
    assert hashes(fans[0]) != hashes(fans[1])
    limited = Graph("g").add_fan_out("f", ["a", "b"], join="x", limit=3)
    assert hashes(limited) == hashes(fans[0])
    required = Graph("g").add_fan_out("f", ["a", "b"], join="x", all_required=True)
    assert hashes(required) != hashes(fans[0])
