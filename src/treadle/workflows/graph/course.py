"""What all walks of one run of a graph share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from treadle.agent.ending import Ending
from treadle.errors import DefinitionChanged, RunError, TreadleError
from treadle.ports.children import Delegate
from treadle.state.typed import TypedView
from treadle.workflows.graph.layout import Layout
from treadle.workflows.graph.places import Places
from treadle.workflows.graph.visits import Stopped


class Course:
    """What all walks of one run share; `visits` counts how many nodes they have begun."""

    __slots__ = (
        "delegates",
        "layout",
        "max_steps",
        "name",
        "places",
        "renamed",
        "typed",
        "visits",
    )

    def __init__(
        self,
        name: str,
        layout: Layout,
        delegates: Mapping[str, Delegate],
        *,
        max_steps: int,
        typed: TypedView[Any] | None,
        places: Places,
        renamed: Mapping[str, str],
    ) -> None:
        self.name = name
        self.layout = layout
        self.delegates = delegates
        self.max_steps = max_steps
        self.typed = typed
        self.places = places
        self.renamed = renamed
        self.visits = 0

    def count(self) -> None:
        """Count that a node begins.

        Raises:
            Stopped: there were enough.
        """
        if self.visits >= self.max_steps:
            reason = f"The graph made all of its {self.max_steps} steps (max_steps)."
            raise Stopped(Ending(stop_reason="limit", reason=reason))
        self.visits += 1

    def gone(self, node: str, *, going: bool) -> TreadleError:
        """Return the error for a node that is not there; a walk that is `going` was on its way."""
        if going:
            return DefinitionChanged(
                f"The run is at node {node!r}, which graph {self.name!r} does not have any more. "
                "Resume it with the graph as it was, or with a function on_change= that returns "
                f"what the node is called now: {{{node!r}: 'new name'}}."
            )
        return RunError(f"Graph {self.name!r} has no node {node!r}.")
