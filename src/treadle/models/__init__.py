"""What works with any model: finding it by name, and wrappers that are models themselves."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from treadle.models.cache import Cache
    from treadle.models.calibration import Calibration, calibration_of
    from treadle.models.fallback import Fallback
    from treadle.models.rate_limit import RateLimit
    from treadle.models.resolve import resolve_model
    from treadle.models.retry import Retry
    from treadle.models.tokenizer import tokenizer_for
    from treadle.models.tokens import Sizes, sizes_of, tokens_of_text

__all__ = [
    "Cache",
    "Calibration",
    "Fallback",
    "RateLimit",
    "Retry",
    "Sizes",
    "calibration_of",
    "resolve_model",
    "sizes_of",
    "tokenizer_for",
    "tokens_of_text",
]

_HOMES = {
    "Cache": "treadle.models.cache",
    "Calibration": "treadle.models.calibration",
    "Fallback": "treadle.models.fallback",
    "RateLimit": "treadle.models.rate_limit",
    "Retry": "treadle.models.retry",
    "Sizes": "treadle.models.tokens",
    "calibration_of": "treadle.models.calibration",
    "resolve_model": "treadle.models.resolve",
    "sizes_of": "treadle.models.tokens",
    "tokenizer_for": "treadle.models.tokenizer",
    "tokens_of_text": "treadle.models.tokens",
}


def __getattr__(name: str) -> object:
    """Load a name at its first use."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
