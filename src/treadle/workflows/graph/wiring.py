"""The nodes and edges of a graph, as the caller puts them together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, Self

from treadle.agent.setup import Input
from treadle.errors import ConfigError, GraphInvalid
from treadle.ports.runnable import Runnable
from treadle.workflows.graph.check import problems_of
from treadle.workflows.graph.context import GraphView, NodeContext, StateT
from treadle.workflows.graph.drawing import drawn
from treadle.workflows.graph.edges import START, Condition, Edge
from treadle.workflows.graph.layout import Layout
from treadle.workflows.graph.making import (
    check_name,
    edge_of,
    fan_out_node,
    map_node,
    router_node,
    work_node,
)
from treadle.workflows.graph.nodes import Node, RunnableNode


class Wiring(Generic[StateT]):
    """What a graph is built of; each method that adds to it returns the graph."""

    def __init__(self) -> None:
        self._nodes: dict[str, Node] = {}
        self._edges: list[Edge] = []
        self._finishes: list[str] = []
        self._repeated: list[str] = []
        self._layout: Layout | None = None
        self._found: list[str] | None = None

    def add_node(
        self,
        id: str,
        work: Runnable | Callable[[NodeContext[StateT]], object],
        *,
        input: Callable[[GraphView[StateT]], Input] | None = None,
        retries: int = 0,
        timeout: float | None = None,
    ) -> Self:
        """Add an agent, anything else that can be run, or a function of a `NodeContext`.

        Args:
            id: What it is called here: any text but START and END.
            work: What it does. What a function returns, or awaits, is the node's output; after None
                the newest output stays what it was.
            input: What an agent is told: text, parts, or a list of both. By default it is the
                newest output of a node, and for the first what the graph was given.
            retries: How often it is tried again when it fails.
            timeout: Seconds for one try.

        Raises:
            GraphInvalid: the ID cannot be one.
            ConfigError: an argument is not of its kind.
        """
        return self._add(work_node(id, work, input=input, retries=retries, timeout=timeout))

    def add_router(
        self,
        id: str,
        routes: Mapping[str, Callable[[GraphView[StateT]], object]],
        *,
        default: str | None = None,
    ) -> Self:
        """Add a node that goes to the first target whose predicate is true, else to `default`.

        Its output is the chosen node; what the next one is told stays what it was.

        Raises:
            GraphInvalid: the ID cannot be one.
            ConfigError: an argument is not of its kind, or there is nowhere to go.
        """
        return self._add(router_node(id, routes, default))

    def add_fan_out(
        self,
        id: str,
        branches: Iterable[str],
        *,
        join: str,
        choose: Callable[[GraphView[StateT]], Iterable[str]] | None = None,
        all_required: bool = False,
        limit: int | None = None,
    ) -> Self:
        """Add a node that opens parallel branches, and goes on at `join` when all are done.

        A branch begins at one of the nodes `branches` and follows edges, until the join, a node
        that no edge leads on from, or END. It works on a state of its own; what it wrote is merged
        at the join, in the order of `branches`. The node's output is a dict of the newest output of
        each branch, by first node.

        Args:
            id: What it is called.
            branches: The first node of each branch.
            join: Where the walk goes on; may be END.
            choose: Names those of the branches that are opened this time; the join waits for these.
            all_required: Makes it an error to choose less than all.
            limit: How many branches run at a time; None for all.

        Raises:
            GraphInvalid: the ID cannot be one.
            ConfigError: an argument is not of its kind.
        """
        return self._add(
            fan_out_node(
                id, branches, join=join, choose=choose, all_required=all_required, limit=limit
            )
        )

    def add_map(
        self,
        id: str,
        *,
        over: Callable[[GraphView[StateT]], Iterable[object]],
        node: str,
        join: str,
        limit: int | None = None,
    ) -> Self:
        """Add a node that opens a parallel branch for each item, and goes on at `join`.

        Each branch begins at `node`; its functions find the item as ``s.item``, and an agent is
        told the item. The node's output is the list of the newest output of each branch, in the
        order of the items.

        Args:
            id: What it is called.
            over: Returns the items: values that can be stored.
            node: The first node of each branch.
            join: Where the walk goes on; may be END.
            limit: How many branches run at a time; None for all.

        Raises:
            GraphInvalid: the ID cannot be one.
            ConfigError: an argument is not of its kind.
        """
        return self._add(map_node(id, over=over, node=node, join=join, limit=limit))

    def add_edge(
        self,
        source: str,
        target: str | None = None,
        *,
        to: Callable[[GraphView[StateT]], str] | None = None,
        targets: Iterable[str] | None = None,
        when: Condition | Callable[[GraphView[StateT]], object] | None = None,
        priority: int = 0,
    ) -> Self:
        """Add a way from a node to another, or to the one that `to` names.

        Args:
            source: Where it begins; START for the beginning of a run.
            target: Where it leads; END for the end of a run.
            to: Names the node where it leads, instead of `target`.
            targets: The nodes that `to` may name; without them it may name any.
            when: `ON_SUCCESS`, `ON_FAILURE`, `ON_TOOL_CALL`, a predicate, or several with ``|`` and
                ``&``. Without a condition it is taken, unless the node failed.
            priority: The higher is tried first; equal ones in their order of definition.

        Raises:
            GraphInvalid: it begins at END or leads to START.
            ConfigError: an argument is not of its kind.
        """
        edge = edge_of(
            source,
            target,
            to=to,
            targets=targets,
            when=when,
            priority=priority,
            place=len(self._edges),
        )
        self._edges.append(edge)
        self._layout = None
        return self

    def set_entry(self, node: str) -> Self:
        """Begin with this node, as ``add_edge(START, node)`` does.

        Raises:
            GraphInvalid: there is an entry already.
        """
        if any(edge.source == START for edge in self._edges):
            raise GraphInvalid(
                f"There is an entry already, so {node!r} cannot be another; for several, use "
                "add_edge(START, ..., when=...)."
            )
        return self.add_edge(START, node)

    def set_finish(self, *nodes: str) -> Self:
        """End after one of these nodes, when it succeeded and none of its edges is taken.

        Raises:
            ConfigError: no node is named.
        """
        if not nodes:
            raise ConfigError("set_finish(...) takes at least one node.")
        for node in nodes:
            check_name(node, "A finish")
        self._finishes += nodes
        self._layout = None
        return self

    def validate(self) -> list[str]:
        """Return everything that keeps the graph from running, in words; none if it can run.

        That of the graphs in it included.
        """
        return self._problems([self])

    def _problems(self, around: list[object]) -> list[str]:
        """Return them; `around` are this graph and those that it is in."""
        layout = self.layout
        if self._found is None:
            self._found = problems_of(layout, self._repeated)
        found = list(self._found)
        for node in layout.nodes.values():
            work: object = node.work if isinstance(node, RunnableNode) else None
            if isinstance(work, Wiring) and not any(work is each for each in around):
                inner: Wiring[Any] = work
                found += (
                    f"In node {node.id!r}: {each}" for each in inner._problems([*around, work])
                )
        return found

    def to_mermaid(self) -> str:
        """Return the graph as a Mermaid flowchart, which Markdown viewers draw."""
        return drawn(self.layout)

    @property
    def layout(self) -> Layout:
        """The graph as it stands: what is added later does not change it."""
        if self._layout is None:
            self._found = None
            self._layout = Layout(self._nodes, self._edges, self._finishes)
        return self._layout

    def _add(self, node: Node) -> Self:
        if node.id in self._nodes:
            self._repeated.append(node.id)
        else:
            self._nodes[node.id] = node
        self._layout = None
        return self
