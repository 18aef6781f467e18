"""The client, against a server that answers byte for byte."""

from __future__ import annotations

import asyncio
import gc
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from decimal import Decimal
from typing import Any

import pytest

from tests.providers.openai.parts import asking, last, streamed
from tests.servers import Answer, free_port, reply, serve, whole
from treadle.errors import (
    AuthenticationFailed,
    BadReply,
    ConfigError,
    IncompleteReply,
    MissingKey,
    ModelError,
    Overloaded,
    RateLimited,
    UnknownModel,
)
from treadle.messages import Message, Thread
from treadle.models.resolve import resolve_model
from treadle.ports.model import (
    ModelRequest,
    ModelSettings,
    StreamingModel,
    profile_of,
)
from treadle.ports.transport import HttpRequest
from treadle.providers import OpenAI
from treadle.testing.strict import assert_strict
from treadle.usage import Price


async def test_a_reply_comes_whole() -> None:
    """The request is what a strict server takes; the key is in its header."""
    async with serve(whole(reply("hello"))) as server:
        model = OpenAI("gpt-5.2", api_key="sk-mine", base_url=server.url, headers={"X-Team": "a"})
        found = await model.complete(asking(system="be nice"))
    assert found.message == Message.assistant("hello")
    [received] = server.requests
    assert received.path == "/v1/chat/completions"
    assert received.headers["authorization"] == "Bearer sk-mine"
    assert received.headers["content-type"] == "application/json"
    assert received.headers["x-team"] == "a"
    assert_strict(received.body)
    assert received.json["model"] == "gpt-5.2"


@pytest.mark.parametrize(
    "answer",
    [
        Answer(pieces=(b"<html>It works!</html>",), headers={"Content-Type": "text/html"}),
        Answer(pieces=(b"<html>It works!</html>",), headers={}),
        whole("It works!"),
    ],
)
async def test_a_server_that_speaks_nonsense_is_a_bad_reply(answer: Answer) -> None:
    """The message shows what came, so that a wrong address is found at once."""
    async with serve(answer) as server:
        model = OpenAI("m", base_url=server.url)
        for ask in (model.complete(asking()), streamed(model)):
            with pytest.raises(BadReply, match="It works!") as caught:
                await ask
            assert not caught.value.retryable
            assert "base_url" in str(caught.value)


async def test_a_truncated_body_is_incomplete() -> None:
    """Half of a whole reply."""
    body = json.dumps(reply("hello")).encode()
    answer = Answer(
        pieces=(body[:40],),
        headers={"Content-Type": "application/json"},
        framing="length",
        length=len(body),
        end="close",
    )
    async with serve(answer) as server:
        with pytest.raises(IncompleteReply) as caught:
            await OpenAI("m", base_url=server.url).complete(asking())
    assert (caught.value.retryable, caught.value.model) == (True, "m")


async def test_error_answers_are_typed() -> None:
    """With status, request ID and the wait the server asks for; streamed and not."""
    body = {"error": {"message": "slow down", "type": "requests", "code": "rate_limit_exceeded"}}
    answer = whole(body, 429, {"Retry-After": "7", "X-Request-Id": "req-1"})
    async with serve(answer) as server:
        model = OpenAI("m", base_url=server.url)
        for ask in (model.complete(asking()), streamed(model)):
            with pytest.raises(RateLimited, match="slow down") as caught:
                await ask
            error = caught.value
            assert (error.status, error.retry_after, error.request_id) == (429, 7.0, "req-1")
    assert len(server.requests) == 2  # nothing was repeated


async def test_the_key_is_in_no_message() -> None:
    """Even if the server writes it back; not in the client's own words either."""
    key = "sk-verysecretkey123"
    body = {"error": {"message": f"Incorrect API key: {key}"}}
    async with serve(whole(body, 401)) as server:
        model = OpenAI("m", api_key=key, base_url=server.url, headers={"X-Token": "tok-77"})
        with pytest.raises(AuthenticationFailed) as caught:
            await model.complete(asking())
    for text in (str(caught.value), repr(caught.value), repr(model), str(model)):
        assert key not in text
        assert "tok-77" not in text


@pytest.mark.parametrize("status", [201, 204, 205, 304])
async def test_an_answer_without_a_body_says_its_status(status: int) -> None:
    """Whole and streamed: nothing is no reply, and no 200."""
    head = f"HTTP/1.1 {status} X\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
    async with serve(Answer(raw=head.encode())) as server:
        model = OpenAI("m", base_url=server.url)
        for ask in (model.complete(asking()), streamed(model)):
            with pytest.raises(ModelError, match=f"{status}") as caught:
                await ask
            assert (caught.value.status, caught.value.retryable) == (status, False)
            assert ("nothing" in str(caught.value)) is (status < 300)


