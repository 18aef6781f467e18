"""What a run has to know of the runs in it, and of the one that it is in."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from treadle.agent.result import AnyResult
from treadle.agent.setup import RunStart
from treadle.journal import StepEnded
from treadle.ports.children import Children
from treadle.run_record import RunStatus

Extras = Callable[[], tuple[type[AnyResult], dict[str, Any]]]


class Nesting:
    """Runs within runs.

    `children` runs agents for calls, `entered` counts what runs here by name, `carry_out` carries
    out the work of a child run. `rested` has the paths of those that rested when the run stopped,
    and how it had. `said` is what the run was asked. For a flow, `steps` are those that were over
    when it was resumed, `renamed` is what things are called now that had other names then, and
    `extras` returns the class of its result, and what that has more than others.
    """

    carry_out: Callable[[Any], Awaitable[AnyResult]]

    def __init__(self, start: RunStart, above: Nesting | None) -> None:
        self.children: Children | None = None
        self.entered: dict[str, int] = {}
        self.rested: dict[str, RunStatus] = {} if above is None else above.rested
        self.renamed: dict[str, str] = {} if above is None else above.renamed
        self.said = start.input
        self.steps: list[StepEnded] = []
        self.extras: Extras | None = None
