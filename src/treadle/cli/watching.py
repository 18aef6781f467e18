"""Watch a run to its end, also when somebody presses Ctrl-C."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

from treadle.agent.result import AnyResult
from treadle.agent.run import Run
from treadle.events import AnyEvent

Show = Callable[[AnyEvent], None]


async def watch(run: Run[Any], show: Show) -> AnyResult:
    """Show each event of a run and return its result.

    Being cancelled, as Ctrl-C does to the task that `asyncio.run` runs, cancels the run: its
    result is what there was. Whatever else ends this early ends the run too.

    Raises:
        TreadleError: the run failed.
    """
    events = aiter(run)
    try:
        await _show_all(events, show)
        return await run
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None:
            task.uncancel()
        await run.cancel("Interrupted.")
        await _show_all(events, show)
        return await run
    finally:
        if not run.done:
            await run.cancel("The reader left.")


async def _show_all(events: AsyncIterator[AnyEvent], show: Show) -> None:
    async for event in events:
        show(event)
