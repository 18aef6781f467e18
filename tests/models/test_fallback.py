"""Several models as one: the next is asked when one fails."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from decimal import Decimal
from typing import Any

import pytest

from treadle import (
    Agent,
    AuthenticationFailed,
    BadReply,
    ConfigError,
    ContentFiltered,
    ContextOverflow,
    IncompleteReply,
    Message,
    ModelError,
    ModelRequest,
    ModelRetried,
    ModelSettings,
    ModelTimeout,
    OutputDelta,
    Overloaded,
    Price,
    RateLimited,
    Retry,
    UnknownModel,
    Usage,
)
from treadle.messages import Thread
from treadle.models import Fallback
from treadle.ports.model import ModelDelta, ModelProfile, ModelReply, Restart, TextPiece
from treadle.testing import FakeClock, FunctionModel, ScriptedModel, chunks, raises, reply

HELLO = ModelRequest(messages=Thread([Message.user("Hello")]))
ONCE = Retry(attempts=1)


def failing(error: Exception, *after: str, name: str = "a", **options: Any) -> ScriptedModel:
    """A model that fails once, when streaming after these pieces."""
    return ScriptedModel([raises(error, *after)], name=name, **options)


async def streamed(model: Fallback) -> list[ModelDelta]:
    """All deltas of one request."""
    return [delta async for delta in model.stream(HELLO)]


@pytest.mark.parametrize(
    "error",
    [
        Overloaded("busy"),
        RateLimited("slow down"),
        RateLimited("quota spent", retryable=False),
        ModelTimeout("no answer"),
        AuthenticationFailed("key"),
        BadReply("a login page"),
        ModelError("no such model", status=404),
        ModelError("not implemented", status=501),
        IncompleteReply("dropped", retryable=True),
    ],
)
async def test_the_next_model_answers(error: ModelError) -> None:
    """Where it may know better: the failure is of the first one or its server."""
    first, second = failing(error), ScriptedModel(["hi"], name="b")

    made = await Fallback(first, second).complete(HELLO)

    assert (made.message.text, made.model, made.usage.requests) == ("hi", "b", 2)
    assert first.requests[0].messages == second.requests[0].messages


@pytest.mark.parametrize(
    "error",
    [
        ContentFiltered("no"),
        ContentFiltered("no", status=500),
        ContextOverflow("too long"),
        ModelError("bad request", status=400),
        IncompleteReply("cut off by the limit"),
    ],
)
async def test_what_another_model_does_not_cure(error: ModelError) -> None:
    """It is raised as it is, and the next model is not asked."""
    second = ScriptedModel(["hi"])

    with pytest.raises(type(error)) as caught:
        await Fallback(failing(error), second).complete(HELLO)
    assert caught.value is error
    assert second.requests == []


async def test_other_errors_pass() -> None:
    """A mistake in the program is no failure of a model; nor is being cancelled."""
    for error in (ConfigError("no key"), ZeroDivisionError(), asyncio.CancelledError()):
        second = ScriptedModel(["hi"])
        model = FunctionModel(lambda _, error=error: _raise(error))
        with pytest.raises(type(error)):
            await Fallback(model, second).complete(HELLO)
        assert second.requests == []


async def test_the_caller_may_choose() -> None:
    """`on` decides instead."""
    chosen = Fallback(
        failing(ContextOverflow("too long")),
        failing(Overloaded("busy")),
        ScriptedModel(["hi"]),
        on=lambda error: isinstance(error, ContextOverflow),
    )

    with pytest.raises(Overloaded, match=r"2 of 3 models failed\. a: .*too long \| a: .*busy"):
        await chosen.complete(HELLO)


async def test_the_error_names_every_attempt() -> None:
    """It is of the last one's kind, retryable after the shortest wait, and has what was used."""
    busy = Overloaded("busy", retry_after=9.0, status=503)
    limited = RateLimited("slow down", retry_after=4.0)
    refused = AuthenticationFailed("wrong key", provider="p", model="c", status=401)
    refused.usage = Usage(input_tokens=3, requests=1)
    model = Fallback(failing(busy), failing(limited, name="b"), failing(refused, name="c"))

    with pytest.raises(AuthenticationFailed) as caught:
        await model.complete(HELLO)

    error = caught.value
    assert str(error) == (
        "3 of 3 models failed. a: Overloaded: busy | b: RateLimited: slow down | "
        "c: AuthenticationFailed: wrong key"
    )
    assert (error.retryable, error.retry_after, error.status) == (True, 4.0, 401)
    assert error.usage == Usage(input_tokens=3, requests=3)
    attempts: Any = error.__cause__
    assert attempts.exceptions == (busy, limited, refused)


