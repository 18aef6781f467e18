"""The client of the Responses API, against a server that answers byte for byte."""

from __future__ import annotations

import json
from contextlib import aclosing
from typing import Any

import pytest

from tests.providers.openai.parts import asking
from tests.providers.openai.responses_parts import (
    CALL,
    THOUGHT,
    ended,
    event,
    response,
    said,
    text_delta,
)
from tests.servers import End, serve, stream, whole
from treadle import Agent, tool
from treadle.errors import (
    BadReply,
    ConfigError,
    IncompleteReply,
    MissingKey,
    ModelTimeout,
    Overloaded,
    RateLimited,
    UnknownModel,
)
from treadle.models.resolve import resolve_model
from treadle.ports.model import (
    ModelDelta,
    ModelReply,
    ModelRequest,
    ModelSettings,
    ReasoningPiece,
    StreamingModel,
    TextPiece,
    profile_of,
)
from treadle.providers import OpenAIResponses
from treadle.testing.strict import assert_strict


async def streamed(model: OpenAIResponses, request: ModelRequest | None = None) -> list[ModelDelta]:
    """Return all deltas of a stream."""
    return [item async for item in model.stream(request or asking())]


async def test_a_reply_comes_whole() -> None:
    """The request is what OpenAI takes; the key is in its header."""
    async with serve(whole(response(said("hello")))) as server:
        model = OpenAIResponses(
            "gpt-5.2",
            api_key="sk-mine",
            base_url=server.url,
            store=False,
            encrypted_reasoning=True,
            hosted_tools=[{"type": "web_search"}],
            organization="org",
        )
        found = await model.complete(asking(system="be nice"))
    assert found.message.text == "hello"
    [received] = server.requests
    assert received.path == "/v1/responses"
    assert received.headers["authorization"] == "Bearer sk-mine"
    assert received.headers["openai-organization"] == "org"
    assert_strict(received.body, "openai_responses")
    assert received.json == {
        "model": "gpt-5.2",
        "instructions": "be nice",
        "input": [{"role": "user", "content": "hi"}],
        "tools": [{"type": "web_search"}],
        "include": ["reasoning.encrypted_content"],
        "store": False,
    }


async def test_a_reply_comes_in_pieces() -> None:
    """Named events, a character split between two writes; the connection is used again."""
    events = [event("created", response=response(status="in_progress")), text_delta("Zürich ✅")]
    pieces = b"".join(
        f"event: {one['type']}\ndata: {json.dumps(one, ensure_ascii=False)}\n\n".encode()
        for one in (*events, ended(said("Zürich ✅")))
    )
    answer = stream(*(pieces[place : place + 7] for place in range(0, len(pieces), 7)))
    async with serve(answer) as server:
        model = OpenAIResponses("m", base_url=server.url)
        for _ in range(2):
            text, reply = await streamed(model)
            assert text == TextPiece("Zürich ✅")
            assert isinstance(reply, ModelReply)
    assert server.requests[0].json["stream"] is True
    assert server.connections == 1


async def test_a_server_that_stays_after_the_end_holds_nobody_up() -> None:
    """And one that is left early is dropped."""
    events = (text_delta("a"), ended(said("a")))
    async with serve(stream(*events, end="hang")) as server:
        assert len(await streamed(OpenAIResponses("m", base_url=server.url))) == 2
    async with serve(stream(text_delta("a"), end="hang")) as server:
        model = OpenAIResponses("m", base_url=server.url)
        async with aclosing(model.stream(asking())) as items:
            assert await anext(items) == TextPiece("a")
        await server.wait_closed_by_client()


@pytest.mark.parametrize("end", ["done", "close", "reset"])
async def test_a_dropped_stream_is_incomplete(end: End) -> None:
    """BS-20: half an answer is an error that may be tried again, with the text so far."""
    async with serve(stream(text_delta("half"), b'data: {"type":"resp', end=end)) as server:
        with pytest.raises(IncompleteReply) as caught:
            await streamed(OpenAIResponses("m", base_url=server.url))
    error = caught.value
    assert (error.partial, error.retryable, error.model) == ("half", True, "m")


@pytest.mark.parametrize("end", ["done", "close", "reset"])
async def test_a_reply_that_is_whole_is_one(end: End) -> None:
    """Whatever happens to the connection after it."""
    async with serve(stream(ended(said("a")), end=end)) as server:
        assert len(await streamed(OpenAIResponses("m", base_url=server.url))) == 2


