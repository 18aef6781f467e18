"""Waits, attempts, budgets, settings and counts on every protocol: BS-66, S12, S13, B158-B165."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from tests.scenarios.every_line import answer, connect, on_every, saying, stream
from tests.scenarios.every_protocol import (
    ANTHROPIC,
    CHAT,
    GEMINI,
    RESPONSES,
    Api,
    Call,
    Reply,
    Wire,
)
from tests.scenarios.provider import ask, both_ways, kinds_of, patient, watch
from tests.servers import Answer, whole
from treadle import (
    Agent,
    AuthenticationFailed,
    ContextOverflow,
    Limits,
    ModelError,
    ModelRetried,
    ModelSettings,
    Overloaded,
    Price,
    RateLimited,
    Retry,
    RunFinished,
    Usage,
    tool,
)

PRICE = Price(input=1, output=10, cache_read=Decimal("0.1"))
COST = (15 * Decimal(1) + 10 * Decimal("0.1") + 15 * Decimal(10)) / 1_000_000
"""What one reply of these tests costs at that price."""


@tool
async def look() -> str:
    """Look."""
    return "rain"


def refusal(api: Api, status: int, kind: str = "", text: str = "", **details: Any) -> Wire:
    """The body of an error, as each vendor writes it. `kind` is its own word."""
    message = text or f"status {status}"
    if api is ANTHROPIC:
        error: Wire = {"type": kind or "api_error", "message": message}
        return {"type": "error", "error": error, "request_id": "req_1"}
    if api is GEMINI:
        return {"error": {"code": status, "message": message, "status": kind, **details}}
    return {"error": {"message": message, "type": "invalid_request_error", "code": kind or None}}


def refusing(api: Api, status: int, kind: str = "", text: str = "", **headers: str) -> Answer:
    """Answer with an error; underscores in header names are dashes."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return whole(refusal(api, status, kind, text), status, named)


@on_every
@both_ways
async def test_two_failures_that_pass(api: Api, streamed: bool) -> None:
    """S12: the run succeeds with an event for each new attempt, and every attempt counts."""
    retry, clock = patient()
    busy = refusing(api, 529 if api is ANTHROPIC else 503)
    answers = (busy, refusing(api, 500), saying(api, "hi", streamed=streamed))
    async with connect(api, *answers) as line:
        result = await ask(Agent("a", line.model, retry=retry), "x", streamed=streamed)

    assert (result.output, result.usage.requests, len(line.requests)) == ("hi", 3, 3)
    assert clock.sleeps == [0.5, 1.0]


@on_every
async def test_watchers_are_told_of_attempts(api: Api) -> None:
    """S12: two events, which say what failed and how long the wait is."""
    retry, _ = patient()
    slow = refusing(api, 429, Retry_After="7")
    async with connect(api, refusing(api, 503), slow, saying(api, "hi", streamed=True)) as line:
        events = await watch(Agent("a", line.model, retry=retry))

    told = [event for event in events if isinstance(event, ModelRetried)]
    assert [(event.attempt, event.seconds) for event in told] == [(1, 0.5), (2, 7.0)]
    assert "status 503" in told[0].error
    assert kinds_of(events).count("model.started") == 3


