"""The walk through a graph: what comes next, as functions of what has been."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any

from msgspec import Struct

from treadle.errors import DeadEnd, RunFailed
from treadle.workflows.graph.context import GraphView, NodeOutcome
from treadle.workflows.graph.edges import END, START, Edge
from treadle.workflows.graph.functions import answer, name_of
from treadle.workflows.graph.layout import Home, Layout, told
from treadle.workflows.graph.nodes import FanOutNode, MapNode, RouterNode

MOST_BRANCHES = 10_000
"""How many branches one map may open: a mistake in `over` must not fill the memory."""


class Taken(Struct, frozen=True):
    """Where a walk goes, and why: the condition of the edge in words, "" without one."""

    target: str
    why: str = ""


def first_step(layout: Layout, view: GraphView[Any]) -> Taken:
    """Return where the walk begins.

    Raises:
        DeadEnd: no condition of the edges from START holds.
        RunFailed: a condition, or the function that names the node, failed.
    """
    taken = next_step(layout, START, NodeOutcome(), view)
    if taken is None:
        raise AssertionError("the start does not fail")
    return taken


def next_step(
    layout: Layout, source: str, outcome: NodeOutcome, view: GraphView[Any], home: Home = ()
) -> Taken | None:
    """Return where the walk goes after a node that ended so; `home` is the branch it is in.

    At the end of a branch that is its join, or END. After a failure that no edge is for, None:
    then the walk has failed.

    Raises:
        DeadEnd: the node succeeded, and no edge leads on.
        RunFailed: a condition, or the function that names the node, failed, or the walk would leave
            its branch.
    """
    node = layout.nodes.get(source)
    if outcome.ok:
        match node:
            case RouterNode():
                return Taken(outcome.chosen)
            case FanOutNode() | MapNode():
                return Taken(node.join)
            case _:
                pass
    for edge in layout.edges.get(source, ()):
        if edge.when is None:
            follows = outcome.ok
        else:
            what = f"The condition of edge {edge}"
            follows = _asked(lambda edge=edge: edge.follows(outcome, view), what)
        if follows:
            return Taken(
                _target(layout, edge, view, home), "" if edge.when is None else str(edge.when)
            )
    if not outcome.ok:
        return None
    if source in layout.finishes:
        return Taken(END)
    join = layout.join_of(home)
    if join is not None and not layout.leads_on(source):
        return Taken(join)
    tried = ", ".join(f"{edge} ({edge.when})" for edge in layout.edges.get(source, ()))
    where = "START" if source == START else f"node {source!r}, which succeeded"
    raise DeadEnd(
        f"Dead end after {where}: none of its edges holds: {tried or 'it has none'}. Add one "
        "without a condition for all other cases."
    )


def choose_route(node: RouterNode, view: GraphView[Any]) -> str:
    """Return where a router goes.

    Raises:
        DeadEnd: no predicate is true, and there is no default.
        RunFailed: a predicate failed.
    """
    for target, test in node.routes:
        if _asked(
            lambda test=test: bool(answer(test, view)),
            f"The predicate of {node.id!r} for {target!r}",
        ):
            return target
    if node.default is not None:
        return node.default
    tried = ", ".join(repr(target) for target, _ in node.routes)
    raise DeadEnd(
        f"Dead end after router {node.id!r}: none of its predicates is true ({tried}), and it has "
        "no default=."
    )


def choose_branches(node: FanOutNode, view: GraphView[Any]) -> tuple[str, ...]:
    """Return the first nodes of the branches that are opened, in their order of definition.

    Raises:
        RunFailed: `choose` failed or names no branch, or the join waits for one that is not chosen.
    """
    choose = node.choose
    if choose is None:
        return node.first
    what = f"choose= of fan-out {node.id!r}"
    chosen = _asked(lambda: _listed(answer(choose, view)), what)
    unknown = [name for name in chosen if name not in node.first]
    if unknown:
        known = ", ".join(map(repr, node.first))
        raise RunFailed(f"{what} names {unknown[0]!r}, which is none of its branches: {known}.")
    missing = [name for name in node.first if name not in chosen]
    if missing and node.all_required:
        raise RunFailed(
            f"The join waits for {', '.join(missing)}: {node.join!r} joins all branches of "
            f"{node.id!r} (all_required=True), and choose= left them out."
        )
    return tuple(name for name in node.first if name in chosen)


def items_of(node: MapNode, view: GraphView[Any]) -> list[Any]:
    """Return what the branches of a map work on, one each.

    Raises:
        RunFailed: `over` failed, gave no items one can go over, or too many.
    """
    what = f"over= of map {node.id!r}"
    items = _asked(lambda: _listed(answer(node.over, view)), what)
    if len(items) > MOST_BRANCHES:
        raise RunFailed(f"{what} gave more than {MOST_BRANCHES} items; let each hold several.")
    return items


def _target(layout: Layout, edge: Edge, view: GraphView[Any], home: Home) -> str:
    if edge.to is None:
        return edge.target or END
    to = edge.to
    named: object = _asked(
        lambda: answer(to, view), f"to={name_of(to)} of the edge from {edge.source!r}"
    )
    if not isinstance(named, str) or (named != END and named not in layout.nodes):
        known = ", ".join(map(repr, layout.nodes))
        raise RunFailed(
            f"to={name_of(to)} of the edge from {edge.source!r} names {named!r:.60}, which is no "
            f"node of the graph. It has {known}, and END."
        )
    if edge.targets is not None and named not in edge.targets:
        among = ", ".join(map(repr, edge.targets))
        raise RunFailed(
            f"to={name_of(to)} of the edge from {edge.source!r} names {named!r}, which is none of "
            f"its targets=: {among}."
        )
    if named not in (END, layout.join_of(home)) and layout.homes.get(named, home) != home:
        raise RunFailed(
            f"to={name_of(to)} of the edge from {edge.source!r} names {named!r}, which is "
            f"{told(layout.homes[named])}; the walk is {told(home)}."
        )
    return named


def _listed(items: Iterable[Any]) -> list[Any]:
    if isinstance(items, str | bytes):
        raise TypeError(f"it takes a list, not {items!r:.60}")
    return list(islice(items, MOST_BRANCHES + 1))


def _asked(question: Callable[[], Any], what: str) -> Any:
    """Return what a function of the user's says.

    Raises:
        RunFailed: it failed; the error that it raised is the cause.
    """
    try:
        return question()
    except (Exception, SystemExit) as error:
        raise RunFailed(f"{what} failed: {type(error).__name__}: {error}") from error
