"""What one Gemini model on one server wants, known by their names."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from treadle.messages import Opaque
from treadle.providers._address import host_of
from treadle.values import is_object

Wire = dict[str, Any]
"""One object of their JSON."""

PROTOCOL = "gemini"
"""The key under which messages and parts carry what this protocol wants back unchanged."""

HOST = "@host"
"""In opaque data: the one server it came from and may go back to."""

TURN = "@turn"
"""In a message's opaque data: how it stood among its neighbours. "apart" from one of the same
role, "joined" to one of another kind."""

READ_ONLY = f"{PROTOCOL}.read"
"""The key for what a reply told beside its parts, which the server does not want back."""

VERTEX = "vertex"
"""Vertex AI, whatever its region: what one of its hosts wrote, all of them take back."""

THIRD = 3.0
"""From this generation on, levels stand for budgets and calls want their signatures back."""

_VERSION = re.compile(r"gemini-(\d+(?:\.\d+)?)")
_CLOUD = re.compile(r"(.*-)?aiplatform(\.[a-z0-9-]+\.rep)?\.googleapis\.com")
_LATEST = re.compile(r"gemini-(pro|flash|flash-lite)-latest")
_SPECIAL = re.compile(r"image|tts|audio|embedding|live")


@dataclass(frozen=True, slots=True, kw_only=True)
class GeminiDialect:
    """What one model on one server wants, where they differ.

    `host` tells whose signatures and hosted steps these are: they only go back to the server that
    wrote them. `generation` is the number in the model's name, 0 where there is none.
    """

    provider: str = "google"
    host: str = ""
    generation: float = 0.0
    pro: bool = False
    native_output: bool = False
    native_output_with_tools: bool = False
    vision: bool = True


def dialect_of(url: str, model: str, generation: float | None = None) -> GeminiDialect:
    """Return the habits of a model of the server at `url`.

    Raises:
        ConfigError: `url` is no http or https address.
    """
    host = platform_of(host_of(url))
    number = generation_of(model) if generation is None else generation
    writes = number >= 1.5 and not _SPECIAL.search(model)
    return GeminiDialect(
        provider=VERTEX if host == VERTEX else "google",
        host=host,
        generation=number,
        pro="pro" in model,
        native_output=writes,
        native_output_with_tools=writes and number >= THIRD,
    )


def platform_of(host: str) -> str:
    """Return the host under which opaque data is kept; all of Vertex AI is one."""
    return VERTEX if _CLOUD.fullmatch(host.partition(":")[0]) else host


def generation_of(model: str) -> float:
    """Return the number in a model's name; an alias of the latest is of the third or newer."""
    found = _VERSION.search(model)
    if found:
        return float(found[1])
    return THIRD if _LATEST.search(model) else 0.0


def kept_for(provider: Opaque | None, host: str) -> Wire | None:
    """Return the opaque fields that go to this server; None when it did not write this part."""
    if provider is None:
        return None
    kept: object = provider.get(PROTOCOL)
    if not is_object(kept) or kept.get(HOST, host) != host:
        return None
    return {name: value for name, value in kept.items() if name != HOST}
