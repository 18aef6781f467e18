"""One pool of connections for each event loop that a store serves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Generic, TypeVar

PoolT = TypeVar("PoolT")


class _Open(Generic[PoolT]):
    """A pool, who uses it now, and whether it is to be closed when nobody does."""

    __slots__ = ("closing", "keeper", "pool", "users")

    def __init__(self, pool: PoolT) -> None:
        self.pool = pool
        self.keeper: AsyncGenerator[None] | None = None
        self.users = 0
        self.closing = False


class Pools(Generic[PoolT]):
    """Opens a pool at a loop's first use, and closes it with the loop or before.

    A loop that shuts down properly (`asyncio.run` and `asyncio.Runner` do) closes its asynchronous
    generators: one of them closes the pool. A pool that is in use then is closed by its last user:
    it would not know of connections that come back later.
    """

    def __init__(
        self, opened: Callable[[], PoolT], closed: Callable[[PoolT], Awaitable[None]]
    ) -> None:
        self._opened = opened
        self._closed = closed
        # Not weak: a pool refers to its loop.
        self._open: dict[asyncio.AbstractEventLoop, _Open[PoolT]] = {}

    @asynccontextmanager
    async def here(self) -> AsyncGenerator[PoolT]:
        """Give the pool of the running loop."""
        used = await self._here()
        used.users += 1
        try:
            yield used.pool
        finally:
            used.users -= 1
            await self._left(used)

    async def _here(self) -> _Open[PoolT]:
        loop = asyncio.get_running_loop()
        found = self._open.get(loop)
        if found is not None:
            return found
        for other in list(self._open):  # other threads have loops of their own in it
            if other.is_closed():
                self._open.pop(other, None)
        found = self._open[loop] = _Open(self._opened())
        found.keeper = self._keep(loop, found)
        await anext(found.keeper)
        return found

    async def close(self) -> None:
        """Close the pool of each loop that is running; that of another closes with its loop."""
        here = asyncio.get_running_loop()
        for loop, each in list(self._open.items()):
            if each.keeper is None:
                continue
            if loop is here:
                await each.keeper.aclose()
            elif loop.is_running():
                closing = asyncio.run_coroutine_threadsafe(_ended(each.keeper), loop)
                await asyncio.wrap_future(closing)

    async def _keep(
        self, loop: asyncio.AbstractEventLoop, kept: _Open[PoolT]
    ) -> AsyncGenerator[None]:
        try:
            yield
        finally:
            self._open.pop(loop, None)
            kept.closing = True
            await self._left(kept)

    async def _left(self, left: _Open[PoolT]) -> None:
        if left.closing and not left.users:
            await self._closed(left.pool)


async def _ended(keeper: AsyncGenerator[None]) -> None:
    await keeper.aclose()