FRAMING = ("Transfer-Encoding", "content-length", "Host", "CONNECTION", "Upgrade", "TE")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *((name, "x") for name in FRAMING),
        *(("X A", "x"), ("", "x"), ("X:", "x"), ("\u00e4", "x"), ("X\r\nY", "x")),
        *(("X", "a\r\nHost: b"), ("X", "a\0"), ("X", "\ud83d"), ("X", 5), ("X", None)),
    ],
)
async def test_headers_that_would_change_the_request_are_refused(name: Any, value: Any) -> None:
    """Where a request ends is not for a user to say; nothing is sent."""
    async with serve(whole(reply("hi"))) as server:
        with pytest.raises(ConfigError, match="headers=") as caught:
            await OpenAI("m", base_url=server.url, headers={name: value}).complete(asking())
        assert repr(name) in str(caught.value)
        if isinstance(name, str) and isinstance(value, str):
            settings = ModelSettings(extra_headers={name: value})
            with pytest.raises(ConfigError, match="headers="):
                await OpenAI("m", base_url=server.url).complete(asking(settings=settings))
    assert not server.requests


async def test_an_unreachable_server_is_named() -> None:
    """Host and port, the provider and the model."""
    port = free_port()
    model = OpenAI("m", base_url=f"http://127.0.0.1:{port}/v1")
    for ask in (model.complete(asking()), streamed(model)):
        with pytest.raises(Overloaded, match=str(port)) as caught:
            await ask
        assert (caught.value.model, caught.value.retryable) == ("m", True)


async def test_a_missing_key_says_what_to_do() -> None:
    """At the first request; an empty key is for servers that want none."""
    model = OpenAI("gpt-5.2")
    for ask in (model.complete(asking()), streamed(model)):
        with pytest.raises(MissingKey, match=r"api\.openai\.com.*OPENAI_API_KEY"):
            await ask


async def test_keys_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read at the first request; never sent to a local server, which gets one only if given."""
    async with serve(whole(reply("a"))) as server:
        remote, local = OpenAI("m"), OpenAI("m", base_url=server.url)
        monkeypatch.setenv("OPENAI_API_KEY", " sk-env \n")
        seen: list[HttpRequest] = []
        await OpenAI("m", transport=Fake(seen)).complete(asking())
        await local.complete(asking())
    assert seen[0].headers["authorization"] == "Bearer sk-env"
    assert seen[0].url == "https://api.openai.com/v1/chat/completions"
    assert "authorization" not in server.requests[0].headers
    assert repr(remote) == "OpenAI('m', base_url='https://api.openai.com/v1')"


async def test_the_address_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """OPENAI_BASE_URL, where `base_url` is not given."""
    async with serve(whole(reply("a"))) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        await OpenAI("m").complete(asking())
    assert len(server.requests) == 1


class Fake:
    """A transport that answers everything with one reply, in the pieces it is given."""

    def __init__(self, seen: list[HttpRequest]) -> None:
        self.seen = seen
        self.status = 200
        self.headers: Mapping[str, str] = {"content-type": "application/json"}

    async def send(self, request: HttpRequest) -> Fake:
        self.seen.append(request)
        return self

    async def read(self) -> bytes:
        return json.dumps(reply("fake")).encode()

    async def pieces(self) -> AsyncIterator[bytes]:
        yield await self.read()

    async def close(self) -> None:
        self.seen.append(self.seen[-1])


@pytest.mark.parametrize(
    ("fields", "headers", "url"),
    [
        (
            {
                "base_url": "https://x.openai.azure.com/openai/deployments/d/",
                "query": {"api-version": "1 2"},
                "api_key": "k",
            },
            {"api-key": "k"},
            "https://x.openai.azure.com/openai/deployments/d/chat/completions?api-version=1+2",
        ),
        (
            {
                "base_url": "https://gw.example/v1/chat/completions?team=a",
                "query": {"b": "c"},
                "headers": {"Authorization": "Basic x"},
            },
            {"authorization": "Basic x"},
            "https://gw.example/v1/chat/completions?team=a&b=c",
        ),
        (
            {"api_key": "k", "organization": "org", "project": "proj"},
            {"authorization": "Bearer k", "openai-organization": "org", "openai-project": "proj"},
            "https://api.openai.com/v1/chat/completions",
        ),
        ({"api_key": ""}, {}, "https://api.openai.com/v1/chat/completions"),
    ],
)
async def test_headers_and_query_go_everywhere(
    fields: dict[str, Any], headers: dict[str, str], url: str
) -> None:
    """Azure's key header and version, gateways with their own authorisation, OpenAI's projects."""
    seen: list[HttpRequest] = []
    await OpenAI("m", transport=Fake(seen), **fields).complete(asking())
    sent = {name: value for name, value in seen[0].headers.items() if name not in COMMON}
    assert (sent, seen[0].url) == (headers, url)


COMMON = {"content-type", "user-agent"}


async def test_settings_of_client_and_request() -> None:
    """The client's are defaults; extra headers and the timeout belong to the request."""
    seen: list[HttpRequest] = []
    model = OpenAI(
        "m", api_key="k", transport=Fake(seen), settings=ModelSettings(seed=1, timeout=9)
    )
    settings = ModelSettings(temperature=0.0, extra_headers={"X-A": "b", "Authorization": "c"})
    await model.complete(asking(settings=settings))
    body = json.loads(seen[0].body)
    assert (body["seed"], body["temperature"], seen[0].timeout) == (1, 0.0, 9)
    assert (seen[0].headers["x-a"], seen[0].headers["authorization"]) == ("b", "c")
    await model.complete(asking())
    assert seen[-1].headers["authorization"] == "Bearer k"


