"""The habits of servers that speak Chat Completions, known by name or by host."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import Literal
from urllib.parse import quote, urlsplit

from treadle.errors import ConfigError
from treadle.providers._address import host_of
from treadle.providers.openai.prompt_cache import CacheLife

PROTOCOL = "openai_chat"
"""The key under which messages and parts carry what this protocol wants back unchanged."""

TokenField = Literal["max_tokens", "max_completion_tokens"]
CallIds = Literal["any", "short", "nine"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatDialect:
    """What one server wants, where servers differ.

    `host` tells whose reasoning and citations these are: they only go back to the server that
    wrote them. `merge_roles` is for chat templates that want user and assistant to alternate,
    `system_role=False` for those without a system message. `call_ids`: OpenAI takes at most
    40 characters ("short"), Mistral exactly nine letters and digits ("nine"). `keys` are the
    environment variables that a key is looked for in, `needs_key` whether there has to be one.
    `cache_life` is what the server can be told of a prompt's life.
    `listed` says that this is the vendor's own server, where its list prices hold.
    """

    provider: str = "openai"
    host: str = ""
    max_tokens_field: TokenField = "max_tokens"
    call_ids: CallIds = "any"
    stream_usage: bool = True
    cache_key: bool = False
    cache_life: CacheLife | None = None
    file_urls: bool = True
    native_output: bool = False
    native_output_with_tools: bool = False
    vision: bool = True
    merge_roles: bool = False
    system_role: bool = True
    key_header: Literal["authorization", "api-key"] = "authorization"
    keys: tuple[str, ...] = ("OPENAI_API_KEY",)
    needs_key: bool = True
    listed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A server by name, and what is known of it.

    `url` is its base URL, "" where each account has its own; `url_variable` is the environment
    variable that overrules it. `hosts` are further hosts by which it is known, those that begin
    with a dot by their end. `notes` says in words what `dialect` cannot.
    """

    title: str
    url: str
    keys: tuple[str, ...]
    needs_key: bool = True
    url_variable: str | None = None
    hosts: tuple[str, ...] = ()
    dialect: ChatDialect = ChatDialect()
    notes: str = ""


_OPENAI = ChatDialect(
    max_tokens_field="max_completion_tokens",
    call_ids="short",
    file_urls=False,
    native_output=True,
    native_output_with_tools=True,
)
_SCHEMA = ChatDialect(native_output=True)
_NO_BOTH = "A schema for the output holds only while no tools are offered."

SERVERS: dict[str, Server] = {
    "openai": Server(
        title="OpenAI",
        url="https://api.openai.com/v1",
        keys=("OPENAI_API_KEY",),
        url_variable="OPENAI_BASE_URL",
        hosts=(".api.openai.com",),
        dialect=replace(_OPENAI, cache_key=True),
    ),
    "azure": Server(
        title="Azure OpenAI",
        url="",
        keys=("AZURE_OPENAI_API_KEY",),
        url_variable="AZURE_OPENAI_ENDPOINT",
        hosts=(".openai.azure.com", ".services.ai.azure.com", ".cognitiveservices.azure.com"),
        dialect=replace(_OPENAI, key_header="api-key"),
        notes="The model is the name of a deployment. With OPENAI_API_VERSION set, requests go to "
        "the deployment's own address in that version of the API, else to the API without one.",
    ),
    "ollama": Server(
        title="Ollama",
        url="http://localhost:11434/v1",
        keys=("OLLAMA_API_KEY",),
        needs_key=False,
        url_variable="OLLAMA_HOST",
        hosts=("ollama.com",),
        dialect=_SCHEMA,
        notes=f"Its window is small unless set on the server (num_ctx). {_NO_BOTH}",
    ),
    "vllm": Server(
        title="vLLM",
        url="http://localhost:8000/v1",
        keys=("VLLM_API_KEY",),
        needs_key=False,
        url_variable="VLLM_BASE_URL",
        dialect=_SCHEMA,
        notes=f"Calls tools when started with --enable-auto-tool-choice and a parser. {_NO_BOTH}",
    ),
    "llamacpp": Server(
        title="llama.cpp",
        url="http://localhost:8080/v1",
        keys=("LLAMA_API_KEY",),
        needs_key=False,
        url_variable="LLAMACPP_BASE_URL",
        dialect=_SCHEMA,
        notes=f"Calls tools when started with --jinja. {_NO_BOTH}",
    ),
    "lmstudio": Server(
        title="LM Studio",
        url="http://localhost:1234/v1",
        keys=("LMSTUDIO_API_KEY",),
        needs_key=False,
        url_variable="LMSTUDIO_BASE_URL",
        dialect=_SCHEMA,
        notes=_NO_BOTH,
    ),
    "litellm": Server(
        title="LiteLLM proxy",
        url="http://localhost:4000/v1",
        keys=("LITELLM_API_KEY",),
        needs_key=False,
        url_variable="LITELLM_BASE_URL",
        notes="What it can do depends on the model behind it; native_output=True where that can.",
    ),
    "openrouter": Server(
        title="OpenRouter",
        url="https://openrouter.ai/api/v1",
        keys=("OPENROUTER_API_KEY",),
        dialect=_SCHEMA,
        notes="Which server answers is chosen for each request.",
    ),
    "groq": Server(
        title="Groq",
        url="https://api.groq.com/openai/v1",
        keys=("GROQ_API_KEY",),
        dialect=ChatDialect(max_tokens_field="max_completion_tokens"),
        notes="Only some models obey a schema for the output: native_output=True for these.",
    ),
    "mistral": Server(
        title="Mistral",
        url="https://api.mistral.ai/v1",
        keys=("MISTRAL_API_KEY",),
        dialect=replace(_SCHEMA, call_ids="nine", stream_usage=False),
        notes="IDs of tool calls are nine letters and digits; streams tell usage unasked.",
    ),
    "deepseek": Server(
        title="DeepSeek",
        url="https://api.deepseek.com",
        keys=("DEEPSEEK_API_KEY",),
        notes="No schema for the output.",
    ),
    "xai": Server(
        title="xAI",
        url="https://api.x.ai/v1",
        keys=("XAI_API_KEY",),
        hosts=(".api.x.ai",),
        dialect=replace(_SCHEMA, native_output_with_tools=True),
        notes="Reasoning models refuse stop sequences and penalties.",
    ),
    "together": Server(
        title="Together",
        url="https://api.together.xyz/v1",
        keys=("TOGETHER_API_KEY",),
        hosts=("api.together.ai",),
        dialect=_SCHEMA,
        notes=_NO_BOTH,
    ),
    "fireworks": Server(
        title="Fireworks",
        url="https://api.fireworks.ai/inference/v1",
        keys=("FIREWORKS_API_KEY",),
        dialect=_SCHEMA,
        notes=_NO_BOTH,
    ),
    "cerebras": Server(
        title="Cerebras",
        url="https://api.cerebras.ai/v1",
        keys=("CEREBRAS_API_KEY",),
        dialect=replace(_SCHEMA, max_tokens_field="max_completion_tokens"),
        notes=f"Refuses penalties, and a tool_choice that names a tool. {_NO_BOTH}",
    ),
    "google": Server(
        title="Gemini's compatible API",
        url="https://generativelanguage.googleapis.com/v1beta/openai",
        keys=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        dialect=_SCHEMA,
        notes="Gemini's own API, class Gemini, can do more.",
    ),
}
"""What is known of servers, by the name in "name:model" strings, profiles and errors."""


