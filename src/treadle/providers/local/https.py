"""Model files from their official address, over HTTPS, going on where a break left off."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from dataclasses import dataclass
from http.client import HTTPException, HTTPMessage
from queue import Empty, SimpleQueue
from typing import Protocol
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from treadle.providers.local.part import PartFile
from treadle.providers.local.sources import SourceFailed

_CHUNK = 1 << 18
_RANGE = re.compile(r"bytes (\d+)-\d+/(\d+)")


class _Answer(Protocol):
    """What is used of an answer of `urllib`."""

    status: int
    headers: HTTPMessage

    def read(self, amount: int, /) -> bytes: ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpsSource:
    """Reads a model's `url`; a proxy is taken from the environment, as everywhere.

    `patience` is how many seconds a server may say nothing, looking up its name included: a
    network that reaches only a package index is not waited for. A connection that breaks is
    taken up again while it brings bytes, and `attempts` times while it does not.
    """

    patience: float = 10.0
    attempts: int = 3

    def write(self, part: PartFile) -> None:
        """Bring `part` to the size of its model.

        Raises:
            SourceFailed: the server cannot be reached, or has something else at this address.
            ModelFilesError: the disk is full.
        """
        part.require_space(part.model.size - part.length)
        failures = 0
        while part.length < part.model.size:
            before = part.length
            try:
                self._read(part)
                trouble = "the connection was closed early"
            except (OSError, HTTPException) as error:
                trouble = _reason(error)
            failures = 0 if part.length > before else failures + 1
            unreachable = failures and part.length == part.resumed
            if unreachable or failures >= self.attempts:
                raise SourceFailed(f"{part.model.url}: {trouble}")

    def forget(self, part: PartFile) -> None:
        """Keep nothing: everything that came is in the part file."""

    def _read(self, part: PartFile) -> None:
        """Read until the file is whole or the connection ends."""
        answer = self._ask(part)
        try:
            if answer.status == 200:
                part.restart()
            while part.length < part.model.size:
                chunk = answer.read(min(_CHUNK, part.model.size - part.length))
                if not chunk:
                    return
                part.write(chunk)
                part.report()
        finally:
            answer.close()

    def _ask(self, part: PartFile) -> _Answer:
        """Open the address at the first byte that is missing, and check that it is the file."""
        request = Request(part.model.url, headers={"User-Agent": "treadle"})  # noqa: S310 an address of our own
        if part.length:
            request.add_header("Range", f"bytes={part.length}-")
        try:
            answer = _within(self.patience, lambda: _open(request, self.patience))
        except HTTPError as error:
            error.close()
            if error.code < 500 and error.code != 429:
                raise SourceFailed(f"{part.model.url}: HTTP {error.code}") from error
            raise
        said = _size_said(answer, part.length)
        if said != part.model.size:
            answer.close()
            raise SourceFailed(
                f"{part.model.url}: another file is there, of {said} bytes, not {part.model.size}"
            )
        return answer


def _open(request: Request, seconds: float) -> _Answer:
    return urlopen(request, timeout=seconds)  # noqa: S310 an address of our own


def _size_said(answer: _Answer, start: int) -> int | None:
    """Return how large the whole file is by its headers, None when they do not fit."""
    if answer.status == 206:
        match = _RANGE.match(answer.headers.get("Content-Range", ""))
        return int(match[2]) if match and int(match[1]) == start else None
    length = answer.headers.get("Content-Length", "")
    return int(length) if length.isdigit() else None


def _within(seconds: float, open_: Callable[[], _Answer]) -> _Answer:
    """Call `open_` and wait that long at most: looking up a name cannot be given a timeout."""
    outcome: SimpleQueue[_Answer | Exception] = SimpleQueue()

    def work() -> None:
        try:
            outcome.put(open_())
        except Exception as error:  # noqa: BLE001 it is raised where it is waited for
            outcome.put(error)

    threading.Thread(target=work, name="treadle-connect", daemon=True).start()
    try:
        result = outcome.get(timeout=seconds)
    except Empty:
        raise TimeoutError(f"no answer within {seconds:.0f} s") from None
    if isinstance(result, Exception):
        raise result
    return result


def _reason(error: Exception) -> str:
    if isinstance(error, HTTPError):
        return f"HTTP {error.code}"
    inner = error.reason if isinstance(error, URLError) else error
    return str(inner) or type(error).__name__
