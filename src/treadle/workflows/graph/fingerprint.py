"""What a graph is made of, in short hashes, so that a resume can tell what has changed."""

from __future__ import annotations

from typing import Any

from msgspec.json import encode as encode_json

from treadle.tools.registry import short_hash
from treadle.workflows.graph.edges import END, Edge
from treadle.workflows.graph.functions import name_of
from treadle.workflows.graph.layout import Layout
from treadle.workflows.graph.nodes import (
    FanOutNode,
    FunctionNode,
    MapNode,
    Node,
    RouterNode,
    RunnableNode,
    kind_of,
)


def fingerprint(layout: Layout) -> dict[str, str]:
    """Return a short hash of each node and edge, by what it is called.

    Functions count by their names only, retries, timeouts and limits not at all. What the agents
    of nodes are made of is not in it.
    """
    found = {f"{kind_of(node)} {node.id!r}": _node(node) for node in layout.nodes.values()}
    edges: dict[str, list[Any]] = {}
    for source in layout.edges.values():
        for edge in source:
            edges.setdefault(f"edge {edge}", []).append(_edge(edge))
    found |= {name: _hash(each) for name, each in edges.items()}
    found |= {f"edge {node!r} → {END!r} (finish)": _hash("finish") for node in layout.finishes}
    return found


def _node(node: Node) -> str:
    match node:
        case RunnableNode():
            return _hash("runnable", node.work.name, _named(node.input))
        case FunctionNode():
            return _hash("function", name_of(node.work))
        case RouterNode():
            routes = [(target, name_of(test)) for target, test in node.routes]
            return _hash("router", routes, node.default)
        case FanOutNode():
            parts = node.first, node.join, _named(node.choose), node.all_required
            return _hash("fan-out", *parts)
        case MapNode():
            return _hash("map", node.node, node.join, name_of(node.over))


def _edge(edge: Edge) -> list[Any]:
    when = None if edge.when is None else str(edge.when)
    return [edge.target, _named(edge.to), edge.targets, when, edge.priority]


def _named(function: object) -> str | None:
    return None if function is None else name_of(function)


def _hash(*parts: Any) -> str:
    return short_hash(encode_json(parts))
