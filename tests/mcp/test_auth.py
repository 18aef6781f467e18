"""What shows who a client is: kept well, shown to nobody, and complete."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import pytest

from treadle import ConfigError, MCPFailed
from treadle.mcp import (
    Bearer,
    ClientCredentials,
    FileTokens,
    IdentityAssertion,
    MemoryTokens,
    OAuth,
    TokenStore,
)
from treadle.mcp.oauth import provider_of

SECRET = "hunter2hunter2"  # noqa: S105 nobody's
ISSUER = "https://login.test"


async def answered(_: str) -> str:
    """A browser that was sent back with a code."""
    return "http://localhost/back?code=c1&state=s1"


async def signed(*_: str) -> str:
    """A statement that somebody signed."""
    return "jwt"


@pytest.mark.parametrize("kind", ["memory", "file"])
async def test_tokens_are_kept(kind: str, tmp_path: Path) -> None:
    """What was saved last comes back; a file is for its owner only."""
    place = tmp_path / "folder" / "tokens.json"
    store: TokenStore = MemoryTokens() if kind == "memory" else FileTokens(place)
    assert await store.load() is None
    await store.save('{"a": 1}')
    await store.save('{"a": 2}')
    assert await store.load() == '{"a": 2}'
    if kind == "file":
        assert stat.S_IMODE(place.stat().st_mode) == 0o600
        assert [each.name for each in place.parent.iterdir()] == ["tokens.json"]
        place.write_text("{damaged")
        assert await store.load() is None


def test_secrets_are_not_shown() -> None:
    """No repr has them."""
    shown = repr(
        [
            Bearer(SECRET),
            ClientCredentials(client_id="me", client_secret=SECRET, issuer=ISSUER),
            OAuth(redirect_uri="http://x", sign_in=answered, client_secret=SECRET),
            IdentityAssertion(
                client_id="me", client_secret=SECRET, issuer=ISSUER, assertion=signed
            ),
        ]
    )
    assert SECRET not in shown


@pytest.mark.parametrize("given", [{}, {"client_secret": "x", "assertion": signed}])
def test_credentials_that_contradict(given: Any) -> None:
    """A secret or an assertion, one of them."""
    with pytest.raises(ConfigError, match="either client_secret or assertion"):
        ClientCredentials(client_id="me", issuer=ISSUER, **given)


@pytest.mark.parametrize(
    "auth",
    [
        ClientCredentials(client_id="me", client_secret=SECRET, issuer=ISSUER, scope="read"),
        ClientCredentials(client_id="me", assertion=signed, issuer=ISSUER),
        OAuth(redirect_uri="http://localhost/back", sign_in=answered, client_id="me"),
    ],
)
def test_clients_of_the_sdk(auth: Any) -> None:
    """Each kind of credentials is one of the SDK's clients."""
    assert callable(provider_of(auth, "https://x.test/mcp").async_auth_flow)
    assert provider_of(None, "https://x.test/mcp") is None
    assert provider_of(Bearer("x"), "https://x.test/mcp") is None


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("http://localhost/back?error=access_denied", "refused: access_denied"),
        ("http://localhost/back", "did not return the address with the code"),
    ],
)
async def test_signing_in_that_fails(address: str, said: str) -> None:
    """What a browser brings back is looked at."""

    async def sign_in(_: str) -> str:
        return address

    auth = OAuth(redirect_uri="http://localhost/back", sign_in=sign_in)
    context = provider_of(auth, "https://x.test/mcp").context
    await context.redirect_handler("https://auth.test/authorize")
    with pytest.raises(MCPFailed, match=said):
        await context.callback_handler()


async def test_what_the_sdk_keeps() -> None:
    """Tokens and the client's registration are one text in the store."""
    tokens = MemoryTokens()
    auth = OAuth(redirect_uri="http://localhost/back", sign_in=answered, tokens=tokens)
    storage = provider_of(auth, "https://x.test/mcp").context.storage
    assert await storage.get_tokens() is None
    assert await storage.get_client_info() is None
    await tokens.save('{"tokens": {"access_token": "a", "token_type": "Bearer"}}')
    kept = await storage.get_tokens()
    await storage.set_tokens(kept.model_copy(update={"access_token": "b"}))
    assert (await storage.get_tokens()).access_token == "b"  # noqa: S105 likewise
