"""A client of a vendor's SDK, as what sends requests: its authentication, our bytes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from importlib import import_module
from typing import Any

from treadle.errors import ConfigError, IncompleteReply, ModelTimeout, Overloaded
from treadle.ports.transport import HttpRequest
from treadle.providers._address import without_query
from treadle.values.secret import masked

_ROOT = "AsyncAPIClient"
"""The class that all asynchronous clients of these SDKs are of."""
_UNREAD = {"x-stainless-raw-response": "stream"}
"""What makes an SDK hand over an answer as it is, without waiting for its end."""
_OURS = frozenset({"user-agent"})
_CREDENTIALS = ("api_key", "auth_token", "aws_secret_key", "aws_session_token", "access_token")

Unpacked = Callable[[str, AsyncIterator[bytes]], AsyncIterator[bytes]]
"""What turns the pieces of a body of a content type into those of an event stream."""


class SdkClient:
    """What the SDKs of OpenAI and Anthropic have in common; it repeats no request.

    `kinds` are the names of the classes that the client is of.

    Raises:
        ConfigError: `client` is no asynchronous client of such an SDK; `wanted` says of which.
    """

    def __init__(self, client: object, wanted: str) -> None:
        self.client: Any = client
        classes = {kind.__name__: kind for kind in type(client).__mro__}
        if _ROOT not in classes:
            raise ConfigError(f"client={type(client).__name__} is no {wanted}.")
        self.kinds = frozenset(classes)
        self._sdk: Any = import_module(classes[_ROOT].__module__)

    @property
    def address(self) -> str:
        """The base URL that the SDK asks."""
        return str(self.client.base_url)

    @property
    def credentials(self) -> tuple[str, ...]:
        """What the SDK shows to the server, as far as that is known before it does."""
        found = (getattr(self.client, name, None) for name in _CREDENTIALS)
        return tuple(each for each in found if isinstance(each, str) and each)

    async def post(
        self,
        path: str,
        request: HttpRequest,
        *,
        unpacked: Unpacked | None = None,
        params: Mapping[str, str] | None = None,
        **body: Any,
    ) -> SdkResponse:
        """Send a request's headers and this body, and return when the answer's head is there.

        Raises:
            Overloaded: the server cannot be reached or dropped the connection.
            ModelTimeout: it did not answer in time.
        """
        sdk = self._sdk
        headers = {name: value for name, value in request.headers.items() if name not in _OURS}
        options: dict[str, Any] = {"headers": headers | _UNREAD, "max_retries": 0}
        if request.timeout is not None:
            options["timeout"] = request.timeout
        if params:
            options["params"] = dict(params)
        try:
            answer = await self.client.post(path, cast_to=object, options=options, **body)
        except sdk.APIStatusError as error:
            return SdkResponse(error.response, sdk, unpacked)
        except sdk.APITimeoutError as error:
            place = without_query(self.address)
            raise ModelTimeout(f"{place} gave no sign of life; raise `timeout`.") from error
        except sdk.APIConnectionError as error:
            place, reason = without_query(self.address), error.__cause__ or error
            reason = masked(str(reason), self.credentials)
            raise Overloaded(f"Cannot reach {place}: {reason}.") from error
        return SdkResponse(answer.http_response, sdk, unpacked)


class SdkResponse:
    """An answer that the SDK's HTTP client has received the head of."""

    def __init__(self, response: Any, sdk: Any, unpacked: Unpacked | None) -> None:
        self._response = response
        self._http: Any = getattr(sdk, "httpx2", None) or sdk.httpx
        self._unpacked = unpacked
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
        """Yield the body as it arrives; raises like `read`."""
        pieces: AsyncIterator[bytes] = self._response.aiter_bytes()
        try:
            if self._unpacked:
                pieces = self._unpacked(self.headers.get("content-type", ""), pieces)
            async for piece in pieces:
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
