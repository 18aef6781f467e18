"""Requests that go out through a client of OpenAI's SDK."""

from __future__ import annotations

import pytest
from openai import AsyncAzureOpenAI, AsyncOpenAI
from openai import OpenAI as SyncOpenAI

from tests.providers.openai.parts import STOP, asking, last
from tests.providers.openai.responses_parts import ended, response, said, text_delta
from tests.servers import DONE, SseServer, delta, reply, serve, stream, whole
from treadle.errors import (
    AuthenticationFailed,
    ConfigError,
    IncompleteReply,
    ModelTimeout,
    Overloaded,
    RateLimited,
)
from treadle.ports.model import ModelReply, ModelSettings, profile_of
from treadle.providers import OpenAI, OpenAIResponses


async def token() -> str:
    """Return what stands for a token of Azure AD."""
    return "tok-1"


def azure(server: SseServer) -> AsyncAzureOpenAI:
    """Return a client that authenticates with tokens."""
    endpoint = server.url.removesuffix("/v1")
    return AsyncAzureOpenAI(
        azure_endpoint=endpoint, azure_ad_token_provider=token, api_version="2025-04-01-preview"
    )


async def test_the_sdk_sends_what_we_encoded() -> None:
    """With its address and its key, and the user's headers and query; whole and streamed."""
    answers = whole(reply("a")), stream(delta(content="b"), STOP, DONE)
    async with serve(*answers) as server, AsyncOpenAI(api_key="k", base_url=server.url) as sdk:
        model = OpenAI("m", client=sdk, headers={"X-Team": "t"}, query={"q": "1"})
        assert (await model.complete(asking("hi\0"))).message.text == "a"
        assert (await last(model)).message.text == "b"
    first, second = server.requests
    assert first.path == "/v1/chat/completions?q=1"
    assert first.headers["authorization"] == "Bearer k"
    assert (first.headers["x-team"], first.headers["content-type"]) == ("t", "application/json")
    assert first.json["messages"] == [{"role": "user", "content": "hi\ufffd"}]
    assert second.json["stream"] is True


async def test_azure_authenticates_with_tokens() -> None:
    """Chat Completions are those of a deployment, Responses those of the whole resource."""
    answers = (
        whole(reply("a")),
        whole(response(said("b"))),
        stream(text_delta("c"), ended(said("c"))),
    )
    async with serve(*answers) as server, azure(server) as sdk:
        chat, responses = OpenAI("gpt 5", client=sdk), OpenAIResponses("gpt 5", client=sdk)
        assert (await chat.complete(asking())).message.text == "a"
        assert (await responses.complete(asking())).message.text == "b"
        items = [item async for item in responses.stream(asking())]
    assert isinstance(items[-1], ModelReply)
    assert [request.path for request in server.requests] == [
        "/openai/deployments/gpt%205/chat/completions?api-version=2025-04-01-preview",
        "/openai/responses?api-version=2025-04-01-preview",
        "/openai/responses?api-version=2025-04-01-preview",
    ]
    assert {request.headers["authorization"] for request in server.requests} == {"Bearer tok-1"}
    assert "api-key" not in server.requests[0].headers


async def test_a_client_of_one_deployment() -> None:
    """Its base URL has it already; Responses ask beside it."""
    async with serve(whole(reply("a")), whole(response(said("b")))) as server:
        endpoint = server.url.removesuffix("/v1")
        async with AsyncAzureOpenAI(
            azure_endpoint=endpoint, azure_deployment="d", api_key="k", api_version="v"
        ) as sdk:
            await OpenAI("m", client=sdk).complete(asking())
            await OpenAIResponses("m", client=sdk).complete(asking())
    chat, responses = server.requests
    assert chat.path == "/openai/deployments/d/chat/completions?api-version=v"
    assert responses.path == "/openai/responses?api-version=v"
    assert chat.headers["api-key"] == "k"


async def test_habits_follow_from_the_address_of_the_client() -> None:
    """Azure is known."""
    async with AsyncAzureOpenAI(
        azure_endpoint="https://x.openai.azure.com", api_key="k", api_version="v"
    ) as sdk:
        for model in (OpenAI("m", client=sdk), OpenAIResponses("m", client=sdk)):
            assert profile_of(model).provider == "azure"
            assert "x.openai.azure.com" in repr(model)


async def test_errors_are_typed_and_nothing_is_repeated() -> None:
    """As without the SDK."""
    body = {"error": {"message": "slow down", "code": "rate_limit_exceeded"}}
    answer = whole(body, 429, {"Retry-After": "7", "X-Request-Id": "req-1"})
    async with serve(answer) as server, AsyncOpenAI(api_key="k", base_url=server.url) as sdk:
        with pytest.raises(RateLimited, match="slow down") as caught:
            await OpenAIResponses("m", client=sdk).complete(asking())
    assert (caught.value.retry_after, caught.value.request_id) == (7.0, "req-1")
    assert len(server.requests) == 1


async def test_a_broken_stream_is_incomplete() -> None:
    """With the text so far."""
    async with (
        serve(stream(text_delta("half"), end="reset")) as server,
        AsyncOpenAI(api_key="k", base_url=server.url) as sdk,
    ):
        with pytest.raises(IncompleteReply) as caught:
            [item async for item in OpenAIResponses("m", client=sdk).stream(asking())]
    assert caught.value.partial == "half"


async def test_silence_and_absence() -> None:
    """A server that says nothing, and one that is not there."""
    async with (
        serve(stream(end="hang")) as server,
        AsyncOpenAI(api_key="k", base_url=server.url) as sdk,
    ):
        request = asking(settings=ModelSettings(timeout=0.05))
        with pytest.raises(ModelTimeout):
            [item async for item in OpenAIResponses("m", client=sdk).stream(request)]
    async with AsyncOpenAI(api_key="k", base_url="http://127.0.0.1:1/v1") as sdk:
        with pytest.raises(Overloaded, match="Cannot reach"):
            await OpenAI("m", client=sdk).complete(asking())


async def test_a_client_without_credentials_is_named() -> None:
    """Where its provider of tokens gives none."""
    async with AsyncAzureOpenAI(
        azure_endpoint="http://127.0.0.1:1", azure_ad_token_provider=lambda: "", api_version="v"
    ) as sdk:
        with pytest.raises(AuthenticationFailed, match="azure_ad_token_provider"):
            await OpenAI("m", client=sdk).complete(asking())


@pytest.mark.parametrize("client", [SyncOpenAI(api_key="k"), object(), 0])
def test_anything_else_is_refused(client: object) -> None:
    """When the model is made, with what is wanted."""
    for kind in (OpenAI, OpenAIResponses):
        with pytest.raises(ConfigError, match="asynchronous client of OpenAI's SDK"):
            kind("m", client=client)
