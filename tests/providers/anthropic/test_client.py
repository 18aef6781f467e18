"""The client, against a server that answers byte for byte."""

from __future__ import annotations

import json

import pytest

from tests.providers.anthropic.parts import (
    BEGIN,
    STOP,
    TOOL,
    asking,
    ending,
    events,
    message,
    start,
    streamed,
    text,
)
from tests.servers import Answer, End, serve, whole
from treadle.errors import (
    AuthenticationFailed,
    BadReply,
    ConfigError,
    IncompleteReply,
    MissingKey,
    Overloaded,
    RateLimited,
    UnknownModel,
)
from treadle.messages import File, Message, Thread
from treadle.models.resolve import resolve_model
from treadle.ports.model import ModelReply, ModelRequest, ModelSettings, profile_of
from treadle.providers import Anthropic
from treadle.providers.anthropic.client import messages_url
from treadle.testing.strict import assert_strict


async def test_a_reply_comes_whole() -> None:
    """The request is what Anthropic takes; the key is in its header."""
    async with serve(whole(message("hello"))) as server:
        model = Anthropic(
            "claude-sonnet-4-5",
            api_key="sk-ant-mine",
            base_url=server.url,
            headers={"X-Team": "a"},
            betas=["one", "two"],
            hosted_tools=[{"type": "web_search_20250305", "name": "web_search"}],
            settings=ModelSettings(temperature=0.5),
        )
        found = await model.complete(asking(system="be nice", tools=(TOOL,)))
    assert found.message == Message.assistant("hello")
    [received] = server.requests
    assert received.path == "/v1/messages"
    headers = received.headers
    assert headers["x-api-key"] == "sk-ant-mine"
    assert (headers["anthropic-version"], headers["anthropic-beta"]) == ("2023-06-01", "one,two")
    assert (headers["content-type"], headers["x-team"]) == ("application/json", "a")
    assert "authorization" not in headers
    assert_strict(received.body, "anthropic")
    assert [tool["name"] for tool in received.json["tools"]] == ["ls", "web_search"]
    assert received.json["temperature"] == 0.5


async def test_a_reply_comes_in_pieces() -> None:
    """Named events, as the server sends them."""
    async with serve(events(BEGIN, start(), text("a"), text("b"), ending(), STOP)) as server:
        *pieces, reply = await streamed(Anthropic("claude-sonnet-4-5", base_url=server.url))
    assert len(pieces) == 2
    assert isinstance(reply, ModelReply)
    assert reply.message.text == "ab"
    assert server.requests[0].json["stream"] is True


async def test_files_need_a_beta() -> None:
    """Which is asked for beside those that were given."""
    request = ModelRequest(messages=Thread([Message("user", (File(file_id="file_1"),))]))
    async with serve(whole(message("a"))) as server:
        for betas, headers in ((["one"], {}), ([], {"Anthropic-Beta": "one"})):
            model = Anthropic("m", base_url=server.url, betas=betas, headers=headers)
            await model.complete(request)
    found = [received.headers["anthropic-beta"] for received in server.requests]
    assert found == ["one,files-api-2025-04-14"] * 2


async def test_error_answers_are_typed() -> None:
    """With status, request ID and the wait the server asks for; streamed and not."""
    body = {"type": "error", "error": {"type": "rate_limit_error", "message": "slow down"}}
    async with serve(whole(body, 429, {"Retry-After": "7", "Request-Id": "req_1"})) as server:
        model = Anthropic("m", base_url=server.url)
        for ask in (model.complete(asking()), streamed(model)):
            with pytest.raises(RateLimited, match="slow down") as caught:
                await ask
            error = caught.value
            assert (error.status, error.retry_after, error.request_id) == (429, 7.0, "req_1")


async def test_an_overloaded_server() -> None:
    """Its own status, and the request's ID from the body."""
    error = {"type": "overloaded_error", "message": "Overloaded"}
    async with serve(
        whole({"type": "error", "error": error, "request_id": "req_2"}, 529)
    ) as server:
        with pytest.raises(Overloaded) as caught:
            await Anthropic("m", base_url=server.url).complete(asking())
    assert (caught.value.status, caught.value.retryable) == (529, True)
    assert caught.value.request_id == "req_2"


async def test_an_error_in_a_stream() -> None:
    """After a 200; with the text so far."""
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    async with serve(events(BEGIN, start(), text("so far"), error)) as server:
        with pytest.raises(Overloaded) as caught:
            await streamed(Anthropic("m", base_url=server.url))
    assert caught.value.partial == "so far"


@pytest.mark.parametrize("end", ["done", "close", "reset"])
async def test_a_stream_that_ends_early(end: End) -> None:
    """Is incomplete, with the text so far."""
    answer = events(BEGIN, start(), text("so far"), end=end)
    async with serve(answer) as server:
        with pytest.raises(IncompleteReply) as caught:
            await streamed(Anthropic("m", base_url=server.url))
    assert caught.value.retryable
    assert caught.value.partial == "so far" or end == "reset"  # which may overtake what was sent


