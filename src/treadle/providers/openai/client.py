"""OpenAI: a model behind a Chat Completions API, OpenAI's own or any compatible one."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace

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
from treadle.providers.openai.chat_body import ChatEncoder
from treadle.providers.openai.chat_reply import decode_reply
from treadle.providers.openai.chat_stream import ChatFold
from treadle.providers.openai.codec import OpenAICodec, account_headers, key_variables
from treadle.providers.openai.dialect import PROTOCOL, TokenField, address_of, dialect_of
from treadle.providers.openai.prompt_cache import chat_cache_life, is_kept_long
from treadle.providers.openai.sdk import SdkTransport
from treadle.providers.prices import priced
from treadle.usage import Price

_PATH = "/chat/completions"


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class OpenAI:
    """A model that speaks the Chat Completions protocol.

    `server` names a known one ("groq", "ollama", see the table of servers), with its address, key
    and habits; without it `base_url` is OPENAI_BASE_URL or OpenAI's own, and what is known about a
    server follows from its host. The key comes from `api_key`, else from OPENAI_API_KEY or the
    known server's own variable at the first request; a server on this machine or a private network
    needs none. `settings` are defaults under those of a run. `price` and `window` are what the
    vendor lists, on its own server. The fields from `max_tokens_field` to `native_output` overrule
    what is known. `client` is a client of OpenAI's SDK, `AsyncAzureOpenAI` for example: then
    requests go through it, with its address and its authentication. Safe to share between tasks,
    threads and event loops, as far as `client` is.

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
    max_tokens_field: TokenField | None = None
    merge_roles: bool | None = None
    system_role: bool | None = None
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
                '"openai:gpt-5.2" or OpenAI("gpt-5.2").'
            )
        sdk = None if self.client is None else SdkTransport(self.client, _PATH, self.model)
        address = sdk.address if sdk else self._given_address()
        overrules = {
            "max_tokens_field": self.max_tokens_field,
            "merge_roles": self.merge_roles,
            "system_role": self.system_role,
            "vision": self.vision,
            "native_output": self.native_output,
            "native_output_with_tools": self.native_output,
        }
        given = {name: value for name, value in overrules.items() if value is not None}
        dialect = replace(dialect_of(address, self.server), **given)
        if dialect.cache_key:
            dialect = replace(dialect, cache_life=chat_cache_life(self.model))
        profile = ModelProfile(
            provider=dialect.provider,
            name=self.model,
            native_output=dialect.native_output,
            native_output_with_tools=dialect.native_output_with_tools,
            vision=dialect.vision,
            price=self.price,
            window=self.window,
            settings=self.settings,
            identity=self._identity(address, given),
        )
        profile = priced(
            profile, listed=dialect.listed, keeps_long=is_kept_long(dialect.cache_life)
        )
        client = Client(
            codec=OpenAICodec(
                encoder=ChatEncoder(self.model, dialect, self.settings),
                host=dialect.host,
                address=endpoint(address, _PATH, self.query),
                read=decode_reply,
                begin=ChatFold,
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
        return address_of_server(given)

    def _identity(self, address: str, given: Mapping[str, object]) -> str:
        account = (self.organization, self.project)
        fields = {**given, "account": account}
        return identity(PROTOCOL, address, headers=self.headers, query=self.query, fields=fields)

    def __repr__(self) -> str:
        return f"OpenAI({self.model!r}, base_url={without_query(self._address)!r})"

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Answer in one piece.

        Raises:
            MissingKey: there is no key.
            ModelError: the request failed; its class says how.
        """
        return await self._client.complete(request)

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta]:
        """Answer piece by piece; the last item is the whole reply.

        Raises:
            MissingKey: there is no key.
            IncompleteReply: the stream broke off, with the text so far as `partial`.
            ModelError: the request failed; its class says how.
        """
        return self._client.stream(request)
