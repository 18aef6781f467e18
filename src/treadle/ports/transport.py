"""The seam to the network: one HTTP exchange, whole or streamed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Protocol

from msgspec import Struct


class HttpRequest(Struct, frozen=True):
    """One request to send. `timeout` is seconds without a byte from the server."""

    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes
    timeout: float | None = None


class HttpResponse(Protocol):
    """An answer whose head has arrived. Read it whole or in pieces, then close it."""

    @property
    def status(self) -> int:
        """The status code."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers; looking up ignores case."""
        ...

    async def read(self) -> bytes:
        """Return the whole body."""
        ...

    def pieces(self) -> AsyncIterator[bytes]:
        """Yield the body as it arrives, in whatever pieces the network gives."""
        ...

    async def close(self) -> None:
        """Give the connection back, or drop it when the body was not read to its end."""
        ...


class Transport(Protocol):
    """Sends requests. Real ones use the network; cassettes and fakes replace it."""

    async def send(self, request: HttpRequest) -> HttpResponse:
        """Send and return when the response's head is there.

        Raises:
            Overloaded: the server cannot be reached or dropped the connection.
            ModelTimeout: it did not answer in time.
        """
        ...
