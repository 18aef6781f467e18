"""Runs of an agent with Gemini, as Google has to see them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.providers.gemini.parts import SIGNED, chunk
from tests.servers import Answer, Received, serve, stream, whole
from treadle import Agent, ContentFiltered, Image, MemoryStore, tool
from treadle.providers import Gemini
from treadle.testing.strict import assert_strict

NAME = "gemini-3-flash-preview"


@tool
async def look(where: str = "out") -> str:
    """Look."""
    return f"rain, {where}"


@tool
async def shot() -> list[Any]:
    """Show."""
    return ["here", Image.from_bytes(b"\x89PNG\r\n\x1a\n-", "image/png")]


def saying(*parts: Any, streamed: bool) -> Answer:
    """Return a reply of these parts."""
    counts = {"promptTokenCount": 5, "candidatesTokenCount": 2, "totalTokenCount": 7}
    reply = chunk(*parts, finish="STOP", usageMetadata=counts)
    return stream(reply) if streamed else whole(reply)


def call(name: str, args: dict[str, Any] | None = None, **extra: Any) -> dict[str, Any]:
    """Return a call; `extra` stands beside it."""
    return {"functionCall": {"name": name, "args": args or {}}, **extra}


async def ask(agent: Agent[Any, Any], said: str, *, streamed: bool, **options: Any) -> Any:
    """Return the result of a run."""
    run = agent.start(said, **options)
    if streamed:
        async for _ in run:
            pass
    return await run


def contents(received: Received) -> list[Any]:
    """Return the contents of a request that Google takes."""
    assert_strict(received.body, "gemini3")
    return received.json["contents"]


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
async def test_signatures_over_several_rounds(streamed: bool) -> None:
    """BS-24: each goes back on its own part, in every round and every later run."""
    first = [call("look", {"where": "a"}, thoughtSignature=SIGNED), call("look", {"where": "b"})]
    second = [
        {"text": "hm", "thought": True},
        call("look", {"where": "c"}, thoughtSignature="c2ln"),
    ]
    answers = (
        saying(*first, streamed=streamed),
        saying(*second, streamed=streamed),
        saying("wet", {"text": "", "thoughtSignature": SIGNED}, streamed=streamed),
        saying("still wet", streamed=streamed),
    )
    store = MemoryStore()
    async with serve(*answers) as server:
        model = Gemini(NAME, base_url=server.url)
        await ask(
            Agent("a", model, tools=[look], store=store), "x", streamed=streamed, conversation="c"
        )
        again = Agent("a", Gemini(NAME, base_url=server.url), tools=[look], store=store)
        result = await ask(again, "y", streamed=streamed, conversation="c")
        shown = [contents(received) for received in server.requests]
    assert result.output == "still wet"
    assert shown[3][1]["parts"] == first
    assert shown[3][3]["parts"] == second
    assert shown[3][5]["parts"] == [{"text": "wet"}, {"text": "", "thoughtSignature": SIGNED}]
    outputs = [part["functionResponse"]["response"]["output"] for part in shown[3][2]["parts"]]
    assert outputs == ["rain, a", "rain, b"]


async def test_a_tool_that_shows_a_picture() -> None:
    """BS-28: inside of the result, or behind all results for models of the second generation."""
    calls = saying(call("shot"), call("look"), streamed=False)
    async with serve(calls, saying("ok", streamed=False)) as server:
        await Agent("a", Gemini(NAME, base_url=server.url), tools=[look, shot]).run("x")
        results = contents(server.requests[1])[2]["parts"]
    assert results[0]["functionResponse"]["parts"][0]["inlineData"]["mimeType"] == "image/png"
    async with serve(calls, saying("ok", streamed=False)) as server:
        model = Gemini("gemini-2.5-flash", base_url=server.url)
        await Agent("a", model, tools=[look, shot]).run("x")
        assert_strict(server.requests[1].body, "gemini")
        behind = server.requests[1].json["contents"][3]["parts"]
    assert [next(iter(part)) for part in behind] == ["text", "inlineData"]


async def test_ids_that_are_always_the_same() -> None:
    """BS-06: three results reach the model, each for its own call."""
    calls = [{"functionCall": {"name": "look", "id": "x", "args": {"where": at}}} for at in "abc"]
    answers = [saying(each, streamed=False) for each in calls]
    async with serve(*answers, saying("done", streamed=False)) as server:
        result = await Agent("a", Gemini(NAME, base_url=server.url), tools=[look]).run("x")
        last = contents(server.requests[-1])
    results = [one["parts"][0]["functionResponse"] for one in last[2::2]]
    assert [one["response"]["output"] for one in results] == [f"rain, {each}" for each in "abc"]
    assert result.output == "done"


@pytest.mark.parametrize(
    "answer",
    [
        {"candidates": [{"finishReason": "SAFETY"}]},
        {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}},
        chunk("partly", finish="RECITATION"),
    ],
)
async def test_what_is_filtered_is_no_answer(answer: dict[str, Any]) -> None:
    """BS-27: one request each, with Google's own word, and the next run goes on."""
    store = MemoryStore()
    async with serve(whole(answer), saying("ok", streamed=False)) as server:
        agent = Agent("a", Gemini(NAME, base_url=server.url), store=store)
        with pytest.raises(ContentFiltered) as caught:
            await agent.run("x", conversation="c")
        assert caught.value.code in ("SAFETY", "PROHIBITED_CONTENT", "RECITATION")
        assert (await agent.run("y", conversation="c")).output == "ok"
    assert len(server.requests) == 2
