"""A client of OpenAI's SDK, such as `AsyncAzureOpenAI`, as what sends our requests."""

from __future__ import annotations

from urllib.parse import parse_qsl, quote, urlsplit

from treadle.errors import AuthenticationFailed, ConfigError
from treadle.ports.transport import HttpRequest, HttpResponse
from treadle.providers._sdk import SdkClient

_WANTED = "asynchronous client of OpenAI's SDK; pass one like AsyncAzureOpenAI(...)"
_AZURE = "AsyncAzureOpenAI"
_OF_DEPLOYMENTS = {"/chat/completions"}
"""Paths that Azure has for each deployment by itself."""


class SdkTransport:
    """Sends requests through the SDK, which adds its address and its authentication to them.

    The encoded body goes through as it is, whatever is in it, and the answer's bytes come as they
    are. `path` is the end of the address, under the SDK's base URL.

    Raises:
        ConfigError: `client` is no asynchronous client of the SDK.
    """

    def __init__(self, client: object, path: str, model: str) -> None:
        self._sdk = SdkClient(client, _WANTED)
        if "AsyncOpenAI" not in self._sdk.kinds:
            raise ConfigError(f"client={type(client).__name__} is no {_WANTED}.")
        self._path = path
        if _AZURE in self._sdk.kinds and path in _OF_DEPLOYMENTS:
            is_one = "/deployments" in urlsplit(self.address).path
            self._path = path if is_one else f"/deployments/{quote(model, safe='')}{path}"

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
            AuthenticationFailed: what the SDK asks for a token gave none.
            Overloaded: the server cannot be reached or dropped the connection.
            ModelTimeout: it did not answer in time.
        """
        params = dict(parse_qsl(urlsplit(request.url).query))
        try:
            return await self._sdk.post(self._path, request, params=params, content=request.body)
        except (ValueError, TypeError) as error:  # how the SDK says that it has no key and no token
            raise AuthenticationFailed(f"The SDK has no credentials: {error}") from error