async def test_an_error_of_the_users_own() -> None:
    """Its nearest kind of ours is raised: how it is built is not known."""

    class Strange(Overloaded):
        def __init__(self) -> None:
            super().__init__("strange")

    with pytest.raises(Overloaded, match="2 of 2") as caught:
        await Fallback(failing(Strange()), failing(Strange())).complete(HELLO)
    assert type(caught.value) is Overloaded


async def test_a_stream_that_said_nothing_yet() -> None:
    """The next model streams, as if nothing had been."""
    model = Fallback(failing(Overloaded("busy")), ScriptedModel([chunks(["he", "llo"])]))

    *pieces, last = await streamed(model)

    assert pieces == [TextPiece("he"), TextPiece("llo")]
    assert isinstance(last, ModelReply)
    assert last.usage.requests == 2


async def test_a_stream_that_broke_after_it_said_something() -> None:
    """The pieces say that they begin anew."""
    broken = failing(Overloaded("dropped"), "he", "y")
    model = Fallback(broken, ScriptedModel([chunks(["hello"])]))

    pieces = (await streamed(model))[:-1]

    restart = Restart("Overloaded: dropped")
    assert pieces == [TextPiece("he"), TextPiece("y"), restart, TextPiece("hello")]


async def test_models_that_cannot_stream() -> None:
    """They answer in one piece; one whose stream has no end has failed."""

    class Endless:
        async def complete(self, request: ModelRequest) -> ModelReply:
            raise AssertionError

        async def stream(self, request: ModelRequest) -> AsyncIterator[ModelDelta]:
            yield TextPiece("…")

    plain = ScriptedModel([reply("whole")], streams=False)

    pieces = await streamed(Fallback(Endless(), plain))

    assert pieces[0] == TextPiece("…")
    assert isinstance(pieces[1], Restart)
    assert pieces[2] == TextPiece("whole")


async def test_a_reader_who_leaves_closes_the_models_stream() -> None:
    """The connection behind it is given back."""
    closed: list[str] = []

    class Open:
        async def complete(self, request: ModelRequest) -> ModelReply:
            raise AssertionError

        async def stream(self, request: ModelRequest) -> AsyncIterator[ModelDelta]:
            try:
                yield TextPiece("one")
                yield TextPiece("two")
            finally:
                closed.append("stream")

    stream = Fallback(Open()).stream(HELLO)
    assert await anext(stream) == TextPiece("one")
    await stream.aclose()

    assert closed == ["stream"]


async def test_a_run_forgets_what_the_failed_model_said() -> None:
    """Watchers are told, and the answer is that of the model which went through."""
    broken = failing(IncompleteReply("dropped", retryable=True), "Hel")
    agent = Agent("a", Fallback(broken, ScriptedModel(["Good day."])), retry=ONCE)

    run = agent.start("x")
    events = [event.type async for event in run]
    result = await run

    assert (result.output, events) == (
        "Good day.",
        [
            "run.started",
            "model.started",
            "text.delta",
            "model.retried",
            "text.delta",
            "model.finished",
            "answer.stored",
            "run.finished",
        ],
    )
    assert result.usage.requests == 2


async def test_a_typed_output_begins_anew() -> None:
    """What was told of it is taken back, and then told again from its beginning."""
    half = failing(IncompleteReply("dropped", retryable=True), '{"a": 1, ', native_output=True)
    whole = ScriptedModel([chunks(['{"a": 1, ', '"b": 2}'])], native_output=True)
    agent = Agent("a", Fallback(half, whole), output_type=dict[str, int], retry=ONCE)

    run = agent.start("x")
    told = [
        event.value if isinstance(event, OutputDelta) else "anew"
        async for event in run
        if isinstance(event, OutputDelta | ModelRetried)
    ]

    assert told == [{"a": 1}, "anew", {"a": 1}, {"a": 1, "b": 2}]
    assert (await run).output == {"a": 1, "b": 2}


async def test_a_run_that_failed_says_what_was_tried() -> None:
    """All attempts of all rounds are counted, and each round begins with the first model."""
    clock = FakeClock()
    busy = Overloaded("busy", retry_after=5.0)
    models = [ScriptedModel([raises(busy), raises(busy)], name=name) for name in "ab"]
    agent = Agent("a", Fallback(*models), retry=Retry(attempts=2, jitter=0, clock=clock))

    with pytest.raises(
        Overloaded, match=r"2 of 2 models failed\. a: .*busy \| b: .*busy"
    ) as caught:
        await agent.run("x")

    assert clock.sleeps == [5.0]
    assert caught.value.result.usage.requests == 4


