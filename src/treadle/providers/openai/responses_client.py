"""OpenAIResponses: a model behind the Responses API, OpenAI's own or any compatible one."""

from __future__ import annotations

import re
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
from treadle.providers._http import HTTP
from treadle.providers._identity import identity
from treadle.providers.openai.codec import OpenAICodec, account_headers, key_variables
from treadle.providers.openai.dialect import address_of
from treadle.providers.openai.prompt_cache import is_kept_long
from treadle.providers.openai.responses_body import ResponsesEncoder
from treadle.providers.openai.responses_dialect import (
    PROTOCOL,
    ResponsesDialect,
    responses_dialect_of,
)
from treadle.providers.openai.responses_reply import decode_reply
from treadle.providers.openai.responses_stream import ResponsesFold
from treadle.providers.openai.sdk import SdkTransport
from treadle.providers.prices import priced
from treadle.usage import Price

_PATH = "/responses"
LEAST_OUTPUT = 16
"""Output tokens that may be allowed at least, by OpenAI's reference of `max_output_tokens`."""
_DEPLOYMENT = re.compile(r"(?<=/openai)/deployments/[^/?]+")
"""Azure's Responses API is not that of one deployment: it reads the model in the request."""


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class OpenAIResponses:
    """A model that speaks the Responses protocol.

    `server` names a known one ("azure", "openrouter"), with its address, key and habits; without
    it `base_url` is OPENAI_BASE_URL or OpenAI's own. The key comes from `api_key`, else from
    OPENAI_API_KEY or the known server's own variable at the first request; a server on this
    machine or a private network needs none. `settings` are defaults under those of a run.
    `hosted_tools` are tools that the server itself runs, as its documentation writes them:
    ``{"type": "web_search"}``. The whole conversation is sent each time, with its reasoning, which
    is asked for encrypted where the model has that; so `store`, whether the server keeps replies,
    may be False. What is known about a server follows from its host and the model;
    `encrypted_reasoning`, `vision` and `native_output` overrule it. `client` is a client of
    OpenAI's SDK, `AsyncAzureOpenAI` for example: then requests go through it, with its address and
    its authentication. Safe to share between tasks, threads and event loops, as far as `client`
    is.

    Raises:
        UnknownModel: `model` is empty.
        ConfigError: `base_url` is no http or https address, no such server is known, or `client`
            is no client of the SDK.
    """

    model: str
    _: KW_ONLY
    api_key: str | None = None
    base_url: str | None = None
    server: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    query: Mapping[str, str] = field(default_factory=dict[str, str])
    organization: str | None = None
    project: str | None = None
    settings: ModelSettings = DEFAULT_SETTINGS
    price: Price | None = None
    window: int | None = None
    hosted_tools: Sequence[Mapping[str, Any]] = ()
    store: bool | None = None
    encrypted_reasoning: bool | None = None
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
                "The name of the model is empty; write which one the server is to run, for example "
                '"openai-responses:gpt-5.2" or OpenAIResponses("gpt-5.2").'
            )
        sdk = None if self.client is None else SdkTransport(self.client, _PATH, self.model)
        address = sdk.address if sdk else self._given_address()
        dialect = self._dialect(address)
        tools = [dict(tool) for tool in self.hosted_tools]
        profile = ModelProfile(
            provider=dialect.provider,
            name=self.model,
            native_output=dialect.native_output,
            native_output_with_tools=dialect.native_output,
            vision=dialect.vision,
            price=self.price,
            window=self.window,
            min_output=LEAST_OUTPUT,
            settings=self.settings,
            identity=self._identity(address, tools),
        )
        profile = priced(
            profile, listed=dialect.listed, keeps_long=is_kept_long(dialect.cache_life)
        )
        encoder = ResponsesEncoder(self.model, dialect, self.settings, hosted_tools=tools)
        client = Client(
            codec=OpenAICodec(
                encoder=encoder,
                host=dialect.host,
                address=endpoint(address, _PATH, self.query),
                read=decode_reply,
                begin=ResponsesFold,
            ),
            transport=sdk or self.transport,
            provider=dialect.provider,
            model=self.model,
            key=Key(
                given="" if sdk else self.api_key,
                variables=key_variables(dialect.keys, is_chosen=bool(self.base_url or self.server)),
                address=address,
                header=dialect.key_header,
                needed=dialect.needs_key,
            ),
            fixed=account_headers(self.organization, self.project),
            headers=self.headers,
        )
        for name, value in (("profile", profile), ("_address", address), ("_client", client)):
            object.__setattr__(self, name, value)

    def _given_address(self) -> str:
        given = self.base_url or address_of(self.server or "openai", self.model)
        return _DEPLOYMENT.sub("", address_of_server(given))

    def __repr__(self) -> str:
        return f"OpenAIResponses({self.model!r}, base_url={without_query(self._address)!r})"

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Answer in one piece.

        Raises:
            MissingKey: there is no key.
            ConfigError: stop sequences are set, which this protocol does not have.
            ModelError: the request failed; its class says how.
        """
        return await self._client.complete(request)

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta]:
        """Answer piece by piece; the last item is the whole reply.

        Raises:
            MissingKey: there is no key.
            ConfigError: stop sequences are set, which this protocol does not have.
            IncompleteReply: the stream broke off, with the text so far as `partial`.
            ModelError: the request failed; its class says how.
        """
        return self._client.stream(request)

    def _dialect(self, address: str) -> ResponsesDialect:
        return replace(responses_dialect_of(address, self.model, self.server), **self._overrules())

    def _overrules(self) -> dict[str, bool]:
        overrules = {
            "store": self.store,
            "encrypted_reasoning": self.encrypted_reasoning,
            "vision": self.vision,
            "native_output": self.native_output,
        }
        return {name: value for name, value in overrules.items() if value is not None}

    def _identity(self, address: str, tools: list[dict[str, Any]]) -> str:
        account = (self.organization, self.project)
        return identity(
            PROTOCOL,
            address,
            headers=self.headers,
            query=self.query,
            fields={**self._overrules(), "hosted_tools": tools, "account": account},
        )