async def test_a_stream_that_falls_silent_times_out() -> None:
    """With the text so far."""
    async with serve(stream(text_delta("half"), end="hang")) as server:
        request = asking(settings=ModelSettings(timeout=0.03))
        with pytest.raises(ModelTimeout) as caught:
            await streamed(OpenAIResponses("m", base_url=server.url), request)
    assert caught.value.partial == "half"


async def test_errors_are_typed() -> None:
    """BS-19, BS-66: of the status, with the wait; and inside an answer of 200."""
    body = {"error": {"message": "slow down", "code": "rate_limit_exceeded"}}
    answer = whole(body, 429, {"Retry-After": "7", "X-Request-Id": "req-1"})
    async with serve(answer) as server:
        model = OpenAIResponses("m", base_url=server.url)
        for ask in (model.complete(asking()), streamed(model)):
            with pytest.raises(RateLimited, match="slow down") as caught:
                await ask
            error = caught.value
            assert (error.status, error.retry_after, error.request_id) == (429, 7.0, "req-1")
    failed = response(status="failed", error={"code": "server_error", "message": "oops"})
    async with serve(whole(failed), stream(event("failed", response=failed))) as server:
        model = OpenAIResponses("m", base_url=server.url)
        for ask in (model.complete(asking()), streamed(model)):
            with pytest.raises(Overloaded, match="oops"):
                await ask


async def test_a_server_that_cannot_stream_is_heard() -> None:
    """It answers a request for a stream with a whole reply; nonsense is told."""
    async with serve(whole(response(THOUGHT, said("yes")))) as server:
        *pieces, found = await streamed(OpenAIResponses("m", base_url=server.url))
    assert pieces == [ReasoningPiece("Hm."), TextPiece("yes")]
    assert isinstance(found, ModelReply)
    async with serve(whole("It works!")) as server:
        with pytest.raises(BadReply, match="It works!"):
            await streamed(OpenAIResponses("m", base_url=server.url))


async def test_a_run_with_a_tool() -> None:
    """Reasoning, its call and the result go back; each request is one that OpenAI takes."""

    @tool
    def ls(path: str) -> str:
        """List a folder."""
        return f"{path}: a.txt"

    async with serve(whole(response(THOUGHT, CALL)), whole(response(said("one file")))) as server:
        model = OpenAIResponses("gpt-5.2", base_url=server.url)
        result = await Agent("clerk", model=model, tools=[ls]).run("what is here?")
    assert result.output == "one file"
    for received in server.requests:
        assert_strict(received.body, "openai_responses")
    thought, call, output = server.requests[1].json["input"][1:]
    assert thought == THOUGHT
    assert (call["id"], call["call_id"]) == ("fc_1", output["call_id"])
    assert "a.txt" in output["output"]


@pytest.mark.parametrize(
    ("fields", "address"),
    [
        ({}, "https://api.openai.com/v1"),
        ({"server": "openrouter"}, "https://openrouter.ai/api/v1"),
        (
            {"base_url": "https://x.openai.azure.com/openai/deployments/d?api-version=v"},
            "https://x.openai.azure.com/openai",
        ),
    ],
)
def test_where_requests_go(fields: dict[str, Any], address: str) -> None:
    """To OpenAI, a known server, one of the user's; on Azure to no single deployment."""
    assert repr(OpenAIResponses("m", **fields)) == f"OpenAIResponses('m', base_url={address!r})"


async def test_mistakes_are_told() -> None:
    """No name, no address, no key, and what the protocol does not have."""
    with pytest.raises(UnknownModel, match=r"openai-responses:gpt-5\.2"):
        OpenAIResponses(" ")
    with pytest.raises(ConfigError, match="base_url"):
        OpenAIResponses("m", base_url="localhost:8000")
    with pytest.raises(MissingKey, match="OPENAI_API_KEY"):
        await OpenAIResponses("m", base_url="https://gw.example/v1").complete(asking())
    settings = ModelSettings(stop=("x",))
    with pytest.raises(ConfigError, match="stop"):
        await OpenAIResponses("m", api_key="k").complete(asking(settings=settings))


def test_the_model_by_its_name() -> None:
    """With what it can, and what the caller knows better."""
    model = resolve_model("openai-responses:gpt-5.2")
    assert isinstance(model, OpenAIResponses)
    assert isinstance(model, StreamingModel)
    assert profile_of(model).native_output_with_tools
    assert profile_of(model).price is not None
    known = OpenAIResponses("m", base_url="http://localhost:1", vision=False, native_output=True)
    assert (known.profile.vision, known.profile.native_output) == (False, True)
