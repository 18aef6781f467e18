"""The network: HTTP exchanges over pooled connections."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Self
from urllib.request import getproxies_environment

from treadle.errors import BadReply, IncompleteReply, ModelError, ModelTimeout, Overloaded
from treadle.ports.transport import HttpRequest, HttpResponse

if TYPE_CHECKING:
    from aiohttp import ClientRequest, ClientResponse, ClientSession, ClientTimeout
    from yarl import URL

CONNECT_SECONDS = 10.0
IDLE_SECONDS = 600.0
KEEP_SECONDS = 30.0
"""How long an unused connection is kept."""
KEPT = 100
"""So many addresses, and so many timeouts, are kept."""


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
        pool = _POOLS.get(asyncio.get_running_loop())
        if pool is None or pool.session.closed:
            pool = await _open_pool()
        seconds = IDLE_SECONDS if request.timeout is None else request.timeout
        try:
            response = await pool.session.request(
                request.method,
                pool.url(request.url),
                data=request.body,
                headers=request.headers,
                timeout=pool.timeout(seconds),
                allow_redirects=False,
            )
        except (_aiohttp().ClientError, OSError, ValueError) as error:
            raise _unanswered(error, pool.url(request.url), seconds) from error
        return _Response(response, seconds)


class _Pool:
    """The session of one loop, and what it would otherwise build for each request."""

    __slots__ = ("_timeouts", "_urls", "keeper", "session")

    def __init__(self) -> None:
        aiohttp = _aiohttp()
        self._timeouts: dict[float, ClientTimeout] = {}
        self._urls: dict[str, URL] = {}
        self.keeper: AsyncGenerator[None] | None = None
        self.session: ClientSession = aiohttp.ClientSession(
            request_class=_request_class(),
            connector=aiohttp.TCPConnector(
                limit=0, ttl_dns_cache=300, keepalive_timeout=KEEP_SECONDS
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            # Asked once: with trust_env, aiohttp looks for proxies and passwords at each request.
            trust_env=bool(getproxies_environment()),
        )

    def timeout(self, seconds: float) -> ClientTimeout:
        found = self._timeouts.get(seconds)
        if found is None:
            if len(self._timeouts) >= KEPT:
                self._timeouts.clear()
            connect = min(CONNECT_SECONDS, seconds)
            found = _aiohttp().ClientTimeout(sock_connect=connect, sock_read=seconds)
            self._timeouts[seconds] = found
        return found

    def url(self, text: str) -> URL:
        found = self._urls.get(text)
        if found is None:
            if len(self._urls) >= KEPT:
                self._urls.clear()
            found = self._urls[text] = _url(text)
        return found


_POOLS: dict[asyncio.AbstractEventLoop, _Pool] = {}
"""The pool of each loop, until the loop shuts down. Not weak: a session refers to its loop."""


async def _open_pool() -> _Pool:
    for loop in list(_POOLS):  # other threads have loops of their own in it
        if loop.is_closed():
            _POOLS.pop(loop, None)
    loop = asyncio.get_running_loop()
    pool = _Pool()
    # A loop that shuts down closes its asynchronous generators: this one closes the pool.
    pool.keeper = _keep(loop, pool)
    await anext(pool.keeper)
    _POOLS[loop] = pool
    return pool


async def _keep(loop: asyncio.AbstractEventLoop, pool: _Pool) -> AsyncGenerator[None]:
    try:
        yield
    finally:
        if _POOLS.get(loop) is pool:
            del _POOLS[loop]
        await pool.session.close()


class _Response:
    """An answer whose head has arrived."""

    __slots__ = ("_pieces", "_response", "_seconds", "headers", "status")

    def __init__(self, response: ClientResponse, seconds: float) -> None:
        self._response = response
        self._seconds = seconds
        self._pieces: _Pieces | None = None
        self.status: int = response.status
        self.headers: Mapping[str, str] = response.headers

    async def read(self) -> bytes:
        """Return the whole body.

        Raises:
            IncompleteReply: the connection broke before the body's end; trying again may help.
            ModelTimeout: no byte came in time.
        """
        try:
            return await self._response.read()
        except (_aiohttp().ClientError, OSError) as error:
            raise _broken(error, self._response.url) from error

    def pieces(self) -> _Pieces:
        """Yield the body as it arrives; raises like `read`."""
        self._pieces = _Pieces(self._response, self._seconds)
        return self._pieces

    async def close(self) -> None:
        """Drop the connection, unless the body was read to its end and it went back by itself."""
        if self._pieces is not None:
            self._pieces.stop()
        if not self._response.closed:
            self._response.close()


class _Pieces:
    """An iterator and not a generator, so that leaving it early needs no clean-up.

    One timer looks now and then how long the current read has been waiting; aiohttp would set a
    new one with every read, which costs as much as all the rest here.
    """

    __slots__ = ("_loop", "_read", "_response", "_seconds", "_silent", "_since", "_timer")

    def __init__(self, response: ClientResponse, seconds: float) -> None:
        self._response = response
        self._read = response.content.readany
        self._loop = asyncio.get_running_loop()
        self._seconds = seconds
        self._since: float | None = None  # when the current read began
        self._timer: asyncio.TimerHandle | None = None
        self._silent = False
        connection = response.connection
        if connection is not None and connection.protocol is not None:
            connection.protocol.read_timeout = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        self._since = self._loop.time()
        if self._timer is None:
            self._timer = self._loop.call_later(self._seconds, self._look)
        try:
            piece = await self._read()
        except (_aiohttp().ClientError, OSError) as error:
            cause = TimeoutError() if self._silent else error
            raise _broken(cause, self._response.url) from error
        self._since = None
        if not piece:
            self.stop()
            raise StopAsyncIteration
        return piece

    def stop(self) -> None:
        """Let go of the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        """Give up on a read that has waited too long; look again later at one that has not."""
        self._timer = None
        if self._since is None:
            return
        left = self._since + self._seconds - self._loop.time()
        if left > 0:
            self._timer = self._loop.call_later(left, self._look)
            return
        self._silent = True
        self._response.close()


