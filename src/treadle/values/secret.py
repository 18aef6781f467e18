"""Secrets: how they look, and text without them."""

from __future__ import annotations

import base64
import html
import json
import re
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast
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


MOST_KNOWN = 1024
"""Values that are remembered; the ones that were named longest ago are forgotten first."""


class _Known:
    """The secrets that this process has been told of, in every spelling.

    `every` has the longest first, so that one that is part of another leaves no rest of it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: dict[str, list[str]] = {}
        self._every: tuple[str, ...] | None = ()

    def add(self, values: Iterable[str]) -> None:
        """Remember these; one that is known counts as named again."""
        with self._lock:
            for value in values:
                if len(value) < SHORTEST:
                    continue
                spelled = self._values.pop(value, None)
                if spelled is None:
                    spelled = spellings([value])
                    self._every = None
                self._values[value] = spelled
            while len(self._values) > MOST_KNOWN:
                self._values.pop(next(iter(self._values)))

    @property
    def every(self) -> tuple[str, ...]:
        """All spellings of all of them."""
        every = self._every
        if every is None:
            with self._lock:
                found = {each for spelled in self._values.values() for each in spelled}
                self._every = every = tuple(sorted(found, key=len, reverse=True))
        return every


_known = _Known()


def know(*values: str) -> None:
    """Remember secrets for as long as this process lives: `hidden` finds them from now on.

    Those of less than six characters are not: they may be words.
    """
    _known.add(values)


def hidden(text: str) -> str:
    """Return `text` with "***" for each secret that this process knows, however it is spelled."""
    for secret in _known.every:
        if secret in text:
            text = text.replace(secret, HIDDEN)
    return text


def know_all_in(value: object) -> None:
    """Remember all texts and numbers in a JSON value."""
    know(*_all_in(value))


def without_secrets(arguments: dict[str, Any], secret: Sequence[str]) -> dict[str, Any]:
    """Return arguments with "***" for those of these names."""
    if not secret:
        return arguments
    return {name: HIDDEN if name in secret else value for name, value in arguments.items()}


def _all_in(value: object) -> Iterator[str]:
    """Return the texts and the numbers in a JSON value."""
    if isinstance(value, dict):
        value = list(cast("dict[str, object]", value).values())
    if isinstance(value, list):
        for item in cast("list[object]", value):
            yield from _all_in(item)
    elif isinstance(value, str | int | float) and not isinstance(value, bool):
        yield str(value)


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
