"""A model of which no more is asked than allowed."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from tests.models.quota_contract import settled
from treadle import Agent, ConfigError, Limits, Message, ModelRequest, ModelSettings, Retry, Usage
from treadle.errors import Overloaded, RateLimited
from treadle.messages import Thread
from treadle.models import RateLimit
from treadle.models.estimate import estimate_input
from treadle.models.quota import LocalQuota
from treadle.ports.model import ModelDelta, ModelProfile, ModelReply, TextPiece
from treadle.ports.quota import Bounds, Permit
from treadle.testing import FakeClock, FunctionModel, ScriptedModel, chunks, raises, reply

HELLO = ModelRequest(messages=Thread([Message.user("Hello")]))
INPUT = estimate_input(HELLO)


class Noting:
    """A quota that lets everybody through and notes what it is told."""

    def __init__(self) -> None:
        self.bounds = Bounds(tpm=1_000_000)
        self.begun: list[tuple[int, float | None]] = []
        self.ended: list[int | None] = []

    async def begin(self, tokens: int, *, longest: float | None = None) -> Permit:
        """Let through."""
        self.begun.append((tokens, longest))
        return Permit("1", tokens, 0.0)

    async def end(self, permit: Permit, tokens: int | None) -> None:
        """Note it."""
        self.ended.append(tokens)


async def test_tokens_are_estimated_and_settled() -> None:
    """Input and `max_output_tokens` before, the real usage afterwards, where it is told."""
    noting = Noting()
    known = reply("hi", usage=Usage(input_tokens=7, output_tokens=3, requests=1))
    broken = Overloaded("dropped")
    broken.usage = Usage(input_tokens=5, requests=1)
    script = [known, "untold", raises(Overloaded("busy")), raises(broken)]
    model = RateLimit(ScriptedModel(script), quota=noting)

    await model.complete(HELLO)
    settings = ModelSettings(max_output_tokens=50)
    await model.complete(ModelRequest(messages=HELLO.messages, settings=settings, seconds_left=9.0))
    for _ in range(2):
        with pytest.raises(Overloaded):
            await model.complete(HELLO)

    assert noting.begun[:2] == [(INPUT + 1_024, None), (INPUT + 50, 9.0)]
    assert noting.ended == [10, None, None, 5]


async def test_a_stream_holds_its_place_to_the_end() -> None:
    """Read whole, left early or cancelled."""
    noting = Noting()
    used = Usage(output_tokens=4, requests=1)
    model = RateLimit(
        ScriptedModel([chunks(["a", "b"], usage=used), chunks(["a", "b"])]), quota=noting
    )

    stream = model.stream(HELLO)
    assert await anext(stream) == TextPiece("a")
    assert noting.ended == []
    rest = [delta async for delta in stream]
    assert isinstance(rest[-1], ModelReply)
    assert noting.ended == [4]

    stream = model.stream(HELLO)
    await anext(stream)
    await stream.aclose()
    assert noting.ended == [4, None]


async def test_requests_wait_for_their_minute() -> None:
    """Ten at once, four a minute."""
    clock = FakeClock()
    times: list[float] = []

    def answer(request: ModelRequest) -> str:
        times.append(clock.seconds())
        return "hi"

    quota = LocalQuota(Bounds(rpm=4), clock=clock)
    agent = Agent("a", RateLimit(FunctionModel(answer), quota=quota))

    async with asyncio.TaskGroup() as tasks:
        for _ in range(10):
            tasks.create_task(agent.start("x").result())

    assert times == [0.0] * 4 + [60.0] * 4 + [120.0] * 2


async def test_a_wait_beyond_the_deadline_is_not_begun() -> None:
    """The run fails at once, and says when there would have been a place."""
    clock = FakeClock()
    quota = LocalQuota(Bounds(rpm=1), clock=clock)
    model = ScriptedModel(["one", "two"], name="m")
    agent = Agent("a", RateLimit(model, quota=quota), retry=Retry(clock=clock))
    await agent.run("x")

    with pytest.raises(RateLimited, match=r"rpm=1.*60\.0 s.*deadline") as caught:
        await agent.run("x", limits=Limits(deadline=timedelta(seconds=30)))

    assert (caught.value.provider, caught.value.model) == ("scripted", "m")
    assert (clock.sleeps, len(model.requests)) == ([], 1)


async def test_a_cancelled_run_gives_its_place_back() -> None:
    """While it waits, and while the model answers."""
    release = asyncio.Event()

    async def answer(request: ModelRequest) -> str:
        await release.wait()
        return "hi"

    agent = Agent("a", RateLimit(FunctionModel(answer), concurrency=1))
    first, second, third = (agent.start("x") for _ in range(3))
    await settled()
    await second.cancel("changed my mind")
    await first.cancel("changed my mind")
    release.set()

    assert (await third).output == "hi"


async def test_models_that_cannot_stream() -> None:
    """They answer in one piece."""
    model = RateLimit(ScriptedModel(["whole"], streams=False), concurrency=1)

    deltas: list[ModelDelta] = [delta async for delta in model.stream(HELLO)]

    assert deltas[0] == TextPiece("whole")
    assert model.profile.name == "scripted"


def test_what_cannot_be() -> None:
    """No bound, two of them, or a place that nothing installed knows."""
    model = ScriptedModel([])
    with pytest.raises(ConfigError, match="limits nothing"):
        RateLimit(model)
    with pytest.raises(ConfigError, match="bounds of its own"):
        RateLimit(model, rpm=1, quota=Noting())
    with pytest.raises(ConfigError, match="'nosuch'"):
        RateLimit(model, rpm=1, quota="nosuch://host")


async def test_what_the_model_may_say_at_most_is_reserved() -> None:
    """By settings of its own, too; those of a request lie over them."""
    noting = Noting()
    profile = ModelProfile(settings=ModelSettings(max_output_tokens=50))
    model = RateLimit(ScriptedModel(["a", "b"], profile=profile), quota=noting)

    await model.complete(HELLO)
    settings = ModelSettings(max_output_tokens=60)
    await model.complete(ModelRequest(messages=HELLO.messages, settings=settings))

    assert [tokens for tokens, _ in noting.begun] == [INPUT + 50, INPUT + 60]
    assert model.profile.settings is profile.settings
