"""Carry a run out in the task that calls: with its deadline, its observers and its lease."""

from __future__ import annotations

import asyncio
from typing import Any

from treadle.agent.bus import deliver
from treadle.agent.drive import drive
from treadle.agent.work import Work
from treadle.ports.observer import Observer

OBSERVER_SECONDS = 5.0


async def conduct(work: Work) -> Any:
    """Run to the end and return the result, of the kind that it has; or be cancelled.

    Raises:
        TreadleError: what ended a failed run; its `.result` has what there is.
    """
    work.task = task = asyncio.current_task()
    work.cancels = task.cancelling() if task is not None else 0
    work.start_timer()
    watchers = [_start_watcher(work, observer) for observer in work.start.observers]
    try:
        return await drive(work)
    finally:
        work.bus.close()  # also when settling failed: no reader waits for ever
        work.stop_timer()
        if work.recorder is not None:
            work.recorder.ledger.remember(work.thread)
            await work.recorder.ledger.close()
        if watchers:
            await _finish(watchers)


def _start_watcher(work: Work, observer: Observer) -> asyncio.Task[None]:
    return asyncio.get_running_loop().create_task(deliver(work.bus.reader(), observer))


async def _finish(watchers: list[asyncio.Task[None]]) -> None:
    """Let observers take in the last events, for a while."""
    try:
        await asyncio.wait(watchers, timeout=OBSERVER_SECONDS)
    finally:
        for watcher in watchers:
            watcher.cancel()
