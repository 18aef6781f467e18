"""Credentials as the SDK's OAuth clients: they find the server's, ask for tokens, renew them."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import parse_qs, urlsplit

from treadle.errors import ConfigError, MCPFailed
from treadle.mcp._sdk import IS_TWO, client_credentials, identity_assertion, oauth, oauth_values
from treadle.mcp.auth import (
    Auth,
    Bearer,
    ClientCredentials,
    IdentityAssertion,
    OAuth,
    TokenStore,
)


def provider_of(auth: Auth | None, url: str) -> Any:
    """Return what authenticates the requests to `url`, or None where nothing has to."""
    match auth:
        case None | Bearer():
            return None
        case ClientCredentials():
            return _for_a_program(auth, url)
        case IdentityAssertion():
            return _for_an_employee(auth, url)
        case OAuth():
            return _for_a_person(auth, url)


def _for_a_program(auth: ClientCredentials, url: str) -> Any:
    store: Any = _Tokens(auth.tokens)
    more: dict[str, Any] = {"scopes": auth.scope}
    if IS_TWO:
        more = {"scope": auth.scope, "issuer": auth.issuer}
    if auth.assertion is not None:
        return client_credentials.PrivateKeyJWTOAuthProvider(
            url, store, auth.client_id, auth.assertion, **more
        )
    return client_credentials.ClientCredentialsOAuthProvider(
        url, store, auth.client_id, auth.client_secret or "", auth.method, **more
    )


def _for_an_employee(auth: IdentityAssertion, url: str) -> Any:
    if identity_assertion is None:
        raise ConfigError("IdentityAssertion needs version 2 of the mcp package.")
    return identity_assertion.IdentityAssertionOAuthProvider(
        url,
        _Tokens(auth.tokens),
        auth.client_id,
        auth.client_secret,
        auth.issuer,
        auth.assertion,
        auth.scope,
        auth.method,
    )


def _for_a_person(auth: OAuth, url: str) -> Any:
    answered: list[str] = []

    async def show(address: str) -> None:
        answered.append(await auth.sign_in(address))

    async def take() -> Any:
        found = parse_qs(urlsplit(answered.pop()).query)
        if "error" in found:
            raise MCPFailed(f"Signing in was refused: {found['error'][0]}.")
        if "code" not in found:
            raise MCPFailed("sign_in did not return the address with the code in it.")
        code, state = found["code"][0], found.get("state", [None])[0]
        if not IS_TWO:
            return code, state
        values: Any = oauth
        return values.AuthorizationCodeResult(
            code=code, state=state, iss=found.get("iss", [None])[0]
        )

    metadata: Any = oauth_values.OAuthClientMetadata.model_validate(
        {
            "redirect_uris": [auth.redirect_uri],
            "client_name": auth.client_name,
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "scope": auth.scope,
        }
    )
    return oauth.OAuthClientProvider(
        url,
        metadata,
        _Tokens(auth.tokens, _own_client(auth)),
        redirect_handler=show,
        callback_handler=take,
        client_metadata_url=auth.client_metadata_url,
    )


def _own_client(auth: OAuth) -> dict[str, Any] | None:
    if auth.client_id is None:
        return None
    method = "client_secret_basic" if auth.client_secret else "none"
    return {
        "client_id": auth.client_id,
        "client_secret": auth.client_secret,
        "redirect_uris": [auth.redirect_uri],
        "token_endpoint_auth_method": method,
    }


class _Tokens:
    """A token store as the SDK wants it."""

    def __init__(self, store: TokenStore, client: dict[str, Any] | None = None) -> None:
        self._store, self._client = store, client

    async def get_tokens(self) -> Any:
        found = (await self._kept()).get("tokens")
        return found and oauth_values.OAuthToken.model_validate(found)

    async def set_tokens(self, tokens: Any) -> None:
        await self._keep("tokens", tokens)

    async def get_client_info(self) -> Any:
        found = self._client or (await self._kept()).get("client")
        return found and oauth_values.OAuthClientInformationFull.model_validate(found)

    async def set_client_info(self, client_info: Any) -> None:
        await self._keep("client", client_info)

    async def _kept(self) -> dict[str, Any]:
        return json.loads(await self._store.load() or "{}")

    async def _keep(self, name: str, value: Any) -> None:
        plain = value.model_dump(mode="json", exclude_none=True)
        await self._store.save(json.dumps({**await self._kept(), name: plain}))
