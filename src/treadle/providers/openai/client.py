"""OpenAI: a model behind a Chat Completions API, OpenAI's own or any compatible one."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field, replace
from urllib.parse import urlencode

from treadle.errors import IncompleteReply, MissingKey, ModelError, ModelTimeout, UnknownModel
from treadle.ports.clock import SYSTEM_CLOCK
from treadle.ports.model import (
    DEFAULT_SETTINGS,
    ModelDelta,
    ModelProfile,
    ModelReply,
    ModelRequest,
    ModelSettings,
    ReasoningPiece,
    TextPiece,
)
from treadle.ports.transport import HttpRequest, HttpResponse, Transport
from treadle.providers._failure import Asked, bad_reply, failure
from treadle.providers._http import HTTP
from treadle.providers._sse import SseReader
from treadle.providers.openai.chat_body import ChatEncoder
from treadle.providers.openai.chat_reply import decode_reply
from treadle.providers.openai.chat_stream import ChatFold
from treadle.providers.openai.dialect import ChatDialect, TokenField, dialect_of, is_local
from treadle.usage import Price

OPENAI_URL = "https://api.openai.com/v1"
_KEY_HEADERS = {"authorization", "api-key", "x-api-key"}
_SECRET = re.compile("auth|key|token|secret|cookie")
LAST_BYTES_SECONDS = 0.25
"""How long the end of a finished stream may take: read to its end, its connection is reused."""


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class OpenAI:
    """A model that speaks the Chat Completions protocol.

    The key comes from `api_key`, else from OPENAI_API_KEY at the first request; a server on this
    machine or a private network needs none. `base_url` is OPENAI_BASE_URL or OpenAI's own.
    `settings` are defaults under those of a run. What is known about a server follows from its
    host; the fields from `max_tokens_field` to `native_output` overrule it. Safe to share between
    tasks, threads and event loops.

    Raises:
        UnknownModel: `model` is empty.
        ConfigError: `base_url` is no http or https address.
    """

    model: str
    _: KW_ONLY
    api_key: str | None = None
    base_url: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    query: Mapping[str, str] = field(default_factory=dict[str, str])
    organization: str | None = None
    project: str | None = None
    settings: ModelSettings = DEFAULT_SETTINGS
    price: Price | None = None
    max_tokens_field: TokenField | None = None
    merge_roles: bool | None = None
    system_role: bool | None = None
    vision: bool | None = None
    native_output: bool | None = None
    transport: Transport = HTTP
    profile: ModelProfile = field(init=False)
    _address: str = field(init=False)
    _url: str = field(init=False)
    _dialect: ChatDialect = field(init=False)
    _encoder: ChatEncoder = field(init=False)
    _prepared: tuple[Mapping[str, str], Asked] | None = field(init=False)

    def __post_init__(self) -> None:
        if not self.model.strip():
            raise UnknownModel(
                "The name of the model is empty; write which one the server is to run, for example "
                '"openai:gpt-5.2" or OpenAI("gpt-5.2").'
            )
        address = (self.base_url or os.environ.get("OPENAI_BASE_URL") or OPENAI_URL).strip()
        overrules = {
            "max_tokens_field": self.max_tokens_field,
            "merge_roles": self.merge_roles,
            "system_role": self.system_role,
            "vision": self.vision,
            "native_output": self.native_output,
            "native_output_with_tools": self.native_output,
        }
        given = {name: value for name, value in overrules.items() if value is not None}
        dialect = replace(dialect_of(address), **given)
        profile = ModelProfile(
            provider=dialect.provider,
            name=self.model,
            native_output=dialect.native_output,
            native_output_with_tools=dialect.native_output_with_tools,
            vision=dialect.vision,
            price=self.price,
        )
        for name, value in (
            ("profile", profile),
            ("_address", address),
            ("_url", _endpoint(address, self.query)),
            ("_dialect", dialect),
            ("_encoder", ChatEncoder(self.model, dialect, self.settings)),
            ("_prepared", None),
        ):
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        return f"OpenAI({self.model!r}, base_url={self._address!r})"

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
            reading = _Reading(self._dialect.host, asked, response.headers)
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
        settings = self._encoder.settings(request)
        if settings.extra_headers:
            headers = {**headers, **_lowered(settings.extra_headers)}
        body = self._encoder.body(request, stream=stream)
        try:
            response = await self.transport.send(
                HttpRequest("POST", self._url, headers, body, settings.timeout)
            )
        except ModelError as error:
            self._name(error)
            raise
        return response, asked

    async def _whole(self, response: HttpResponse, asked: Asked) -> ModelReply:
        body = await response.read()
        if response.status >= 300:
            raise failure(response.status, response.headers, body, asked, now=SYSTEM_CLOCK.now())
        return decode_reply(body, self._dialect.host, asked, response.headers)

    def _prepare(self) -> tuple[Mapping[str, str], Asked]:
        """Return the headers of every request, and what must not show in messages."""
        headers = {"content-type": "application/json", "user-agent": "treadle"}
        own = _lowered(self.headers)
        if _KEY_HEADERS.isdisjoint(own):
            key = self._key()
            if key:
                bearer = self._dialect.key_header == "authorization"
                headers[self._dialect.key_header] = f"Bearer {key}" if bearer else key
        if self.organization:
            headers["openai-organization"] = self.organization
        if self.project:
            headers["openai-project"] = self.project
        headers |= own
        secrets = [value for name, value in headers.items() if _SECRET.search(name)]
        words = [word for value in secrets for word in (value, *value.split()[1:])]
        prepared = (headers, Asked(self._dialect.provider, self.model, tuple(words)))
        object.__setattr__(self, "_prepared", prepared)
        return prepared

    def _key(self) -> str:
        if self.api_key is not None:
            return self.api_key.strip()
        if is_local(self._address):
            return ""
        key = os.environ.get("OPENAI_API_KEY", "").strip()
        if not key:
            raise MissingKey(
                f"No key for {self._dialect.host}, model {self.model!r}: set OPENAI_API_KEY or "
                'pass api_key=; api_key="" is for a server that wants none.'
            )
        return key

    def _name(self, error: ModelError) -> None:
        error.provider = error.provider or self._dialect.provider
        error.model = error.model or self.model


class _Reading:
    """One stream that is being read."""

    __slots__ = ("_asked", "_head", "_headers", "_reader", "fold")

    def __init__(self, host: str, asked: Asked, headers: Mapping[str, str]) -> None:
        self._asked = asked
        self._head = b""
        self._headers = headers
        self._reader = SseReader()
        self.fold = ChatFold(host, asked, headers)

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


def _endpoint(address: str, query: Mapping[str, str]) -> str:
    """Return the address that requests go to; a query in the base URL is kept."""
    base, _, asked = address.partition("?")
    base = base.rstrip("/")
    if not base.endswith("/chat/completions"):
        base += "/chat/completions"
    asked = "&".join(part for part in (asked, urlencode(query)) if part)
    return f"{base}?{asked}" if asked else base


def _lowered(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}
