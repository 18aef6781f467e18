"""Replayer: a transport that answers from recorded exchanges."""

from __future__ import annotations

import asyncio
import textwrap
import threading
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import suppress
from difflib import SequenceMatcher, unified_diff
from pathlib import Path
from typing import NamedTuple

import msgspec

from treadle import errors
from treadle.errors import ConfigError, IncompleteReply, ModelError, Overloaded
from treadle.ports.transport import HttpRequest, HttpResponse
from treadle.testing.recordings import Exchange, Failure, Secrets, as_bytes, exchanges_in

WIDTH = 100
MOST_LINES = 60
"""Lines of a difference that are shown."""


class Question(NamedTuple):
    """What makes two requests equal: their bodies are compared as JSON, where they are JSON."""

    method: str
    url: str
    body: bytes


class Replayer:
    """A transport that answers from a file that `Recorder` wrote, and never from the network.

    A request gets the answer that was recorded for its method, URL and body; the spelling of JSON
    and the order of its keys do not matter, headers and secrets neither. Equal requests get their
    answers in the order in which they were recorded, each once. Streams come in the pieces in
    which they were recorded; what broke breaks again with the same error, and what was left before
    its end ends there with `IncompleteReply`.

    Raises (when it is asked):
        ConfigError: there is no such file, or no such exchange in it, or not so many; the message
            shows how what was asked differs from the nearest that was recorded.
    """

    def __init__(self, path: str | Path, *, secrets: Iterable[str] = ()) -> None:
        self._path = Path(path)
        self._secrets = Secrets(secrets)
        self._lock = threading.Lock()
        self._left: dict[Question, deque[Exchange]] | None = None
        self._asked: dict[Question, int] = defaultdict(int)

    def __repr__(self) -> str:
        return f"Replayer({str(self._path)!r})"

    async def send(self, request: HttpRequest) -> HttpResponse:
        """Return what was recorded for this request; see the port."""
        exchange = await asyncio.to_thread(self._find, request)
        if exchange.status is None:
            raise _error(exchange)
        return _Replayed(exchange)

    @property
    def left(self) -> int:
        """How many recorded exchanges were not asked for."""
        with self._lock:
            return sum(map(len, self._load().values()))

    def _find(self, request: HttpRequest) -> Exchange:
        self._secrets.learn(request)
        secrets = self._secrets
        asked = Question(
            request.method, secrets.url(request.url), _normal(secrets.content(request.body))
        )
        with self._lock:
            recorded = self._load()
            if asked not in recorded:
                raise ConfigError(self._unknown(asked, recorded))
            self._asked[asked] += 1
            if not recorded[asked]:
                raise ConfigError(
                    f"{asked.method} {asked.url} was asked {self._asked[asked]} times with the "
                    f"same body; {self._path} has it {self._asked[asked] - 1} times. Record again."
                )
            return recorded[asked].popleft()

    def _load(self) -> dict[Question, deque[Exchange]]:
        if self._left is None:
            try:
                exchanges = exchanges_in(self._path.read_bytes())
            except OSError as error:
                raise ConfigError(
                    f"There is no recording at {str(self._path)!r} ({error.strerror}); record one "
                    "with transport=Recorder(path)."
                ) from error
            except ValueError as error:
                raise ConfigError(f"{self._path}: {error}.") from error
            self._left = defaultdict(deque)
            for each in exchanges:
                question = Question(each.method, each.url, _normal(as_bytes(each.body)))
                self._left[question].append(each)
            self._left = dict(self._left)
        return self._left

    def _unknown(self, asked: Question, recorded: Iterable[Question]) -> str:
        said = f"{asked.method} {asked.url} with this body is not recorded in {self._path}."
        nearest = max(recorded, key=lambda each: _likeness(asked, each), default=None)
        if nearest is None:
            return f"{said} Nothing is."
        shown = list(
            unified_diff(_lines(nearest), _lines(asked), "recorded", "asked", lineterm="", n=2)
        )
        if len(shown) > MOST_LINES:
            shown[MOST_LINES:] = [f"… and {len(shown) - MOST_LINES} lines more"]
        return "\n".join((f"{said} It differs from the nearest that is:", *shown))


class _Replayed:
    """A recorded response."""

    __slots__ = ("_exchange", "headers", "status")

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self.status = exchange.status or 0
        self.headers: Mapping[str, str] = _Headers(exchange.answer_headers)

    async def read(self) -> bytes:
        """Return the whole body."""
        return b"".join([piece async for piece in self.pieces()])

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yield the body in the pieces in which it came."""
        for piece in self._exchange.pieces:
            yield as_bytes(piece)
        if self._exchange.outcome != "whole":
            raise _error(self._exchange)

    async def close(self) -> None:
        """Nothing is open."""


class _Headers(Mapping[str, str]):
    """Headers, looked up in any case."""

    def __init__(self, headers: Mapping[str, str]) -> None:
        self._headers = {name.lower(): value for name, value in headers.items()}

    def __getitem__(self, name: str) -> str:
        return self._headers[name.lower()]

    def __iter__(self) -> Iterator[str]:
        return iter(self._headers)

    def __len__(self) -> int:
        return len(self._headers)


def _error(exchange: Exchange) -> ModelError:
    """Return the error in which an exchange ended."""
    failure = exchange.failure
    if failure is None:
        what = "stream" if exchange.status is not None else "request"
        return IncompleteReply(f"The {what} was left here when it was recorded.", retryable=True)
    return _class_of(failure)(
        failure.message, retryable=failure.retryable, retry_after=failure.retry_after
    )


def _class_of(failure: Failure) -> type[ModelError]:
    kind: object = getattr(errors, failure.kind, None)
    return kind if isinstance(kind, type) and issubclass(kind, ModelError) else Overloaded


def _normal(body: bytes) -> bytes:
    """Return a body in the one spelling of its JSON."""
    try:
        return msgspec.json.encode(msgspec.json.decode(body), order="sorted")
    except msgspec.DecodeError:
        return body


def _likeness(one: Question, other: Question) -> tuple[bool, bool, float, float]:
    """Return how near two requests are: by method, address, lines, and then by letters."""
    lines = SequenceMatcher(None, _lines(one), _lines(other), autojunk=False).ratio()
    letters = SequenceMatcher(None, str(one.body), str(other.body), autojunk=False).quick_ratio()
    return one.method == other.method, one.url == other.url, lines, letters


def _lines(question: Question) -> list[str]:
    """Return a request as lines that can be compared: long texts are broken."""
    body = question.body.decode("utf-8", "replace")
    with suppress(msgspec.DecodeError):
        body = msgspec.json.format(question.body).decode()
    lines = [f"{question.method} {question.url}"]
    for line in body.replace("\\n", "\\n\n").splitlines():
        lines += textwrap.wrap(line, WIDTH, drop_whitespace=False) or [line]
    return lines
