"""Recorded HTTP exchanges: one line of JSON each, without secrets."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import msgspec
from msgspec import Struct
from msgspec.json import decode, encode

from treadle.ports.transport import HttpRequest
from treadle.values.secret import (
    HIDDEN,
    masked,
    names_a_secret,
    places_of_keys,
    secrets_of,
    spellings,
)

VERSION = 1

Outcome = Literal["whole", "broken", "cancelled"]


class Binary(Struct, frozen=True):
    """Bytes that are no text of UTF-8."""

    base64: str


Content = str | Binary


class Failure(Struct, frozen=True, omit_defaults=True):
    """The error in which an exchange ended, by the name of its class."""

    kind: str
    message: str
    retryable: bool = False
    retry_after: float | None = None


class Exchange(Struct, frozen=True, omit_defaults=True):
    """One request and what came of it.

    `status` is None when no answer came. `pieces` is the body as it arrived. `outcome` says whether
    it was read to its end, broke with `failure`, or was left before its end.
    """

    version: int
    method: str
    url: str
    headers: dict[str, str]
    body: Content
    status: int | None = None
    answer_headers: dict[str, str] = {}
    pieces: tuple[Content, ...] = ()
    outcome: Outcome = "whole"
    failure: Failure | None = None

    def line(self) -> bytes:
        """Return it as a line of a file."""
        return encode(self) + b"\n"


def exchanges_in(content: bytes) -> list[Exchange]:
    """Return the exchanges that the lines of a file hold.

    Raises:
        ValueError: a line is none.
    """
    found: list[Exchange] = []
    for number, line in enumerate(content.splitlines(), 1):
        if not line.strip():
            continue
        try:
            exchange = decode(line, type=Exchange)
        except msgspec.DecodeError as error:
            raise ValueError(f"line {number} is no recorded exchange: {error}") from error
        if exchange.version > VERSION:
            raise ValueError(f"line {number} was recorded by a newer version of this package")
        found.append(exchange)
    return found


def as_content(raw: bytes) -> Content:
    """Return bytes as text where they are text."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return Binary(base64.b64encode(raw).decode())


def as_bytes(content: Content) -> bytes:
    """Return what `as_content` was given."""
    return content.encode() if isinstance(content, str) else base64.b64decode(content.base64)


class Secrets:
    """What must not be recorded: all that was seen in a secret place, wherever it comes again."""

    __slots__ = ("_known",)

    def __init__(self, known: Iterable[str] = ()) -> None:
        self._known: set[str] = {each for each in known if each}

    def learn(self, request: HttpRequest) -> None:
        """Take note of the secrets in a request's headers and address."""
        self._known |= secrets_of(request.headers, request.url)

    def learn_from_answer(self, headers: Mapping[str, str]) -> None:
        """Take note of the secrets in an answer's headers: a new cookie, and where it points to.

        What else tells of a secret by its name, as WWW-Authenticate does, holds words.
        """
        places = [value for value in headers.values() if "://" in value or value.startswith("/")]
        fresh = (value for name, value in headers.items() if name.lower() == "set-cookie")
        for cookie in fresh:
            self._known |= secrets_of({"cookie": cookie.partition(";")[0].partition("=")[2]})
        self._known |= secrets_of({}, *places)

    def url(self, url: str) -> str:
        """Return an address without the secrets in its query."""
        parts = urlsplit(url)
        shown = [(name, HIDDEN if names_a_secret(name) else value) for name, value in _query(url)]
        query = urlencode(shown, safe="*") if shown else parts.query
        return self.text(urlunsplit(parts._replace(query=query)))

    def headers(self, headers: Mapping[str, str]) -> dict[str, str]:
        """Return headers by their names in lower case, secret ones hidden."""
        return {
            name.lower(): HIDDEN if names_a_secret(name) else self.text(value)
            for name, value in headers.items()
        }

    def text(self, text: str) -> str:
        """Return a text without secrets."""
        return masked(text, self._known)

    def content(self, raw: bytes) -> bytes:
        """Return bytes without secrets."""
        return b"".join(self.pieces([raw]))

    def pieces(self, pieces: Sequence[bytes]) -> list[bytes]:
        """Return the pieces of a body without secrets, also those that two pieces share."""
        whole = b"".join(pieces).decode("latin-1")  # one character for each byte
        spans = sorted({*self._places(whole), *places_of_keys(whole)})
        return [piece.encode("latin-1") for piece in _without(spans, pieces, whole)]

    def _places(self, text: str) -> Iterator[tuple[int, int]]:
        for secret in spellings(self._known):
            spelled = secret.encode("utf-8", "surrogatepass").decode("latin-1")
            yield from (found.span() for found in re.finditer(re.escape(spelled), text))


def _query(url: str) -> list[tuple[str, str]]:
    return parse_qsl(urlsplit(url).query, keep_blank_values=True)


def _without(
    spans: Iterable[tuple[int, int]], pieces: Sequence[bytes], whole: str
) -> Iterator[str]:
    """Yield the pieces with each span hidden where it begins and gone where it goes on."""
    hidden = list(_joined(spans))
    begin = 0
    for piece in pieces:
        end, at, kept = begin + len(piece), begin, list[str]()
        for first, last in hidden:
            if last <= begin or first >= end:
                continue
            kept.append(whole[at : max(first, at)])
            if first >= begin:
                kept.append(HIDDEN)
            at = min(last, end)
        yield "".join((*kept, whole[at:end]))
        begin = end


def _joined(spans: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield spans, those that overlap as one."""
    first, last = -1, -1
    for begin, end in spans:
        if begin >= last:
            if last > first:
                yield first, last
            first, last = begin, end
        last = max(last, end)
    if last > first:
        yield first, last
