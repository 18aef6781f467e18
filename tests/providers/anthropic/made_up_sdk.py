"""A package with just as much of Anthropic's SDK as requests go through."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any


class HTTPError(Exception):
    """What the HTTP client raises."""


class TimeoutException(HTTPError):
    """What it raises when nothing comes."""


httpx = SimpleNamespace(HTTPError=HTTPError, TimeoutException=TimeoutException)


class APIConnectionError(Exception):
    """No answer."""


class APITimeoutError(APIConnectionError):
    """No answer in time."""


class APIStatusError(Exception):
    """An answer other than 2xx."""

    def __init__(self, response: Response) -> None:
        super().__init__(response.status_code)
        self.response = response


@dataclass(slots=True)
class Response:
    """An answer; what stands in `body` as an error is raised there."""

    body: list[bytes | Exception]
    status_code: int = 200
    headers: Mapping[str, str] | None = None
    closed: bool = False

    async def aread(self) -> bytes:
        """Return it whole."""
        return b"".join([piece async for piece in self.aiter_bytes()])

    async def aiter_bytes(self) -> AsyncIterator[bytes]:
        """Yield its pieces."""
        for piece in self.body:
            if isinstance(piece, Exception):
                raise piece
            yield piece

    async def aclose(self) -> None:
        """Close it."""
        self.closed = True


class AsyncAPIClient:
    """What all its clients are of."""

    base_url = "https://api.anthropic.com"

    def __init__(self, *answers: Response | Exception) -> None:
        self.answers = list(answers)
        self.asked: list[dict[str, Any]] = []

    async def post(self, path: str, **asked: Any) -> SimpleNamespace:
        """Answer with the next answer."""
        self.asked.append({"path": path, **asked})
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        answer.headers = answer.headers or {"content-type": "application/json"}
        if answer.status_code >= 300:
            raise APIStatusError(answer)
        return SimpleNamespace(http_response=answer)


class AsyncAnthropic(AsyncAPIClient):
    """Anthropic's own API."""


class AsyncAnthropicBedrock(AsyncAPIClient):
    """Bedrock, whose streams are frames."""

    base_url = "http://127.0.0.1:1"

    def _make_sse_decoder(self) -> Frames:
        return Frames()


class Frames:
    """Takes each piece for a frame with one payload."""

    async def aiter_bytes(self, pieces: AsyncIterator[bytes]) -> AsyncIterator[SimpleNamespace]:
        """Yield events."""
        async for piece in pieces:
            yield SimpleNamespace(data=piece.decode().removeprefix("frame "))
