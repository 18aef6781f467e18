"""Failures that pass and failures that do not, by status, header and clock."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from tests.scenarios.provider import ask, both_ways, kinds_of, patient, provider, saying, watch
from tests.servers import DONE, Answer, delta, free_port, stream, whole
from treadle import (
    Agent,
    AuthenticationFailed,
    ContextOverflow,
    Limits,
    ModelError,
    ModelRetried,
    Overloaded,
    Price,
    RateLimited,
    Retry,
    RunFinished,
    tool,
)
from treadle.providers import OpenAI

SLOW = {"error": {"message": "slow down", "type": "requests", "code": "rate_limit_exceeded"}}


def refusing(status: int, code: str = "", **headers: str) -> Answer:
    """Answer with an error; underscores in header names are dashes."""
    body = {"error": {"message": f"status {status}", "code": code}}
    return whole(body, status, {name.replace("_", "-"): text for name, text in headers.items()})


@both_ways
async def test_two_failures_that_pass(streamed: bool) -> None:
    """S12: the run succeeds, with an event for each new attempt, and every attempt counts."""
    retry, clock = patient()
    answers = (refusing(503), refusing(500), saying("hi", streamed=streamed))
    async with provider(*answers) as line:
        result = await ask(Agent("a", line.model, retry=retry), "x", streamed=streamed)

    assert (result.output, result.usage.requests, len(line.requests)) == ("hi", 3, 3)
    assert clock.sleeps == [0.5, 1.0]


async def test_watchers_are_told_of_attempts() -> None:
    """S12: which one failed, why, and how long until the next."""
    retry, _ = patient()
    answers = (refusing(503), refusing(429, Retry_After="7"), saying("hi", streamed=True))
    async with provider(*answers) as line:
        events = await watch(Agent("a", line.model, retry=retry))

    told = [event for event in events if isinstance(event, ModelRetried)]
    assert [(event.attempt, event.seconds) for event in told] == [(1, 0.5), (2, 7.0)]
    assert "status 503" in told[0].error
    assert kinds_of(events).count("model.started") == 3


@both_ways
@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (refusing(400), ModelError),
        (refusing(401), AuthenticationFailed),
        (refusing(403), AuthenticationFailed),
        (refusing(404), ModelError),
        (refusing(400, "context_length_exceeded"), ContextOverflow),
        (refusing(429, "insufficient_quota", Retry_After="1"), RateLimited),
        (refusing(402), RateLimited),
    ],
    ids=["400", "401", "403", "404", "overflow", "quota", "402"],
)
async def test_failures_that_no_repetition_helps(
    answer: Answer, kind: type[ModelError], streamed: bool
) -> None:
    """S12, BS-66: one request, and the error that fits."""
    retry, clock = patient()
    async with provider(answer) as line:
        with pytest.raises(kind) as caught:
            await ask(Agent("a", line.model, retry=retry), "x", streamed=streamed)

    assert (len(line.requests), clock.sleeps, caught.value.retryable) == (1, [], False)
    assert caught.value.result.stop_reason == "failed"
    assert [message.role for message in caught.value.result.messages] == ["user"]


DATES = {"Date": "Thu, 01 Jan 2026 00:00:00 GMT", "Retry_After": "Thu, 01 Jan 2026 00:00:07 GMT"}


@both_ways
@pytest.mark.parametrize(
    "headers",
    [
        {"Retry_After": "7"},
        DATES,
        {"retry_after_ms": "7000", "Retry_After": "60"},
        {"x_ratelimit_remaining_tokens": "0", "x_ratelimit_reset_tokens": "7s"},
    ],
    ids=["seconds", "date", "milliseconds", "reset"],
)
async def test_the_servers_wait_is_kept(headers: dict[str, str], streamed: bool) -> None:
    """BS-66: one wait, as long as the server asked for and at most a tenth longer."""
    _, clock = patient()
    retry = Retry(clock=clock)
    answers = (refusing(429, **headers), saying("hi", streamed=streamed))
    async with provider(*answers) as line:
        result = await ask(Agent("a", line.model, retry=retry), "x", streamed=streamed)

    [waited] = clock.sleeps
    assert 7.0 <= waited <= 8.0
    assert (result.output, len(line.requests)) == ("hi", 2)


@both_ways
async def test_a_wait_beyond_the_deadline(streamed: bool) -> None:
    """BS-66: it fails now, and says how long the server wanted."""
    retry, clock = patient()
    limits = Limits(deadline=timedelta(seconds=3))
    async with provider(refusing(429, Retry_After="7")) as line:
        agent = Agent("a", line.model, retry=retry, limits=limits)
        with pytest.raises(RateLimited) as caught:
            await ask(agent, "x", streamed=streamed)

    assert (caught.value.retry_after, clock.sleeps, len(line.requests)) == (7.0, [], 1)


@both_ways
@pytest.mark.parametrize("attempts", [1, 2, 5])
async def test_attempts_are_those_of_the_policy(attempts: int, streamed: bool) -> None:
    """BS-66: nothing below repeats a request by itself."""
    retry, clock = patient(attempts)
    async with provider(refusing(503)) as line:
        with pytest.raises(Overloaded):
            await ask(Agent("a", line.model, retry=retry), "x", streamed=streamed)

    assert (len(line.requests), len(clock.sleeps)) == (attempts, attempts - 1)


async def test_a_dropped_connection_is_a_new_attempt_only_by_the_policy() -> None:
    """BS-66: a kept connection that the server closed meanwhile is no silent second request."""
    retry, _ = patient(2)
    dropped = Answer(raw=b"", end="reset")
    async with provider(saying("a", streamed=False), dropped, saying("b", streamed=False)) as line:
        agent = Agent("a", line.model, retry=retry)
        await agent.run("x")
        result = await agent.run("y")

    assert (result.output, result.usage.requests, len(line.requests)) == ("b", 2, 3)


async def test_nobody_listens() -> None:
    """S12: it is tried again, and the last error names the place."""
    retry, clock = patient()
    port = free_port()
    agent = Agent("a", OpenAI("m", base_url=f"http://127.0.0.1:{port}/v1"), retry=retry)

    with pytest.raises(Overloaded, match=f"127.0.0.1:{port}") as caught:
        await agent.run("x")

    assert len(clock.sleeps) == 2
    assert caught.value.result.usage.requests == 3


@both_ways
async def test_usage_adds_up_over_turns(streamed: bool) -> None:
    """S2, B265: each reply's tokens, once; the calls that ran; and what they cost."""

    @tool
    async def look() -> str:
        """Look."""
        return "rain"

    price = Price(input=1, output=10)
    answers = (
        saying(None, ("1", "look", "{}"), streamed=streamed),
        saying("wet", streamed=streamed),
    )
    async with provider(*answers, price=price) as line:
        result = await ask(Agent("a", line.model, tools=[look]), "x", streamed=streamed)

    usage = result.usage
    assert (usage.input_tokens, usage.output_tokens) == (14, 4)
    assert (usage.requests, usage.tool_calls) == (2, 1)
    assert usage.cost == (14 * Decimal(1) + 4 * Decimal(10)) / 1_000_000


async def test_a_running_total_in_every_chunk() -> None:
    """BS-65: the last one counts, and it is the one of a reply that comes whole."""

    def spent(completion: int) -> dict[str, Any]:
        details = {"cached_tokens": 10}
        return {
            "prompt_tokens": 25,
            "completion_tokens": completion,
            "prompt_tokens_details": details,
        }

    chunks = [{**delta(content=str(n)), "usage": spent(n)} for n in (1, 9, 15)]
    body = {"choices": [{"message": {"content": "1915"}, "finish_reason": "stop"}]}
    answers = (stream(*chunks, delta("stop"), DONE), whole({**body, "usage": spent(15)}))
    async with provider(*answers) as line:
        agent = Agent("a", line.model)
        events = await watch(agent)
        result = await agent.run("x")

    last = events[-1]
    assert isinstance(last, RunFinished)
    assert last.usage == result.usage
    assert (result.usage.input_tokens, result.usage.cache_read_tokens) == (25, 10)
    assert result.usage.output_tokens == 15
