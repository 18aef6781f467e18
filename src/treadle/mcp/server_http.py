"""Who may talk to a server over HTTP: looked at before anything else is."""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable, Generator, MutableMapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from treadle.errors import ConfigError

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

LOOPBACK = ("localhost", "127.0.0.1", "::1")
PATH = "/mcp"
SHORTEST_TOKEN = 16


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def check_access(host: str, token: str | None) -> None:
    """Refuse to listen where others can reach this without a token.

    Raises:
        ConfigError: what to do instead.
    """
    if token is not None and len(token) < SHORTEST_TOKEN:
        raise ConfigError(
            f"The token has {len(token)} characters; take {SHORTEST_TOKEN} or more, "
            "for example from: openssl rand -hex 32"
        )
    if token is not None and not (token.isascii() and token.isprintable() and " " not in token):
        raise ConfigError("A token has letters, digits and signs of ASCII, and no space.")
    if token is None and not is_loopback(host):
        raise ConfigError(
            f"{host!r} can be reached from other machines, so a token is needed. "
            "Give one, or listen on 127.0.0.1."
        )


class Gone:
    """Tells once that a client has left, to whoever wants to know."""

    def __init__(self) -> None:
        self._told = False
        self._listeners: list[Callable[[], object]] = []

    @contextmanager
    def telling(self, function: Callable[[], object]) -> Generator[None]:
        """Call `function` when the client leaves within this; at once when it has left."""
        if self._told:
            function()
        self._listeners.append(function)
        try:
            yield
        finally:
            self._listeners.remove(function)

    def tell(self) -> None:
        """The client has left."""
        if not self._told:
            self._told = True
            for function in tuple(self._listeners):
                function()


GONE = "treadle.gone"
"""Where a request's `Gone` stands in its scope."""


@dataclass(frozen=True, kw_only=True)
class Guard:
    """Lets requests through that know the token, name an allowed host and come from no page else.

    A page of another site that a browser on this machine shows can reach a loopback address, too;
    its requests have that site's `Origin`, or its name as `Host`. `hosts` are those allowed;
    without any, every `Host` is, and no `Origin`.
    """

    app: App
    token: str | None = field(repr=False)
    hosts: Sequence[str]
    path: str = PATH
    _live: set[Gone] = field(init=False, repr=False, default_factory=set[Gone])

    def end_calls(self) -> None:
        """End all requests that are being answered, as if their clients had left."""
        for gone in tuple(self._live):
            gone.tell()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or hand it on."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        refusal = self._refusal(scope)
        if refusal is not None:
            await refuse(send, *refusal)
            return
        gone = scope[GONE] = Gone()
        self._live.add(gone)

        async def watched() -> Message:
            message = await receive()
            if message["type"] == "http.disconnect":
                gone.tell()
            return message

        try:
            await self.app(scope, watched, send)
        finally:
            self._live.discard(gone)
            gone.tell()

    def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        """Return the status and the text for a request that is not let through."""
        headers = scope["headers"]
        given = [value for name, value in headers if name == b"authorization"]
        if self.token is not None and not _knows(given, self.token):
            return 401, "A bearer token is needed."
        host = next((value.decode("latin-1") for name, value in headers if name == b"host"), "")
        if self.hosts and _hostname(f"//{host}") not in self.hosts:
            return 421, f"This server does not answer for the host {host[:80]!r}."
        for name, value in headers:
            origin = value.decode("latin-1")
            if name == b"origin" and _hostname(origin) not in self.hosts:
                return 403, f"This server does not answer pages of {origin[:80]!r}."
        if scope["path"].rstrip("/") != self.path.rstrip("/"):
            return 404, f"There is nothing here; the server is at {self.path}."
        return None


def allowed_hosts(host: str, more: Sequence[str]) -> tuple[str, ...]:
    """Return the host names that requests may use for a server that listens on `host`."""
    if is_loopback(host):
        return (*dict.fromkeys((host, *LOOPBACK, *more)),)
    wildcard = host in ("0.0.0.0", "::", "")  # noqa: S104 it is looked for, not listened on
    return tuple(more) if wildcard else (host, *more)


def _knows(given: Sequence[bytes], token: str) -> bool:
    kind, _, said = given[0].partition(b" ") if len(given) == 1 else (b"", b"", b"")
    same = hmac.compare_digest(said.strip(), token.encode())
    return same and kind.lower() == b"bearer"


def _hostname(url: str) -> str:
    try:
        parts = urlsplit(url)
        return (parts.hostname or "") if parts.port is None or parts.port else ""
    except ValueError:
        return ""


async def refuse(send: Send, status: int, text: str) -> None:
    """Answer a request with an error."""
    headers = [(b"content-type", b"text/plain; charset=utf-8")]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": f"{text}\n".encode()})
