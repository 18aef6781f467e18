"""Cache: equal requests are answered once."""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections.abc import AsyncGenerator, Generator
from concurrent.futures import Future
from contextlib import aclosing, contextmanager
from copy import copy
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from treadle.errors import ConfigError, ModelError
from treadle.messages import Message, Part, ToolCall, ToolResult
from treadle.models.pieces import checked, deltas_of, pieces_of
from treadle.models.replies import FolderReplies, MemoryReplies
from treadle.models.resolve import resolve_model
from treadle.ports.clock import SYSTEM_CLOCK, Clock
from treadle.ports.model import (
    Model,
    ModelDelta,
    ModelProfile,
    ModelReply,
    ModelRequest,
    profile_of,
)
from treadle.ports.replies import KeptReply, Replies
from treadle.usage import NOTHING
from treadle.values.logs import logger

log = logger(__name__)

Asked = Future[ModelReply | ModelError | None]
"""What a request that is under way comes to; None when whoever asked gave up."""
WHOLE = ("stop", "tool_calls")
"""How replies end that are kept: not what was cut off, filtered or refused."""


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Cache:
    """A model that answers equal requests from what it has answered before.

    Two requests are equal when messages, system prompt, tools, settings (the model's own too),
    output schema and the provider, name and `identity` of the model's profile are, up to the IDs of
    tool calls, which are numbered in order. Conversation, deadline and `timeout` do not matter.

    Replies are kept in memory, the last `size` of them, or in the folder that `store` names, or in
    an object of the `Replies` protocol; a reply older than `ttl` is asked for anew. When many ask
    the same at once, one request is made. Errors are not kept, nor are replies that were cut off
    or refused.

    A kept reply used no tokens and costs nothing, and its usage says so. Streamed, it comes in one
    piece for each of its parts.

    Raises:
        ConfigError: `size` or `ttl` cannot be.
        UnknownModel: a string names no model.
    """

    model: Model
    store: Replies
    ttl: timedelta | None
    profile: ModelProfile = field(compare=False)
    clock: Clock = field(compare=False)
    _asked: dict[str, Asked] = field(compare=False, repr=False)
    _lock: threading.Lock = field(compare=False, repr=False)

    def __init__(
        self,
        model: Model | str,
        store: Replies | Path | str | None = None,
        *,
        size: int = 1_000,
        ttl: timedelta | float | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        found = resolve_model(model, agent="Cache")
        if ttl is not None:
            ttl = ttl if isinstance(ttl, timedelta) else timedelta(seconds=ttl)
            if ttl <= timedelta(0):
                raise ConfigError(f"Cache(ttl={ttl!r}): give a time, more than 0.")
        if store is None:
            store = MemoryReplies(size)
        elif isinstance(store, str | Path):
            store = FolderReplies(Path(store))
        fields: dict[str, object] = {
            "model": found,
            "store": store,
            "ttl": ttl,
            "profile": profile_of(found),
            "clock": clock,
            "_asked": dict[str, Asked](),
            "_lock": threading.Lock(),
        }
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        return f"Cache({self.model!r})"

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Answer from what is kept, or ask the model.

        Raises:
            ModelError: the request failed.
        """
        key = key_of(request, self.profile)
        known = await self._look(key)
        if isinstance(known, ModelReply):
            return known
        with self._asking(key, known):
            reply = checked(await self.model.complete(request), self.model)
            return await self._keep(key, known, reply)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta]:
        """Answer piece by piece, from what is kept or as the model does.

        Raises:
            ModelError: the request failed.
        """
        key = key_of(request, self.profile)
        known = await self._look(key)
        if isinstance(known, ModelReply):
            for piece in pieces_of(known):
                yield piece
            yield known
            return
        with self._asking(key, known):
            async with aclosing(deltas_of(self.model, request)) as deltas:
                async for delta in deltas:
                    if isinstance(delta, ModelReply):
                        delta = await self._keep(key, known, delta)
                    yield delta

    async def _look(self, key: str) -> ModelReply | Asked:
        """Return a reply that is known or just being asked for; else what this caller begins."""
        while True:
            asked, is_mine = self._join(key)
            if not is_mine:
                outcome = await asyncio.shield(asyncio.wrap_future(asked))
                if isinstance(outcome, ModelReply):
                    return as_kept(outcome)
                if isinstance(outcome, ModelError):
                    raise copy(outcome)  # a run writes on its error what it had
                continue
            with self._asking(key, asked, keep_open=True):
                kept = await self.store.get(key)
            if kept is None or (self.ttl and kept.at + self.ttl <= self.clock.now()):
                return asked
            self._end(key, asked, kept.reply)
            return as_kept(kept.reply)

    async def _keep(self, key: str, asked: Asked, reply: ModelReply) -> ModelReply:
        if reply.finish_reason in WHOLE and not reply.message.incomplete:
            try:
                await self.store.put(key, KeptReply(self.clock.now(), reply))
            except OSError as error:
                log.warning("a reply could not be kept: %s", error)
        self._end(key, asked, reply)
        return reply

    def _join(self, key: str) -> tuple[Asked, bool]:
        with self._lock:
            if key in self._asked:
                return self._asked[key], False
            asked: Asked = Future()
            self._asked[key] = asked
            return asked, True

    @contextmanager
    def _asking(self, key: str, asked: Asked, *, keep_open: bool = False) -> Generator[None]:
        """Tell those who wait when this fails or is given up, or ends without an answer."""
        ended = False
        try:
            yield
            ended = keep_open
        except ModelError as error:
            self._end(key, asked, error)
            raise
        finally:
            if not ended:
                self._end(key, asked, None)

    def _end(self, key: str, asked: Asked, outcome: ModelReply | ModelError | None) -> None:
        with self._lock:
            if asked.done():
                return
            del self._asked[key]
        asked.set_result(outcome)


def as_kept(reply: ModelReply) -> ModelReply:
    """Return a reply that costs nothing any more."""
    return replace(reply, usage=NOTHING, settled=True)


def key_of(request: ModelRequest, profile: ModelProfile) -> str:
    """Return a hash that equal requests have in common, see `Cache`."""
    settings = profile.settings_for(request)
    headers = settings.extra_headers
    asked = {
        "model": (profile.provider, profile.name, profile.identity),
        "system": request.system,
        "messages": _numbered(request.messages),
        "tools": request.tools,
        "settings": replace(settings, timeout=None, extra_headers=None),
        "headers": None if headers is None else dict(headers),
        "output": request.output,
    }
    return hashlib.sha256(_encoded(asked)).hexdigest()


def _encoded(asked: Any) -> bytes:
    try:
        return msgspec.json.encode(asked, order="sorted")
    except UnicodeEncodeError:  # a lone surrogate, which providers clean away
        return repr(asked).encode("utf-8", "surrogatepass")


def _numbered(messages: list[Message]) -> list[Message]:
    """Return messages with the IDs of calls as numbers, and without what no model is sent."""
    numbers: dict[str, str] = {}

    def number(id: str) -> str:
        return numbers.setdefault(id, str(len(numbers)))

    def plain(part: Part) -> Part:
        match part:
            case ToolCall():
                return replace(part, id=number(part.id), provider_id=None)
            case ToolResult():
                return replace(part, call_id=number(part.call_id), packed=UNSET)
            case _:
                return part

    return [
        replace(message, parts=tuple(map(plain, message.parts)))
        if message.tool_calls or message.tool_results
        else message
        for message in messages
    ]
