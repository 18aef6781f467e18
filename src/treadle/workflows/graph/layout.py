"""A graph as it stands: nodes, edges, and which parallel branch each node belongs to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count

from treadle.workflows.graph.edges import END, START, Edge
from treadle.workflows.graph.nodes import (
    FanOutNode,
    FunctionNode,
    MapNode,
    Node,
    RouterNode,
    RunnableNode,
    SplitNode,
    ways_of,
)

Home = tuple[tuple[str, str], ...]
"""The branches that a node is in, the outermost first: each a split's ID and its first node."""


class Layout:
    """The nodes and edges of a graph, which do not change any more.

    `edges` are those of each node, in the order in which they are tried. `finishes` are the nodes
    that a walk may end after. `homes` is the branch of each node that can be reached, as far as the
    edges tell; `strays` are those that can be reached in several, with the second one.
    """

    __slots__ = ("edges", "finishes", "homes", "nodes", "strays")

    def __init__(
        self, nodes: Mapping[str, Node], edges: Iterable[Edge], finishes: Iterable[str] = ()
    ) -> None:
        self.nodes: Mapping[str, Node] = dict(nodes)
        self.finishes = frozenset(finishes)
        self.edges: dict[str, list[Edge]] = {}
        for edge in sorted(edges, key=lambda each: (-each.priority, each.place)):
            self.edges.setdefault(edge.source, []).append(edge)
        self.homes: dict[str, Home] = {}
        self.strays: list[Stray] = []
        self._settle(self.entries())

    def entries(self) -> Sequence[str]:
        """Return the nodes that a walk can begin with; without any, those that none leads to."""
        if START in self.edges:
            return [each for edge in self.edges[START] for each in edge.leads_to]
        return self.roots()

    def roots(self) -> list[str]:
        """Return the nodes that no other leads to."""
        led = {
            target for source in self.nodes for target, _ in self.ways(source) if target != source
        }
        return [node for node in self.nodes if node not in led]

    def ways(self, source: str) -> Iterator[tuple[str, str | None]]:
        """Yield where a node can lead, each with the split's branch that begins there, or None."""
        if source in self.nodes:
            yield from ways_of(self.nodes[source])
        for edge in self.edges.get(source, ()):
            yield from ((target, None) for target in edge.leads_to)

    def split(self, node: str) -> SplitNode:
        """Return the node as the fan-out or map that it is."""
        found = self.nodes[node]
        if not isinstance(found, FanOutNode | MapNode):
            raise AssertionError(f"{node!r} opens no branches")
        return found

    def join_of(self, home: Home) -> str | None:
        """Return where a branch ends; None outside of branches."""
        return self.split(home[-1][0]).join if home else None

    def leads_on(self, source: str) -> bool:
        """Whether anything is said of where to go after a node that succeeded."""
        if isinstance(self.nodes.get(source), RouterNode | FanOutNode | MapNode):
            return True
        edges = self.edges.get(source, ())
        return source in self.finishes or any(edge.can_follow(success=True) for edge in edges)

    @property
    def works(self) -> list[object]:
        """What its nodes do."""
        nodes = self.nodes.values()
        return [node.work for node in nodes if isinstance(node, RunnableNode | FunctionNode)]

    def answers(self, node: str) -> bool:
        """Whether a walk may end after a node that succeeded."""
        edges = self.edges.get(node, ())
        return node in self.finishes or any(END in edge.leads_to or edge.is_open for edge in edges)

    @property
    def is_open(self) -> bool:
        """Whether an edge of a node that can be reached may lead to any node."""
        sources = (START, *self.homes)
        return any(edge.is_open for source in sources for edge in self.edges.get(source, ()))

    def _settle(self, entries: Iterable[str]) -> None:
        """Find the home of each node by going every way, the outermost first.

        The first way to a node counts, the others lead astray if they come from elsewhere.
        """
        number = count()
        open_ways: list[tuple[int, int, str, Home, str]] = [
            (0, next(number), entry, (), START) for entry in entries
        ]
        while open_ways:
            _, _, node, home, source = heappop(open_ways)
            if node not in self.nodes or (home and node == self.join_of(home)):
                continue
            if node in self.homes:
                if self.homes[node] != home:
                    self.strays.append(Stray(node, home, source))
                continue
            self.homes[node] = home
            for target, branch in self.ways(node):
                inner = home if branch is None else (*home, (node, branch))
                heappush(open_ways, (len(inner), next(number), target, inner, node))


@dataclass(frozen=True, slots=True)
class Stray:
    """A node that has a home and can be reached in another, from `source`."""

    node: str
    home: Home
    source: str


def told(home: Home) -> str:
    """Say in words where that is."""
    if not home:
        return "outside of all branches"
    return "in " + " in ".join(f"branch {first!r} of {split!r}" for split, first in reversed(home))
