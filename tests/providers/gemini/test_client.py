"""The client, against a server that answers byte for byte."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from typing import Any

import pytest

from tests.providers.gemini.parts import TOOL, asking, chunk, last, streamed
from tests.servers import Answer, event, serve, stream, whole
from treadle.errors import (
    AuthenticationFailed,
    BadReply,
    ConfigError,
    IncompleteReply,
    MissingKey,
    ModelTimeout,
    Overloaded,
    RateLimited,
    UnknownModel,
)
from treadle.messages import Message
from treadle.models.resolve import resolve_model
from treadle.ports.model import (
    ModelReply,
    ModelSettings,
    ReasoningPiece,
    StreamingModel,
    TextPiece,
    profile_of,
)
from treadle.ports.transport import HttpRequest
from treadle.providers import Gemini
from treadle.testing.strict import assert_strict

NAME = "gemini-3-flash-preview"
END = chunk(finish="STOP", usageMetadata={"promptTokenCount": 7, "totalTokenCount": 7})


async def test_a_reply_comes_whole() -> None:
    """The request is what Google takes; the key is in its header, not in the address."""
    async with serve(whole(chunk("hello", finish="STOP"))) as server:
        model = Gemini(NAME, api_key="AIza-mine", base_url=server.url, headers={"X-Team": "a"})
        found = await model.complete(asking(system="be nice", tools=(TOOL,)))
    assert found.message == Message.assistant("hello")
    [received] = server.requests
    assert received.path == f"/v1/models/{NAME}:generateContent"
    assert received.headers["x-goog-api-key"] == "AIza-mine"
    assert received.headers["x-team"] == "a"
    assert_strict(received.body, "gemini3")


async def test_a_reply_comes_in_pieces() -> None:
    """Text as it arrives, last the reply; lines end as Google ends them."""
    thought = chunk({"text": "hm", "thought": True})
    chunks = [
        event(each).replace(b"\n", b"\r\n") for each in (thought, chunk("hel"), chunk("lo"), END)
    ]
    async with serve(stream(*chunks)) as server:
        *pieces, found = await streamed(Gemini(NAME, base_url=server.url))
    assert pieces == [ReasoningPiece("hm"), TextPiece("hel"), TextPiece("lo")]
    assert isinstance(found, ModelReply)
    assert (found.message.text, found.usage.input_tokens) == ("hello", 7)
    assert server.requests[0].path == f"/v1/models/{NAME}:streamGenerateContent?alt=sse"


async def test_pieces_are_handed_on_as_they_come() -> None:
    """BS-16: a character split between two writes is one character; nothing waits for the end."""
    body = event(chunk("Zürich ✅"))
    answer = stream(*(body[i : i + 1] for i in range(len(body))), end="hang")
    async with (
        serve(answer) as server,
        aclosing(Gemini(NAME, base_url=server.url).stream(asking())) as pieces,
    ):
        assert await anext(pieces) == TextPiece("Zürich ✅")


async def test_a_stream_that_breaks_off_is_incomplete() -> None:
    """BS-20: with the text so far, however it broke."""
    for end in ("done", "close", "reset"):
        async with serve(stream(chunk("hel"), end=end)) as server:
            with pytest.raises(IncompleteReply) as caught:
                await last(Gemini(NAME, base_url=server.url))
        assert (caught.value.partial, caught.value.retryable) == ("hel", True)
        assert caught.value.model == NAME


async def test_a_silent_stream_is_given_up() -> None:
    """After `timeout` without a byte; one that was whole is a reply all the same."""
    settings = ModelSettings(timeout=0.05)
    async with serve(stream(chunk("hel"), end="hang")) as server:
        with pytest.raises(ModelTimeout) as caught:
            await streamed(Gemini(NAME, base_url=server.url), asking(settings=settings))
    assert caught.value.partial == "hel"
    async with serve(stream(chunk("hel"), END, end="hang")) as server:
        found = (await streamed(Gemini(NAME, base_url=server.url), asking(settings=settings)))[-1]
    assert isinstance(found, ModelReply)


async def test_a_stream_may_come_as_a_list() -> None:
    """From gateways that do not know `alt=sse`."""
    async with serve(whole([chunk("hel"), chunk("lo"), END])) as server:
        *pieces, found = await streamed(Gemini(NAME, base_url=server.url))
    assert pieces == [TextPiece("hello")]
    assert isinstance(found, ModelReply)


@pytest.mark.parametrize("listed", [False, True])
async def test_error_answers_are_typed(listed: bool) -> None:
    """BS-66: with status and the wait that Google asks for; streamed, the body is a list."""
    error: dict[str, Any] = {
        "code": 429,
        "message": "You exceeded your current quota. Please retry in 34s.",
        "status": "RESOURCE_EXHAUSTED",
        "details": [
            {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34s"},
        ],
    }
    body = {"error": error}
    async with serve(whole([body] if listed else body, 429)) as server:
        model = Gemini(NAME, base_url=server.url)
        for ask in (model.complete(asking()), streamed(model)):
            with pytest.raises(RateLimited, match="exceeded") as caught:
                await ask
            assert (caught.value.status, caught.value.retry_after) == (429, 34.0)
            assert caught.value.retryable


async def test_an_error_inside_a_stream() -> None:
    """BS-19: with the text so far."""
    error = {"error": {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}}
    async with serve(stream(chunk("hel"), error)) as server:
        with pytest.raises(Overloaded, match="overloaded") as caught:
            await last(Gemini(NAME, base_url=server.url))
    assert (caught.value.partial, caught.value.retryable) == ("hel", True)


async def test_the_key_is_in_no_message_and_no_address() -> None:
    """Even if a user puts it there, and the server writes it back."""
    key = "mysecretkey123"
    body = {"error": {"code": 400, "message": f"API key not valid: {key}"}}
    async with serve(whole(body, 400)) as server:
        for model in (
            Gemini(NAME, base_url=f"{server.url}?key={key}&a=b"),
            Gemini(NAME, base_url=server.url, query={"key": key, "a": "b"}),
        ):
            with pytest.raises(AuthenticationFailed) as caught:
                await model.complete(asking())
            for text in (str(caught.value), repr(caught.value), repr(model), str(model)):
                assert key not in text
    for received in server.requests:
        assert received.path == f"/v1/models/{NAME}:generateContent?a=b"
        assert received.headers["x-goog-api-key"] == key


async def test_a_server_that_speaks_nonsense_is_a_bad_reply() -> None:
    """The message shows what came, so that a wrong address is found at once."""
    answer = Answer(pieces=(b"<html>It works!</html>",), headers={"Content-Type": "text/html"})
    async with serve(answer) as server:
        model = Gemini(NAME, base_url=server.url)
        for ask in (model.complete(asking()), streamed(model)):
            with pytest.raises(BadReply, match="It works!"):
                await ask


class Fake:
    """A transport that answers everything with one reply."""

    def __init__(self) -> None:
        self.seen: list[HttpRequest] = []
        self.status = 200
        self.headers: Mapping[str, str] = {"content-type": "application/json"}

    async def send(self, request: HttpRequest) -> Fake:
        self.seen.append(request)
        return self

    async def read(self) -> bytes:
        return json.dumps(chunk("fake", finish="STOP")).encode()

    async def pieces(self) -> AsyncIterator[bytes]:
        yield await self.read()

    async def close(self) -> None:
        pass


GOOGLE = "https://generativelanguage.googleapis.com/v1beta"
CLOUD = "https://aiplatform.googleapis.com/v1"
PLACE = f"{CLOUD}/projects/p/locations/global"


@pytest.mark.parametrize(
    ("model", "base_url", "url"),
    [
        (NAME, None, f"{GOOGLE}/models/{NAME}"),
        (f"models/{NAME}", None, f"{GOOGLE}/models/{NAME}"),
        ("tunedModels/mine", None, f"{GOOGLE}/tunedModels/mine"),
        (NAME, "https://gw.example", f"https://gw.example/v1beta/models/{NAME}"),
        (NAME, PLACE, f"{PLACE}/publishers/google/models/{NAME}"),
        (NAME, f"{PLACE}/publishers/google/", f"{PLACE}/publishers/google/models/{NAME}"),
        (
            "publishers/google/models/x",
            "https://aiplatform.googleapis.com",
            f"{CLOUD}/publishers/google/models/x",
        ),
        (
            NAME,
            "https://gw.example/v1/projects/p/locations/l",
            f"https://gw.example/v1/projects/p/locations/l/publishers/google/models/{NAME}",
        ),
        ("endpoints/12", PLACE, f"{PLACE}/endpoints/12"),
        (
            "projects/q/locations/eu/endpoints/1",
            PLACE,
            f"{CLOUD}/projects/q/locations/eu/endpoints/1",
        ),
        ("a b?", None, f"{GOOGLE}/models/a%20b%3F"),
    ],
)
async def test_where_a_model_is(model: str, base_url: str | None, url: str) -> None:
    """Names with and without their collection, tuned models, Vertex AI in all its forms."""
    fake = Fake()
    await Gemini(model, api_key="k", base_url=base_url, transport=fake).complete(asking())
    assert fake.seen[0].url == f"{url}:generateContent"


async def test_keys_and_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    """From either variable, at the first request; a token of one's own stands for a key."""
    with pytest.raises(MissingKey, match="GEMINI_API_KEY or GOOGLE_API_KEY"):
        await Gemini(NAME).complete(asking())
    fake = Fake()
    token = {"Authorization": "Bearer t"}
    await Gemini(NAME, base_url=PLACE, headers=token, transport=fake).complete(asking())
    assert fake.seen[-1].headers["authorization"] == "Bearer t"
    assert "x-goog-api-key" not in fake.seen[-1].headers
    monkeypatch.setenv("GOOGLE_API_KEY", " g \n")
    await Gemini(NAME, transport=fake).complete(asking())
    assert fake.seen[-1].headers["x-goog-api-key"] == "g"
    monkeypatch.setenv("GEMINI_API_KEY", "m")
    monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", "https://gw.example/x")
    await Gemini(NAME, transport=fake).complete(asking())
    assert fake.seen[-1].headers["x-goog-api-key"] == "m"
    assert fake.seen[-1].url.startswith("https://gw.example/x/models/")


