"""Branches of a graph: what each begins with, and what they come to together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Struct

from treadle.agent.steps import paused_together
from treadle.ports.children import ChildPaused, Pause
from treadle.state import Branch, State, StateWrite, merge
from treadle.state.flat import MISSING
from treadle.values import Plain, pack, unpack
from treadle.workflows.graph.context import GraphView
from treadle.workflows.graph.nodes import FanOutNode, MapNode, SplitNode
from treadle.workflows.graph.places import Places
from treadle.workflows.graph.visits import Stopped, is_lost
from treadle.workflows.graph.walk import choose_branches, items_of


class BranchEnd(Struct, frozen=True):
    """A branch that has ended: its `first` node, its state, and whether a node in it `spoke`."""

    first: str
    state: State
    spoke: bool


def chosen_of(node: SplitNode, view: GraphView[Any]) -> list[Plain]:
    """Return what each branch is opened with: its first node, and the item of a map."""
    if isinstance(node, FanOutNode):
        return [[first] for first in choose_branches(node, view)]
    items = items_of(node, view)
    return [
        [node.node, pack(item, f"item {number} of map {node.id!r}")]
        for number, item in enumerate(items)
    ]


def merged(
    node: SplitNode, base: State, branches: Sequence[BranchEnd], places: Places
) -> tuple[StateWrite, ...]:
    """Return what the branches wrote that is not theirs alone.

    Raises:
        BranchConflict: two left different values in one key.
    """
    named: list[tuple[str, Branch]] = []
    is_map, own = isinstance(node, MapNode), {places.current, places.input}
    for number, each in enumerate(branches):
        state = each.state
        if not isinstance(state, Branch):
            raise AssertionError("a branch has a state of its own")
        private = own
        if is_map:
            private = own | {key for key in state.written if key.startswith(places.all_nodes)}
        state.forget(private)
        named.append((f"{each.first}[{number}]" if is_map else each.first, state))
    return merge(base, named)


def joined(node: SplitNode, branches: Sequence[BranchEnd], places: Places) -> Plain:
    """Return what the branches came to: by first node, or in the order of the items."""
    if isinstance(node, MapNode):  # a list of what is packed is a packed list
        return [_newest(each, places) for each in branches]
    return pack({each.first: unpack(_newest(each, places)) for each in branches})


def _newest(branch: BranchEnd, places: Places) -> Plain:
    """Return the newest output of a branch, None without one: a node may have deleted it."""
    plain = branch.state.find(places.current) if branch.spoke else None
    return None if plain is MISSING else plain


def problem_of(outcomes: Iterable[object]) -> Exception | None:
    """Return the failure that keeps a join from being reached, if there is one.

    Raises:
        StoreError: what happens cannot be stored.
        ChildPaused: somebody is asked first, whatever has failed.
        Stopped: one has stopped without an answer, and none has failed.
    """
    errors = [each for each in outcomes if isinstance(each, Exception)]
    failures = [each for each in errors if not isinstance(each, ChildPaused | Stopped)]
    lost = next(filter(is_lost, failures), None)
    if lost is not None:
        raise lost
    paused = paused_together(errors)
    if paused is not None and failures:
        told = "; ".join(map(str, failures))
        raise ChildPaused(Pause(f"{paused.pause.reason} Besides: {told}", paused.pause.pending))
    if paused is not None:
        raise paused
    if errors and not failures:
        raise errors[0]
    return next(iter(failures), None)
