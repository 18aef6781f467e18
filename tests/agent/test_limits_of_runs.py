"""The limits of a run: turns, tokens, money and time, and what is left when they are used up."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest

from tests.agent.parts import Hanging, add, quick, roles
from treadle import (
    Agent,
    AuthenticationFailed,
    LimitReached,
    Limits,
    Message,
    ModelSettings,
    Overloaded,
    Price,
    Usage,
)
from treadle.errors import ConfigError
from treadle.models import Cache, Fallback, RateLimit
from treadle.ports.model import ModelProfile, ModelReply, ModelRequest
from treadle.testing import FakeClock, FunctionModel, ScriptedModel, calls, raises, reply


async def test_the_limit_as_an_error() -> None:
    """S4: exactly three rounds, then the limit error with the partial history."""
    model = FunctionModel(lambda request: calls(("c", "add", {"a": 1, "b": 1})))

    with pytest.raises(LimitReached, match="max_turns=3") as caught:
        await Agent("a", model, tools=[add], limits=Limits(max_turns=3), on_limit="error").run("x")

    assert len(model.requests) == 3
    assert len(caught.value.result.messages) == 7
    assert caught.value.result.stop_reason == "failed"


async def test_the_limit_as_an_answer() -> None:
    """S5: one more call without tools; its instruction is not kept."""
    model = ScriptedModel([calls(("c", "add", {"a": 1, "b": 1})), "two"])

    result = await Agent("a", model, tools=[add], limits=Limits(max_turns=1)).run(
        "x", requirements=["Be short.", "  "]
    )

    assert (result.output, result.stop_reason, result.turns) == ("two", "limit", 2)
    assert model.requests[1].tools == ()
    assert "1. Be short." in model.requests[1].messages[-1].text
    assert roles(result.messages) == ["user", "assistant", "tool", "assistant"]
    assert "- Be short." in model.requests[0].system


async def test_a_forced_answer_that_fails() -> None:
    """S6: the run fails and no error text is kept as an answer."""
    model = ScriptedModel(
        [calls(("c", "add", {"a": 1, "b": 1})), raises(AuthenticationFailed("no"))]
    )

    with pytest.raises(AuthenticationFailed) as caught:
        await Agent("a", model, tools=[add], limits=Limits(max_turns=1)).run("x")

    assert caught.value.result.stop_reason == "failed"
    assert roles(caught.value.result.messages) == ["user", "assistant", "tool"]


async def test_the_limit_as_a_pause() -> None:
    """The run pauses with a valid history, and the next one goes on from it."""
    model = ScriptedModel([calls(("c", "add", {"a": 1, "b": 1})), "two"])
    agent = Agent("a", model, tools=[add], limits=Limits(max_turns=1), on_limit="pause")

    paused = await agent.run("x")
    result = await agent.run("go on", history=paused.messages)

    assert (paused.stop_reason, result.output) == ("paused", "two")
    assert "max_turns=1" in paused.reason
    assert roles(paused.messages) == ["user", "assistant", "tool"]


async def test_a_cost_budget_stops_before_the_call() -> None:
    """S13: the second call could exceed the budget, so it is not made."""
    usage = Usage(input_tokens=100_000, output_tokens=1_000, requests=1)
    model = ScriptedModel(
        [calls(("c", "add", {"a": 1, "b": 1}), usage=usage), "never"],
        price=Price(input=Decimal(10), output=Decimal(20)),
    )

    result = await Agent("a", model, tools=[add], limits=Limits(max_cost=Decimal("1.02"))).run("x")

    assert (result.stop_reason, len(model.requests)) == ("budget", 1)
    assert result.usage.cost == Decimal("1.02")
    assert roles(result.messages) == ["user", "assistant", "tool"]


async def test_a_cost_limit_needs_a_price() -> None:
    """A limit that cannot hold is refused in words."""
    with pytest.raises(ConfigError, match="has no price"):
        await Agent("a", ScriptedModel(["x"]), limits=Limits(max_cost=Decimal(1))).run("x")


async def test_a_cost_limit_counts_writing_to_the_cache() -> None:
    """What the provider may add for it is reserved: the limit holds whatever was cached."""
    usage = Usage(input_tokens=100_000, cache_write_tokens=100_000, requests=1)
    price = Price(input=1, output=0, cache_write=10_000)
    model = ScriptedModel([reply("hi", usage=usage)], price=price)
    limits = Limits(max_cost=Decimal("0.05"))

    result = await Agent("a", model, limits=limits).run("a question of several tokens")

    assert (result.stop_reason, model.requests) == ("budget", [])


async def test_a_cache_that_lasts_costs_what_it_costs() -> None:
    """Where it is asked for, in the reservation and in the bill."""
    usage = Usage(input_tokens=50, cache_write_tokens=50, requests=1)
    price = Price(input=0, output=0, cache_write=0, cache_write_long=1_000)
    model = ScriptedModel([reply("hi", usage=usage)], price=price)
    agent = Agent("a", model, settings=ModelSettings(prompt_cache="long"))

    stopped = await agent.run("x", limits=Limits(max_cost=Decimal("0.000001")))
    result = await agent.run("x", limits=Limits(max_cost=Decimal(1)))

    assert (stopped.stop_reason, result.output) == ("budget", "hi")
    assert result.usage.cost == Decimal("0.05")


@pytest.mark.parametrize("wrapped", [False, True])
async def test_a_models_own_settings_are_reserved_and_billed(wrapped: bool) -> None:
    """As if the run had brought them: how long its cache lasts, and how much it may say."""
    usage = Usage(input_tokens=50, cache_write_tokens=50, requests=1)
    profile = ModelProfile(
        price=Price(input=0, output=0, cache_write=0, cache_write_long=1_000),
        settings=ModelSettings(prompt_cache="long", max_output_tokens=500),
    )
    model = ScriptedModel([reply("hi", usage=usage)] * 2, profile=profile)
    agent = Agent("a", Fallback(model, Cache(RateLimit(model, rpm=9))) if wrapped else model)

    stopped = await agent.run("x", limits=Limits(max_cost=Decimal("0.000001")))
    result = await agent.run("x", limits=Limits(max_cost=Decimal(1)))
    short = await agent.run("x", settings=ModelSettings(prompt_cache="short"))

    assert (stopped.stop_reason, result.output) == ("budget", "hi")
    assert (result.usage.cost, short.usage.cost) == (Decimal("0.05"), 0)
    assert [each.settings.max_output_tokens for each in model.requests] == [500, None]


async def test_output_is_capped_to_what_the_model_can_say() -> None:
    """Where its profile knows: a server would refuse to be asked for more."""
    profile = ModelProfile(name="small", max_output=4_096)
    model = ScriptedModel(["hi", "hi"], profile=profile)

    agent = Agent("a", model, limits=Limits(max_tokens=1_000_000))
    await agent.run("x")
    await agent.run("x", settings=ModelSettings(max_output_tokens=5_000))

    assert [each.settings.max_output_tokens for each in model.requests] == [4_096, 5_000]


async def test_a_request_knows_how_much_time_is_left() -> None:
    """So that a wrapper does not begin a wait that the deadline would end."""
    model = ScriptedModel(["hi", "hi"])

    await Agent("a", model, limits=Limits(deadline=timedelta(minutes=5))).run("x")
    await Agent("a", model).run("x")

    left, unlimited = (each.seconds_left for each in model.requests)
    assert left is not None
    assert 0 < left <= 300
    assert unlimited is None


async def test_a_token_budget_caps_the_output() -> None:
    """The request's output is capped to what is left, and a reply cut by that is a spent budget."""
    model = ScriptedModel([reply("half an ans", finish="length")])

    result = await Agent("a", model, limits=Limits(max_tokens=200)).run("x")

    assert result.stop_reason == "budget"
    assert 0 < (model.requests[0].settings.max_output_tokens or 0) < 200
    assert result.messages[-1].incomplete
    assert result.output == "half an ans"


