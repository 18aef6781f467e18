"""HTTP exchanges through an aiohttp session: for proxies, and for versions not yet tried.

Slower than `_exchange`, and made of nothing but what aiohttp documents.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping

import aiohttp
from yarl import URL

from treadle.ports.transport import HttpRequest
from treadle.providers._broken import (
    CONNECT_SECONDS,
    NETWORK_ERRORS,
    READ_ERRORS,
    broken,
    unanswered,
)


class Session:
    """The session of one event loop; proxies come from the usual environment variables."""

    def __init__(self) -> None:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ttl_dns_cache=300),
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=True,
        )

    @property
    def closed(self) -> bool:
        """Whether no request can be sent any more."""
        return self._session.closed

    async def close(self) -> None:
        """Drop all connections."""
        await self._session.close()

    async def send(self, request: HttpRequest, seconds: float) -> Response:
        """Send, and return when the answer's head is there."""
        url = URL(request.url, encoded=True)
        connect = min(CONNECT_SECONDS, seconds)
        try:
            response = await self._session.request(
                request.method,
                url,
                data=request.body,
                headers=request.headers,
                timeout=aiohttp.ClientTimeout(sock_connect=connect, sock_read=seconds),
                allow_redirects=False,
            )
        except NETWORK_ERRORS as error:
            raise unanswered(error, url, seconds) from error
        return Response(response)


class Response:
    """An answer whose head has arrived."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
        self.status: int = response.status
        self.headers: Mapping[str, str] = response.headers

    async def read(self) -> bytes:
        """Return the whole body; raises like `Exchange.read`."""
        try:
            return await self._response.read()
        except READ_ERRORS as error:
            raise broken(error, self._response.url) from error

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yield the body as it arrives; raises like `Exchange.read`."""
        try:
            async for piece in self._response.content.iter_any():
                yield piece
        except READ_ERRORS as error:
            raise broken(error, self._response.url) from error

    async def close(self) -> None:
        """Drop the connection, unless the body came to its end and it went back by itself."""
        if not self._response.closed:
            self._response.close()
