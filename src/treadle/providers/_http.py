"""The network: HTTP exchanges over pooled connections."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING
from urllib.request import getproxies_environment

from treadle.ports.transport import HttpRequest, HttpResponse

if TYPE_CHECKING:
    from treadle.providers._exchange import Exchanges
    from treadle.providers._session import Session

IDLE_SECONDS = 600.0


class HttpTransport:
    """Sends requests over one pool of connections per event loop, and never repeats one.

    A pool opens at the loop's first request and closes when the loop shuts down (`asyncio.run`
    and `asyncio.Runner` do that properly). Proxies come from the usual environment variables;
    redirects are not followed, cookies not kept.
    """

    __slots__ = ()

    async def send(self, request: HttpRequest) -> HttpResponse:
        """Send and return when the response's head is there.

        Raises:
            Overloaded: the server cannot be reached or dropped the connection.
            ModelTimeout: it did not answer in time.
            BadReply: what answered does not speak HTTP.
        """
        pool = POOLS.get(asyncio.get_running_loop())
        if pool is None or pool.closed:
            pool = await _open_pool()
        seconds = IDLE_SECONDS if request.timeout is None else request.timeout
        return await pool.send(request, seconds)


POOLS: dict[asyncio.AbstractEventLoop, Exchanges | Session] = {}
"""The pool of each loop, until the loop shuts down. Not weak: a pool refers to its loop."""
_KEEPERS: dict[asyncio.AbstractEventLoop, AsyncGenerator[None]] = {}


async def _open_pool() -> Exchanges | Session:
    for loop in list(POOLS):  # other threads have loops of their own in it
        if loop.is_closed():
            _forget(loop)
    loop = asyncio.get_running_loop()
    POOLS[loop] = pool = _new_pool()
    # A loop that shuts down closes its asynchronous generators: this one closes the pool.
    _KEEPERS[loop] = keeper = _keep(loop, pool)
    await anext(keeper)
    return pool


def _new_pool() -> Exchanges | Session:
    """Load aiohttp, 0.2 s that only who sends a request pays, and open a pool."""
    from treadle.providers._exchange import Exchanges, works_here  # noqa: PLC0415 (0.2 s)
    from treadle.providers._session import Session  # noqa: PLC0415 (0.2 s)

    return Exchanges() if works_here() and not getproxies_environment() else Session()


async def _keep(loop: asyncio.AbstractEventLoop, pool: Exchanges | Session) -> AsyncGenerator[None]:
    try:
        yield
    finally:
        if POOLS.get(loop) is pool:
            _forget(loop)
        await pool.close()


def _forget(loop: asyncio.AbstractEventLoop) -> None:
    POOLS.pop(loop, None)
    _KEEPERS.pop(loop, None)


HTTP = HttpTransport()
"""The transport that clients use unless they are given another."""
