"""The nodes and edges of a graph, made of what a caller gives, or refused in words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from treadle.errors import ConfigError, GraphInvalid
from treadle.ports.runnable import Runnable
from treadle.state import Reducer, Scope
from treadle.values import clean
from treadle.workflows.graph.edges import END, START, Edge, Test, condition
from treadle.workflows.graph.functions import check_function, is_async
from treadle.workflows.graph.nodes import (
    FanOutNode,
    FunctionNode,
    MapNode,
    RouterNode,
    RunnableNode,
    WorkNode,
)

VIEW = "the view"
NO_WORK = "The work of node {!r}, if nothing that can be run (an agent, a swarm, a graph),"


def work_node(id: str, work: object, *, input: object, retries: int, timeout: Any) -> WorkNode:
    """Return the node of an agent, of anything else that can be run, or of a function."""
    _check_id(id)
    at_least("retries", retries, 0)
    number = isinstance(timeout, int | float) and not isinstance(timeout, bool)
    if timeout is not None and not (number and 0 < timeout < float("inf")):
        raise ConfigError(f"timeout={timeout!r:.60}: give seconds above 0, or leave it out.")
    if isinstance(work, Runnable) and not isinstance(work, type):
        what = f"input= of node {id!r}"
        told = None if input is None else check_function(input, what, takes=VIEW)
        return RunnableNode(id=id, work=work, input=told, retries=retries, timeout=timeout)
    function = check_function(work, NO_WORK.format(id), takes="a NodeContext", can_wait=True)
    if input is not None:
        raise ConfigError(
            f"Node {id!r} has input= and is a function, which reads what it needs from its "
            "context; leave it out."
        )
    return FunctionNode(
        id=id, work=function, is_async=is_async(function), retries=retries, timeout=timeout
    )


def router_node(id: str, routes: Mapping[str, Test], default: str | None) -> RouterNode:
    """Return a router."""
    _check_id(id)
    if not isinstance(routes, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] untyped callers
        raise ConfigError(
            f"The routes of router {id!r} are a dict of predicates, not {routes!r:.60}."
        )
    if not routes and default is None:
        raise ConfigError(f"Router {id!r} has nowhere to go: give it routes, or a default=.")
    for target, test in routes.items():
        check_name(target, f"A target of router {id!r}")
        check_function(test, f"The predicate of {id!r} for {target!r}", takes=VIEW)
    if default is not None:
        check_name(default, f"default= of router {id!r}")
    return RouterNode(id=id, routes=tuple(routes.items()), default=default)


def fan_out_node(
    id: str,
    branches: Iterable[str],
    *,
    join: str,
    choose: object,
    all_required: bool,
    limit: int | None,
) -> FanOutNode:
    """Return a fan-out."""
    _check_id(id)
    first = _names(branches, f"The branches of fan-out {id!r}")
    check_name(join, f"The join of fan-out {id!r}")
    twice = [name for name in first if first.count(name) > 1]
    if twice:
        raise ConfigError(f"Fan-out {id!r} has two branches that begin with {twice[0]!r}.")
    what = f"choose= of fan-out {id!r}"
    return FanOutNode(
        id=id,
        first=first,
        join=join,
        choose=None if choose is None else check_function(choose, what, takes=VIEW),
        all_required=all_required,
        limit=None if limit is None else at_least("limit", limit, 1),
    )


def map_node(id: str, *, over: object, node: str, join: str, limit: int | None) -> MapNode:
    """Return a map."""
    _check_id(id)
    function = check_function(over, f"over= of map {id!r}", takes=VIEW)
    check_name(node, f"The node of map {id!r}")
    check_name(join, f"The join of map {id!r}")
    most = None if limit is None else at_least("limit", limit, 1)
    return MapNode(id=id, over=function, node=node, join=join, limit=most)


def edge_of(
    source: str,
    target: str | None,
    *,
    to: object,
    targets: Iterable[str] | None,
    when: object,
    priority: object,
    place: int,
) -> Edge:
    """Return an edge."""
    check_name(source, "The source of an edge")
    what = f"of the edge from {source!r}"
    if source == END or target == START:
        raise GraphInvalid(f"An edge cannot begin at END, nor lead to START: {source!r}.")
    if (target is None) == (to is None):
        raise ConfigError(f"The edge from {source!r} takes a target, or to=function, and not both.")
    if target is not None:
        check_name(target, f"The target {what}")
    if targets is not None and to is None:
        raise ConfigError(f"The edge from {source!r} has targets= and no to= that could name them.")
    if not isinstance(priority, int) or isinstance(priority, bool):
        raise ConfigError(f"priority={priority!r}: give a whole number; the higher goes first.")
    return Edge(
        source=source,
        target=target,
        to=None if to is None else check_function(to, f"to= {what}", takes=VIEW),
        targets=None if targets is None else _names(targets, f"targets= {what}"),
        when=None if when is None else condition(when),
        priority=priority,
        place=place,
    )


def own_reducers(reducers: Mapping[str, Reducer] | None) -> dict[str, Reducer]:
    """Return them by whole keys."""
    if not isinstance(reducers, Mapping | None):  # pyright: ignore[reportUnnecessaryIsInstance] untyped callers
        raise ConfigError(f"reducers={reducers!r:.60}: give a dict of functions by key.")
    found: dict[str, Reducer] = {}
    for key, reducer in (reducers or {}).items():
        check_name(key, "A key of reducers=")
        if not callable(reducer):
            raise ConfigError(f"The reducer of state key {key!r} is not callable: {reducer!r:.60}.")
        scopes = (Scope.GLOBAL,) if "::" in key else (Scope.GRAPH, Scope.SESSION, Scope.GLOBAL)
        found |= {scope + key: reducer for scope in scopes}
    return found


def check_name(name: object, what: str) -> None:
    """Refuse what cannot name a node or a key.

    Raises:
        GraphInvalid: with the value and what it was for.
    """
    if type(name) is not str or not name or clean(name) is not name:
        raise GraphInvalid(
            f"{what} is a non-empty text without NUL characters and lone surrogates, "
            f"not {name!r:.60}."
        )


def at_least(name: str, value: object, least: int) -> int:
    """Return a whole number that is large enough.

    Raises:
        ConfigError: it is not.
    """
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ConfigError(f"{name}={value!r:.60}: give a whole number from {least} on.")
    return value


def _check_id(node: str) -> None:
    check_name(node, "A node's ID")
    if node in (START, END):
        raise GraphInvalid(f"A node cannot be called {node!r}: START and END are reserved.")


def _names(given: Iterable[str], what: str) -> tuple[str, ...]:
    if isinstance(given, str) or not isinstance(given, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance] untyped callers
        raise ConfigError(f"{what}: it takes a list of nodes, not {given!r:.60}.")
    names = tuple(given)
    if not names:
        raise ConfigError(f"{what}: the list is empty; name a node at least.")
    for name in names:
        check_name(name, f"A node of {what[0].lower()}{what[1:]}")
    return names
