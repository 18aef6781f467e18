"""The habits of one server that speaks Chat Completions, known by its host."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from treadle.providers._address import host_of

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
    40 characters ("short"), Mistral exactly nine letters and digits ("nine").
    """

    provider: str = "openai"
    host: str = ""
    max_tokens_field: TokenField = "max_tokens"
    call_ids: CallIds = "any"
    stream_usage: bool = True
    cache_key: bool = False
    file_urls: bool = True
    native_output: bool = False
    native_output_with_tools: bool = False
    vision: bool = True
    merge_roles: bool = False
    system_role: bool = True
    key_header: Literal["authorization", "api-key"] = "authorization"


_OPENAI = ChatDialect(
    provider="openai",
    max_tokens_field="max_completion_tokens",
    call_ids="short",
    file_urls=False,
    native_output=True,
    native_output_with_tools=True,
)
_AZURE = (".openai.azure.com", ".services.ai.azure.com", ".cognitiveservices.azure.com")
_KNOWN: dict[str, tuple[str, ChatDialect]] = {
    "api.deepseek.com": ("deepseek", ChatDialect()),
    "api.fireworks.ai": ("fireworks", ChatDialect(native_output=True)),
    "api.groq.com": ("groq", ChatDialect(max_tokens_field="max_completion_tokens")),
    "api.mistral.ai": (
        "mistral",
        ChatDialect(call_ids="nine", stream_usage=False, native_output=True),
    ),
    "api.together.xyz": ("together", ChatDialect(native_output=True)),
    "api.x.ai": ("xai", ChatDialect(native_output=True, native_output_with_tools=True)),
    "generativelanguage.googleapis.com": ("google", ChatDialect(native_output=True)),
    "openrouter.ai": ("openrouter", ChatDialect(native_output=True)),
}


def dialect_of(url: str) -> ChatDialect:
    """Return the habits of the server at `url`; those of an unknown one are the plainest.

    Raises:
        ConfigError: `url` is no http or https address.
    """
    host = host_of(url)
    name = host.partition(":")[0]
    if name == "api.openai.com" or name.endswith(".api.openai.com"):
        return replace(_OPENAI, host=host, cache_key=True)
    if name.endswith(_AZURE):
        return replace(_OPENAI, provider="azure", host=host, key_header="api-key")
    provider, dialect = _KNOWN.get(name, (host, ChatDialect()))
    return replace(dialect, provider=provider, host=host)
