"""Equal requests are answered once."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from msgspec.structs import replace

from tests.agent.parts import add
from tests.models.quota_contract import settled
from treadle import (
    Agent,
    ConfigError,
    Image,
    Message,
    ModelReply,
    ModelRequest,
    ModelSettings,
    Overloaded,
    Price,
    Reasoning,
    Retry,
    Text,
    ToolCall,
    ToolResult,
    Usage,
)
from treadle.messages import Thread
from treadle.models import Cache
from treadle.models.cache import key_of
from treadle.ports.model import (
    ModelDelta,
    ModelProfile,
    OutputSchema,
    ReasoningPiece,
    TextPiece,
    ToolSpec,
)
from treadle.ports.replies import KeptReply
from treadle.testing import FakeClock, FunctionModel, ScriptedModel, calls, chunks, raises, reply

USED = Usage(input_tokens=10, output_tokens=5, requests=1)
HELLO = ModelRequest(messages=Thread([Message.user("Hello")]))


def asking(text: str) -> ModelRequest:
    """A request."""
    return ModelRequest(messages=Thread([Message.user(text)]))


def files_in(folder: Path) -> list[Path]:
    """All files, at any depth."""
    return [each for each in folder.rglob("*") if each.is_file()]


@pytest.fixture(params=["memory", "folder"])
def made(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., Cache]:
    """Builds a cache of each kind."""
    store = tmp_path / "replies" if request.param == "folder" else None

    def make(model: Any, **options: Any) -> Cache:
        return Cache(model, store, **options)

    return make


async def test_an_equal_request_is_answered_from_what_is_kept(made: Callable[..., Cache]) -> None:
    """The model is asked once; the second answer used no tokens."""
    message = Message.assistant(
        Reasoning("hm", signature="s"), "hi", ToolCall.of("add", {"a": 1}, id="c1")
    )
    first = ModelReply(message=message, usage=USED, finish_reason="tool_calls", model="m-1")
    model = ScriptedModel([first, "other"])
    cache = made(model)

    assert await cache.complete(HELLO) == first
    again = await cache.complete(asking("Hello"))
    other = await cache.complete(asking("Bye"))

    assert again == replace(first, usage=Usage(), settled=True)
    assert (other.message.text, len(model.requests)) == ("other", 2)


async def test_a_stream_is_replayed(made: Callable[..., Cache]) -> None:
    """In pieces by part; and streams and whole answers share what is kept."""
    model = ScriptedModel([chunks([Reasoning("hm"), "he", "llo"], usage=USED)])
    cache = made(model)

    live = [delta async for delta in cache.stream(HELLO)]
    kept: list[ModelDelta] = [delta async for delta in cache.stream(HELLO)]

    assert live[:3] == [ReasoningPiece("hm"), TextPiece("he"), TextPiece("llo")]
    assert kept[:2] == [ReasoningPiece("hm"), TextPiece("hello")]
    assert kept[2] == await cache.complete(HELLO)
    assert len(model.requests) == 1


async def test_runs_cost_nothing_the_second_time() -> None:
    """Tool calls have other IDs in each conversation, and the requests are equal all the same."""
    price = Price(input=1_000_000, output=0)
    script = [calls(("c1", "add", {"a": 1, "b": 2}), usage=USED), reply("3", usage=USED)]
    model = ScriptedModel(script, price=price)
    agent = Agent("adder", Cache(model), tools=[add])

    first = await agent.run("1 + 2?")
    second = await agent.run("1 + 2?")

    assert (first.output, second.output, len(model.requests)) == ("3", "3", 2)
    assert first.usage.cost == Decimal(20)
    assert second.usage == Usage(tool_calls=1)


@pytest.mark.parametrize(
    "other",
    [
        replace(HELLO, system="Be brief."),
        replace(HELLO, tools=(ToolSpec("add", "Adds.", {"type": "object"}),)),
        replace(HELLO, settings=ModelSettings(temperature=0.5)),
        replace(HELLO, settings=ModelSettings(extra_headers=MappingProxyType({"x-a": "1"}))),
        replace(HELLO, settings=ModelSettings(extra_body={"a": "\ud800"})),
        replace(HELLO, output=OutputSchema("answer", {"type": "object"})),
        asking("hello"),
        replace(HELLO, messages=Thread([Message.user("Hel", "lo")])),
        replace(
            HELLO,
            messages=Thread(
                [Message.user("Hello", Image.from_bytes(b"\xff\xd8\xff", "image/jpeg"))]
            ),
        ),
    ],
)
def test_what_makes_a_request_another_one(other: ModelRequest) -> None:
    """Everything that the model is told."""
    profile = ModelProfile(provider="p", name="m")
    assert key_of(other, profile) != key_of(HELLO, profile)
    assert key_of(other, profile) == key_of(other, profile)


def test_what_does_not() -> None:
    """Whose conversation it is, how long it may take, and how tool calls are called."""

    def asked(id: str, provider_id: str | None) -> Thread:
        call = ToolCall(id, "add", '{"a":1}', provider_id)
        result = ToolResult(id, "add", (Text("1"),))
        reply = Message("assistant", (call, replace(call, id=f"{id}b")))
        results = Message("tool", (result, replace(result, call_id=f"{id}b")))
        return Thread([*HELLO.messages, reply, results])

    profile = ModelProfile(provider="p", name="m")
    one = ModelRequest(messages=asked("c1", None), conversation_id="a", seconds_left=1.0)
    other = ModelRequest(messages=asked("x9", "call_3"), settings=ModelSettings(timeout=5))

    assert key_of(one, profile) == key_of(other, profile)
    assert key_of(one, profile) != key_of(one, replace(profile, name="other"))
    assert key_of(one, profile) != key_of(one, replace(profile, identity="other"))
    assert key_of(one, profile) != key_of(one, replace(profile, provider="other"))


async def test_old_replies_are_asked_for_anew(made: Callable[..., Cache]) -> None:
    """And the new one is kept."""
    clock = FakeClock()
    cache = made(ScriptedModel(["one", "two"]), ttl=timedelta(hours=1), clock=clock)

    texts: list[str] = []
    for seconds in (0, 3_599, 1, 3_599):
        clock.advance(seconds)
        texts.append((await cache.complete(HELLO)).message.text)

    assert texts == ["one", "one", "two", "two"]


async def test_memory_is_bounded() -> None:
    """What was not asked for the longest is forgotten."""
    model = FunctionModel(lambda request: request.messages[-1].text)
    cache = Cache(model, size=2)

    for text in ("a", "b", "a", "c", "a", "b"):
        await cache.complete(asking(text))

    assert [request.messages[-1].text for request in model.requests] == ["a", "b", "c", "b"]


async def test_many_ask_the_same_at_once(made: Callable[..., Cache]) -> None:
    """One request is made, whether they stream or not."""
    go = asyncio.Event()

    async def answer(request: ModelRequest) -> ModelReply:
        await go.wait()
        return reply("hi", usage=USED)

    model = FunctionModel(answer)
    cache = made(model)

    async def streamed() -> ModelReply:
        last = [delta async for delta in cache.stream(HELLO)][-1]
        assert isinstance(last, ModelReply)
        return last

    async with asyncio.TaskGroup() as tasks:
        asked = [tasks.create_task(cache.complete(HELLO)) for _ in range(10)]
        asked += [tasks.create_task(streamed()) for _ in range(10)]
        await settled()
        go.set()

    replies = [task.result() for task in asked]
    assert len(model.requests) == 1
    assert {each.message.text for each in replies} == {"hi"}
    assert sum(each.usage.output_tokens for each in replies) == 5


async def test_errors_are_not_kept(made: Callable[..., Cache]) -> None:
    """Those who waited for the same get the error, each its own; the next one asks again."""
    go = asyncio.Event()

    async def answer(request: ModelRequest) -> str:
        await go.wait()
        if len(model.requests) == 1:
            raise Overloaded("busy", retry_after=3.0, provider="p")
        return "hi"

    model = FunctionModel(answer)
    cache = made(model)
    async with asyncio.TaskGroup() as tasks:
        asked = [tasks.create_task(_error_of(cache)) for _ in range(3)]
        await settled()
        go.set()

    errors = [task.result() for task in asked]
    assert len({id(error) for error in errors}) == 3
    assert {(str(error), error.retry_after, error.provider) for error in errors} == {
        ("busy", 3.0, "p")
    }
    assert (await cache.complete(HELLO)).message.text == "hi"


async def test_another_one_asks_when_the_first_gives_up() -> None:
    """By being cancelled, by leaving its stream, or by a mistake in the model."""
    started, script = asyncio.Event(), ["hang", "mistake", "hi"]

    async def answer(request: ModelRequest) -> str:
        started.set()
        step = script.pop(0)
        if step == "hang":
            await FakeClock.forever()
        if step == "mistake":
            raise ZeroDivisionError
        return step

    cache = Cache(FunctionModel(answer))
    async with asyncio.TaskGroup() as tasks:
        first = tasks.create_task(cache.complete(HELLO))
        await started.wait()
        second = tasks.create_task(_mistake_of(cache))
        await settled()
        third = tasks.create_task(cache.complete(HELLO))
        await settled()
        first.cancel()
    assert second.result() is ZeroDivisionError
    assert third.result().message.text == "hi"


async def test_a_stream_that_is_left_is_not_kept() -> None:
    """Nobody knows the rest of it."""
    model = ScriptedModel([chunks(["a", "b"]), "whole"])
    cache = Cache(model)

    stream = cache.stream(HELLO)
    await anext(stream)
    await stream.aclose()

    assert (await cache.complete(HELLO)).message.text == "whole"


@pytest.mark.parametrize("finish", ["length", "content_filter", "refusal", "other"])
async def test_what_is_no_whole_answer_is_not_kept(finish: Any) -> None:
    """It is asked for again."""
    model = ScriptedModel([reply("hal", finish=finish), "whole"])
    cache = Cache(model)

    assert (await cache.complete(HELLO)).finish_reason == finish
    assert (await cache.complete(HELLO)).message.text == "whole"


async def test_retries_go_through_it() -> None:
    """A run's next attempt asks the model."""
    model = ScriptedModel([raises(Overloaded("busy")), "hi"])
    agent = Agent("a", Cache(model), retry=Retry(clock=FakeClock()))

    assert (await agent.run("x")).output == "hi"
    assert (await agent.run("x")).output == "hi"
    assert len(model.requests) == 2


