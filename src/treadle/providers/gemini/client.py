"""Gemini: a model of the Gemini API or of Vertex AI."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

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
from treadle.providers._address import address_of_server, without_query
from treadle.providers._client import Client, Key
from treadle.providers._failure import NO_HEADERS, Asked
from treadle.providers._http import HTTP
from treadle.providers._identity import identity
from treadle.providers.gemini.body import GeminiEncoder
from treadle.providers.gemini.dialect import PROTOCOL, VERTEX, GeminiDialect, dialect_of
from treadle.providers.gemini.reply import decode_reply
from treadle.providers.gemini.sdk import GenaiTransport
from treadle.providers.gemini.stream import GeminiFold
from treadle.providers.prices import priced
from treadle.usage import Price

GOOGLE = "generativelanguage.googleapis.com"
GEMINI_URL = f"https://{GOOGLE}/v1beta"
_ROOTS = ("models/", "tunedModels/", "publishers/", "projects/", "endpoints/")
_KEY = "key"


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Gemini:
    """A model that speaks the Gemini protocol, `generateContent`.

    The key comes from `api_key`, else from GEMINI_API_KEY or GOOGLE_API_KEY at the first request.
    It goes into a header, also when a URL brought it as ``?key=``. `base_url` is
    GOOGLE_GEMINI_BASE_URL or Google's own; for Vertex AI it names the project and the location,
    ``https://aiplatform.googleapis.com/v1/projects/p/locations/global``. `model` is a name
    ("gemini-3-flash-preview"), or where it is found ("tunedModels/mine", "endpoints/123").
    `settings` are defaults under those of a run. `hosted_tools` are offered with every request:
    tools that Google runs itself, written as it documents them, ``{"googleSearch": {}}``. What is
    known about a model follows from its name, on Google's own server its price and window, too;
    these, `generation` (2.5, 3, ...), `vision` and `native_output` overrule it. `client` is a
    `google.genai.Client`: then address, key and tokens are those of the SDK. Safe to share between
    tasks, threads and event loops.

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
    hosted_tools: Sequence[Mapping[str, Any]] = ()
    settings: ModelSettings = DEFAULT_SETTINGS
    price: Price | None = None
    window: int | None = None
    generation: float | None = None
    vision: bool | None = None
    native_output: bool | None = None
    client: object | None = None
    transport: Transport = HTTP
    profile: ModelProfile = field(init=False)
    _address: str = field(init=False)
    _client: Client = field(init=False)

    def __post_init__(self) -> None:
        if not self.model.strip():
            raise UnknownModel(
                "The name of the model is empty; write which one is to answer, for example "
                '"gemini:gemini-3-flash-preview" or Gemini("gemini-3-flash-preview").'
            )
        sdk = None if self.client is None else GenaiTransport(self.client, self.transport)
        known = sdk.address if sdk else os.environ.get("GOOGLE_GEMINI_BASE_URL") or GEMINI_URL
        address, query, key = _parted(address_of_server(self.base_url or known), self.query)
        if sdk:
            key = sdk.key
        dialect = self._dialect(address)
        profile = ModelProfile(
            provider=dialect.provider,
            name=self.model,
            native_output=dialect.native_output,
            native_output_with_tools=dialect.native_output_with_tools,
            vision=dialect.vision,
            price=self.price,
            window=self.window,
            settings=self.settings,
            identity=self._identity(address, query),
        )
        profile = priced(profile, listed=dialect.host == GOOGLE, keeps_long=False)
        place = model_url(address, self.model.strip(), dialect)
        client = Client(
            codec=_GeminiCodec(
                GeminiEncoder(dialect, self.settings, hosted_tools=self.hosted_tools),
                dialect,
                _asking(f"{place}:generateContent", query),
                _asking(f"{place}:streamGenerateContent", {"alt": "sse", **query}),
            ),
            transport=sdk or self.transport,
            provider=dialect.provider,
            model=self.model,
            key=Key(
                given=key if self.api_key is None else self.api_key,
                variables=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
                address=address,
                header="x-goog-api-key",
            ),
            headers=self.headers,
        )
        for name, value in (("profile", profile), ("_address", address), ("_client", client)):
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        return f"Gemini({self.model!r}, base_url={without_query(self._address)!r})"

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Answer in one piece.

        Raises:
            ConfigError: Gemini cannot be asked for what the settings want.
            MissingKey: there is no key.
            ModelError: the request failed; its class says how.
        """
        return await self._client.complete(request)

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta]:
        """Answer piece by piece; the last item is the whole reply.

        Raises:
            ConfigError: Gemini cannot be asked for what the settings want.
            MissingKey: there is no key.
            IncompleteReply: the stream broke off, with the text so far as `partial`.
            ModelError: the request failed; its class says how.
        """
        return self._client.stream(request)

    def _identity(self, address: str, query: Mapping[str, str]) -> str:
        return identity(
            PROTOCOL,
            address,
            headers=self.headers,
            query=query,
            fields={
                "hosted_tools": [dict(tool) for tool in self.hosted_tools],
                "generation": self.generation,
                "vision": self.vision,
                "native_output": self.native_output,
            },
        )

    def _dialect(self, address: str) -> GeminiDialect:
        overrules = {
            "vision": self.vision,
            "native_output": self.native_output,
            "native_output_with_tools": self.native_output,
        }
        given = {name: value for name, value in overrules.items() if value is not None}
        return replace(dialect_of(address, self.model, self.generation), **given)


def model_url(address: str, model: str, dialect: GeminiDialect) -> str:
    """Return where a model is, for any of the forms of its name and of a base URL."""
    if urlsplit(address).path.strip("/") == "":
        address += "/v1" if dialect.host == VERTEX else "/v1beta"
    base = address
    if model.startswith("projects/"):
        base = address.partition("/projects/")[0]
    elif not model.startswith(_ROOTS):
        model = f"models/{model}"
    cloud = dialect.host == VERTEX or "/projects/" in address
    if cloud and model.startswith("models/") and "/publishers/" not in address:
        model = f"publishers/google/{model}"
    return f"{base}/{quote(model, safe='/-._~@:')}"


def _parted(given: str, query: Mapping[str, str]) -> tuple[str, dict[str, str], str | None]:
    """Return a base URL, all of its query, and the key that was in that."""
    base, _, asked = given.partition("?")
    whole = {**dict(parse_qsl(asked, keep_blank_values=True)), **query}
    key = whole.pop(_KEY, None)
    return base.rstrip("/"), whole, key


def _asking(address: str, query: Mapping[str, str]) -> str:
    return f"{address}?{urlencode(query)}" if query else address


@dataclass(frozen=True, slots=True, repr=False)
class _GeminiCodec:
    """Gemini's protocol as a client needs it."""

    encoder: GeminiEncoder
    dialect: GeminiDialect
    whole: str
    streamed: str

    def url(self, *, stream: bool) -> str:
        return self.streamed if stream else self.whole

    def settings(self, request: ModelRequest) -> ModelSettings:
        return self.encoder.settings(request)

    def headers(self, request: ModelRequest) -> Mapping[str, str]:  # noqa: ARG002 (none)
        return NO_HEADERS

    def body(self, request: ModelRequest, *, stream: bool) -> bytes:  # noqa: ARG002 (the same)
        return self.encoder.body(request)

    def decode(self, body: bytes, asked: Asked, headers: Mapping[str, str]) -> ModelReply:
        return decode_reply(body, self.dialect, asked, headers)

    def fold(self, asked: Asked, headers: Mapping[str, str]) -> GeminiFold:
        return GeminiFold(self.dialect, asked, headers)
