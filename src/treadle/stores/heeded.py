"""Hear of a cancellation that a database driver has swallowed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")


async def heeded(work: Awaitable[T]) -> T:
    """Return what comes of the work, unless the task was cancelled meanwhile.

    Some drivers catch `asyncio.CancelledError`, and their call returns as if nothing had been or
    fails with an error of its own: whoever is cancelled would go on.
    """
    task = asyncio.current_task()
    before = 0 if task is None else task.cancelling()
    try:
        result = await work
    except Exception as error:
        if task is not None and task.cancelling() > before:
            raise asyncio.CancelledError from error
        raise
    if task is not None and task.cancelling() > before:
        raise asyncio.CancelledError
    return result
