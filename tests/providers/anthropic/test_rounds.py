"""Runs of an agent with Claude, as Anthropic has to see them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.providers.anthropic.parts import (
    BEGIN,
    PIXEL,
    STOP,
    delta,
    ending,
    events,
    message,
    start,
    text,
)
from tests.servers import Answer, Received, serve, whole
from treadle import Agent, ContentFiltered, Image, Limits, MemoryStore, tool
from treadle.providers import Anthropic
from treadle.testing.strict import assert_strict

NAME = "claude-sonnet-4-5"
THOUGHT: dict[str, Any] = {"type": "thinking", "thinking": "Hm.", "signature": "sig"}
HIDDEN: dict[str, Any] = {"type": "redacted_thinking", "data": "blob"}


@tool
async def look(where: str = "out") -> str:
    """Look."""
    return f"rain, {where}"


@tool
async def touch() -> str:
    """Touch."""
    return ""


@tool
async def shot() -> list[Any]:
    """Show."""
    return ["here", Image.from_bytes(PIXEL, "image/png")]


def use(name: str, call_id: str = "toolu_1", **arguments: Any) -> dict[str, Any]:
    """Return a call."""
    return {"type": "tool_use", "id": call_id, "name": name, "input": arguments}


def streamed(*blocks: dict[str, Any], stop: str) -> Answer:
    """Return a streamed reply: calls with their input, all else whole from the beginning."""
    chunks: list[dict[str, Any]] = [BEGIN]
    for place, block in enumerate(blocks):
        if block["type"] == "thinking":
            chunks.append(start(place, type="thinking", thinking="", signature=""))
            chunks.append(delta("thinking", place, thinking=block["thinking"]))
            chunks.append(delta("signature", place, signature=block["signature"]))
        else:
            chunks.append(start(place, **block))
        chunks.append({"type": "content_block_stop", "index": place})
    return events(*chunks, ending(stop), STOP)


def messages(received: Received) -> list[Any]:
    """Return the messages of a request that Anthropic takes."""
    assert_strict(received.body, "anthropic")
    return received.json["messages"]


@pytest.mark.parametrize("as_stream", [False, True], ids=["whole", "streamed"])
async def test_signed_thoughts_go_back(as_stream: bool) -> None:
    """BS-23: unchanged and before the calls, in every round and in later runs from a store."""
    said = [THOUGHT, HIDDEN, use("look", where="a"), use("look", "toolu_2", where="b")]
    calls = (
        streamed(*said, stop="tool_use") if as_stream else whole(message(*said, stop="tool_use"))
    )
    done = (
        events(BEGIN, start(), text("wet"), ending(), STOP) if as_stream else whole(message("wet"))
    )
    store = MemoryStore()
    async with serve(calls, done) as server:
        for question in ("x", "y"):
            model = Anthropic(NAME, base_url=server.url)
            agent = Agent("a", model, tools=[look], store=store)
            run = agent.start(question, conversation="c")
            if as_stream:
                async for _ in run:
                    pass
            assert (await run).output == "wet"
        shown = [messages(received) for received in server.requests]
    for sent in shown[1:]:
        assert sent[1]["content"] == said
        assert [result["content"] for result in sent[2]["content"]] == ["rain, a", "rain, b"]


async def test_nothing_blank_is_sent() -> None:
    """BS-25: not of an empty text beside a call, nor of a tool that returned nothing."""
    empty = whole(message({"type": "text", "text": ""}, use("touch"), stop="tool_use"))
    async with serve(empty, whole(message("ok"))) as server:
        result = await Agent("a", Anthropic(NAME, base_url=server.url), tools=[touch]).run("x")
        sent = messages(server.requests[1])
    assert result.output == "ok"
    assert [block["type"] for block in sent[1]["content"]] == ["tool_use"]


async def test_a_tool_that_shows_a_picture() -> None:
    """BS-28: inside of its result."""
    calls = whole(message(use("shot"), use("look", "toolu_2"), stop="tool_use"))
    async with serve(calls, whole(message("ok"))) as server:
        await Agent("a", Anthropic(NAME, base_url=server.url), tools=[look, shot]).run("x")
        shown, said = messages(server.requests[1])[2]["content"]
    assert [block["type"] for block in shown["content"]] == ["text", "image"]
    assert said["content"] == "rain, out"


async def test_ids_that_are_always_the_same() -> None:
    """BS-06: three results reach the model, each for its own call."""
    answers = [whole(message(use("look", "x", where=at), stop="tool_use")) for at in "abc"]
    async with serve(*answers, whole(message("done"))) as server:
        result = await Agent("a", Anthropic(NAME, base_url=server.url), tools=[look]).run("x")
        sent = messages(server.requests[-1])
    results = [one["content"][0] for one in sent[2::2]]
    assert [one["content"] for one in results] == [f"rain, {each}" for each in "abc"]
    assert len({one["tool_use_id"] for one in results}) == 3
    assert result.output == "done"


async def test_a_refusal_is_no_answer() -> None:
    """BS-27: one request, and the next run goes on."""
    refusal = whole(message("partly", stop="refusal"))
    store = MemoryStore()
    async with serve(refusal, whole(message("ok"))) as server:
        agent = Agent("a", Anthropic(NAME, base_url=server.url), store=store)
        with pytest.raises(ContentFiltered):
            await agent.run("x", conversation="c")
        assert (await agent.run("y", conversation="c")).output == "ok"
        messages(server.requests[1])
    assert len(server.requests) == 2


async def test_the_last_answer_without_tools() -> None:
    """At the limit the tools are gone, but those of the conversation are still defined."""
    calls = whole(message(use("look"), stop="tool_use"))
    async with serve(calls, whole(message("so far: rain"))) as server:
        agent = Agent("a", Anthropic(NAME, base_url=server.url), tools=[look])
        result = await agent.run("x", limits=Limits(max_turns=1))
        messages(server.requests[1])
    assert result.output == "so far: rain"
    assert server.requests[1].json["tool_choice"] == {"type": "none"}
    assert [one["name"] for one in server.requests[1].json["tools"]] == ["look"]
