"""How a client shows who it is to an MCP server over HTTP."""

from __future__ import annotations

import json
import os
from asyncio import to_thread
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from treadle.errors import ConfigError

ClientAuth = Literal["client_secret_basic", "client_secret_post"]


class TokenStore(Protocol):
    """Where the tokens of one server are kept between processes: one text, a secret."""

    async def load(self) -> str | None:
        """Return what was saved last, or None."""
        ...

    async def save(self, text: str) -> None:
        """Keep a text in place of the one before."""
        ...


class MemoryTokens:
    """Tokens that are forgotten with the process."""

    def __init__(self) -> None:
        self._text: str | None = None

    async def load(self) -> str | None:
        """Return what was saved last."""
        return self._text

    async def save(self, text: str) -> None:
        """Keep a text."""
        self._text = text


class FileTokens:
    """Tokens in a file that only its owner may read; give each server a file of its own."""

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)

    async def load(self) -> str | None:
        """Return what was saved last; a damaged file counts as none."""
        return await to_thread(self._read)

    async def save(self, text: str) -> None:
        """Write the text whole, or not at all."""
        await to_thread(self._write, text)

    def _read(self) -> str | None:
        try:
            text = self._path.read_text(encoding="utf-8")
            json.loads(text)
        except (OSError, ValueError):
            return None
        return text

    def _write(self, text: str) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        beside = self._path.with_name(f"{self._path.name}.{os.getpid()}")
        handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        beside.replace(self._path)


@dataclass(frozen=True, slots=True)
class Bearer:
    """A token that is sent with every request; a function is asked each time, so it may change."""

    token: str | Callable[[], str | Awaitable[str]] = field(repr=False)

    def __post_init__(self) -> None:
        if isinstance(self.token, str) and not self.token.strip():
            raise ConfigError("Bearer: the token is empty.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientCredentials:
    """OAuth for programs: this client's own ID and secret, no person.

    In place of a secret, `assertion` gives a signed JWT for the audience that it is called with.
    `issuer` is the address of the authorization server that knows them: they are sent to no other,
    whatever the MCP server says (version 1 of the `mcp` package does not check that).
    """

    client_id: str
    issuer: str
    client_secret: str | None = field(default=None, repr=False)
    assertion: Callable[[str], Awaitable[str]] | None = field(default=None, repr=False)
    scope: str | None = None
    method: ClientAuth = "client_secret_basic"
    tokens: TokenStore = field(default_factory=MemoryTokens, repr=False)

    def __post_init__(self) -> None:
        if (self.client_secret is None) == (self.assertion is None):
            raise ConfigError("ClientCredentials: give either client_secret or assertion.")


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuth:
    """OAuth for people: somebody signs in with a browser, once.

    `sign_in` gets the address to open and returns the one that the browser was sent to in the end,
    which begins with `redirect_uri`. The client registers itself with the server, unless it has a
    `client_id` there or publishes its metadata at `client_metadata_url`.
    """

    redirect_uri: str
    sign_in: Callable[[str], Awaitable[str]] = field(repr=False)
    client_name: str = "Treadle"
    scope: str | None = None
    client_id: str | None = None
    client_secret: str | None = field(default=None, repr=False)
    client_metadata_url: str | None = None
    tokens: TokenStore = field(default_factory=MemoryTokens, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class IdentityAssertion:
    """OAuth for people who are signed in with their company already; nobody opens a browser.

    `assertion` gets from the company's identity provider a signed statement (an ID-JAG) for the
    audience and the resource that it is called with; `issuer` is the server that takes it for a
    token, and the only one that is ever sent it. Needs version 2 of the `mcp` package.
    """

    client_id: str
    client_secret: str = field(repr=False)
    issuer: str
    assertion: Callable[[str, str], Awaitable[str]] = field(repr=False)
    scope: str | None = None
    method: ClientAuth = "client_secret_basic"
    tokens: TokenStore = field(default_factory=MemoryTokens, repr=False)


Auth = Bearer | ClientCredentials | IdentityAssertion | OAuth
