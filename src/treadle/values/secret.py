"""Secrets: how they look, and text without them."""

from __future__ import annotations

import re
from collections.abc import Iterable

HIDDEN = "***"
_KEYS = re.compile(
    r"\b(sk|gsk|csk|xai|pplx|AIza|hf)[-_]?[A-Za-z0-9_-]{12,}|(?<=Bearer )[^\s\"']{8,}"
)
_NAMES = re.compile(
    r"auth(?!ors?\b|ority\b)|key|token(?!s)|secret|cookie|passw|credential"
    r"|(^|[-_])sig(nature)?$",
    re.IGNORECASE,
)


def masked(text: str, secrets: Iterable[str]) -> str:
    """Return `text` without the secrets, and without anything that looks like a key."""
    for secret in secrets:
        if secret:
            text = text.replace(secret, HIDDEN)
    return _KEYS.sub(HIDDEN, text)


def places_of_keys(text: str) -> Iterable[tuple[int, int]]:
    """Return where something stands that looks like a key: its first place and the one after."""
    return (found.span() for found in _KEYS.finditer(text))


def names_a_secret(name: str) -> bool:
    """Whether a header or a parameter of this name holds a secret."""
    return _NAMES.search(name) is not None
