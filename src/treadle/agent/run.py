"""The handle of a run: watch it, await it, cancel it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Generator
from typing import Any, Generic

from treadle.agent.bus import EventBus, Reader, deliver
from treadle.agent.ending import Ending
from treadle.agent.loop import Loop
from treadle.agent.result import AnyResult, OutputT, RunResult
from treadle.agent.setup import RunSetup, RunStart
from treadle.agent.work import Work
from treadle.errors import ConfigError
from treadle.events import AnyEvent

OBSERVER_SECONDS = 5.0

_running: set[asyncio.Task[AnyResult]] = set()
"""Tasks under way: the event loop itself keeps only weak references to them."""


class Run(Generic[OutputT]):
    """A run under way.

    Iterate it for events, await it for the `RunResult`. Nobody has to: a reader that is slow,
    late or gone changes nothing. Awaiting raises the error that ended a failed run; its `.result`
    has what there is.
    """

    def __init__(self, setup: RunSetup, start: RunStart, *, watched: bool) -> None:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError as error:
            raise ConfigError(
                "start() needs a running event loop; use run_sync() without one."
            ) from error
        bus = EventBus(start.run_id, setup.agent)
        self._bus = bus
        self._work = Work(setup, start, bus)
        self._events: Reader | None = bus.reader() if watched else None
        self._observers = [(bus.reader(), observer) for observer in start.observers]
        self._begun = False
        self._timer: asyncio.TimerHandle | None = None
        if setup.limits.deadline is not None:
            seconds = setup.limits.deadline.total_seconds()
            ending = Ending(
                stop_reason="deadline", reason=f"The run took longer than {seconds:g} s."
            )
            self._timer = loop.call_later(seconds, self._stop, ending)
        self._task = loop.create_task(self._main(), name=start.run_id)
        _running.add(self._task)
        self._task.add_done_callback(_forget)

    @property
    def id(self) -> str:
        """The run's ID."""
        return self._work.start.run_id

    @property
    def conversation_id(self) -> str:
        """The ID of the conversation that the run belongs to."""
        return self._work.start.conversation_id

    @property
    def done(self) -> bool:
        """Whether the run has ended."""
        return self._task.done()

    def __await__(self) -> Generator[Any, None, RunResult[OutputT]]:
        return self.result().__await__()

    async def result(self) -> RunResult[OutputT]:
        """Wait for the end and return the result. Cancelling this wait does not cancel the run."""
        return await asyncio.shield(self._task)

    def __aiter__(self) -> AsyncIterator[AnyEvent]:
        """Yield events: the first iteration gets all since the start, others those from now on."""
        reader, self._events = self._events, None
        return reader if reader is not None else self._bus.reader()

    async def cancel(self, reason: str = "cancelled") -> RunResult[OutputT] | None:
        """Stop the model, the tools and all that belongs to the run, and wait until they have ended.

        Returns the result, or None when the run had failed already.
        """
        self._stop(Ending(stop_reason="cancelled", reason=reason))
        await asyncio.wait([self._task])
        if self._task.cancelled() or self._task.exception() is not None:
            return None
        return self._task.result()

    async def finish(self) -> RunResult[OutputT]:
        """Wait for the end as its owner: cancelling this wait cancels the run."""
        return await self._task

    def _stop(self, ending: Ending) -> None:
        if not self._task.done() and self._work.stop is None:
            self._work.stop = ending
            if self._begun:  # a task cancelled before its first step would not settle anything
                self._task.cancel()

    async def _main(self) -> AnyResult:
        self._begun = True
        watchers = [
            asyncio.ensure_future(deliver(reader, seen)) for reader, seen in self._observers
        ]
        recorder = self._work.recorder
        keeper = asyncio.ensure_future(recorder.keep()) if recorder is not None else None
        try:
            return await Loop(self._work).run()
        finally:
            if self._timer is not None:
                self._timer.cancel()
            if recorder is not None and keeper is not None:
                keeper.cancel()
                await recorder.close()
            if watchers:
                await _finish_watchers(watchers)


async def _finish_watchers(watchers: list[asyncio.Task[None]]) -> None:
    """Let observers take in the last events, for a while."""
    _, late = await asyncio.wait(watchers, timeout=OBSERVER_SECONDS)
    for watcher in late:
        watcher.cancel()


def _forget(task: asyncio.Task[AnyResult]) -> None:
    _running.discard(task)
    if not task.cancelled():
        task.exception()  # whoever awaits the run gets it; nobody has to
