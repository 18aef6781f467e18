"""HTTP exchanges over aiohttp's connections and its parser, without its session.

A session builds a request, a response, a timer and a task for every exchange, which costs more than
all the rest of a turn. Here, what is the same for an address is built once, an exchange is one
write and one wait, and one timer watches over all of them. `works_here` tells for which versions of
aiohttp this was tried, and it knows no proxies: `_session` serves everybody else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import cached_property
from typing import Self

import aiohttp
from aiohttp import ClientRequest, ClientTimeout, hdrs
from aiohttp.connector import Connection
from aiohttp.http import HttpVersion11
from aiohttp.streams import StreamReader
from yarl import URL

from treadle.ports.transport import HttpRequest
from treadle.providers._broken import (
    CONNECT_SECONDS,
    NETWORK_ERRORS,
    READ_ERRORS,
    broken,
    unanswered,
)

TRIED = ("3.14.",)
"""Beginnings of the versions of aiohttp whose connections and parser are as they are used here."""
KEEP_SECONDS = 30.0
"""How long an unused connection is kept."""
KEPT = 100
"""So many addresses are kept."""


def works_here() -> bool:
    """Whether this was tried with the aiohttp that is installed."""
    return aiohttp.__version__.startswith(TRIED)


class Exchanges:
    """The connections of one event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._silence = Silence(self._loop)
        self._targets: dict[tuple[object, ...], _Target] = {}
        self._connector = aiohttp.TCPConnector(
            limit=0, ttl_dns_cache=300, keepalive_timeout=KEEP_SECONDS
        )
        self._timeout = ClientTimeout(sock_connect=CONNECT_SECONDS)

    @property
    def closed(self) -> bool:
        """Whether no request can be sent any more."""
        return self._connector.closed

    async def close(self) -> None:
        """Drop all connections."""
        self._silence.close()
        await self._connector.close()

    async def send(self, request: HttpRequest, seconds: float) -> Exchange:
        """Send, and return when the answer's head is there."""
        try:
            target = self._target(request)
            connection = await self._connect(target, seconds)
            exchange = Exchange(connection, target.url, self._silence, seconds)
            await exchange.begin(target.message(request.body), target.method == "HEAD")
        except NETWORK_ERRORS as error:
            raise unanswered(error, URL(request.url, encoded=True), seconds) from error
        return exchange

    async def _connect(self, target: _Target, seconds: float) -> Connection:
        timeout = self._timeout
        if seconds < CONNECT_SECONDS:
            timeout = ClientTimeout(sock_connect=seconds)
        try:
            return await self._connector.connect(target, [], timeout)
        except TimeoutError as error:
            raise aiohttp.ConnectionTimeoutError from error

    def _target(self, request: HttpRequest) -> _Target:
        key = (request.method, request.url, *request.headers.items())
        found = self._targets.get(key)
        if found is None:
            if len(self._targets) >= KEPT:
                self._targets.clear()
            found = self._targets[key] = _Target(request, self._loop)
        return found


class _Target(ClientRequest):
    """What all requests to one address with the same headers have in common."""

    def __init__(self, request: HttpRequest, loop: asyncio.AbstractEventLoop) -> None:
        url = URL(request.url, encoded=True)
        if url.scheme not in ("http", "https") or not url.raw_host:
            raise ValueError("that is no http address.")
        headers = dict(request.headers)
        super().__init__(request.method, url, headers=headers, loop=loop, version=HttpVersion11)
        self.headers.pop(hdrs.CONTENT_LENGTH, None)
        lines = [f"{self.method} {url.raw_path_qs} HTTP/1.1"]
        lines += [f"{name}: {value}" for name, value in self.headers.items()]
        for line in lines:
            if "\r" in line or "\n" in line:
                raise ValueError("a header holds a line break")
        self._head = "\r\n".join(lines).encode()
        self._may_be_empty = self.method in self.GET_METHODS

    @cached_property
    def connection_key(self):  # pyright: ignore[reportIncompatibleMethodOverride]
        """What a pooled connection is found by: always the same here."""
        return super().connection_key

    def message(self, body: bytes) -> bytes:
        """Return the whole request."""
        if not body and self._may_be_empty:
            return self._head + b"\r\n\r\n"
        return b"%b\r\nContent-Length: %d\r\n\r\n%b" % (self._head, len(body), body)