QUOTA = "You exceeded your current quota, please check your plan and billing details."
FINAL: dict[str, tuple[Api, tuple[int, str, str], type[ModelError]]] = {
    "chat 400": (CHAT, (400, "", ""), ModelError),
    "chat 401": (CHAT, (401, "invalid_api_key", ""), AuthenticationFailed),
    "chat 403": (CHAT, (403, "", ""), AuthenticationFailed),
    "chat 404": (CHAT, (404, "model_not_found", ""), ModelError),
    "chat overflow": (CHAT, (400, "context_length_exceeded", ""), ContextOverflow),
    "chat quota": (CHAT, (429, "insufficient_quota", QUOTA), RateLimited),
    "responses 400": (RESPONSES, (400, "", ""), ModelError),
    "responses 401": (RESPONSES, (401, "invalid_api_key", ""), AuthenticationFailed),
    "responses 403": (RESPONSES, (403, "", ""), AuthenticationFailed),
    "responses 404": (RESPONSES, (404, "model_not_found", ""), ModelError),
    "responses overflow": (RESPONSES, (400, "context_length_exceeded", ""), ContextOverflow),
    "responses quota": (RESPONSES, (429, "insufficient_quota", QUOTA), RateLimited),
    "anthropic 400": (ANTHROPIC, (400, "invalid_request_error", ""), ModelError),
    "anthropic 401": (ANTHROPIC, (401, "authentication_error", ""), AuthenticationFailed),
    "anthropic 403": (ANTHROPIC, (403, "permission_error", ""), AuthenticationFailed),
    "anthropic 404": (ANTHROPIC, (404, "not_found_error", "model: m"), ModelError),
    "anthropic 413": (ANTHROPIC, (413, "request_too_large", ""), ContextOverflow),
    "anthropic overflow": (
        ANTHROPIC,
        (400, "invalid_request_error", "prompt is too long: 9 tokens > 8 maximum"),
        ContextOverflow,
    ),
    "anthropic quota": (
        ANTHROPIC,
        (400, "invalid_request_error", "Your credit balance is too low to access the API."),
        RateLimited,
    ),
    "gemini 400": (GEMINI, (400, "INVALID_ARGUMENT", ""), ModelError),
    "gemini key": (GEMINI, (400, "INVALID_ARGUMENT", "API key not valid."), AuthenticationFailed),
    "gemini 403": (GEMINI, (403, "PERMISSION_DENIED", ""), AuthenticationFailed),
    "gemini 404": (GEMINI, (404, "NOT_FOUND", ""), ModelError),
    "gemini overflow": (
        GEMINI,
        (400, "INVALID_ARGUMENT", "The input token count (9) exceeds the maximum (8)."),
        ContextOverflow,
    ),
    "gemini quota": (GEMINI, (429, "RESOURCE_EXHAUSTED", QUOTA), RateLimited),
}


@both_ways
@pytest.mark.parametrize(("api", "error", "kind"), FINAL.values(), ids=FINAL)
async def test_failures_that_no_repetition_helps(
    api: Api, error: tuple[int, str, str], kind: type[ModelError], streamed: bool
) -> None:
    """S12, BS-66: one request, and the error that fits, with the vendor's status."""
    retry, clock = patient()
    async with connect(api, refusing(api, *error)) as line:
        with pytest.raises(kind) as caught:
            await ask(Agent("a", line.model, retry=retry), "x", streamed=streamed)

    assert (len(line.requests), clock.sleeps, caught.value.retryable) == (1, [], False)
    assert (type(caught.value), caught.value.status) == (kind, error[0])
    assert [message.role for message in caught.value.result.messages] == ["user"]


DATES = {"Date": "Thu, 01 Jan 2026 00:00:00 GMT", "Retry_After": "Thu, 01 Jan 2026 00:00:07 GMT"}


@on_every
@both_ways
@pytest.mark.parametrize("headers", [{"Retry_After": "7"}, DATES], ids=["seconds", "date"])
async def test_the_servers_wait_is_kept(api: Api, headers: dict[str, str], streamed: bool) -> None:
    """BS-66: one wait, as long as the server asked for and at most a tenth longer."""
    await one_wait(api, refusing(api, 429, **headers), streamed=streamed)


