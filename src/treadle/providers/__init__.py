"""Clients of model providers."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from treadle.providers.gemini.client import Gemini
    from treadle.providers.openai.client import OpenAI

__all__ = ["Gemini", "OpenAI"]

_HOMES = {
    "Gemini": "treadle.providers.gemini.client",
    "OpenAI": "treadle.providers.openai.client",
}


def __getattr__(name: str) -> object:
    """Load a client at its first use, so that naming one loads no other."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
