"""What a run has to know of the runs in it, and of the one that it is in."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from treadle.agent.ending import Ending
from treadle.agent.result import AnyResult
from treadle.agent.setup import RunStart
from treadle.journal import StepEnded
from treadle.messages import ToolResult
from treadle.ports.background import Background
from treadle.ports.children import Children
from treadle.run_record import RunStatus

Extras = Callable[[], tuple[type[AnyResult], dict[str, Any]]]


class BackgroundRuns(Background, Protocol):
    """What runs agents in the background of a run, as the run itself sees it."""

    def go_on(self) -> None:
        """The run goes on: so does what it had in the background."""
        ...

    async def changed(self) -> bool:
        """Wait for news of those that are at work; False when none is."""
        ...

    async def finish(self) -> None:
        """The run is about to answer: let those end that it waits for.

        Raises:
            ChildPaused: one of them waits for somebody.
        """
        ...

    async def close(self, ending: Ending) -> None:
        """The run ends this way, or pauses: nothing is at work after that."""
        ...


class Nesting:
    """Runs within runs.

    `children` runs agents for calls, and `background` in the background, `entered` counts what runs
    here by name, `carry_out` carries out the work of a child run. `rested` has the paths of those
    that rested when the run stopped, and how it had. `said` is what the run was asked. For a flow,
    `steps` are those that were over when it was resumed, `renamed` is what things are called now
    that had other names then, and `extras` returns the class of its result, and what that has more
    than others. `tool_results` has those of its calls, and for a flow those of all calls in it.
    """

    carry_out: Callable[[Any], Awaitable[AnyResult]]

    def __init__(self, start: RunStart, above: Nesting | None) -> None:
        self.children: Children | None = None
        self.background: BackgroundRuns | None = None
        self.entered: dict[str, int] = {}
        self.rested: dict[str, RunStatus] = {} if above is None else above.rested
        self.renamed: dict[str, str] = {} if above is None else above.renamed
        self.said = start.input
        self.steps: list[StepEnded] = []
        self.extras: Extras | None = None
        self.tool_results: list[ToolResult] = []
        self.above = above

    def keep(self, *results: ToolResult) -> None:
        """Take in results of calls, here and in each flow that this is a part of."""
        self.tool_results += results
        above = self.above
        while above is not None:
            if above.extras is not None:
                above.tool_results += results
            above = above.above