async def test_what_cannot_be_asked_is_refused_before_sending() -> None:
    """Nothing goes out."""
    fake = Fake()
    model = Gemini(NAME, api_key="k", transport=fake)
    settings = ModelSettings(parallel_tool_calls=False)
    with pytest.raises(ConfigError):
        await model.complete(asking(tools=(TOOL,), settings=settings))
    assert fake.seen == []


def test_the_profile_says_what_the_model_can() -> None:
    """From its name, overruled by what the caller knows."""
    profile = profile_of(Gemini(NAME))
    assert (profile.provider, profile.name) == ("google", NAME)
    assert (profile.native_output, profile.native_output_with_tools) == (True, True)
    assert not profile_of(Gemini("gemini-2.5-pro")).native_output_with_tools
    assert profile_of(Gemini("endpoints/1", base_url=PLACE, generation=3)).native_output_with_tools
    assert profile_of(Gemini("gemini-2.5-pro")).price
    assert profile_of(Gemini("gemini-2.5-pro", window=5)).window == 5
    assert profile_of(Gemini("gemini-2.5-pro", base_url="https://gw.example")).price is None
    vertex = profile_of(Gemini(NAME, base_url=PLACE, vision=False, native_output=False))
    assert (vertex.provider, vertex.vision, vertex.native_output) == ("vertex", False, False)


def test_it_is_found_by_name() -> None:
    """As `gemini:` and as `google:`."""
    for name in ("gemini", "google"):
        model = resolve_model(f"{name}:{NAME}")
        assert isinstance(model, Gemini)
        assert isinstance(model, StreamingModel)
        assert repr(model) == f"Gemini({NAME!r}, base_url={GOOGLE!r})"
        with pytest.raises(UnknownModel, match="Gemini"):
            resolve_model(f"{name}: ")
    with pytest.raises(ConfigError, match="base_url"):
        Gemini(NAME, base_url="localhost:1")
