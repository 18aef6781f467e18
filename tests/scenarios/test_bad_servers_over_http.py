"""Servers that speak nonsense: a typed error that says what to do, and a history that is intact."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tests.scenarios.provider import ask, both_ways, patient, provider, saying
from tests.servers import DONE, Answer, delta, reply, stream, whole
from treadle import (
    Agent,
    BadReply,
    IncompleteReply,
    Limits,
    MemoryStore,
    MissingKey,
    ModelError,
    ModelSettings,
    ModelTimeout,
    Overloaded,
    tool,
)
from treadle.providers import OpenAI

JSON = {"Content-Type": "application/json"}
HTML = {"Content-Type": "text/html"}
BODY = b'{"choices": [{"message": {"content": "hello"}, "finish_reason": "stop"}]}'

NONSENSE: dict[str, tuple[Answer, type[ModelError], str]] = {
    "a page": (Answer(pieces=(b"<h1>It works!</h1>",), headers=HTML), BadReply, "base_url"),
    "nothing": (Answer(headers=JSON, framing="length"), BadReply, "base_url"),
    "null": (whole(None), BadReply, "base_url"),
    "a number": (whole(7), BadReply, "base_url"),
    "no choices": (whole({"object": "list", "data": []}), BadReply, "base_url"),
    "no HTTP": (Answer(raw=b"SSH-2.0-OpenSSH_9.2\r\n", end="close"), BadReply, "not HTTP"),
    "a redirect": (whole({}, 302, {"Location": "https://x.test/v1"}), ModelError, "x.test"),
    "an error page": (Answer(pieces=(b"<p>Bad gateway",), status=502), Overloaded, "Bad gateway"),
    "an error without a body": (Answer(status=500, framing="length"), Overloaded, "500"),
    "an error in a 200": (whole({"error": {"message": "no such model"}}), ModelError, "no such"),
    "half a body": (
        Answer(pieces=(BODY[:40],), headers=JSON, framing="length", length=99, end="close"),
        IncompleteReply,
        "broke",
    ),
    "nobody": (Answer(raw=b"", end="reset"), Overloaded, "dropped the connection"),
}


@both_ways
@pytest.mark.parametrize(("answer", "kind", "words"), NONSENSE.values(), ids=NONSENSE)
async def test_nonsense(answer: Answer, kind: type[ModelError], words: str, streamed: bool) -> None:
    """What came is named, with what to do; what was said stays, and the next run goes on."""
    retry, _ = patient(1)
    answers = (answer, saying("fine", streamed=streamed))
    store = MemoryStore()
    async with provider(*answers, merge_roles=True) as line:
        agent = Agent("a", line.model, retry=retry, store=store)
        with pytest.raises(kind, match=words) as caught:
            await ask(agent, "one", streamed=streamed, conversation="c")
        result = await ask(agent, "two", streamed=streamed, conversation="c")

    error = caught.value
    assert str(line.server.port) in str(error)
    assert (error.model, error.provider) == ("m", line.model.profile.provider)
    assert [message.text for message in error.result.messages] == ["one"]
    assert [message.text for message in result.messages] == ["one", "two", "fine"]
    assert line.messages()[-1]["content"] == "one\n\ntwo"


STREAMS: dict[str, tuple[Answer, type[ModelError], str]] = {
    "no JSON": (stream(b"data: It works!\n\n"), BadReply, "It works!"),
    "a list": (stream(b"data: [1]\n\n"), BadReply, "base_url"),
    "a page as events": (stream(b"<h1>It works!</h1>\n\n"), IncompleteReply, "empty"),
    "only the end": (stream(DONE), IncompleteReply, "empty"),
}


@pytest.mark.parametrize(("answer", "kind", "words"), STREAMS.values(), ids=STREAMS)
async def test_nonsense_in_a_stream(answer: Answer, kind: type[ModelError], words: str) -> None:
    """The same for what calls itself an event stream."""
    async with provider(answer) as line:
        with pytest.raises(kind, match=words) as caught:
            await ask(Agent("a", line.model, retry=patient(1)[0]), "x", streamed=True)

    assert [message.text for message in caught.value.result.messages] == ["x"]


async def test_nonsense_after_a_beginning() -> None:
    """What was seen before it is kept, marked as incomplete."""
    broken = stream(delta(content="Half "), b"data: {oops}\n\n")
    async with provider(broken, saying("fine", streamed=True)) as line:
        agent = Agent("a", line.model, retry=patient(1)[0])
        with pytest.raises(BadReply, match="oops") as caught:
            await ask(agent, "x", streamed=True)
        history = caught.value.result.messages
        result = await ask(agent, "y", streamed=True, history=history)

    assert (history[-1].text, history[-1].incomplete) == ("Half ", True)
    assert result.output == "fine"


@both_ways
async def test_silence(streamed: bool) -> None:
    """The timeout is the one of the settings; the message says what to raise."""
    async with provider(Answer(raw=b"", end="hang")) as line:
        settings = ModelSettings(timeout=0.02)
        agent = Agent("a", line.model, retry=patient(1)[0], settings=settings)
        with pytest.raises(ModelTimeout, match="raise `timeout`"):
            await ask(agent, "x", streamed=streamed)
        await line.server.wait_closed_by_client()


@both_ways
async def test_a_deadline_hangs_up(streamed: bool) -> None:
    """B6: the run ends in time with a result, and the server is left."""
    async with provider(Answer(raw=b"", end="hang")) as line:
        limits = Limits(deadline=timedelta(milliseconds=30))
        result = await ask(Agent("a", line.model, limits=limits), "x", streamed=streamed)
        await line.server.wait_closed_by_client()

    assert (result.stop_reason, result.output) == ("deadline", "")
    assert [message.role for message in result.messages] == ["user"]


async def test_a_key_that_is_missing() -> None:
    """The message names the variable, and the next run works once there is one."""
    agent = Agent("a", OpenAI("gpt-5.2"))

    with pytest.raises(MissingKey, match="OPENAI_API_KEY") as caught:
        await agent.run("x")

    assert caught.value.result.stop_reason == "failed"


@both_ways
async def test_fields_of_the_wrong_kind(streamed: bool) -> None:
    """A reply is read as far as it makes sense, and what is in it can be sent again."""

    @tool
    async def look() -> str:
        """Look."""
        return "rain"

    odd: dict[str, Any] = {"id": 7, "type": None, "function": {"name": "look", "arguments": {}}}
    if streamed:
        chunk = delta(tool_calls=[{**odd, "index": 0}])
        first = stream(chunk, delta("tool_calls"), DONE)
    else:
        first = whole(reply(None, "tool_calls", tool_calls=[odd]))
    async with provider(first, saying("wet", streamed=streamed)) as line:
        result = await ask(Agent("a", line.model, tools=[look]), "x", streamed=streamed)

    assert (list(line.results().values()), result.output) == (["rain"], "wet")
