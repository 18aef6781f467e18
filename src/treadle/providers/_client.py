"""What all clients do the same way: ask over a transport and read the answer with a codec."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol

from msgspec.structs import replace

from treadle.errors import ConfigError, IncompleteReply, MissingKey, ModelError, ModelTimeout
from treadle.ports.clock import SYSTEM_CLOCK
from treadle.ports.model import (
    ModelDelta,
    ModelReply,
    ModelRequest,
    ModelSettings,
    ReasoningPiece,
    TextPiece,
)
from treadle.ports.transport import HttpRequest, HttpResponse, Transport
from treadle.providers._address import host_of, is_local
from treadle.providers._failure import NO_HEADERS, Asked, bad_reply, failure
from treadle.providers._sse import SseReader
from treadle.values.secret import know, secrets_of

_KEY_HEADERS = {"authorization", "api-key", "x-api-key", "x-goog-api-key"}
_FRAMING = {
    *("connection", "content-length", "expect", "host", "keep-alive", "proxy-connection"),
    *("te", "trailer", "transfer-encoding", "upgrade"),
}
"""Headers that say where a request begins and ends, and who is to get it: no user's business."""
_NAME = re.compile(r"[\w!#$%&'*+.^`|~-]+", re.ASCII)
_VALUE = re.compile(r"[^\x00-\x08\x0a-\x1f\x7f\ud800-\udfff]*")
LAST_BYTES_SECONDS = 0.25
"""How long the end of a finished stream may take: read to its end, its connection is reused."""


class Fold(Protocol):
    """Folds the event payloads of one stream into deltas and, at the end, the reply.

    `done` says that the server said that nothing more comes, `spoke` that any event came.
    """

    done: bool
    spoke: bool

    @property
    def is_whole(self) -> bool:
        """Whether the server said that the reply is complete."""
        ...

    @property
    def partial(self) -> str:
        """The text so far."""
        ...

    def feed(self, payloads: Iterable[bytes]) -> list[ModelDelta]:
        """Return what these events add."""
        ...

    def feed_last(self, payloads: Iterable[bytes]) -> list[ModelDelta]:
        """Like `feed` for an event whose end never came: it may be half of one."""
        ...

    def finish(self) -> ModelReply:
        """Return the reply, once the stream has ended."""
        ...


class Codec(Protocol):
    """One protocol for one model on one server, without I/O."""

    def url(self, *, stream: bool) -> str:
        """Return the address that a request goes to."""
        ...

    def settings(self, request: ModelRequest) -> ModelSettings:
        """Return the request's settings over the client's own."""
        ...

    def headers(self, request: ModelRequest) -> Mapping[str, str]:
        """Return headers that only this request needs, in lower case; mostly `NO_HEADERS`."""
        ...

    def body(self, request: ModelRequest, *, stream: bool) -> bytes:
        """Return the whole body of a request."""
        ...

    def decode(self, body: bytes, asked: Asked, headers: Mapping[str, str]) -> ModelReply:
        """Return what an answer in one piece says."""
        ...

    def fold(self, asked: Asked, headers: Mapping[str, str]) -> Fold:
        """Return what reads one streamed answer."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Key:
    """What opens a server, and how it is shown: as a bearer's token or in a header of its own.

    It is `given`, else in the first of `variables` that is set. A server at an `address` on this
    machine or a private network needs none and is sent none; one that is not `needed` is sent what
    there is.
    """

    given: str | None
    variables: tuple[str, ...]
    address: str
    header: str = "authorization"
    needed: bool = True

    def headers(self, model: str) -> dict[str, str]:
        """Return the header, none where no key is needed.

        Raises:
            MissingKey: there is no key.
        """
        key = self._found(model)
        if not key:
            return {}
        return {self.header: f"Bearer {key}" if self.header == "authorization" else key}

    def _found(self, model: str) -> str:
        if self.given is not None:
            return self.given.strip()
        if self.needed and is_local(self.address):
            return ""
        for variable in self.variables:
            key = os.environ.get(variable, "").strip()
            if key:
                return key
        if not self.needed:
            return ""
        raise MissingKey(
            f"No key for {host_of(self.address)}, model {model!r}: set "
            f"{' or '.join(self.variables)} or pass api_key=; "
            'api_key="" is for a server that wants none.'
        )


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class Client:
    """Asks one model on one server, whole or streamed, and names what fails.

    `fixed` are headers that the protocol wants with every request, `headers` the user's own, which
    overrule all others. The key is looked up at the first request, unless these bring one.
    """

    codec: Codec
    transport: Transport
    provider: str
    model: str
    key: Key
    fixed: Mapping[str, str] = field(default_factory=dict[str, str])
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    _prepared: tuple[Mapping[str, str], Asked] | None = field(init=False, default=None)

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Answer in one piece.

        Raises:
            MissingKey: there is no key.
            ModelError: the request failed; its class says how.
        """
        response, asked = await self._send(request, stream=False)
        try:
            return await self._whole(response, asked)
        except ModelError as error:
            self._name(error)
            raise
        finally:
            await response.close()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta]:
        """Answer piece by piece; the last item is the whole reply.

        Raises:
            MissingKey: there is no key.
            IncompleteReply: the stream broke off, with the text so far as `partial`.
            ModelError: the request failed; its class says how.
        """
        response, asked = await self._send(request, stream=True)
        try:
            if response.status >= 300 or "json" in response.headers.get("content-type", ""):
                for delta in _at_once(await self._whole(response, asked)):
                    yield delta
                return
            reading = _Reading(self.codec.fold(asked, response.headers), asked, response.headers)
            pieces = response.pieces()
            try:
                async for piece in pieces:
                    for delta in reading.take(piece):
                        yield delta
                    if reading.fold.done:
                        await _read_to_end(pieces)
                        break
            except (IncompleteReply, ModelTimeout) as error:
                if not reading.fold.is_whole:
                    error.partial = reading.fold.partial
                    raise
            for delta in reading.last():
                yield delta
        except ModelError as error:
            self._name(error)
            raise
        finally:
            await response.close()

    async def _send(self, request: ModelRequest, *, stream: bool) -> tuple[HttpResponse, Asked]:
        headers, asked = self._prepared or self._prepare()
        codec = self.codec
        settings, more = codec.settings(request), codec.headers(request)
        if more or settings.extra_headers:
            extra = checked(settings.extra_headers or NO_HEADERS, "extra_headers")
            headers = {**headers, **more, **extra}
            own = secrets_of(extra)
            know(*own)
            asked = replace(asked, secrets=(*asked.secrets, *own))
        body = codec.body(request, stream=stream)
        try:
            response = await self.transport.send(
                HttpRequest("POST", codec.url(stream=stream), headers, body, settings.timeout)
            )
        except ModelError as error:
            self._name(error)
            raise
        if response.status != 200:
            asked = replace(asked, status=response.status)
        return response, asked

    async def _whole(self, response: HttpResponse, asked: Asked) -> ModelReply:
        body = await response.read()
        if response.status >= 300:
            raise failure(response.status, response.headers, body, asked, now=SYSTEM_CLOCK.now())
        return self.codec.decode(body, asked, response.headers)

    def _prepare(self) -> tuple[Mapping[str, str], Asked]:
        """Return the headers of every request, and what must not show in messages."""
        headers = {"content-type": "application/json", "user-agent": "treadle"}
        own = checked(self.headers, "headers")
        if _KEY_HEADERS.isdisjoint(own):
            headers |= self.key.headers(self.model)
        headers |= self.fixed
        headers |= own
        secrets = secrets_of(headers, self.codec.url(stream=False))
        secrets.update(getattr(self.transport, "credentials", ()))
        know(*secrets)
        prepared = (headers, Asked(self.provider, self.model, tuple(secrets)))
        object.__setattr__(self, "_prepared", prepared)
        return prepared

    def _name(self, error: ModelError) -> None:
        error.provider = error.provider or self.provider
        error.model = error.model or self.model