async def test_a_folder_lasts(tmp_path: Path) -> None:
    """Another process finds it; it is for its owner only, and a broken file is asked for anew."""
    await Cache(ScriptedModel(["one"]), tmp_path).complete(HELLO)
    silent = ScriptedModel(["anew"])
    assert (await Cache(silent, str(tmp_path)).complete(HELLO)).message.text == "one"

    (file,) = files_in(tmp_path)
    assert file.stat().st_mode & 0o777 == 0o600
    file.write_bytes(b'{"at": 1')
    assert (await Cache(silent, tmp_path).complete(HELLO)).message.text == "anew"
    assert (await Cache(silent, tmp_path).complete(HELLO)).message.text == "anew"
    assert files_in(tmp_path) == [file]


async def test_a_folder_that_cannot_be_written(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The answer is given all the same, and the trouble is logged."""
    place = tmp_path / "file"
    place.write_text("not a folder")

    cache = Cache(ScriptedModel(["one", "two"]), place)

    assert (await cache.complete(HELLO)).message.text == "one"
    assert (await cache.complete(HELLO)).message.text == "two"
    assert "could not be kept" in caplog.text


async def test_replies_of_the_users_own() -> None:
    """Any object with `get` and `put`."""

    class Mapped:
        def __init__(self) -> None:
            self.kept: dict[str, KeptReply] = {}

        async def get(self, key: str) -> KeptReply | None:
            return self.kept.get(key)

        async def put(self, key: str, kept: KeptReply) -> None:
            self.kept[key] = kept

    store = Mapped()
    await Cache(ScriptedModel(["hi"]), store).complete(HELLO)
    assert [len(key) for key in store.kept] == [64]


def test_loops_of_several_threads_share_one_request() -> None:
    """Who waits in another loop hears of the answer."""
    begun, go = threading.Event(), threading.Event()

    async def answer(request: ModelRequest) -> str:
        begun.set()
        await asyncio.to_thread(go.wait, 20)
        return "hi"

    model = FunctionModel(answer)
    cache = Cache(model)
    texts: list[str] = []

    async def ask() -> None:
        texts.append((await cache.complete(HELLO)).message.text)

    first, *others = (threading.Thread(target=asyncio.run, args=(ask(),)) for _ in range(4))
    first.start()
    assert begun.wait(20)
    for thread in others:
        thread.start()
    go.set()
    for thread in (first, *others):
        thread.join(30)
    assert (texts, len(model.requests)) == (["hi"] * 4, 1)


def test_what_cannot_be() -> None:
    """Refused with its value."""
    with pytest.raises(ConfigError, match="size=0"):
        Cache(ScriptedModel([]), size=0)
    with pytest.raises(ConfigError, match="ttl="):
        Cache(ScriptedModel([]), ttl=0)


async def _error_of(cache: Cache) -> Overloaded:
    with pytest.raises(Overloaded) as caught:
        await cache.complete(HELLO)
    return caught.value


async def _mistake_of(cache: Cache) -> type[Exception]:
    with pytest.raises(ZeroDivisionError) as caught:
        await cache.complete(HELLO)
    return caught.type
