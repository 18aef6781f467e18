"""Anthropic: a model behind a Messages API, Anthropic's own or any compatible one."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any

from treadle.errors import UnknownModel
from treadle.ports.model import (
    DEFAULT_SETTINGS,
    ModelDelta,
    ModelProfile,
    ModelReply,
    ModelRequest,
    ModelSettings,
)
from treadle.ports.transport import Transport
from treadle.providers._address import address_of_server, endpoint, without_query
from treadle.providers._client import Client, Key
from treadle.providers._failure import NO_HEADERS, Asked
from treadle.providers._http import HTTP
from treadle.providers._identity import identity
from treadle.providers.anthropic.body import MessagesEncoder
from treadle.providers.anthropic.claude import Claude, claude
from treadle.providers.anthropic.dialect import PROTOCOL, MessagesDialect, dialect_of
from treadle.providers.anthropic.reply import decode_reply
from treadle.providers.anthropic.sdk import SdkTransport
from treadle.providers.anthropic.stream import MessagesFold
from treadle.providers.prices import priced
from treadle.usage import Price

ANTHROPIC_URL = "https://api.anthropic.com/v1"
VERSION = "2023-06-01"
"""The version of the API that is spoken; a header of the same name overrules it."""
FILES_BETA = "files-api-2025-04-14"
_BETA = "anthropic-beta"


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Anthropic:
    """A model that speaks the Messages protocol.

    The key comes from `api_key`, else from ANTHROPIC_API_KEY at the first request; a server on this
    machine or a private network needs none. `base_url` is ANTHROPIC_BASE_URL or Anthropic's own,
    with or without ``/v1`` at its end. `settings` are defaults under those of a run. `hosted_tools`
    are offered with every request: tools that Anthropic runs itself, written as it documents them,
    ``{"type": "web_search_20250305", "name": "web_search"}``. `betas` are the names of its betas to
    take part in. `client` is a client of Anthropic's SDK, `AsyncAnthropicBedrock` for example: then
    requests go out through it, and address and authentication are its own. What is known about a
    model follows from its name; `vision` and `native_output` overrule it. Safe to share between
    tasks, threads and event loops, as far as `client` is.

    Raises:
        UnknownModel: `model` is empty.
        ConfigError: `base_url` is no http or https address, or `client` no client of the SDK.
    """

    model: str
    _: KW_ONLY
    api_key: str | None = None
    base_url: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    query: Mapping[str, str] = field(default_factory=dict[str, str])
    betas: Sequence[str] = ()
    hosted_tools: Sequence[Mapping[str, Any]] = ()
    settings: ModelSettings = DEFAULT_SETTINGS
    price: Price | None = None
    window: int | None = None
    vision: bool | None = None
    native_output: bool | None = None
    transport: Transport = HTTP
    client: object | None = None
    profile: ModelProfile = field(init=False)
    _address: str = field(init=False)
    _client: Client = field(init=False)

    def __post_init__(self) -> None:
        if not self.model.strip():
            raise UnknownModel(
                "The name of the model is empty; write which one is to answer, for example "
                '"anthropic:claude-sonnet-4-6" or Anthropic("claude-sonnet-4-6").'
            )
        sdk = None if self.client is None else SdkTransport(self.client)
        given = self.base_url or os.environ.get("ANTHROPIC_BASE_URL") or ANTHROPIC_URL
        address = sdk.address if sdk else address_of_server(given)
        dialect, traits = dialect_of(address), claude(self.model)
        if sdk and sdk.is_platform:
            dialect = MessagesDialect()
        if self.vision is not None:
            dialect = replace(dialect, vision=self.vision)
        if self.native_output is not None:
            traits = replace(traits, native_output=self.native_output)
        client = Client(
            codec=self._codec(address, dialect, traits),
            transport=sdk or self.transport,
            provider=dialect.provider,
            model=self.model,
            key=Key(
                given="" if sdk else self.api_key,
                variables=("ANTHROPIC_API_KEY",),
                address=address,
                header="x-api-key",
            ),
            fixed={"anthropic-version": VERSION, **_beta_header(self.betas)},
            headers=self.headers,
        )
        profile = self._profile(address, dialect, traits)
        for name, value in (("profile", profile), ("_address", address), ("_client", client)):
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        return f"Anthropic({self.model!r}, base_url={without_query(self._address)!r})"

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Answer in one piece.

        Raises:
            ConfigError: the model cannot be asked for what the settings want.
            MissingKey: there is no key.
            ModelError: the request failed; its class says how.
        """
        return await self._client.complete(request)

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta]:
        """Answer piece by piece; the last item is the whole reply.

        Raises:
            ConfigError: the model cannot be asked for what the settings want.
            MissingKey: there is no key.
            IncompleteReply: the stream broke off, with the text so far as `partial`.
            ModelError: the request failed; its class says how.
        """
        return self._client.stream(request)

    def _profile(self, address: str, dialect: MessagesDialect, traits: Claude) -> ModelProfile:
        profile = ModelProfile(
            provider=dialect.provider,
            name=self.model,
            native_output=traits.native_output,
            native_output_with_tools=traits.native_output,
            vision=dialect.vision,
            price=self.price,
            window=self.window,
            max_output=traits.max_output,
            settings=self.settings,
            identity=identity(
                PROTOCOL,
                address,
                headers=self.headers,
                query=self.query,
                fields={
                    "betas": (*self.betas,),
                    "hosted_tools": [dict(tool) for tool in self.hosted_tools],
                    "vision": self.vision,
                    "native_output": self.native_output,
                },
            ),
        )
        return priced(profile, listed=dialect.listed)

    def _codec(self, address: str, dialect: MessagesDialect, traits: Claude) -> _MessagesCodec:
        encoder = MessagesEncoder(
            self.model, traits, dialect, defaults=self.settings, hosted_tools=self.hosted_tools
        )
        own = {name.lower(): value for name, value in self.headers.items()}.get(_BETA)
        betas = (*self.betas, *(own.split(",") if own else ()))
        return _MessagesCodec(
            encoder,
            dialect.origin,
            messages_url(address, self.query),
            _beta_header(betas, FILES_BETA),
        )


