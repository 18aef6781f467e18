"""A client of Google's SDK, `google.genai.Client`, as what authenticates our requests."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from msgspec.structs import replace

from treadle.errors import AuthenticationFailed, ConfigError
from treadle.ports.transport import HttpRequest, HttpResponse, Transport

_API = "_api_client"
_OPTIONS = "_http_options"
_TOKEN = "_async_access_token"  # noqa: S105 (the name of a method)
_CREDENTIALS = "_credentials"


class GenaiTransport:
    """Adds to every request the headers that the SDK would send, its token of the moment with them.

    The bytes go out over `inner`: of the SDK there is its address, its headers and its
    authentication, with keys, service accounts and whatever else `google.auth` finds, but not its
    HTTP client.

    Raises:
        ConfigError: `client` is no `google.genai.Client`.
    """

    def __init__(self, client: object, inner: Transport) -> None:
        self._api: Any = getattr(client, _API, None)
        self._inner = inner
        if not hasattr(self._api, _TOKEN) or not hasattr(self._api, _OPTIONS):
            raise ConfigError(
                f"client={type(client).__name__} is no google.genai.Client; pass one like "
                'genai.Client(vertexai=True, project="p", location="global").'
            )

    @property
    def address(self) -> str:
        """The base URL that the SDK would ask, with its version, project and location."""
        api, options = self._api, getattr(self._api, _OPTIONS)
        steps = [str(options.base_url).rstrip("/")]
        if options.api_version:
            steps.append(str(options.api_version))
        if api.vertexai and api.project and api.location:
            steps.append(f"projects/{api.project}/locations/{api.location}")
        return "/".join(steps)

    @property
    def key(self) -> str:
        """The API key that the SDK has, "" where it has none."""
        return str(self._api.api_key or "")

    async def send(self, request: HttpRequest) -> HttpResponse:
        """Send, and return when the response's head is there.

        Raises:
            AuthenticationFailed: the SDK finds no valid credentials.
            Overloaded: the server cannot be reached or dropped the connection.
            ModelTimeout: it did not answer in time.
        """
        options: Mapping[str, str] = getattr(self._api, _OPTIONS).headers or {}
        headers = {name.lower(): value for name, value in options.items()}
        headers |= {name: value for name, value in request.headers.items() if name != "user-agent"}
        if self._wants_token() and "authorization" not in headers:
            headers |= await self._authorisation()
        return await self._inner.send(replace(request, headers=headers))

    def _wants_token(self) -> bool:
        api = self._api
        return bool(api.vertexai and (api.project or api.location) and not api.api_key)

    async def _authorisation(self) -> dict[str, str]:
        try:
            token = await getattr(self._api, _TOKEN)()
        except (_auth_error(), RuntimeError) as error:
            raise AuthenticationFailed(
                f"The SDK has no credentials for Vertex AI: {error}. Run `gcloud auth "
                "application-default login`, or pass credentials= to genai.Client.",
                provider="vertex",
            ) from error
        headers = {"authorization": f"Bearer {token}"}
        quota = getattr(getattr(self._api, _CREDENTIALS, None), "quota_project_id", None)
        return {**headers, "x-goog-user-project": str(quota)} if quota else headers


def _auth_error() -> type[Exception]:
    """Return what `google.auth` raises; the SDK that was passed in has brought it along."""
    try:
        return import_module("google.auth.exceptions").GoogleAuthError
    except ImportError:
        return RuntimeError