OPENAIS = {"x_ratelimit_remaining_tokens": "0", "x_ratelimit_reset_tokens": "7s"}
ANTHROPICS = {
    "Date": "Thu, 01 Jan 2026 00:00:00 GMT",
    "anthropic_ratelimit_requests_remaining": "9",
    "anthropic_ratelimit_requests_reset": "2026-01-01T00:00:50Z",
    "anthropic_ratelimit_tokens_remaining": "0",
    "anthropic_ratelimit_tokens_reset": "2026-01-01T00:00:07Z",
}
DELAY = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "7s"}
WORDS = "Rate limit reached for m on tokens per min. Please try again in 7s."
OWN: dict[str, tuple[Api, Answer]] = {
    "chat milliseconds": (CHAT, refusing(CHAT, 429, retry_after_ms="7000", Retry_After="60")),
    "chat reset": (CHAT, refusing(CHAT, 429, **OPENAIS)),
    "chat words": (CHAT, refusing(CHAT, 429, "rate_limit_exceeded", WORDS)),
    "responses milliseconds": (RESPONSES, refusing(RESPONSES, 429, retry_after_ms="7000")),
    "responses reset": (RESPONSES, refusing(RESPONSES, 429, **OPENAIS)),
    "responses words": (RESPONSES, refusing(RESPONSES, 429, "rate_limit_exceeded", WORDS)),
    "anthropic reset": (ANTHROPIC, refusing(ANTHROPIC, 429, "rate_limit_error", **ANTHROPICS)),
    "gemini details": (
        GEMINI,
        whole(refusal(GEMINI, 429, "RESOURCE_EXHAUSTED", QUOTA, details=[DELAY]), 429),
    ),
    "gemini words": (GEMINI, refusing(GEMINI, 429, text=f"{QUOTA} Please retry in 7.0s.")),
}


@both_ways
@pytest.mark.parametrize(("api", "slow"), OWN.values(), ids=OWN)
async def test_a_vendors_own_way_to_ask_for_a_wait(api: Api, slow: Answer, streamed: bool) -> None:
    """BS-66: headers of limits that are used up, Google's details, and its words."""
    await one_wait(api, slow, streamed=streamed)


FAILED: Wire = {
    "type": "response.failed",
    "response": {"status": "failed", "error": {"code": "rate_limit_exceeded", "message": WORDS}},
}
SLOW = refusal(GEMINI, 429, "RESOURCE_EXHAUSTED", "Slow down.", details=[DELAY])
INSIDE: dict[str, tuple[Api, Wire]] = {
    "chat": (CHAT, {"error": {"message": WORDS, "code": "rate_limit_exceeded"}}),
    "responses": (RESPONSES, FAILED),
    "gemini": (GEMINI, SLOW),
}
"""Anthropic says how long to wait in headers only, and these are gone when a stream begins."""


@pytest.mark.parametrize(("api", "error"), INSIDE.values(), ids=INSIDE)
async def test_a_wait_inside_of_a_stream(api: Api, error: Wire) -> None:
    """BS-66, BS-19: where there are no headers any more."""
    begun = api.begun(Reply(texts=("Hello ",)))
    await one_wait(api, stream(*begun, error), streamed=True)


async def one_wait(api: Api, slow: Answer, *, streamed: bool) -> None:
    """Ask a server that is too busy once."""
    _, clock = patient()
    async with connect(api, slow, saying(api, "hi", streamed=streamed)) as line:
        agent = Agent("a", line.model, retry=Retry(clock=clock))
        result = await ask(agent, "x", streamed=streamed)

    [waited] = clock.sleeps
    assert 7.0 <= waited <= 8.0
    assert (result.output, len(line.requests)) == ("hi", 2)


@on_every
@pytest.mark.parametrize("attempts", [1, 4])
async def test_attempts_are_those_of_the_policy(api: Api, attempts: int) -> None:
    """BS-66: nothing below repeats a request by itself."""
    retry, clock = patient(attempts)
    async with connect(api, refusing(api, 503)) as line:
        with pytest.raises(Overloaded):
            await Agent("a", line.model, retry=retry).run("x")

    assert (len(line.requests), len(clock.sleeps)) == (attempts, attempts - 1)


@on_every
@both_ways
async def test_a_cost_budget_stops_before_the_call(api: Api, streamed: bool) -> None:
    """S13: the second call could exceed the budget, so it is not made."""
    calls = saying(api, "", Call("c1", "look"), streamed=streamed, counts=1000)
    async with connect(api, calls, price=PRICE) as line:
        agent = Agent("a", line.model, tools=[look], limits=Limits(max_cost=1000 * COST))
        result = await ask(agent, "x", streamed=streamed)

    assert (result.stop_reason, result.usage.cost) == ("budget", 1000 * COST)
    assert len(line.requests) == 1
    assert [message.role for message in result.messages] == ["user", "assistant", "tool"]


