"""What a server asks in the middle of a call: a function answers, or somebody decides later."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.mcp.parts import result, server
from treadle import Agent, Approve, Deny, Edit, MemoryStore
from treadle.mcp import Question
from treadle.testing import ScriptedModel, calls

pytestmark = pytest.mark.e2e

SCHEMA = {
    "type": "object",
    "properties": {
        "seat": {"type": "string"},
        "meal": {"type": "string", "default": "none"},
    },
    "required": ["seat"],
}
SEAT = {"message": "Which seat?", "requestedSchema": SCHEMA}
SURE: dict[str, Any] = {"message": "Sure?", "requestedSchema": {"type": "object", "properties": {}}}


async def test_a_function_that_answers() -> None:
    """It sees who asks what, and may say no."""
    seen: list[Question] = []

    async def elicit(question: Question) -> dict[str, Any] | None:
        seen.append(question)
        return {"seat": "4A"} if "seat" in question.message else None

    async with server("ask", elicit=elicit) as client:
        found = await result(client, "ask", questions=[SEAT, SURE])

    assert [each.message for each in seen] == ["Which seat?", "Sure?"]
    assert seen[0].server == "r"
    assert seen[0].schema == SCHEMA
    assert json.loads(found.text) == [
        {"action": "accept", "content": {"meal": "none", "seat": "4A"}},
        {"action": "decline"},
    ]


async def test_a_decision_that_comes_later() -> None:
    """The run pauses with the question; with the answer the call is made again."""
    asked = calls(("c1", "r_ask", {"questions": [SEAT, SURE]}))
    agent = Agent("a", ScriptedModel([asked, "done"]), store=MemoryStore())
    async with server("ask") as client:
        agent = agent.replace(tools=client.tools)
        first = await agent.run("book")
        (pending,) = first.pending
        second = await agent.resume(first.run_id, decisions={"c1": Edit({"seat": "4A"}, by="ann")})
        decided = {second.pending[0].call_id: Approve(by="ann")}
        third = await agent.resume(first.run_id, decisions=decided)

    assert first.stop_reason == "paused"
    assert "'r' asks: Which seat?" in pending.reason
    assert pending.schema == SCHEMA
    assert "Sure?" in second.pending[0].reason
    assert third.output == "done"
    assert json.loads(third.tool_results[-1].text) == [
        {"action": "accept", "content": {"meal": "none", "seat": "4A"}},
        {"action": "accept", "content": {}},
    ]


async def test_a_no() -> None:
    """The call is not made again, and the model is told why."""
    asked = calls(("c1", "r_ask", {"questions": [SEAT]}))
    agent = Agent("a", ScriptedModel([asked, "done"]), store=MemoryStore())
    async with server("ask") as client:
        agent = agent.replace(tools=client.tools)
        first = await agent.run("book")
        last = await agent.resume(first.run_id, decisions={"c1": Deny("too dear")})

    assert last.output == "done"
    assert "too dear" in last.tool_results[-1].text


async def test_an_address_to_visit() -> None:
    """A server may ask somebody to open an address; a yes is all it wants."""
    visit = {"mode": "url", "message": "Sign in", "url": "https://x.test/1", "elicitationId": "e"}
    asked = calls(("c1", "r_ask", {"questions": [visit]}))
    agent = Agent("a", ScriptedModel([asked, "done"]), store=MemoryStore())
    async with server("ask") as client:
        agent = agent.replace(tools=client.tools)
        first = await agent.run("book")
        last = await agent.resume(first.run_id, decisions={"c1": Approve()})

    assert "https://x.test/1" in first.pending[0].reason
    assert first.pending[0].schema is None
    assert json.loads(last.tool_results[-1].text) == [{"action": "accept"}]


async def test_two_calls_that_ask_at_once(caplog: pytest.LogCaptureFixture) -> None:
    """Over stdio nobody can say which of two open calls asks: the server is told no."""
    asked = calls(("h", "r_hang", {}), ("c1", "r_ask", {"questions": [SEAT]}))
    async with server("ask", "hang", timeout=1) as client:
        agent = Agent("a", ScriptedModel([asked, "done"]), tools=client.tools)
        found = await agent.run("book")

    assert found.stop_reason == "answer"
    assert json.loads(found.tool_results[1].text) == [{"action": "decline"}]
    assert "for which call" in caplog.text