class _Reading:
    """One stream that is being read."""

    __slots__ = ("_asked", "_head", "_headers", "_reader", "fold")

    def __init__(self, fold: Fold, asked: Asked, headers: Mapping[str, str]) -> None:
        self._asked = asked
        self._head = b""
        self._headers = headers
        self._reader = SseReader()
        self.fold = fold

    def take(self, piece: bytes) -> list[ModelDelta]:
        """Return what one read brought."""
        if not self.fold.spoke:
            self._head += piece[:400]
        return self.fold.feed(self._reader.feed(piece))

    def last(self) -> list[ModelDelta]:
        """Return what is left at the end, and the reply."""
        deltas = self.fold.feed_last(self._reader.end())
        if not self.fold.spoke and "event-stream" not in self._headers.get("content-type", ""):
            raise bad_reply(self._head, self._asked, "no event came", headers=self._headers)
        return [*deltas, self.fold.finish()]


def _at_once(reply: ModelReply) -> list[ModelDelta]:
    """Return the deltas of a reply that came in one piece."""
    text, thought = reply.message.text, reply.message.reasoning
    deltas: list[ModelDelta] = [ReasoningPiece(thought)] if thought else []
    return [*deltas, TextPiece(text), reply] if text else [*deltas, reply]


async def _read_to_end(pieces: AsyncIterator[bytes]) -> None:
    """Read what follows the end mark, so that the connection can be used again."""
    with suppress(TimeoutError, ModelError):
        async with asyncio.timeout(LAST_BYTES_SECONDS):
            async for _ in pieces:
                pass


def checked(headers: Mapping[str, str], where: str) -> dict[str, str]:
    """Return a user's headers by their names in lower case.

    Raises:
        ConfigError: a name or a value is none, or would change how the request is framed.
    """
    found: dict[str, str] = {}
    for name, value in headers.items():
        lowered = _text(name).lower()
        if not _NAME.fullmatch(lowered):
            raise ConfigError(f"{where}= holds {name!r}, which is no name of a header.")
        if lowered in _FRAMING:
            raise ConfigError(
                f"{where}= holds {name!r}, which belongs to the connection; leave it out."
            )
        if value is not _text(value) or not _VALUE.fullmatch(value):
            raise ConfigError(
                f"{where}= holds a value for {name!r} that no header can have; "
                "give a text in one line."
            )
        found[lowered] = value
    return found


def _text(value: object) -> str:
    """Return a text as it is, and "" for what is none: callers are not all typed."""
    return value if isinstance(value, str) else ""
