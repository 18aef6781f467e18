"""A graph as Mermaid text."""

from __future__ import annotations

from collections.abc import Iterator

from treadle.workflows.graph.edges import END, START, Edge
from treadle.workflows.graph.functions import name_of
from treadle.workflows.graph.layout import Layout
from treadle.workflows.graph.nodes import FanOutNode, FunctionNode, MapNode, Node, RouterNode

ESCAPED = {ord(each): f"#{ord(each)};" for each in '"#&<>`;\\|[]{}()'} | {
    ord("\n"): "<br/>",
    ord("\r"): "",
}
"""What Mermaid would read as something else than text, as character references."""


def drawn(layout: Layout) -> str:
    """Return the graph as a Mermaid flowchart, which Markdown viewers draw."""
    names = {node: f"n{number}" for number, node in enumerate(layout.nodes)}
    names |= {START: "start", END: "finish"}
    lines = ["flowchart TD", '    start(["START"])']
    lines += [f"    {names[node.id]}{_shape(node)}" for node in layout.nodes.values()]
    lines.append('    finish(["END"])')
    lines += [f"    {line}" for line in _lines(layout, names)]
    return "\n".join(lines) + "\n"


def _shape(node: Node) -> str:
    label = _quoted(node.id)
    match node:
        case RouterNode():
            return f"{{{label}}}"
        case FanOutNode():
            return f"[/{label}\\]"
        case MapNode():
            return f"[[{label}]]"
        case FunctionNode():
            return f"[{label}]"
        case _:
            return f"({label})"


def _lines(layout: Layout, names: dict[str, str]) -> Iterator[str]:
    for source in (START, *layout.nodes):
        node = layout.nodes.get(source)
        match node:
            case RouterNode():
                for target, test in node.routes:
                    yield _arrow(names, source, target, name_of(test))
                if node.default is not None:
                    yield _arrow(names, source, node.default, "default")
            case FanOutNode() | MapNode():
                label = "each item" if isinstance(node, MapNode) else ""
                label = "if chosen" if isinstance(node, FanOutNode) and node.choose else label
                for first in node.first:
                    yield _arrow(names, source, first, label, "==>")
            case _:
                pass
        for edge in layout.edges.get(source, ()):
            yield from _edge(names, edge)
        if source in layout.finishes:
            yield _arrow(names, source, END)
        join = layout.join_of(layout.homes.get(source, ()))
        if join is not None and not layout.leads_on(source):
            yield _arrow(names, source, join, "join", "==>")
    yield from _skips(layout, names)


def _skips(layout: Layout, names: dict[str, str]) -> Iterator[str]:
    """Draw the way of a split that may open no branch."""
    for node in layout.nodes.values():
        if isinstance(node, MapNode) or (isinstance(node, FanOutNode) and node.choose):
            yield _arrow(names, node.id, node.join, "none", "-.->")


def _edge(names: dict[str, str], edge: Edge) -> Iterator[str]:
    parts = [] if edge.when is None else [str(edge.when)]
    if edge.to is not None:
        parts.insert(0, f"to {name_of(edge.to)}")
    if edge.priority:
        parts.append(f"priority {edge.priority}")
    label = ", ".join(parts)
    arrow = "-->" if edge.to is None else "-.->"
    for target in edge.leads_to:
        yield _arrow(names, edge.source, target, label, arrow)
    if edge.is_open:
        source = names.get(edge.source)
        if source is not None:
            yield f'{source} -.->|{_quoted(label)}| any{source}{{{{"any node"}}}}'


def _arrow(
    names: dict[str, str], source: str, target: str, label: str = "", arrow: str = "-->"
) -> str:
    ends = [names.get(each) or f"unknown{_quoted_shape(each)}" for each in (source, target)]
    return (
        f"{ends[0]} {arrow}|{_quoted(label)}| {ends[1]}"
        if label
        else f"{ends[0]} {arrow} {ends[1]}"
    )


def _quoted_shape(node: str) -> str:
    return f"{node.encode().hex()}[{_quoted(f'{node} (unknown)')}]"


def _quoted(text: str) -> str:
    return f'"{text.translate(ESCAPED)}"'