async def test_a_deadline_stops_a_run() -> None:
    """The deadline cancels the model and leaves a result."""
    model = Hanging()

    result = await Agent("a", model, limits=Limits(deadline=timedelta(milliseconds=20))).run("x")

    assert result.stop_reason == "deadline"
    assert "0.02 s" in result.reason
    assert roles(result.messages) == ["user"]
    assert model.stopped.is_set()


async def test_the_wait_that_the_provider_asked_for() -> None:
    """BS-66: it is kept to, where it is longer than our own."""
    clock = FakeClock()
    model = ScriptedModel([raises(Overloaded("busy", retry_after=7.0)), "hi"])

    assert (await Agent("a", model, retry=quick(clock=clock)).run("x")).output == "hi"
    assert clock.sleeps == [7.0]


async def test_a_retry_that_does_not_fit_the_deadline() -> None:
    """BS-66: it fails now, with the wait that was asked for."""
    clock = FakeClock()
    model = ScriptedModel([raises(Overloaded("busy", retry_after=7.0)), "hi"])
    limits = Limits(deadline=timedelta(seconds=3))

    with pytest.raises(Overloaded) as caught:
        await Agent("a", model, retry=quick(clock=clock), limits=limits).run("x")

    assert (caught.value.retry_after, len(model.requests)) == (7.0, 1)
    assert clock.sleeps == []


@pytest.mark.parametrize(("least", "asked"), [(1, True), (16, False)])
async def test_a_rest_that_no_server_takes_is_spent(least: int, asked: bool) -> None:
    """A limit of output below the server's least would be refused: the run stops before it."""

    class Rest:
        profile = ModelProfile(min_output=least, price=Price(input=0, output=1_000_000))

        def __init__(self) -> None:
            self.allowed: list[int | None] = []

        async def complete(self, request: ModelRequest) -> ModelReply:
            self.allowed.append(request.settings.max_output_tokens)
            return ModelReply(message=Message.assistant("ok"))

    model = Rest()
    result = await Agent("a", model, limits=Limits(max_cost=Decimal(11))).run("x")
    assert model.allowed == ([11] if asked else [])
    assert result.stop_reason == ("answer" if asked else "budget")