def messages_url(address: str, query: Mapping[str, str]) -> str:
    """Return the address that requests go to; the base URL may leave out the version."""
    base = address.partition("?")[0].rstrip("/")
    versioned = base.endswith(("/v1", "/messages"))
    return endpoint(address, "/messages" if versioned else "/v1/messages", query)


def _beta_header(betas: Sequence[str], *more: str) -> dict[str, str]:
    names = dict.fromkeys(name.strip() for name in (*betas, *more) if name.strip())
    return {_BETA: ",".join(names)} if names else {}


@dataclass(frozen=True, slots=True, repr=False)
class _MessagesCodec:
    """Messages as a client needs it; `for_files` are headers for requests that name files."""

    encoder: MessagesEncoder
    origin: str
    address: str
    for_files: Mapping[str, str]

    def url(self, *, stream: bool) -> str:  # noqa: ARG002 (the same for both)
        return self.address

    def settings(self, request: ModelRequest) -> ModelSettings:
        return self.encoder.settings(request)

    def headers(self, request: ModelRequest) -> Mapping[str, str]:
        return self.for_files if self.encoder.needs_files(request) else NO_HEADERS

    def body(self, request: ModelRequest, *, stream: bool) -> bytes:
        return self.encoder.body(request, stream=stream)

    def decode(self, body: bytes, asked: Asked, headers: Mapping[str, str]) -> ModelReply:
        return decode_reply(body, self.origin, asked, headers)

    def fold(self, asked: Asked, headers: Mapping[str, str]) -> MessagesFold:
        return MessagesFold(self.origin, asked, headers)