async def test_an_answer_costs_what_its_model_costs() -> None:
    """Also where that is nothing, and plus what the failed attempt is known to have cost."""
    dear = Price(input=10, output=30)
    error = Overloaded("dropped")
    error.usage = Usage(input_tokens=100_000, requests=1, cost=Decimal(1))
    first = failing(error, price=dear)
    usage = Usage(input_tokens=1_000_000, output_tokens=1, requests=1)
    second = ScriptedModel([reply("hi", usage=usage)], price=Price(input=0, output=0))

    result = await Agent("a", Fallback(first, second), retry=ONCE).run("x")

    assert result.usage == Usage(1_100_000, output_tokens=1, requests=2, cost=Decimal(1))


def test_the_profile_is_what_all_can_do() -> None:
    """At the highest price, so that a reservation holds whoever answers."""
    long = Price(input=4, output=18)
    able = ModelProfile(
        provider="p",
        name="big",
        native_output=True,
        native_output_with_tools=True,
        price=Price(input=1, output=9, cache_write=Decimal("1.25"), long_above=2, long=long),
        window=200,
        max_output=50,
    )
    plain = ModelProfile(provider="p", name="small", vision=False, price=Price(input=2, output=3))
    both = Fallback(ScriptedModel([], profile=able), ScriptedModel([], profile=plain)).profile

    assert (both.provider, both.name) == ("p", "big or small")
    assert (both.native_output, both.native_output_with_tools, both.vision) == (False, False, False)
    assert both.price == Price(input=4, output=18)
    assert (both.window, both.max_output) == (200, 50)

    unpriced = ScriptedModel([], profile=ModelProfile(provider="q"))
    mixed = Fallback(ScriptedModel([], profile=able), unpriced).profile
    assert (mixed.provider, mixed.price) == ("fallback", None)


def test_models_by_name() -> None:
    """Strings are found at once, and a wrong one is told."""
    assert Fallback("openai:gpt-5.2", ScriptedModel([])).profile.name == "gpt-5.2 or scripted"
    with pytest.raises(UnknownModel, match="nobody:x"):
        Fallback("nobody:x")
    with pytest.raises(ConfigError, match="no models"):
        Fallback()


def _raise(error: BaseException) -> str:
    raise error


async def test_what_a_model_sets_itself_is_priced() -> None:
    """A cache that lasts, asked for by the model that answers; a request overrules it."""
    price = Price(input=0, output=0, cache_write=0, cache_write_long=1_000)
    usage = Usage(input_tokens=50, cache_write_tokens=50, requests=1)
    own = ModelSettings(prompt_cache="long")
    lasting = ModelProfile(name="lasting", price=price, settings=own)
    plain = ModelProfile(name="plain", price=price)

    def both(*models: ScriptedModel) -> Fallback:
        return Fallback(failing(Overloaded("busy"), price=price), *models)

    first = both(ScriptedModel([reply("a", usage=usage)] * 2, profile=lasting))
    other = both(ScriptedModel([reply("a", usage=usage)], profile=plain))
    short = ModelRequest(messages=Thread(), settings=ModelSettings(prompt_cache="short"))

    assert (await first.complete(ModelRequest(messages=Thread()))).usage.cost == Decimal("0.05")
    assert (await other.complete(ModelRequest(messages=Thread()))).usage.cost == 0
    first = Fallback(ScriptedModel([reply("a", usage=usage)], profile=lasting))
    assert (await first.complete(short)).usage.cost == 0


def test_the_profile_has_what_is_to_be_reserved() -> None:
    """The least that a model may say, the dearest cache, and who all of them are."""

    def of(*settings: ModelSettings) -> ModelProfile:
        profiles = [ModelProfile(name="m", settings=each) for each in settings]
        return Fallback(*(ScriptedModel([], profile=each) for each in profiles)).profile

    long = ModelSettings(prompt_cache="long", max_output_tokens=900)
    assert of(long, ModelSettings(max_output_tokens=500), ModelSettings()).settings == (
        ModelSettings(prompt_cache="long", max_output_tokens=500)
    )
    assert of(ModelSettings(), ModelSettings()).settings == ModelSettings()
    assert of(long, ModelSettings()).identity == of(long, ModelSettings()).identity
    assert of(long, ModelSettings()).identity != of(ModelSettings(), long).identity
    there = ModelProfile(name="m", identity="there")
    here = ModelProfile(name="m", identity="here")
    assert (
        len({Fallback(ScriptedModel([], profile=p)).profile.identity for p in (here, there)}) == 2
    )
