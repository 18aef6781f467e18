"""Google's SDK as what authenticates requests."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.providers.gemini.parts import asking, chunk
from tests.providers.gemini.test_client import NAME, Fake
from tests.servers import serve, whole
from treadle.errors import AuthenticationFailed, ConfigError
from treadle.providers import Gemini


class Api:
    """What of the SDK's client is used."""

    def __init__(self, **fields: Any) -> None:
        self.vertexai, self.project, self.location = True, "p", "global"
        self.api_key: str | None = None
        self._credentials = SimpleNamespace(quota_project_id="payer")
        self._http_options = SimpleNamespace(
            base_url="https://aiplatform.googleapis.com/",
            api_version="v1beta1",
            headers={"Content-Type": "application/json", "X-Goog-Api-Client": "sdk"},
        )
        self.tokens = ["t1", "t2"]
        self.__dict__.update(fields)

    async def _async_access_token(self) -> str:
        if not self.tokens:
            raise RuntimeError("no credentials anywhere")
        return self.tokens.pop(0)


def client(**fields: Any) -> Any:
    """Return a client like the SDK's."""
    return SimpleNamespace(_api_client=Api(**fields))


async def test_the_sdk_brings_address_and_token() -> None:
    """The token of the moment, with every request."""
    fake = Fake()
    model = Gemini(NAME, client=client(), transport=fake)
    for token in ("t1", "t2"):
        await model.complete(asking())
        request = fake.seen[-1]
        assert request.url == (
            "https://aiplatform.googleapis.com/v1beta1/projects/p/locations/global"
            f"/publishers/google/models/{NAME}:generateContent"
        )
        assert request.headers["authorization"] == f"Bearer {token}"
        assert request.headers["x-goog-user-project"] == "payer"
        assert request.headers["x-goog-api-client"] == "sdk"
    with pytest.raises(AuthenticationFailed, match="no credentials anywhere") as caught:
        await model.complete(asking())
    assert caught.value.model == NAME


async def test_the_sdk_brings_a_key() -> None:
    """Of the Gemini API, or of Vertex AI in express mode, where there is no token."""
    fake = Fake()
    express = client(api_key="k", project=None, location=None)
    await Gemini(NAME, client=express, transport=fake).complete(asking())
    assert "authorization" not in fake.seen[-1].headers
    assert fake.seen[-1].headers["x-goog-api-key"] == "k"
    assert "/v1beta1/publishers/google/models/" in fake.seen[-1].url


def test_something_else_is_refused() -> None:
    """When the model is made."""
    with pytest.raises(ConfigError, match=r"google\.genai\.Client"):
        Gemini(NAME, client=object())


async def test_the_real_sdk() -> None:
    """Where it is installed: its own client, against a server on this machine."""
    genai = pytest.importorskip("google.genai")
    async with serve(whole(chunk("hello", finish="STOP"))) as server:
        base = server.url.removesuffix("/v1")
        sdk = genai.Client(api_key="k", http_options={"base_url": base})
        found = await Gemini(NAME, client=sdk).complete(asking())
    assert found.message.text == "hello"
    assert server.requests[0].path.endswith(f"/models/{NAME}:generateContent")
    assert server.requests[0].headers["x-goog-api-key"] == "k"
    assert "google-genai-sdk" in server.requests[0].headers["x-goog-api-client"]