@cache
def _aiohttp():
    """Load aiohttp: 0.2 s that only who sends a request pays."""
    import aiohttp  # noqa: PLC0415 (0.2 s)

    return aiohttp


def _request_class() -> type[ClientRequest]:
    from treadle.providers._request import request_class  # noqa: PLC0415  (it loads aiohttp)

    return request_class()


def _url(text: str) -> URL:
    from yarl import URL  # noqa: PLC0415  (aiohttp's own; it loads with it)

    return URL(text, encoded=True)


def _place(url: URL) -> str:
    return f"{url.host}:{url.port}" if url.port not in (80, 443) else str(url.host)


def _unanswered(error: Exception, url: URL, seconds: float) -> ModelError:
    """Return what a request without an answer means."""
    aiohttp, place, reason = _aiohttp(), _place(url), _reason(error)
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        return ModelTimeout(f"No connection to {place} within {CONNECT_SECONDS:g} s.")
    if isinstance(error, TimeoutError):
        return ModelTimeout(f"{place} gave no sign of life for {seconds:g} s; raise `timeout`.")
    if isinstance(error, aiohttp.ClientConnectorCertificateError | aiohttp.ClientConnectorSSLError):
        return Overloaded(f"No safe connection to {place}: {reason}.", retryable=False)
    if isinstance(error, aiohttp.ClientConnectorError):
        return Overloaded(f"Cannot reach {place}: {reason}. Is base_url right and the server up?")
    if isinstance(error, aiohttp.ClientResponseError):
        text = str(getattr(error, "message", error)).strip().replace("\n", " ")
        return BadReply(f"{place} answered with something that is not HTTP: {text[:200]}")
    if isinstance(error, aiohttp.InvalidURL | aiohttp.NonHttpUrlClientError | ValueError):
        return ModelError(f"The request to {place} cannot be sent: {error}")
    return Overloaded(f"{place} dropped the connection before it answered: {reason}.")


def _broken(error: Exception, url: URL) -> ModelError:
    """Return what an answer without an end means."""
    if isinstance(error, TimeoutError):
        return ModelTimeout(f"{_place(url)} stopped in the middle of its reply; gave up waiting.")
    early = isinstance(error, _aiohttp().ClientPayloadError)  # its text is aiohttp's own internals
    reason = "it was closed before the end that was announced" if early else _reason(error)
    return IncompleteReply(
        f"The connection to {_place(url)} broke in the middle of the reply: {reason}. Try again; "
        "if it stays so, look at the server's log and at any proxy on the way.",
        retryable=True,
    )


def _reason(error: Exception) -> str:
    inner = getattr(error, "certificate_error", None) or getattr(error, "os_error", error)
    text = getattr(inner, "strerror", None) or str(inner) or type(inner).__name__
    number = getattr(inner, "errno", None)
    if number and "Connect call failed" in str(text):  # asyncio's words, with a bare address
        return os.strerror(number).lower()
    return str(text).rstrip(".")


HTTP = HttpTransport()
"""The transport that clients use unless they are given another."""
