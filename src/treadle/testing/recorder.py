"""Recorder: a transport that writes down what it sends and what comes back."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterable, Mapping
from importlib.metadata import entry_points
from pathlib import Path

from treadle.errors import ModelError
from treadle.ports.transport import HttpRequest, HttpResponse, Transport
from treadle.testing.recordings import VERSION, Exchange, Failure, Outcome, Secrets, as_content

GROUP = "treadle.transports"


class Recorder:
    """A transport that appends each exchange to a file as soon as it has ended.

    ```python
    from treadle.providers import OpenAI
    from treadle.testing import Recorder

    model = OpenAI("gpt-5.2", transport=Recorder("recorded/hello.jsonl"))
    ```

    Each line of the file is one exchange as JSON: method, URL, headers and body of the request,
    and status, headers and the pieces of the body that came back, in the pieces in which they
    came. One that broke, or was left or cancelled before its end, says so. `Replayer` answers from
    such a file.

    Secrets are replaced by "***": the values of headers and query parameters whose names tell of
    one, of the request and of the answer, wherever else they stand; passwords in addresses;
    whatever looks like a key of a known provider; and the texts given as `secrets`.

    Without `transport` exchanges go over the network. Safe to share between tasks, threads and
    event loops.
    """

    def __init__(
        self,
        path: str | Path,
        transport: Transport | None = None,
        *,
        secrets: Iterable[str] = (),
    ) -> None:
        self._path = Path(path)
        self._transport = transport or _network()
        self._secrets = Secrets(secrets)
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"Recorder({str(self._path)!r})"

    async def send(self, request: HttpRequest) -> HttpResponse:
        """Send and return when the response's head is there; see the port."""
        self._secrets.learn(request)
        recording = _Recording(self, request)
        try:
            response = await self._transport.send(request)
        except asyncio.CancelledError:
            await recording.end("cancelled")
            raise
        except Exception as error:
            await recording.end("broken", error)
            raise
        return _Recorded(response, recording)

    async def write(self, exchange: Exchange) -> None:
        """Append an exchange to the file."""
        await asyncio.to_thread(self._append, exchange.line())

    @property
    def secrets(self) -> Secrets:
        """What is not recorded."""
        return self._secrets

    def _append(self, line: bytes) -> None:
        with self._lock:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("ab") as file:
                file.write(line)


class _Recording:
    """What is known of one exchange; it is written once, when it ends."""

    __slots__ = ("_ended", "_recorder", "_request", "headers", "pieces", "status")

    def __init__(self, recorder: Recorder, request: HttpRequest) -> None:
        self._recorder = recorder
        self._request = request
        self._ended = False
        self.status: int | None = None
        self.headers: Mapping[str, str] = {}
        self.pieces: list[bytes] = []

    async def end(self, outcome: Outcome, error: Exception | None = None) -> None:
        """Write the exchange down, unless that has been done."""
        if self._ended:
            return
        self._ended = True
        request, secrets = self._request, self._recorder.secrets
        secrets.learn_from_answer(self.headers)
        exchange = Exchange(
            version=VERSION,
            method=request.method,
            url=secrets.url(request.url),
            headers=secrets.headers(request.headers),
            body=as_content(secrets.content(request.body)),
            status=self.status,
            answer_headers=secrets.headers(self.headers),
            pieces=tuple(map(as_content, secrets.pieces(self.pieces))),
            outcome=outcome,
            failure=error and _failure(error, secrets),
        )
        await self._recorder.write(exchange)


class _Recorded:
    """A response that is written down while it is read."""

    __slots__ = ("_recording", "_response")

    def __init__(self, response: HttpResponse, recording: _Recording) -> None:
        self._response = response
        self._recording = recording
        recording.status = response.status
        recording.headers = response.headers

    @property
    def status(self) -> int:
        """The status code."""
        return self._response.status

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers; looking up ignores case."""
        return self._response.headers

    async def read(self) -> bytes:
        """Return the whole body."""
        try:
            body = await self._response.read()
        except Exception as error:
            await self._recording.end("broken", error)
            raise
        self._recording.pieces.append(body)
        await self._recording.end("whole")
        return body

    def pieces(self) -> AsyncIterator[bytes]:
        """Yield the body as it arrives."""
        return _Pieces(self._response.pieces(), self._recording)

    async def close(self) -> None:
        """Give the connection back; an answer that was not read to its end was left."""
        try:
            await self._response.close()
        finally:
            await self._recording.end("cancelled")


class _Pieces:
    """The pieces of a body, noted as they pass; no generator, so that nothing is left open."""

    __slots__ = ("_pieces", "_recording")

    def __init__(self, pieces: AsyncIterator[bytes], recording: _Recording) -> None:
        self._pieces = pieces
        self._recording = recording

    def __aiter__(self) -> _Pieces:
        return self

    async def __anext__(self) -> bytes:
        try:
            piece = await anext(self._pieces)
        except StopAsyncIteration:
            await self._recording.end("whole")
            raise
        except Exception as error:
            await self._recording.end("broken", error)
            raise
        self._recording.pieces.append(bytes(piece))
        return piece


def _failure(error: Exception, secrets: Secrets) -> Failure:
    known = error if isinstance(error, ModelError) else None
    return Failure(
        kind=type(error).__name__,
        message=secrets.text(str(error)),
        retryable=known.retryable if known else False,
        retry_after=known.retry_after if known else None,
    )


def _network() -> Transport:
    """Return the transport over HTTP that is installed."""
    (entry,) = entry_points(group=GROUP, name="http")
    return entry.load()
