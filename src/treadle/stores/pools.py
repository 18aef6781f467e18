"""One pool of connections for each event loop that a store serves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Generic, TypeVar

PoolT = TypeVar("PoolT")


class Pools(Generic[PoolT]):
    """Opens a pool at a loop's first use, and closes it with the loop or before.

    A loop that shuts down properly (`asyncio.run` and `asyncio.Runner` do) closes its asynchronous
    generators: one of them closes the pool.
    """

    def __init__(
        self, opened: Callable[[], PoolT], closed: Callable[[PoolT], Awaitable[None]]
    ) -> None:
        self._opened = opened
        self._closed = closed
        # Not weak: a pool refers to its loop.
        self._open: dict[asyncio.AbstractEventLoop, tuple[PoolT, AsyncGenerator[None]]] = {}

    async def here(self) -> PoolT:
        """Return the pool of the running loop."""
        loop = asyncio.get_running_loop()
        found = self._open.get(loop)
        if found is not None:
            return found[0]
        for other in list(self._open):  # other threads have loops of their own in it
            if other.is_closed():
                self._open.pop(other, None)
        pool = self._opened()
        keeper = self._keep(loop, pool)
        self._open[loop] = pool, keeper
        await anext(keeper)
        return pool

    async def close(self) -> None:
        """Close the pool of each loop that is running; that of another closes with its loop."""
        here = asyncio.get_running_loop()
        for loop, (_, keeper) in list(self._open.items()):
            if loop is here:
                await keeper.aclose()
            elif loop.is_running():
                closing = asyncio.run_coroutine_threadsafe(_ended(keeper), loop)
                await asyncio.wrap_future(closing)

    async def _keep(self, loop: asyncio.AbstractEventLoop, pool: PoolT) -> AsyncGenerator[None]:
        try:
            yield
        finally:
            self._open.pop(loop, None)
            await self._closed(pool)


async def _ended(keeper: AsyncGenerator[None]) -> None:
    await keeper.aclose()
