"""Carry a run out in the task that calls: with its deadline, its observers and its lease."""

from __future__ import annotations

import asyncio

from treadle.agent.bus import deliver
from treadle.agent.ending import Ending
from treadle.agent.loop import Loop
from treadle.agent.result import AnyResult
from treadle.agent.work import Work

OBSERVER_SECONDS = 5.0


async def conduct(work: Work) -> AnyResult:
    """Run to the end and return the result; cancelling the task cancels the run.

    Raises:
        TreadleError: what ended a failed run; its `.result` has what there is.
    """
    work.task = asyncio.current_task()
    timer = _start_timer(work)
    beside = _start_beside(work)
    try:
        return await Loop(work).run()
    finally:
        if timer is not None:
            timer.cancel()
        if beside:
            await _finish_beside(work, beside)


def _start_timer(work: Work) -> asyncio.TimerHandle | None:
    deadline = work.setup.limits.deadline
    if deadline is None:
        return None
    seconds = deadline.total_seconds()
    ending = Ending(stop_reason="deadline", reason=f"The run took longer than {seconds:g} s.")
    return asyncio.get_running_loop().call_later(seconds, work.end_early, ending)


def _start_beside(work: Work) -> list[asyncio.Task[None]]:
    """Start what goes on beside the loop: delivery to observers, then keeping the lease."""
    loop = asyncio.get_running_loop()
    beside = [
        loop.create_task(deliver(work.bus.reader(), observer)) for observer in work.start.observers
    ]
    if work.recorder is not None:
        beside.append(loop.create_task(work.recorder.keep()))
    return beside


async def _finish_beside(work: Work, beside: list[asyncio.Task[None]]) -> None:
    """Let the lease go, and let observers take in the last events, for a while."""
    if work.recorder is not None:
        beside[-1].cancel()
        await work.recorder.close()
    _, late = await asyncio.wait(beside, timeout=OBSERVER_SECONDS)
    for watcher in late:
        watcher.cancel()
