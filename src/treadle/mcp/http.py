"""Servers behind an address: streamable HTTP and the older SSE, with headers and credentials."""

from __future__ import annotations

import inspect
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import urlsplit, urlunsplit

import msgspec

from treadle.errors import ConfigError, MCPFailed
from treadle.mcp._sdk import (
    IS_TWO,
    Tap,
    http,
    sse_client,
    streamable_http_client,
    tapped,
)
from treadle.mcp.auth import Auth, Bearer
from treadle.mcp.lines import MOST_LINE
from treadle.mcp.oauth import provider_of
from treadle.values import is_object
from treadle.values.logs import Hiding
from treadle.values.secret import know, masked, secrets_of

CONNECT_SECONDS = 30.0
PLAIN = "identity"
MOST_REMEMBERED = 200
"""Secrets that have been sent; tokens change, and a client may live for long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where a server is, and what every request to it carries."""

    url: str = field(repr=False)
    kind: Literal["http", "sse"]
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    auth: Auth | None = None

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigError(f"The address of an MCP server is http(s)://host/..., not {self!r}.")
        for name, value in self.headers.items():
            if not isinstance(value, str) or any(each in f"{name}{value}" for each in "\r\n\0"):  # pyright: ignore[reportUnnecessaryIsInstance] untyped callers
                raise ConfigError(f"The header {name!r} of an MCP server is not one line of text.")

    def __str__(self) -> str:
        """The address without the parts that may be secret."""
        parts = urlsplit(self.url)
        return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))

    __repr__ = __str__

    @property
    def secrets(self) -> set[str]:
        """What must not be shown."""
        found = secrets_of(self.headers, self.url)
        if isinstance(self.auth, Bearer) and isinstance(self.auth.token, str):
            found.add(self.auth.token)
        found.add(getattr(self.auth, "client_secret", None) or "")
        return found - {""}


@asynccontextmanager
async def http_streams(address: Address, tap: Tap) -> AsyncGenerator[Any]:
    """Make a transport of an address."""
    credentials = (
        None if isinstance(address.auth, Bearer) else provider_of(address.auth, address.url)
    )

    def client(headers: Any = None, timeout: Any = None, auth: Any = None) -> Any:  # noqa: ARG001 what the SDK asks for
        dress = _Dress(address, tap)
        return http.AsyncClient(
            auth=credentials,
            headers={"Accept-Encoding": PLAIN},
            timeout=http.Timeout(CONNECT_SECONDS, read=None),
            event_hooks={"request": [dress.dress], "response": [dress.look]},
            follow_redirects=not IS_TWO,
        )

    tap.secrets |= address.secrets
    with _Masking(tap.secrets):
        if address.kind == "sse":
            inner = sse_client(address.url, httpx_client_factory=client)
            async with tapped(inner, tap) as streams:
                yield streams
            return
        async with client() as opened:
            most: dict[str, Any] = {"max_sse_event_size": MOST_LINE} if IS_TWO else {}
            inner = streamable_http_client(address.url, http_client=opened, **most)
            async with tapped(inner, tap) as streams:
                yield streams


LOGGERS = (
    *("httpx", "httpx2", "mcp.client.streamable_http", "mcp.client.sse", "client"),
    *("mcp.client.auth.oauth2", "mcp.shared.jsonrpc_dispatcher"),
)


class _Masking(Hiding):
    """Takes secrets out of what the SDK and its HTTP client log: whole addresses, for example."""

    def __init__(self, secrets: set[str]) -> None:
        super().__init__(lambda text: masked(text, secrets))

    def __enter__(self) -> None:
        for name in LOGGERS:
            logging.getLogger(name).addFilter(self)

    def __exit__(self, *_: object) -> None:
        for name in LOGGERS:
            logging.getLogger(name).removeFilter(self)


class _Bounded(http.AsyncByteStream):
    """The body of an answer, as long as it has a size that answers have."""

    def __init__(self, inner: Any, address: Address) -> None:
        self._inner, self._address, self._size = inner, address, 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._inner:
            self._size += len(piece)
            if self._size > MOST_LINE:
                raise MCPFailed(
                    f"MCP server {self._address} sent an answer of more than {MOST_LINE} bytes."
                )
            yield piece

    async def aclose(self) -> None:
        await self._inner.aclose()


class _Dress:
    """Puts headers on requests to the server, and takes them off requests to anybody else."""

    def __init__(self, address: Address, tap: Tap) -> None:
        self._address, self._tap = address, tap
        self._origin = _origin(http.URL(address.url))

    async def dress(self, request: Any) -> None:
        """Dress a request that is about to leave."""
        own = dict(self._address.headers)
        own.update(self._tap.headers.get(_request_id(request), {}) if self._tap.headers else {})
        if _origin(request.url) != self._origin:
            for name in own:
                request.headers.pop(name, None)
            if "text/event-stream" in request.headers.get("accept", ""):
                raise MCPFailed(
                    f"MCP server {self._address} sends its clients to {request.url.host!r}; "
                    "use that address if it is the right one."
                )
            return
        token = await self._token()
        if token is not None:
            own["Authorization"] = f"Bearer {token}"
        request.headers.update(own)
        self._remember(request.headers)

    def _remember(self, headers: Mapping[str, str]) -> None:
        """Note what must not be shown when the server repeats it."""
        secrets = self._tap.secrets
        if len(secrets) > MOST_REMEMBERED:
            secrets.clear()
            secrets.update(self._address.secrets)
        found = secrets_of(headers)
        secrets.update(found)
        know(*found)

    async def look(self, response: Any) -> None:
        """Bound an answer, and note one that is an error; the SDK does not tell its status.

        Raises:
            MCPFailed: it is compressed, though nobody asked for that, so it may have any size.
        """
        packed = response.headers.get("content-encoding", PLAIN)
        if packed not in ("", PLAIN):
            raise MCPFailed(f"MCP server {self._address} packs its answers with {packed!r:.40}.")
        if "text/event-stream" not in response.headers.get("content-type", ""):
            response.stream = _Bounded(response.stream, self._address)
        if response.status_code >= 400 and response.request.method == "POST":
            self._tap.status = response.status_code

    async def _token(self) -> str | None:
        auth = self._address.auth
        if not isinstance(auth, Bearer):
            return None
        if isinstance(auth.token, str):
            return auth.token
        token = auth.token()
        found = await token if inspect.isawaitable(token) else token
        if not isinstance(found, str) or not found:  # pyright: ignore[reportUnnecessaryIsInstance] untyped callers
            raise MCPFailed(f"Bearer: the function gave no token for {self._address}.")
        return found


def _origin(url: Any) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port


def _request_id(request: Any) -> Any:
    """Return which JSON-RPC request a POST carries, or cancels."""
    try:
        message = msgspec.json.decode(request.content)
    except (msgspec.DecodeError, RuntimeError):
        return None
    if not is_object(message):
        return None
    params: Any = message.get("params")
    if message.get("method") == "notifications/cancelled" and is_object(params):
        return params.get("requestId")
    found = message.get("id")
    return found if isinstance(found, str | int) else None
