"""Models of vendors. Each is loaded when first used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from treadle.providers.local.model import Local
    from treadle.providers.openai.client import OpenAI

__all__ = ["Local", "OpenAI"]

_HOMES = {"Local": "treadle.providers.local.model", "OpenAI": "treadle.providers.openai.client"}


def __getattr__(name: str) -> Any:
    """Load a provider from its room."""
    if name not in _HOMES:
        raise AttributeError(f"module 'treadle.providers' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
