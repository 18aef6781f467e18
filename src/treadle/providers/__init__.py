"""Clients of model providers."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from treadle.providers.anthropic.client import Anthropic
    from treadle.providers.gemini.client import Gemini
    from treadle.providers.openai.client import OpenAI
    from treadle.providers.openai.responses_client import OpenAIResponses

__all__ = ["Anthropic", "Gemini", "OpenAI", "OpenAIResponses"]

_HOMES = {
    "Anthropic": "treadle.providers.anthropic.client",
    "Gemini": "treadle.providers.gemini.client",
    "OpenAI": "treadle.providers.openai.client",
    "OpenAIResponses": "treadle.providers.openai.responses_client",
}


def __getattr__(name: str) -> object:
    """Load a client at its first use, so that naming one loads no other."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
