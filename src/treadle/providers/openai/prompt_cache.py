"""How OpenAI is asked to keep a prompt longer, or not at all, in both of its protocols."""

from __future__ import annotations

import re
from typing import Any, Literal

from treadle.ports.model import PromptCache

CacheLife = Literal["minimum", "maximum", "fixed"]
"""What can be said of a prompt's life: at least or at most how long, or only to keep none."""

_MINIMUM_LIFE = re.compile(r"gpt-(5\.([6-9]|\d\d)|[6-9]|\d\d)")


def cache_life(model: str) -> CacheLife:
    """Return which of the two fields a model has: newer ones have the minimum's."""
    return "minimum" if _MINIMUM_LIFE.match(model) else "maximum"


def chat_cache_life(model: str) -> CacheLife:
    """Return the same for Chat Completions, where the minimum cannot be raised."""
    life = cache_life(model)
    return "fixed" if life == "minimum" else life


def is_kept_long(life: CacheLife | None) -> bool:
    """Whether a prompt is kept long when that is asked for."""
    return life in ("minimum", "maximum")


def wire_cache(kept: PromptCache | None, life: CacheLife | None) -> dict[str, Any]:
    """Return the fields that say how long to keep a prompt. Minutes are every server's habit."""
    match kept, life:
        case "long", "minimum":
            return {"prompt_cache_options": {"ttl": "12h"}}
        case "long", "maximum":
            return {"prompt_cache_retention": "24h"}
        case "off", "minimum" | "fixed":
            return {"prompt_cache_options": {"mode": "explicit"}}
        case _:
            return {}
