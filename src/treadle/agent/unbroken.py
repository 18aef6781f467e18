"""Finish what must not be left half done, even when whoever waits for it is cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from treadle.ports.store import Begun

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


async def done(begun: Begun[Any]) -> bool:
    """Wait until a write is done, whatever comes of it; return whether a cancellation came."""
    try:
        await begun
    except asyncio.CancelledError:
        return True
    except Exception:  # noqa: BLE001 it is the write's own, and whoever asks gets it
        return False
    return False
