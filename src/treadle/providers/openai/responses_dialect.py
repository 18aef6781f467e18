"""The habits of one server that speaks the Responses API, known by its host and model."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from treadle.providers.openai.dialect import dialect_of
from treadle.providers.openai.prompt_cache import CacheLife, cache_life

PROTOCOL = "openai_responses"
"""The key under which messages and parts carry what this protocol wants back unchanged."""

_BEDROCK = re.compile(r"bedrock-mantle\..+\.api\.aws")
_THINKS = re.compile(r"(^|[./:])(o\d|gpt-([5-9]|\d\d)|codex)(?!.*-chat)")


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponsesDialect:
    """What one server wants, where servers differ.

    `host` tells whose items these are: reasoning, IDs and steps of hosted tools only go back to
    the server that wrote them. `encrypted_reasoning` asks for reasoning that can be sent back
    without the server having kept it; models that do not reason refuse the question. `store` is
    whether it keeps the reply (None: as is its habit). `media_results` says that the result of a
    tool may hold images. `cache_life` is how a prompt is asked to be kept longer, where it can be.
    """

    provider: str = "openai"
    host: str = ""
    encrypted_reasoning: bool = False
    store: bool | None = None
    media_results: bool = False
    cache_key: bool = False
    cache_life: CacheLife | None = None
    native_output: bool = False
    vision: bool = True
    key_header: Literal["authorization", "api-key"] = "authorization"
    keys: tuple[str, ...] = ("OPENAI_API_KEY",)
    needs_key: bool = True
    listed: bool = False


def responses_dialect_of(url: str, model: str, server: str | None = None) -> ResponsesDialect:
    """Return the habits of the server at `url`, or of the named one where that is given.

    Those of an unknown one are the plainest.

    Raises:
        ConfigError: `url` is no http or https address, or there is no such server.
    """
    known = dialect_of(url, server)
    bedrock = _BEDROCK.fullmatch(known.host.partition(":")[0])
    provider = "bedrock" if bedrock else known.provider
    routed = provider == "openrouter" and model.startswith("openai/")
    is_openai = routed or provider in ("openai", "azure", "bedrock")
    thinks = is_openai and bool(_THINKS.search(model))
    return ResponsesDialect(
        provider=provider,
        host=known.host,
        encrypted_reasoning=thinks,
        media_results=is_openai,
        cache_key=known.cache_key,
        cache_life=cache_life(model) if known.cache_key else None,
        native_output=is_openai or known.native_output,
        vision=known.vision,
        key_header=known.key_header,
        keys=known.keys,
        needs_key=known.needs_key,
        listed=known.listed,
    )
