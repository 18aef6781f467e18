"""A client of Anthropic's SDK, such as `AsyncAnthropicBedrock`, as what sends our requests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from msgspec.structs import replace

from treadle.ports.transport import HttpRequest, HttpResponse
from treadle.providers._json import decode
from treadle.providers._sdk import SdkClient

_PATH = "/v1/messages"
_WANTED = (
    "asynchronous client of Anthropic's SDK; pass one like AsyncAnthropicBedrock(aws_region=...)"
)
_VERSIONS = {
    "AsyncAnthropicBedrock": "bedrock-2023-05-31",
    "AsyncAnthropicVertex": "vertex-2023-10-16",
}
"""The version of the API that a platform wants in the body, by the class of its client."""
_KIND = "content-type"
_FRAMES = "amazon.eventstream"
_UNPACKING = "_make_sse_decoder"


class SdkTransport:
    """Sends requests through the SDK, which adds its address and its authentication to them.

    Whatever the SDK can do to reach a model is done by it: signatures, tokens, other paths. It
    repeats nothing, and the answer's bytes come as they are; Bedrock's frames are unpacked by it.

    Raises:
        ConfigError: `client` is no asynchronous client of the SDK.
    """

    def __init__(self, client: object) -> None:
        self._sdk = SdkClient(client, _WANTED)
        self._version = next(
            (_VERSIONS[kind] for kind in _VERSIONS if kind in self._sdk.kinds), None
        )

    @property
    def is_platform(self) -> bool:
        """Whether the SDK asks a cloud that runs Anthropic's own models."""
        return self._version is not None

    @property
    def address(self) -> str:
        """The base URL that the SDK asks."""
        return self._sdk.address

    @property
    def credentials(self) -> tuple[str, ...]:
        """What must not show in messages."""
        return self._sdk.credentials

    async def send(self, request: HttpRequest) -> HttpResponse:
        """Send, and return when the response's head is there.

        Raises:
            Overloaded: the server cannot be reached or dropped the connection.
            ModelTimeout: it did not answer in time.
        """
        body: dict[str, Any] = decode(request.body)
        headers = {name: value for name, value in request.headers.items() if name != _KIND}
        request = replace(request, headers=headers)  # of the body as the SDK encodes it
        if self._version is not None:
            body["anthropic_version"] = self._version
        return await self._sdk.post(_PATH, request, unpacked=self._unpacked, body=body)

    async def _unpacked(self, kind: str, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Yield a body as it comes, Bedrock's frames as events."""
        if _FRAMES in kind:
            unpacking = getattr(self._sdk.client, _UNPACKING)()
            async for event in unpacking.aiter_bytes(pieces):
                yield f"data: {event.data}\n\n".encode()
            return
        async for piece in pieces:
            yield piece