def test_the_profile_says_what_the_model_can() -> None:
    """From the host, overruled by what the caller knows."""
    price = Price(input=1, output=Decimal(2))
    profile = profile_of(OpenAI("gpt-5.2", price=price))
    assert (profile.provider, profile.name) == ("openai", "gpt-5.2")
    assert (profile.native_output, profile.native_output_with_tools) == (True, True)
    assert profile.price == price
    local = profile_of(OpenAI("m", base_url="http://localhost:1", vision=False, native_output=True))
    assert (local.vision, local.native_output) == (False, True)
    assert not profile_of(OpenAI("m", base_url="http://localhost:1")).native_output


async def test_habits_can_be_overruled() -> None:
    """For servers whose templates want turns, no system message, or the other token field."""
    seen: list[HttpRequest] = []
    model = OpenAI(
        "m",
        base_url="http://localhost:1/v1",
        merge_roles=True,
        system_role=False,
        max_tokens_field="max_completion_tokens",
        transport=Fake(seen),
    )
    thread = Thread([Message.user("a"), Message.user("b")])
    settings = ModelSettings(max_output_tokens=5)
    await model.complete(ModelRequest(messages=thread, system="s", settings=settings))
    body = json.loads(seen[0].body)
    assert body["messages"] == [{"role": "user", "content": "s\n\na\n\nb"}]
    assert body["max_completion_tokens"] == 5


async def test_another_transport_sees_every_request() -> None:
    """Cassettes and fakes stand in for the network, streamed too, and are closed."""
    seen: list[HttpRequest] = []
    model = OpenAI("m", api_key="k", transport=Fake(seen))
    assert (await model.complete(asking())).message.text == "fake"
    assert (await last(model)).message.text == "fake"
    assert len(seen) == 4


@pytest.mark.parametrize("url", ["localhost:8000", "https://me:pw@x/v1"])
def test_a_bad_address_is_refused_at_once(url: str) -> None:
    """When the client is made, not at the first request."""
    with pytest.raises(ConfigError, match="base_url"):
        OpenAI("m", base_url=url)


def test_it_is_a_streaming_model_that_cannot_be_changed() -> None:
    """Safe to share."""
    model = OpenAI("m", api_key="k")
    assert isinstance(model, StreamingModel)
    with pytest.raises(AttributeError):
        model.model = "other"  # pyright: ignore[reportAttributeAccessIssue] that it fails is the point


async def test_many_calls_at_once_share_one_client() -> None:
    """Each gets its own answer."""
    async with serve(whole(reply("a"))) as server:
        model = OpenAI("m", base_url=server.url)
        async with asyncio.TaskGroup() as tasks:
            asked = [tasks.create_task(model.complete(asking(str(n)))) for n in range(50)]
    assert {task.result().message.text for task in asked} == {"a"}
    texts = {request.json["messages"][0]["content"] for request in server.requests}
    assert texts == {str(number) for number in range(50)}


def test_one_client_works_in_loop_after_loop() -> None:
    """BS-67: nothing of a loop that ended is used again, nothing stays open."""
    model = OpenAI("m", base_url="http://127.0.0.1:1/v1")

    async def fail() -> None:
        with pytest.raises(ModelError):
            await model.complete(asking())

    for _ in range(3):
        asyncio.run(fail())
    gc.collect()


def test_making_a_client_loads_no_network() -> None:
    """aiohttp is loaded by the first request."""
    code = "import sys; from treadle.providers import OpenAI; OpenAI('m')"
    shown = f"{code}; print('aiohttp' in sys.modules)"
    ended = subprocess.run(
        [sys.executable, "-c", shown], capture_output=True, text=True, check=True
    )
    assert ended.stdout.strip() == "False"


@pytest.mark.parametrize("name", ["", "  "])
def test_a_model_without_a_name_is_refused(name: str) -> None:
    """Before any request, with what to write."""
    with pytest.raises(UnknownModel, match=r'"openai:gpt-5\.2"'):
        OpenAI(name)
    with pytest.raises(UnknownModel, match=r'"openai:gpt-5\.2"'):
        resolve_model(f"openai:{name}")
