"""The calls of one reply on their way: some beside each other, some alone, results in order."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from treadle.messages import ToolCall
from treadle.state.scoped import WriteGuard
from treadle.tools.execute import ToolRunner
from treadle.tools.outcome import ToolOutcome


class Batch:
    """Runs the calls of one reply, at most `max_parallel` at once.

    `first` are the places of the calls that begin at once, `outcomes` is in the order of the calls.
    """

    __slots__ = (
        "_begun",
        "_calls",
        "_guard",
        "_max_parallel",
        "_next",
        "_runner",
        "_running",
        "first",
        "outcomes",
    )

    def __init__(
        self, runner: ToolRunner, calls: Sequence[ToolCall], *, max_parallel: int = 3
    ) -> None:
        self._runner = runner
        self._calls = calls
        self._max_parallel = max_parallel
        self._guard: WriteGuard | None = None
        self._next = self._begun = 0
        self._running: dict[int, bool] = {}
        self.outcomes: list[ToolOutcome | None] = [None] * len(calls)
        self.first = self._take()

    @property
    def begun(self) -> list[str]:
        """The IDs of the calls that begin at once."""
        return [self._calls[place].id for place in self.first]

    @property
    def taken(self) -> list[str]:
        """The IDs of all calls that have begun."""
        return [call.id for call in self._calls[: self._begun]]

    @property
    def unfinished(self) -> list[ToolCall]:
        """The calls without an outcome."""
        return [self._calls[n] for n, outcome in enumerate(self.outcomes) if outcome is None]

    async def run(self) -> list[ToolOutcome]:
        """Run the calls and return their outcomes. A fatal one ends the batch: see `unfinished`."""
        ready = self.first
        while len(ready) == 1:  # alone: no task needed
            ready = await self._run_place(ready[0])
        if ready:
            await self._run_together(ready)
        return [outcome for outcome in self.outcomes if outcome is not None]

    async def _run_together(self, ready: list[int]) -> None:
        task = asyncio.current_task()
        before = task.cancelling() if task is not None else 0
        try:
            async with asyncio.TaskGroup() as group:
                tasks: set[asyncio.Task[None]] = set()
                for place in ready:
                    tasks.add(group.create_task(self._follow(place, group, tasks)))
        except BaseExceptionGroup as failures:
            if task is not None and task.cancelling() > before:
                task.uncancel()  # the group's own: before Python 3.13 it may leave that behind
            raise failures.exceptions[0] from failures  # the first is why the others were cancelled

    async def _follow(
        self, place: int, group: asyncio.TaskGroup, tasks: set[asyncio.Task[None]]
    ) -> None:
        """Run one call, and start those that begin after it; a fatal one ends all others."""
        for following in await self._run_place(place):
            tasks.add(group.create_task(self._follow(following, group, tasks)))
        outcome = self.outcomes[place]
        if outcome is not None and outcome.fatal is not None:
            for other in tasks - {asyncio.current_task()}:
                other.cancel()

    async def _run_place(self, place: int) -> list[int]:
        """Run one call, write its outcome, and return the places of the calls that begin now."""
        outcome = await self._runner.run_one(self._calls[place], self._guard)
        self.outcomes[place] = outcome
        del self._running[place]
        task = asyncio.current_task()
        if outcome.fatal is not None or (task is not None and task.cancelling()):
            self._next = len(self._calls)  # no more begin, even if this call swallowed its cancel
        following = self._take()
        await self._runner.record(outcome, [self._calls[n].id for n in following])
        return following

    def _take(self) -> list[int]:
        """Return the waiting calls that may begin: a serial call only runs alone."""
        taken: list[int] = []
        if not self._running:  # only calls that overlap must not write the same key
            self._guard = (
                WriteGuard(*self._runner.outer) if self._next + 1 < len(self._calls) else None
            )
        while self._next < len(self._calls) and len(self._running) < self._max_parallel:
            beside = self._runner.runs_beside_others(self._calls[self._next])
            if self._running and not (beside and all(self._running.values())):
                break
            if self._running and self._lane_is_taken():
                break
            self._running[self._next] = beside
            taken.append(self._next)
            self._next += 1
            self._begun = self._next
        return taken

    def _lane_is_taken(self) -> bool:
        """Whether a call under way is in the lane of the next one."""
        lane = self._lane(self._next)
        return bool(lane) and any(self._lane(place) == lane for place in self._running)

    def _lane(self, place: int) -> str:
        found = self._runner.registry.get(self._calls[place].name)
        return "" if found is None else found.lane
