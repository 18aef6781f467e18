"""What works with any model: finding it by name, and wrappers that are models themselves."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from treadle.models.cache import Cache
    from treadle.models.fallback import Fallback
    from treadle.models.rate_limit import RateLimit
    from treadle.models.resolve import resolve_model
    from treadle.models.retry import Retry

__all__ = ["Cache", "Fallback", "RateLimit", "Retry", "resolve_model"]

_HOMES = {
    "Cache": "treadle.models.cache",
    "Fallback": "treadle.models.fallback",
    "RateLimit": "treadle.models.rate_limit",
    "Retry": "treadle.models.retry",
    "resolve_model": "treadle.models.resolve",
}


def __getattr__(name: str) -> object:
    """Load a name at its first use."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
