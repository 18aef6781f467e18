"""What is wrong with a graph, in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from treadle.tools.names import likely
from treadle.workflows.graph.edges import END, START, Condition
from treadle.workflows.graph.layout import Home, Layout, told
from treadle.workflows.graph.nodes import FanOutNode, MapNode, RouterNode, kind_of, ways_of


def problems_of(layout: Layout, repeated: Sequence[str] = ()) -> list[str]:
    """Return all that keeps a graph from running; `repeated` are IDs that were given twice."""
    found = [
        *_beginning(layout),
        *(f"Duplicate node {node!r}: an ID names one node; rename one." for node in repeated),
        *_duplicate_edges(layout),
        *_unknown(layout),
        *_unreachable(layout),
        *_dead_ends(layout),
        *_own_ways(layout),
        *_joins(layout),
        *_strays(layout),
        *_endless_branches(layout),
    ]
    return list(dict.fromkeys(found))


def never_taken(layout: Layout) -> list[str]:
    """Return the edges that others always go before: no error, but hardly what was meant."""
    found: list[str] = []
    for edges in layout.edges.values():
        certain: set[bool] = set()
        for edge in edges:
            if all(ok in certain or not edge.can_follow(success=ok) for ok in (True, False)):
                found.append(
                    f"Edge {edge} is never taken: an edge before it always is. Give it a higher "
                    "priority, or the other one a condition; add_fan_out(...) goes both ways."
                )
            certain |= {ok for ok in (True, False) if _is_certain(edge.when, ok)}
    return found


def _is_certain(when: Condition | None, ok: bool) -> bool:
    """Whether an edge of that condition is always taken after a success, or after a failure."""
    if when is None or when.kind == "success":
        return ok
    if when.kind == "failure":
        return not ok
    return when.kind == "or" and any(_is_certain(part, ok) for part in when.parts)


def _beginning(layout: Layout) -> Iterator[str]:
    if not layout.nodes:
        yield "The graph has no nodes; add_node(...) gives it one."
    if START not in layout.edges:
        yield "There is no entry; say where to begin with add_edge(START, ...) or set_entry(...)."


def _duplicate_edges(layout: Layout) -> Iterator[str]:
    for edges in layout.edges.values():
        seen = [(edge.target, edge.to, edge.when, edge.priority) for edge in edges]
        for number, edge in enumerate(edges):
            if seen[number] in seen[:number]:
                yield f"Duplicate edge {edge}: it is there twice; leave one out."


def _unknown(layout: Layout) -> Iterator[str]:
    for node in layout.nodes.values():
        for target, branch in ways_of(node):
            if target not in layout.nodes and (target != END or branch is not None):
                yield _unknown_node(layout, target, f"{kind_of(node).capitalize()} {node.id!r}")
    for source, edges in layout.edges.items():
        for edge in edges:
            if source != START and source not in layout.nodes:
                yield _unknown_node(layout, source, f"Edge {edge}", "begins at")
            for target in edge.leads_to:
                if target not in layout.nodes and target != END:
                    yield _unknown_node(layout, target, f"Edge {edge}")
    for node in sorted(layout.finishes - set(layout.nodes)):
        yield _unknown_node(layout, node, "set_finish(...)", "names")


def _unknown_node(layout: Layout, node: str, what: str, leads: str = "leads to") -> str:
    if node == END:
        return f"{what} cannot begin a branch at END."
    meant = likely(node, layout.nodes)
    hint = f" Did you mean {meant!r}?" if meant is not None else ""
    return f"{what} {leads} the unknown node {node!r}.{hint}"


def _unreachable(layout: Layout) -> Iterator[str]:
    if layout.is_open:
        return
    if START not in layout.edges:
        roots = layout.roots()
        lost = roots if len(roots) > 1 else []
    else:
        lost = []
    for node in layout.nodes:
        if node in lost or node not in layout.homes:
            yield (
                f"Node {node!r} is unreachable: no way from START leads to it. "
                "Add an edge to it, or leave it out."
            )


def _dead_ends(layout: Layout) -> Iterator[str]:
    for node in layout.nodes:
        if not layout.leads_on(node) and not layout.homes.get(node):
            yield (
                f"Node {node!r} is a dead end: nothing leads on after it succeeds. "
                f"Add an edge from it, if only to END, or set_finish({node!r})."
            )


def _own_ways(layout: Layout) -> Iterator[str]:
    """Edges from nodes that say themselves where to go: only failures leave room for them."""
    for source, edges in layout.edges.items():
        node = layout.nodes.get(source)
        if not isinstance(node, RouterNode | FanOutNode | MapNode):
            continue
        way = "its routes" if isinstance(node, RouterNode) else f"its join, {node.join!r}"
        for edge in edges:
            if not edge.can_follow(success=False):
                yield (
                    f"Edge {edge} is never taken: {kind_of(node)} {source!r} goes to {way}. "
                    "Only edges for a failure (when=ON_FAILURE) may leave it."
                )


def _joins(layout: Layout) -> Iterator[str]:
    for node in layout.nodes.values():
        if not isinstance(node, FanOutNode | MapNode):
            continue
        if node.join in node.first and node.join != END:
            yield (
                f"{kind_of(node).capitalize()} {node.id!r} begins a branch at its own join "
                f"{node.join!r}; begin it at another node."
            )
        if node.join in layout.homes and node.id not in layout.homes and not layout.is_open:
            yield (
                f"Node {node.join!r} is a join without fan-out: {node.id!r}, whose branches it "
                "joins, is unreachable."
            )


def _strays(layout: Layout) -> Iterator[str]:
    for stray in layout.strays:
        yield (
            f"Node {stray.node!r} is reached {told(layout.homes[stray.node])} and also "
            f"{told(stray.home)}, from {stray.source!r}. A branch has nodes of its own, up to its "
            "join: lead it to the join, or give it another node."
        )


def _endless_branches(layout: Layout) -> Iterator[str]:
    ends: dict[Home, bool] = {stray.home: True for stray in layout.strays}  # told of already
    for node, home in layout.homes.items():
        for depth in range(1, len(home) + 1):
            ends.setdefault(home[:depth], False)
        if home:
            ends[home] = ends[home] or _can_end(layout, node, home)
    for home, can_end in ends.items():
        if not can_end:
            split, first = home[-1]
            yield (
                f"Branch {first!r} of {split!r} cannot reach its join {layout.join_of(home)!r}: "
                "every way leads elsewhere. Add an edge to the join, or leave out those of its "
                "last node."
            )


def _can_end(layout: Layout, node: str, home: Home) -> bool:
    join = layout.join_of(home)
    if not layout.leads_on(node):
        return True
    if any(edge.is_open for edge in layout.edges.get(node, ())):
        return True
    return any(target == join for target, branch in layout.ways(node) if branch is None)
