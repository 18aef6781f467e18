"""Requests that go out through a client of Anthropic's SDK."""

from __future__ import annotations

import json

import pytest

from tests.providers.anthropic.made_up_sdk import (
    APIConnectionError,
    APITimeoutError,
    AsyncAnthropic,
    AsyncAnthropicBedrock,
    HTTPError,
    Response,
    TimeoutException,
)
from tests.providers.anthropic.parts import (
    BEGIN,
    STOP,
    asking,
    ending,
    message,
    payload,
    start,
    streamed,
    text,
)
from treadle.errors import (
    ConfigError,
    IncompleteReply,
    ModelError,
    ModelTimeout,
    Overloaded,
    RateLimited,
)
from treadle.messages import Message
from treadle.ports.model import ModelReply, ModelSettings
from treadle.providers import Anthropic

EVENTS = (BEGIN, start(), text("a"), text("b"), ending(), STOP)


def whole() -> Response:
    """Return an answer in one piece."""
    return Response([payload(message("hello"))])


async def test_the_sdk_sends() -> None:
    """Our body and headers, with its own authentication; nothing is repeated by it."""
    sdk = AsyncAnthropic(whole())
    model = Anthropic("claude-sonnet-4-5", client=sdk, betas=["b"], headers={"X-Team": "t"})
    reply = await model.complete(asking(settings=ModelSettings(timeout=7)))
    assert reply.message == Message.assistant("hello")
    [asked] = sdk.asked
    options = asked["options"]
    assert (asked["path"], options["max_retries"], options["timeout"]) == ("/v1/messages", 0, 7)
    assert asked["body"]["messages"][0]["role"] == "user"
    assert options["headers"] == {
        "anthropic-version": "2023-06-01",
        "anthropic-beta": "b",
        "x-team": "t",
        "x-stainless-raw-response": "stream",
    }
    assert "api.anthropic.com" in repr(model)


async def test_it_streams() -> None:
    """Also from Bedrock, where the events come in frames."""
    events = [b"data: " + payload(event) + b"\n\n" for event in EVENTS]
    frames = [b"frame " + payload(event) for event in EVENTS]
    plain = Response([*events], headers={"content-type": "text/event-stream"})
    framed = Response([*frames], headers={"content-type": "application/vnd.amazon.eventstream"})
    for sdk, answer in ((AsyncAnthropic(plain), plain), (AsyncAnthropicBedrock(framed), framed)):
        *pieces, reply = await streamed(Anthropic("claude-sonnet-4-5", client=sdk))
        assert len(pieces) == 2
        assert isinstance(reply, ModelReply)
        assert reply.message.text == "ab"
        assert answer.closed
    assert sdk.asked[0]["body"]["anthropic_version"] == "bedrock-2023-05-31"


async def test_a_platform_runs_anthropics_own_models() -> None:
    """What they signed goes back to them, wherever they run."""
    model = Anthropic("claude-sonnet-4-5", client=AsyncAnthropicBedrock())
    assert (model.profile.provider, model.profile.max_output) == ("anthropic", 64_000)


async def test_an_error_answer_is_typed() -> None:
    """Though the SDK raises it."""
    refusal = {"type": "error", "error": {"type": "rate_limit_error", "message": "slow down"}}
    headers = {"request-id": "req_1", "retry-after": "3"}
    sdk = AsyncAnthropic(Response([json.dumps(refusal).encode()], 429, headers))
    with pytest.raises(RateLimited, match="slow down") as caught:
        await Anthropic("claude-sonnet-4-5", client=sdk).complete(asking())
    error = caught.value
    assert (error.status, error.request_id, error.retry_after) == (429, "req_1", 3.0)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (APIConnectionError("no route"), Overloaded),
        (APITimeoutError("late"), ModelTimeout),
        (Response([b'{"a', HTTPError("reset")]), IncompleteReply),
        (Response([b'{"a', TimeoutException("late")]), ModelTimeout),
    ],
)
async def test_a_network_that_fails(
    answer: Response | Exception, expected: type[ModelError]
) -> None:
    """Before and in the middle of an answer; trying again may help."""
    with pytest.raises(expected) as caught:
        await Anthropic("claude-sonnet-4-5", client=AsyncAnthropic(answer)).complete(asking())
    assert (caught.value.retryable, caught.value.model) == (True, "claude-sonnet-4-5")


async def test_a_stream_that_breaks_off() -> None:
    """Keeps the text so far."""
    pieces = [b"data: " + payload(event) + b"\n\n" for event in EVENTS[:3]]
    broken = Response([*pieces, HTTPError("reset")], headers={"content-type": "text/event-stream"})
    with pytest.raises(IncompleteReply) as caught:
        await streamed(Anthropic("claude-sonnet-4-5", client=AsyncAnthropic(broken)))
    assert caught.value.partial == "a"


def test_no_client_of_the_sdk() -> None:
    """Is said at once."""
    with pytest.raises(ConfigError, match="no asynchronous client"):
        Anthropic("claude-sonnet-4-5", client=object())
