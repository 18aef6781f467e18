"""The models of the test kit."""

from __future__ import annotations

import pytest

from treadle import Agent, ConfigError, Message, Reasoning, TextDelta, ToolCall, Usage
from treadle.errors import Overloaded
from treadle.messages import Thread
from treadle.ports.model import ModelRequest, TextPiece
from treadle.testing import FunctionModel, ScriptedModel, calls, chunks, raises, reply
from treadle.testing.scripted import Step, as_json, last_text

REQUEST = ModelRequest(messages=Thread([Message.user("x")]))


async def test_a_script_that_is_used_up() -> None:
    """Says so, with its length."""
    agent = Agent("a", ScriptedModel(["one"]))
    await agent.run("x")

    with pytest.raises(ConfigError, match="1 steps"):
        await agent.run("x")


async def test_requests_are_kept_as_they_were() -> None:
    """Later turns do not change what an earlier request held."""
    model = ScriptedModel([calls(("c", "nothing", {})), "done"])
    await Agent("a", model).run("x")

    assert [len(request.messages) for request in model.requests] == [1, 3]
    assert b'"x"' in as_json(model.requests[0])
    assert b"nothing" not in as_json(model.requests[0])
    assert b"nothing" in as_json(model.requests[1])


@pytest.mark.parametrize("streamed", [True, False])
async def test_every_kind_of_step(streamed: bool) -> None:
    """Text, message, reply, pieces: the same whether streamed or not."""
    steps: list[Step] = [
        "text",
        Message.assistant("text"),
        reply("text", usage=Usage(output_tokens=3)),
        chunks(["te", "xt"]),
    ]
    for step in steps:
        agent = Agent("a", ScriptedModel([step]))
        if streamed:
            events = [event async for event in agent.stream("x")]
            assert "".join(event.text for event in events if isinstance(event, TextDelta)) == "text"
        else:
            assert (await agent.run("x")).output == "text"


async def test_a_function_of_the_request() -> None:
    """Sync or async; what it returns is the reply."""

    async def answer(request: ModelRequest) -> str:
        return last_text(request).upper()

    assert (await Agent("a", FunctionModel(answer)).run("hello")).output == "HELLO"
    assert (await Agent("a", FunctionModel(lambda request: "hi")).run("x")).output == "hi"
    failing = FunctionModel(lambda request: raises(Overloaded("busy"), "half"))
    with pytest.raises(Overloaded):
        await failing.complete(REQUEST)
    pieces = failing.stream(REQUEST)
    assert await anext(pieces) == TextPiece("half")
    with pytest.raises(Overloaded):
        await anext(pieces)
    assert len(failing.requests) == 2


async def test_pieces_with_reasoning_and_calls() -> None:
    """Neighbouring texts are one part, the rest stays apart."""
    model = ScriptedModel([chunks([Reasoning("hm"), "a", "b", ToolCall.of("t", id="c")]), "done"])
    result = await Agent("a", model).run("x")

    assert [type(part).__name__ for part in result.messages[1].parts] == [
        "Reasoning",
        "Text",
        "ToolCall",
    ]
