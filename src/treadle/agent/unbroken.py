"""Finish what must not be left half done, even when whoever waits for it is cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

ResultT = TypeVar("ResultT")


async def unbroken(work: Coroutine[Any, Any, ResultT]) -> ResultT:
    """Await `work` to its end in a task of its own; a cancellation is raised only after that."""
    task = asyncio.get_running_loop().create_task(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await _end_of(task)
        raise


async def _end_of(task: asyncio.Task[Any]) -> None:
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            continue  # one is being raised already
    if not task.cancelled():
        task.exception()  # the cancellation is what the waiter hears of


async def done(future: asyncio.Future[Any]) -> bool:
    """Wait until a future is done, whatever happens; return whether a cancellation came."""
    cancelled = False
    while not future.done():
        try:
            await asyncio.shield(future)
        except asyncio.CancelledError:
            if future.cancelled():
                raise
            cancelled = True
        except Exception:  # noqa: BLE001 it is the future's own, and whoever asks gets it
            break
    return cancelled
