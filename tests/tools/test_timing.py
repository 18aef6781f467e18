"""Awaiting for a limited time."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from treadle.tools.timing import CallExpired, Within


async def test_what_never_waits_needs_no_timer() -> None:
    """Its value or its error comes at once."""

    async def value() -> int:
        return 1

    async def error() -> int:
        raise KeyError("x")

    assert await Within(value(), 0.0) == 1
    with pytest.raises(KeyError):
        await Within(error(), 1)


async def test_what_waits_is_awaited_as_ever() -> None:
    """Several waits, values and errors from inside."""

    async def work() -> list[int]:
        seen = [await asyncio.sleep(0, n) for n in range(3)]
        try:
            await asyncio.wait_for(asyncio.get_running_loop().create_future(), 0.001)
        except TimeoutError:
            seen.append(9)
        return seen

    assert await Within(work(), 5) == [0, 1, 2, 9]


async def test_time_is_up() -> None:
    """The coroutine is cancelled, cleans up, and the error says so."""
    cleaned: list[bool] = []

    async def hangs() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            await asyncio.sleep(0)
            cleaned.append(True)

    with pytest.raises(CallExpired):
        await Within(hangs(), 0.005)
    assert cleaned == [True]


async def test_its_own_timeout_error_is_its_own() -> None:
    """It is not taken for ours."""

    async def raises() -> None:
        await asyncio.sleep(0)
        raise TimeoutError("mine")

    with pytest.raises(TimeoutError, match="mine"):
        await Within(raises(), 5)


async def test_cancelling_from_outside() -> None:
    """It reaches the coroutine and comes back out; the task is not left cancelled."""
    reached: list[str] = []

    async def hangs() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            reached.append("inside")
            raise

    task: asyncio.Future[Any] = asyncio.ensure_future(_await(Within(hangs(), 5)))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert reached == ["inside"]


async def test_one_that_is_dropped_is_closed() -> None:
    """No warning about a coroutine that was never finished."""
    closed: list[bool] = []

    async def hangs() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            closed.append(True)

    awaiting = Within(hangs(), 5).__await__()
    next(awaiting)
    awaiting.close()
    del awaiting
    gc.collect()

    assert closed == [True]


async def _await(within: Within) -> Any:
    return await within
