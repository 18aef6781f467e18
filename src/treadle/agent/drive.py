"""Carry a run out, from its beginning to its end: by the turns of an agent, or a flow's steps."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from treadle.agent.ask import BudgetSpent
from treadle.agent.begin import begin
from treadle.agent.children import ChildRuns, enter
from treadle.agent.ending import Ending
from treadle.agent.loop import Loop
from treadle.agent.nesting import BackgroundRuns
from treadle.agent.result import AnyResult
from treadle.agent.resume import reopen
from treadle.agent.settle import settle
from treadle.agent.stage import run_flow
from treadle.agent.unbroken import unbroken
from treadle.agent.work import Work
from treadle.errors import RunFailed, TreadleError
from treadle.ports.children import ChildPaused
from treadle.tools.outcome import describe


async def drive(work: Work) -> AnyResult:
    """Run to the end and return the result, or raise the error that ended it."""
    if work.stop is not None:  # before its first step
        return await settle(work, work.stop)
    work.carry_out = drive
    if work.setup.registry.delegates:
        work.children = ChildRuns(work)
    try:
        if work.setup.registry.background is not None:
            work.background = work.setup.registry.background.open(work)
        ending = await _open(work)
        if ending is None:
            if work.background is not None and work.start.resumption is not None:
                work.background.go_on()
            ending = await (Loop(work).run() if work.setup.flow is None else run_flow(work))
    except asyncio.CancelledError:
        ending = await _cancelled(work)
    except ChildPaused as stop:
        work.pending = list(stop.pause.pending)
        ending = Ending(stop_reason="paused", reason=stop.pause.reason)
    except Exception as error:  # noqa: BLE001 the border of a run: history is settled, whatever it was
        # What was asked for counts, whatever broke while the run let go.
        ending = await _cancelled(work) if work.interrupted else _failed(error)
    if work.background is not None:
        ending = await _by_itself(work, work.background, ending)
    return await settle(work, ending)


async def _by_itself(work: Work, background: BackgroundRuns, ending: Ending) -> Ending:
    """End what works in the background of a run that ends, and return how that ends."""
    try:
        await background.close(ending)
    except asyncio.CancelledError:
        ending = await _cancelled(work)
        await unbroken(background.close(ending))
    except Exception as error:  # noqa: BLE001 a store's driver may raise anything
        if ending.error is None:
            ending = _failed(error)
    return ending


async def _open(work: Work) -> Ending | None:
    """Begin the run, or take it up; return its end when it had answered before."""
    resumption = work.start.resumption
    if work.origin is not None:
        await enter(work, work.origin)
        return None
    if resumption is not None:
        return await reopen(work, resumption)
    await begin(work)
    return None


async def _cancelled(work: Work) -> Ending:
    """Return the ending of a cancelled run: as asked for, or as its task's own cancellation."""
    stop, task = work.stop, work.task
    if stop is not None and task is not None:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(0)  # a cancellation that has not arrived yet arrives here
        if task.cancelling() > work.cancels:
            task.uncancel()
        if task.cancelling() <= work.cancels:
            return stop
    # Somebody else cancelled the task, whatever was asked for before.
    reason = "The task that ran it was cancelled."
    return Ending(stop_reason="cancelled", reason=reason, raises=True)


def _failed(error: Exception) -> Ending:
    if isinstance(error, BudgetSpent):
        reason = "The next model call could exceed the budget."
        return Ending(stop_reason="budget", reason=reason)
    if isinstance(error, TreadleError):
        return Ending(stop_reason="failed", error=error)
    failure = RunFailed(f"The run failed: {describe(error)}")
    failure.__cause__ = error
    return Ending(stop_reason="failed", error=failure)
