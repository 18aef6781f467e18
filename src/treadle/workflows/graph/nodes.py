"""Nodes: what a graph is made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from treadle.ports.runnable import Runnable
from treadle.workflows.graph.context import GraphView
from treadle.workflows.graph.edges import Test


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnableNode:
    """An agent, or anything else that can be run, with what it is told.

    Without `input` it is told the newest output of a node, or what the graph was given.
    """

    id: str
    work: Runnable
    input: Callable[[GraphView[Any]], Any] | None = None
    retries: int = 0
    timeout: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionNode:
    """A function of a `NodeContext`, sync or async; what it returns is the node's output."""

    id: str
    work: Callable[[Any], Any]
    is_async: bool = False
    retries: int = 0
    timeout: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterNode:
    """Goes to the first target whose predicate is true, else to the default."""

    id: str
    routes: tuple[tuple[str, Test], ...]
    default: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FanOutNode:
    """Opens parallel branches that begin with `first`, and goes on at the join when all are done.

    `choose` says which of them are opened this time; with `all_required`, it must be all.
    `limit` is how many run at a time.
    """

    id: str
    first: tuple[str, ...]
    join: str
    choose: Callable[[GraphView[Any]], Iterable[str]] | None = None
    all_required: bool = False
    limit: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MapNode:
    """Opens one parallel branch for each item, and goes on at the join when all are done."""

    id: str
    over: Callable[[GraphView[Any]], Iterable[Any]]
    node: str
    join: str
    limit: int | None = None

    @property
    def first(self) -> tuple[str, ...]:
        """The node that each branch begins with."""
        return (self.node,)


WorkNode = RunnableNode | FunctionNode
SplitNode = FanOutNode | MapNode
Node = WorkNode | RouterNode | SplitNode


def ways_of(node: Node) -> Iterator[tuple[str, str | None]]:
    """Yield where a node leads without an edge, each with the branch that begins there, or None."""
    match node:
        case RouterNode():
            yield from ((target, None) for target, _ in node.routes)
            if node.default is not None:
                yield node.default, None
        case FanOutNode() | MapNode():
            yield from ((first, first) for first in node.first)
            yield node.join, None
        case RunnableNode() | FunctionNode():
            return


def kind_of(node: Node) -> str:
    """Return the word for the kind of a node."""
    match node:
        case RunnableNode() | FunctionNode():
            return "node"
        case RouterNode():
            return "router"
        case FanOutNode():
            return "fan-out"
        case MapNode():
            return "map"