async def test_nonsense_is_a_bad_reply() -> None:
    """What came is shown, so that a wrong address is found at once."""
    page = Answer(pieces=(b"<html>It works!</html>",), headers={"Content-Type": "text/html"})
    async with serve(page) as server:
        model = Anthropic("m", base_url=server.url)
        for ask in (model.complete(asking()), streamed(model)):
            with pytest.raises(BadReply, match="It works!"):
                await ask


async def test_the_key_is_in_no_message() -> None:
    """Even if the server writes it back."""
    key = "sk-ant-verysecret123"
    body = {"type": "error", "error": {"type": "authentication_error", "message": f"bad {key}"}}
    async with serve(whole(body, 401)) as server:
        model = Anthropic("m", api_key=key, base_url=server.url)
        with pytest.raises(AuthenticationFailed) as caught:
            await model.complete(asking())
    for words in (str(caught.value), repr(caught.value), repr(model)):
        assert key not in words


async def test_keys_and_addresses_come_from_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The key at the first request; a local server gets none that was not given."""
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    with pytest.raises(MissingKey, match=r"api\.anthropic\.com.*ANTHROPIC_API_KEY"):
        await Anthropic("claude-sonnet-4-5").complete(asking())
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-env")
    async with serve(whole(message("a"))) as server:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url.removesuffix("/v1"))
        await Anthropic("m").complete(asking())
    assert server.requests[0].path == "/v1/messages"
    assert "x-api-key" not in server.requests[0].headers


async def test_a_setting_that_cannot_be_sent() -> None:
    """Is refused before anything goes out."""
    async with serve(whole(message("a"))) as server:
        model = Anthropic("claude-opus-5-5", base_url=server.url)
        asked = asking(tools=(TOOL,), settings=ModelSettings(tool_choice="required"))
        with pytest.raises(ConfigError, match="cannot be made to call"):
            await model.complete(asked)
    assert server.requests == []


def test_profiles() -> None:
    """What a model can do follows from its name; what is given overrules it."""
    model = resolve_model("anthropic:claude-sonnet-4-5")
    assert isinstance(model, Anthropic)
    profile = profile_of(model)
    assert (profile.native_output, profile.native_output_with_tools, profile.vision) == (
        True,
        True,
        True,
    )
    assert (profile.max_output, profile.price is not None) == (64_000, True)
    other = Anthropic("m", base_url="http://localhost:1", native_output=True, vision=False).profile
    assert (other.provider, other.native_output, other.vision, other.price) == (
        "localhost:1",
        True,
        False,
        None,
    )
    assert not profile_of(Anthropic("claude-3-haiku-20240307")).native_output


def test_a_model_has_a_name() -> None:
    """An empty one is refused at once, and so is an address that is none."""
    with pytest.raises(UnknownModel):
        Anthropic(" ")
    with pytest.raises(ConfigError):
        Anthropic("m", base_url="localhost")


@pytest.mark.parametrize(
    ("base", "url"),
    [
        ("https://a.b", "https://a.b/v1/messages"),
        ("https://a.b/v1/", "https://a.b/v1/messages"),
        ("https://a.b/anthropic", "https://a.b/anthropic/v1/messages"),
        ("https://a.b/v1/messages?x=1", "https://a.b/v1/messages?x=1&y=2"),
    ],
)
def test_addresses(base: str, url: str) -> None:
    """With or without the version."""
    assert messages_url(base, {"y": "2"} if "?" in base else {}) == url


async def test_a_turn_that_pauses_goes_on() -> None:
    """The reply is sent back as it came, with its container, and nothing after it."""
    step = {
        "type": "server_tool_use",
        "id": "srvtoolu_1",
        "name": "web_search",
        "input": {"q": "a"},
    }
    container = {"id": "container_1", "expires_at": "2026-01-01T00:00:00Z"}
    paused = whole(message("a", step, stop="pause_turn", container=container))
    async with serve(paused, whole(message("b"))) as server:
        model = Anthropic("claude-opus-4-6", base_url=server.url)
        thread = Thread([Message.user("q")])
        reply = await model.complete(ModelRequest(messages=thread))
        assert reply.provider_finish == "pause_turn"
        thread.append(reply.message)
        thread.append((await model.complete(ModelRequest(messages=thread))).message)
        thread.append(Message.user("next"))
        await model.complete(ModelRequest(messages=thread))
    second, third = (json.loads(received.body) for received in server.requests[1:])
    assert [one["role"] for one in second["messages"]] == ["user", "assistant"]
    assert second["messages"][1]["content"][1] == step
    assert second["container"] == "container_1"
    assert [one["role"] for one in third["messages"]] == ["user", "assistant", "user"]
    assert "container" not in third
