"""A client of Anthropic's SDK, such as `AsyncAnthropicBedrock`, as what sends our requests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from importlib import import_module
from typing import Any

from treadle.errors import ConfigError, IncompleteReply, ModelTimeout, Overloaded
from treadle.ports.transport import HttpRequest, HttpResponse
from treadle.providers._json import decode

_PATH = "/v1/messages"
_ROOT = "AsyncAPIClient"
"""The class that all asynchronous clients of the SDK are of."""
_UNREAD = {"x-stainless-raw-response": "stream"}
"""What makes the SDK hand over an answer as it is, without waiting for its end."""
_VERSIONS = {
    "AsyncAnthropicBedrock": "bedrock-2023-05-31",
    "AsyncAnthropicVertex": "vertex-2023-10-16",
}
"""The version of the API that a platform wants in the body, by the class of its client."""
_OURS = frozenset({"user-agent", "content-type"})
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
        self._client: Any = client
        kinds = {kind.__name__: kind for kind in type(client).__mro__}
        if _ROOT not in kinds:
            raise ConfigError(
                f"client={type(client).__name__} is no asynchronous client of Anthropic's SDK; "
                "pass one like AsyncAnthropicBedrock(aws_region=...)."
            )
        self._sdk: Any = import_module(kinds[_ROOT].__module__)
        self._version = next((_VERSIONS[name] for name in kinds if name in _VERSIONS), None)

    @property
    def is_platform(self) -> bool:
        """Whether the SDK asks a cloud that runs Anthropic's own models."""
        return self._version is not None

    @property
    def address(self) -> str:
        """The base URL that the SDK asks."""
        return str(self._client.base_url)

    async def send(self, request: HttpRequest) -> HttpResponse:
        """Send, and return when the response's head is there.

        Raises:
            Overloaded: the server cannot be reached or dropped the connection.
            ModelTimeout: it did not answer in time.
        """
        sdk = self._sdk
        body: dict[str, Any] = decode(request.body)
        if self._version is not None:
            body["anthropic_version"] = self._version
        headers = {name: value for name, value in request.headers.items() if name not in _OURS}
        options: dict[str, Any] = {"headers": headers | _UNREAD, "max_retries": 0}
        if request.timeout is not None:
            options["timeout"] = request.timeout
        try:
            answer = await self._client.post(_PATH, cast_to=object, body=body, options=options)
        except sdk.APIStatusError as error:
            return SdkResponse(error.response, self._client, sdk)
        except sdk.APITimeoutError as error:
            raise ModelTimeout(f"{self.address} gave no sign of life; raise `timeout`.") from error
        except sdk.APIConnectionError as error:
            reason = error.__cause__ or error
            raise Overloaded(f"Cannot reach {self.address}: {reason}.") from error
        return SdkResponse(answer.http_response, self._client, sdk)


class SdkResponse:
    """An answer that the SDK's HTTP client has received the head of."""

    def __init__(self, response: Any, client: Any, sdk: Any) -> None:
        self._response = response
        self._client = client
        self._http: Any = getattr(sdk, "httpx2", None) or sdk.httpx
        self.status: int = response.status_code
        self.headers: Mapping[str, str] = response.headers

    async def read(self) -> bytes:
        """Return the whole body.

        Raises:
            IncompleteReply: the connection broke before the body's end; trying again may help.
            ModelTimeout: no byte came in time.
        """
        try:
            return await self._response.aread()
        except self._http.HTTPError as error:
            raise self._broken(error) from error

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yield the body as it arrives, Bedrock's frames as events; raises like `read`."""
        response = self._response
        try:
            if _FRAMES in self.headers.get("content-type", ""):
                unpacked = getattr(self._client, _UNPACKING)()
                async for event in unpacked.aiter_bytes(response.aiter_bytes()):
                    yield f"data: {event.data}\n\n".encode()
                return
            async for piece in response.aiter_bytes():
                yield piece
        except self._http.HTTPError as error:
            raise self._broken(error) from error

    async def close(self) -> None:
        """Give the connection back, or drop it when the body was not read to its end."""
        await self._response.aclose()

    def _broken(self, error: Exception) -> IncompleteReply | ModelTimeout:
        if isinstance(error, self._http.TimeoutException):
            return ModelTimeout("The server stopped in the middle of its reply; gave up waiting.")
        reason = str(error) or type(error).__name__
        return IncompleteReply(
            f"The connection broke in the middle of the reply: {reason}. Try again.",
            retryable=True,
        )