def server_named(name: str) -> Server:
    """Return a known server.

    Raises:
        ConfigError: none is known by this name.
    """
    if name not in SERVERS:
        raise ConfigError(f"server={name!r} is none of {', '.join(SERVERS)}; pass base_url=.")
    return SERVERS[name]


def dialect_of(url: str, server: str | None = None) -> ChatDialect:
    """Return the habits of the server at `url`, or of the named one where that is given.

    Those of an unknown one are the plainest.

    Raises:
        ConfigError: `url` is no http or https address, or there is no such server.
    """
    host = host_of(url)
    name = host.partition(":")[0]
    provider = server or next((each for each in SERVERS if _is_at(SERVERS[each], name)), None)
    if provider is None:
        return ChatDialect(provider=host, host=host)
    found = server_named(provider)
    return replace(
        found.dialect,
        provider=provider,
        host=host,
        keys=found.keys,
        needs_key=found.needs_key,
        listed=name == urlsplit(found.url).hostname,
    )


def address_of(name: str, model: str) -> str:
    """Return the base URL of a known server, from its environment variable where that is set.

    Raises:
        ConfigError: there is no such server, or its address is neither known nor set.
    """
    server = server_named(name)
    given = os.environ.get(server.url_variable or "", "").strip()
    if name == "ollama" and given:
        return _ollama_at(given)
    if not given and not server.url:
        raise ConfigError(
            f"Where is {server.title}, for model {model!r}? Set {server.url_variable}, or pass "
            "base_url=."
        )
    return _azure_at(given, model) if name == "azure" else given or server.url


def _azure_at(endpoint: str, model: str) -> str:
    """Return the address of a deployment, or of an API of all when no version is set."""
    endpoint = endpoint.rstrip("/")
    if "/openai" in endpoint:
        return endpoint
    version = os.environ.get("OPENAI_API_VERSION", "").strip()
    if not version:
        return f"{endpoint}/openai/v1"
    deployment = quote(model, safe="")
    return f"{endpoint}/openai/deployments/{deployment}?api-version={quote(version)}"


def _ollama_at(given: str) -> str:
    """Return the address that OLLAMA_HOST means: scheme, host and port may be left out."""
    has_scheme = "://" in given
    try:
        parts = urlsplit(given if has_scheme else f"http://{given}")
        port = parts.port
    except ValueError as error:
        raise ConfigError(f"OLLAMA_HOST={given!r} is not an address: {error}.") from error
    host = parts.hostname or "localhost"
    if host in ("0.0.0.0", "::"):  # noqa: S104 where it listens, and what nobody can connect to
        host = "localhost"
    place = f"[{host}]" if ":" in host else host
    if port is None and not has_scheme:
        port = 11434
    return f"{parts.scheme}://{place}{f':{port}' if port else ''}{parts.path.rstrip('/') or '/v1'}"


def _is_at(server: Server, host: str) -> bool:
    """Whether a server is known by this host; one on this machine may be any."""
    if server.needs_key and host == urlsplit(server.url).hostname:
        return True
    return any(host.endswith(each) if each[0] == "." else host == each for each in server.hosts)