class Exchange:
    """One request that was sent, and its answer."""

    __slots__ = ("_connection", "_payload", "_seconds", "_silence", "_url", "headers", "status")

    status: int
    headers: Mapping[str, str]

    def __init__(self, connection: Connection, url: URL, silence: Silence, seconds: float) -> None:
        self._connection = connection
        self._url = url
        self._silence = silence
        self._seconds = seconds
        self._payload: StreamReader | None = None

    async def begin(self, message: bytes, bodiless: bool) -> None:
        """Write the request and wait for the head of the answer."""
        protocol = self._connection.protocol
        transport = self._connection.transport
        try:
            if protocol is None or transport is None or transport.is_closing():
                raise aiohttp.ClientConnectionResetError("the connection is gone")
            protocol.set_response_params(skip_payload=bodiless, read_until_eof=True)
            transport.write(message)
            while True:
                self._silence.begin(self, self._seconds)
                head, payload = await protocol.read()
                if not 100 <= head.code < 200 or head.code == 101:
                    break
        except BaseException:
            self._silence.end(self)
            self._connection.close()
            raise
        self._silence.end(self)
        self.status = head.code
        self.headers = head.headers
        self._payload = payload
        payload.on_eof(self._connection.release)

    async def read(self) -> bytes:
        """Return the whole body.

        Raises:
            IncompleteReply: the connection broke before the body's end; trying again may help.
            ModelTimeout: no byte came in time.
        """
        payload = self._payload
        if payload is None:
            return b""
        body = await self._more(payload)
        if payload.at_eof():
            return body
        pieces = [body]
        while not payload.at_eof():
            pieces.append(await self._more(payload))
        return b"".join(pieces)

    def pieces(self) -> Self:
        """Yield the body as it arrives; raises like `read`."""
        return self

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        payload = self._payload
        piece = b"" if payload is None else await self._more(payload)
        if not piece:
            raise StopAsyncIteration
        return piece

    async def _more(self, payload: StreamReader) -> bytes:
        """Return what is there, waiting for it when there is nothing; empty at the end."""
        try:
            if payload.is_eof():
                return await payload.readany()
            self._silence.begin(self, self._seconds)
            try:
                return await payload.readany()
            finally:
                self._silence.end(self)
        except READ_ERRORS as error:
            raise broken(error, self._url) from error

    async def close(self) -> None:
        """Drop the connection, unless the body came to its end and it went back by itself."""
        self._connection.close()

    def fall_silent(self) -> None:
        """Nothing came for too long: whoever waits is told so."""
        error = aiohttp.SocketTimeoutError("nothing came in time")
        if self._payload is not None:
            self._payload.set_exception(error)
        protocol = self._connection.protocol
        if protocol is not None:
            protocol.set_exception(error)

    def __del__(self) -> None:
        self._connection.close()


class Silence:
    """Watches over the exchanges that wait for their servers, with one timer for all of them."""

    __slots__ = ("_deadlines", "_looks_at", "_loop", "_timer")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._deadlines: dict[Exchange, float] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._looks_at = 0.0

    def begin(self, exchange: Exchange, seconds: float) -> None:
        """From now on the exchange waits, for so many seconds at most."""
        deadline = self._loop.time() + seconds
        self._deadlines[exchange] = deadline
        if self._timer is None or deadline < self._looks_at:
            self._look_at(deadline)

    def end(self, exchange: Exchange) -> None:
        """The exchange does not wait any more."""
        self._deadlines.pop(exchange, None)

    def close(self) -> None:
        """Watch no more."""
        if self._timer is not None:
            self._timer.cancel()

    def _look_at(self, deadline: float) -> None:
        self.close()
        self._looks_at = deadline
        self._timer = self._loop.call_at(deadline, self._look)

    def _look(self) -> None:
        self._timer = None
        now = self._loop.time()
        late = [exchange for exchange, deadline in self._deadlines.items() if deadline <= now]
        for exchange in late:
            self.end(exchange)
            exchange.fall_silent()
        if self._deadlines:
            self._look_at(min(self._deadlines.values()))
