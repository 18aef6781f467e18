"""Secrets: how they look, and text without them."""

from __future__ import annotations

import base64
import html
import json
import re
import threading
from collections.abc import Iterable, Iterator, Mapping
from urllib.parse import parse_qsl, quote, quote_plus, unquote, urlsplit

HIDDEN = "***"
SHORTEST = 6
"""Secrets that are shorter are only hidden where they are expected: they may be words."""
_KEYS = re.compile(
    r"\b(sk|gsk|csk|xai|pplx|AIza|hf)[-_]?[A-Za-z0-9_-]{12,}|(?<=Bearer )[^\s\"']{8,}"
)
_USER = re.compile(r"(?<=://)[^\s/?#\"'<>\\]*[^\s/?#\"'<>\\@*](?=@[\w\[])")
"""The name and the password in an address."""
_PARAMETER = re.compile(r"[?&](?P<name>[\w.~%+-]{1,80})=(?P<value>[^\s&#\"'<>\\]+)")
_NAMES = re.compile(
    r"auth(?!ors?\b|ority\b)|key|token(?!s)|secret|cookie|passw|credential"
    r"|(^|[-_])sig(nature)?$",
    re.IGNORECASE,
)
_WORDS = re.compile(r"[\s;,]+|(?<=\w)=(?=\S)")
"""What stands between a scheme and its word, and between cookies."""


MOST_KNOWN = 4096
"""Values that are remembered; the ones that were named longest ago are forgotten first."""


class _Known:
    """The secrets that this process has been told of, and the pattern that finds them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: dict[str, None] = {}
        self._pattern: re.Pattern[str] | None = None
        self._stale = False

    def add(self, values: Iterable[str]) -> None:
        """Remember these; one that is known counts as named again."""
        with self._lock:
            for value in values:
                if len(value) < SHORTEST:
                    continue
                self._stale |= value not in self._values
                self._values.pop(value, None)
                self._values[value] = None
            while len(self._values) > MOST_KNOWN:
                self._values.pop(next(iter(self._values)))

    def pattern(self) -> re.Pattern[str] | None:
        """What finds all of them, in every spelling; None when there are none."""
        if self._stale:
            with self._lock:
                self._stale = False
                every = spellings(self._values)
                self._pattern = re.compile("|".join(map(re.escape, every))) if every else None
        return self._pattern


_known = _Known()


def know(*values: str) -> None:
    """Remember secrets for as long as this process lives: `hidden` finds them from now on.

    Those of less than six characters are not: they may be words.
    """
    _known.add(values)


def hidden(text: str) -> str:
    """Return `text` with "***" for each secret that this process knows, however it is spelled."""
    pattern = _known.pattern()
    return text if pattern is None else pattern.sub(HIDDEN, text)


def masked(text: str, secrets: Iterable[str]) -> str:
    """Return `text` without the secrets, however spelled, and without what looks like one.

    Also without the beginning of one that is cut off by the text's end.
    """
    for secret in spellings(secrets):
        text = text.replace(secret, HIDDEN)
        for length in range(min(len(secret), len(text)), SHORTEST - 1, -1):
            if text.endswith(secret[:length]):
                text = text[:-length] + HIDDEN
                break
    spans = sorted(places_of_keys(text), reverse=True)
    for first, last in spans:
        text = text[:first] + HIDDEN + text[last:]
    return text


def places_of_keys(text: str) -> Iterable[tuple[int, int]]:
    """Return where something stands that looks like a secret: its first place and the one after.

    That is a key of a known provider, a password in an address, or a parameter of an address whose
    name tells of a secret. No two places overlap.
    """
    found = [each.span() for each in _KEYS.finditer(text)]
    found += [each.span() for each in _USER.finditer(text)]
    for each in _PARAMETER.finditer(text):
        if each["value"] != HIDDEN and names_a_secret(unquote(each["name"])):
            found.append(each.span("value"))
    apart: list[tuple[int, int]] = []
    for first, last in sorted(found):
        if apart and first < apart[-1][1]:
            apart[-1] = apart[-1][0], max(last, apart[-1][1])
        else:
            apart.append((first, last))
    return apart


def names_a_secret(name: str) -> bool:
    """Whether a header or a parameter of this name holds a secret."""
    return _NAMES.search(name) is not None


def secrets_of(headers: Mapping[str, str], *addresses: str) -> set[str]:
    """Return the secrets in headers and in addresses: values whose names tell of one, passwords."""
    found: set[str] = set()
    for name, value in headers.items():
        if names_a_secret(name):
            found.update(_words(value))
    for address in addresses:
        found.update(_in_address(address))
    return {each for each in found if len(each) >= SHORTEST}


def spellings(secrets: Iterable[str]) -> list[str]:
    """Return the secrets in every way in which they may be written, the longest first."""
    found: set[str] = set()
    for secret in filter(None, secrets):
        text = secret.encode("utf-8", "replace").decode()
        in_json = {json.dumps(text, ensure_ascii=False)[1:-1], json.dumps(text)[1:-1]}
        found |= {secret, quote(text, safe=""), quote(text), quote_plus(text), *in_json}
        found |= {each.replace("/", "\\/") for each in in_json}
        found |= {html.escape(text), html.escape(text, quote=False)}
        found.add(base64.b64encode(text.encode()).decode())
    return sorted(found, key=len, reverse=True)


def _words(value: str) -> Iterator[str]:
    yield value
    for word in _WORDS.split(value):
        yield word
        yield unquote(word)
    scheme, _, word = value.partition(" ")
    yield word
    if scheme.lower() == "basic":
        try:
            pair = base64.b64decode(word.strip(), validate=True).decode()
        except ValueError:
            return
        yield pair
        yield pair.partition(":")[2]


def _in_address(address: str) -> Iterator[str]:
    try:
        parts = urlsplit(address)
    except ValueError:
        return
    for name, value in parse_qsl(parts.query, keep_blank_values=True):
        if names_a_secret(name):
            yield from _words(value)
    user, _, _ = parts.netloc.rpartition("@")
    if user:
        pair = unquote(user)
        yield user
        yield pair
        yield pair.partition(":")[2]
        yield base64.b64encode(pair.encode("utf-8", "replace")).decode()