@on_every
@both_ways
async def test_usage_adds_up_over_turns(api: Api, streamed: bool) -> None:
    """B161, B165, B265: of each reply once, cached and reasoning tokens apart, and the cost."""
    answers = (
        saying(api, "", Call("c1", "look"), streamed=streamed),
        saying(api, "wet", streamed=streamed),
    )
    async with connect(api, *answers, price=PRICE) as line:
        result = await ask(Agent("a", line.model, tools=[look]), "x", streamed=streamed)

    usage = result.usage
    assert (usage.input_tokens, usage.cache_read_tokens, usage.output_tokens) == (50, 20, 30)
    assert (usage.reasoning_tokens, usage.requests, usage.tool_calls) == (10, 2, 1)
    assert usage.cost == 2 * COST


@on_every
@both_ways
async def test_a_reply_without_counts(api: Api, streamed: bool) -> None:
    """B165, B266, B267: what is missing counts as nothing, and without a price nothing costs."""
    reply = Reply(texts=("hi",), counts=0)
    async with connect(api, answer(api, reply, streamed=streamed)) as line:
        result = await ask(Agent("a", line.model), "x", streamed=streamed)

    assert result.usage.requests == 1
    assert result.usage.cost == 0
    if api is not ANTHROPIC or not streamed:  # the beginning of a stream of it always counts
        assert result.usage == Usage(requests=1)


@on_every
async def test_the_events_of_a_run(api: Api) -> None:
    """B160: text, a call, its result and the end are the same events whoever answers."""
    answers = (
        saying(api, "Let me look.", Call("c1", "look"), streamed=True),
        saying(api, "Rain.", streamed=True),
    )
    async with connect(api, *answers) as line:
        events = await watch(Agent("a", line.model, tools=[look]))

    assert kinds_of(events) == [
        "run.started",
        "model.started",
        "text.delta",
        "text.delta",
        "model.finished",
        "tool.requested",
        "tool.started",
        "tool.finished",
        "model.started",
        "text.delta",
        "text.delta",
        "model.finished",
        "answer.stored",
        "run.finished",
    ]
    last = events[-1]
    assert isinstance(last, RunFinished)
    assert (last.stop_reason, last.usage.requests) == ("answer", 2)


ADDRESSES = {
    "chat": ("/v1/chat/completions", "authorization", "Bearer sk-mine"),
    "responses": ("/v1/responses", "authorization", "Bearer sk-mine"),
    "anthropic": ("/v1/messages", "x-api-key", "sk-mine"),
    "gemini": (
        "/v1/models/gemini-3-flash-preview:generateContent",
        "x-goog-api-key",
        "sk-mine",
    ),
}
FORCED: dict[str, Wire] = {
    "chat": {"tool_choice": {"type": "function", "function": {"name": "look"}}},
    "responses": {"tool_choice": {"type": "function", "name": "look"}},
    "anthropic": {"tool_choice": {"type": "tool", "name": "look"}},
    "gemini": {
        "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["look"]}}
    },
}
MOST = {"chat": "max_tokens", "responses": "max_output_tokens", "anthropic": "max_tokens"}


@on_every
async def test_address_key_and_settings(api: Api) -> None:
    """B159, B162 to B164: where it goes, with which key, and what it is told, forced tools too."""
    calls = saying(api, "", Call("c1", "look"), streamed=False)
    labels = "labels" if api is GEMINI else "metadata"
    settings = ModelSettings(
        temperature=0.5,
        max_output_tokens=99,
        tool_choice="look",
        extra_body={labels: {"user_id": "u"}},
    )
    ok = saying(api, "ok", streamed=False)
    async with connect(api, calls, ok, api_key="sk-mine") as line:
        agent = Agent("a", line.model, tools=[look], settings=settings)
        await agent.run("x")

    path, header, key = ADDRESSES[api.name]
    received = line.server.requests[0]
    assert (received.path, received.headers[header]) == (path, key)
    first, second = line.requests
    told = first["generationConfig"] if api is GEMINI else first
    assert (told["temperature"], told[MOST.get(api.name, "maxOutputTokens")]) == (0.5, 99)
    assert first[labels] == {"user_id": "u"}
    for name, value in FORCED[api.name].items():
        assert first[name] == value
        assert second.get(name) != value
