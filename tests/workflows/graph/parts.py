"""What tests of graphs share: a view of a walk that has come so far."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from treadle import Graph, GraphView, Limits, NodeContext, State
from treadle.limits import Budget
from treadle.ports.context import RunFacts
from treadle.workflows.graph.context import MISSING, NodeOutcome, WalkFacts

OK = NodeOutcome()
FAILED = NodeOutcome(ok=False, error="boom")


def work(ctx: NodeContext) -> str:
    """Do nothing of note."""
    return "done"


def graph_of(*nodes: str) -> Graph[Any]:
    """Return a graph that has these function nodes, and no edges."""
    graph: Graph[Any] = Graph("g")
    for node in nodes:
        graph.add_node(node, work)
    return graph


def facts_of(
    graph: Graph[Any],
    state: Mapping[str, Any] | State | None = None,
    outcomes: Mapping[str, NodeOutcome] | None = None,
    *,
    item: Any = MISSING,
    reports: list[tuple[str, str, Any]] | None = None,
) -> WalkFacts:
    """Return what a walk through the graph has come to."""
    held = state if isinstance(state, State) else State(state)
    told = [] if reports is None else reports
    run = RunFacts(
        run_id="run_1",
        conversation_id="conv_1",
        agent=graph.name,
        deps={"db": 1},
        metadata={"user": "ann"},
        budget=Budget(Limits()),
        state=held,
        report=lambda call_id, tool, progress: told.append((call_id, tool, progress)),
    )
    return WalkFacts(
        run,
        frozenset(graph.layout.nodes),
        held,
        outcomes=dict(outcomes or {}),
        typed=graph.typed,
        item=item,
    )


def view_of(
    graph: Graph[Any],
    state: Mapping[str, Any] | State | None = None,
    outcomes: Mapping[str, NodeOutcome] | None = None,
) -> GraphView[Any]:
    """Return the view of a walk that has come so far."""
    return GraphView(facts_of(graph, state, outcomes))
