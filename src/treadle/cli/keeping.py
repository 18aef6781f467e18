"""Where a command keeps conversations, and how its user gets back to them."""

from __future__ import annotations

import argparse
import asyncio
import shlex
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from urllib.parse import unquote, urlsplit

from treadle.cli.loading import AnyAgent
from treadle.cli.options import Command
from treadle.cli.terminal import Terminal
from treadle.errors import ConfigError, StoreUnavailable
from treadle.ports.store import Store
from treadle.stores.memory import MemoryStore
from treadle.stores.open import open_store

EXAMPLE = "--store sqlite:///chat.db"


@dataclass(frozen=True, slots=True)
class Keeping:
    """A store, and how the user named it: `url` is None for the one that an agent has itself."""

    store: Store
    url: str | None

    @property
    def lasts(self) -> bool:
        """Whether another process finds what is kept here."""
        return not isinstance(self.store, MemoryStore) and ":memory:" not in (self.url or "")

    def __str__(self) -> str:
        return "the agent's own store" if self.url is None else without_password(self.url)

    def words(self) -> list[str]:
        """Return the words that name the store in a command."""
        return [] if self.url is None else ["--store", without_password(self.url)]

    async def close(self) -> None:
        """Let go of a store that was opened for this command."""
        if self.url is not None:
            await self.store.close()


@dataclass(frozen=True, slots=True)
class WayBack:
    """How a user goes on with a run later: the words of the command that began it."""

    keeping: Keeping | None
    reference: str | None
    model: str | None

    def command(self, run_id: str) -> str | None:
        """Return the command that resumes a run, or None when it cannot be resumed."""
        return self._command("resume", run_id)

    def chat(self, conversation_id: str) -> str | None:
        """Return the command that chats on in a conversation, or None when it is not kept."""
        return self._command("chat", options=["--conversation", conversation_id])

    def _command(self, *words: str, options: Sequence[str] = ()) -> str | None:
        if self.keeping is None or not self.keeping.lasts:
            return None
        given = [] if self.reference is None else [self.reference]
        model = [] if self.model is None else ["--model", self.model]
        return shlex.join(["treadle", *words, *given, *self.keeping.words(), *options, *model])


def open_keeping(url: str) -> Keeping:
    """Open the store that a URL names; what is missing there is made when it is first needed.

    Raises:
        ConfigError: the URL names no store, or what it needs is not installed.
    """
    return Keeping(open_store(url), url)


def open_existing(url: str) -> Keeping:
    """Open a store that another command has made.

    Raises:
        ConfigError: the URL names no store, or one that ends with each command.
        StoreUnavailable: there is nothing at that place.
    """
    keeping = open_keeping(url)
    if not keeping.lasts:
        raise ConfigError(
            f"A store in memory ends with the command that made it; name another: {EXAMPLE}"
        )
    place = _place_on_disk(url)
    if place is not None and not place.exists():
        raise StoreUnavailable(f"There is no store at {place.absolute()}; check --store.")
    return keeping


def find_keeping(
    url: str | None, agent: AnyAgent, *, conversation: str | None = None
) -> Keeping | None:
    """Return the store that the user named, else the agent's own, else None.

    Raises:
        ConfigError: there is no such store, or none for the conversation that was named.
    """
    if url is not None:
        return open_keeping(url)
    if agent.store is not None:
        return Keeping(agent.store, None)
    if conversation is not None:
        raise ConfigError(
            f"--conversation names one that is kept in a store; say which, for example {EXAMPLE}"
        )
    return None


def without_password(url: str) -> str:
    """Return a URL that can be shown: "***" stands in place of its password."""
    try:
        password = urlsplit(url).password
    except ValueError:
        return url
    return url.replace(f":{password}@", ":***@", 1) if password else url


def _place_on_disk(url: str) -> Path | None:
    """Return the file or folder of a store that is one."""
    parts = urlsplit(url)
    if parts.scheme == "sqlite":
        return Path(unquote(parts.path[1:]))
    return Path(unquote(parts.path)) if parts.scheme == "file" else None


Done = Callable[[argparse.Namespace, Terminal, Keeping], Awaitable[int]]


def in_store(done: Done) -> Command:
    """Return the command that opens the store, does this and closes the store."""

    def command(options: argparse.Namespace, terminal: Terminal) -> int:
        return asyncio.run(_closing(done, options, terminal, open_existing(options.store)))

    return wraps(done)(command)


async def _closing(
    done: Done, options: argparse.Namespace, terminal: Terminal, keeping: Keeping
) -> int:
    try:
        return await done(options, terminal, keeping)
    finally:
        await keeping.close()
