"""Calls of agents and tools, answered in this process: results, questions and decisions."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.mcp_server import offered
from tests.mcp_server.parts import becomes
from tests.mcp_server.test_parts import Hearer
from treadle.mcp import MCPServer
from treadle.mcp.server_http import Guard, Message, Scope
from treadle.mcp.server_wire import Asking


def server() -> MCPServer:
    """Return a server of all agents and tools."""
    return MCPServer(*offered.ALL, *offered.TOOLS)


async def ask(served: MCPServer, name: str, **more: Any) -> Any:
    """Call an agent."""
    params = {"name": name, "arguments": {"input": "go"}} | more
    return await served.answer("tools/call", params, Hearer())


def said(result: Any) -> str:
    """Return the text of a result."""
    return result["content"][0]["text"]


async def decide(served: MCPServer, asking: Any, name: str, action: str, **content: Any) -> Any:
    """Answer the one question that is asked."""
    assert isinstance(asking, Asking)
    answers = {asking.questions[0].id: {"action": action, "content": content}}
    return await ask(served, name, requestState=asking.state, inputResponses=answers)


async def test_answers() -> None:
    """Texts, structures, and errors that say why there is no answer."""
    served = server()
    typed = await ask(served, "reader", arguments={"input": "A1"})
    listed = await ask(served, "counter")
    failed = await ask(served, "reader")
    wrong = await ask(served, "echo", arguments={"inputs": "x"})

    assert said(await ask(served, "echo")) == "Heard: go."
    assert typed["structuredContent"] == {"number": "A1", "total": 3}
    assert listed["structuredContent"] == {"result": [1, 2]}
    assert failed["isError"]
    assert wrong["isError"]


@pytest.mark.parametrize(
    ("action", "content", "told"),
    [
        ("accept", {"decision": "approve"}, "5 refunded"),
        ("accept", {"decision": "approve", "arguments": '{"amount": 8}'}, "8 refunded"),
        ("accept", {"decision": "deny", "reason": "too much"}, "too much"),
        ("decline", {}, "declined"),
        ("cancel", {}, "somebody has to approve"),
    ],
)
async def test_decisions(action: str, content: dict[str, Any], told: str) -> None:
    """An answer lets the run go on, or not."""
    served = server()
    found = await decide(served, await ask(served, "clerk"), "clerk", action, **content)

    assert told in said(found)


async def test_questions_that_are_asked_again() -> None:
    """What is no decision, and an edit that the tool refuses, are asked about once more."""
    served = server()
    asked = await ask(served, "clerk")
    for content, told in (
        ({"decision": "maybe"}, "'maybe' is no decision"),
        ({"decision": "approve", "arguments": '{"amount": "x"}'}, "is not valid"),
    ):
        asked = await decide(served, asked, "clerk", "accept", **content)
        assert told in asked.questions[0].message
    found = await decide(served, asked, "clerk", "accept", decision="approve")

    assert said(found) == "The tool said: 5 refunded"


async def test_pauses_and_forms() -> None:
    """A run that paused goes on after a yes; a tool's form is the client's; a no is told."""
    served = server()
    left = await decide(served, await ask(served, "pauser"), "pauser", "decline")
    gone_on = await decide(served, await ask(served, "pauser"), "pauser", "accept")
    painted = await decide(served, await ask(served, "painter"), "painter", "accept", colour="red")
    again = await decide(served, await ask(served, "painter"), "painter", "accept", colour="blue")
    forged = await ask(served, "clerk", requestState="nonsense", inputResponses={})

    assert "nobody let it go on" in said(left)
    assert said(gone_on) == "The tool said: somebody has to look"
    assert said(painted) == "The tool said: It is red."
    assert isinstance(again, Asking)
    assert "not one of this server" in said(forged)


async def test_tools_that_ask() -> None:
    """A plain tool waits for an approval, or for the answer that it asks for."""
    served = server()
    arguments = {"amount": 1}
    asked: Any = await ask(served, "refund", arguments=arguments)
    answers = {"call": {"action": "accept", "content": {"decision": "approve"}}}
    done = await ask(served, "refund", requestState=asked.state, inputResponses=answers)
    answers = {"call": {"action": "decline"}}
    denied = await ask(served, "refund", requestState=asked.state, inputResponses=answers)
    answers = {"call": {"action": "cancel"}}
    left = await ask(served, "refund", requestState=asked.state, inputResponses=answers)
    unanswered = await ask(served, "refund", requestState=asked.state)

    assert said(done) == "1 refunded"
    assert "it was denied" in said(denied)
    assert "refund waits" in said(left)
    assert isinstance(unanswered, Asking)


async def test_a_cancelled_call(tmp_path: Path) -> None:
    """Cancelling the answer cancels the run, and waits for the end of its tools."""
    served = server()
    answering = asyncio.ensure_future(ask(served, "holder", arguments={"input": str(tmp_path)}))
    assert await becomes(tmp_path / "held")
    answering.cancel()
    with pytest.raises(asyncio.CancelledError):
        await answering

    assert (tmp_path / "let-go").exists()


@pytest.mark.parametrize(
    ("headers", "path", "status"),
    [
        ({"host": "127.0.0.1:1", "authorization": "Bearer secret"}, "/mcp", 200),
        ({"host": "127.0.0.1:1", "authorization": "bearer secret"}, "/mcp/", 200),
        ({"host": "127.0.0.1:1"}, "/mcp", 401),
        ({"host": "127.0.0.1:1", "authorization": "Bearer secret2"}, "/mcp", 401),
        ({"host": "evil.example", "authorization": "Bearer secret"}, "/mcp", 421),
        ({"host": "127.0.0.1:x", "authorization": "Bearer secret"}, "/mcp", 421),
        (
            {"host": "127.0.0.1", "origin": "http://evil", "authorization": "Bearer secret"},
            "/mcp",
            403,
        ),
        ({"host": "127.0.0.1", "authorization": "Bearer secret"}, "/", 404),
    ],
)
async def test_the_guard(headers: dict[str, str], path: str, status: int) -> None:
    """Who is not let in hears why; who is reaches the application."""
    sent: list[Message] = []

    async def app(scope: Scope, _: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200})

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    guard = Guard(app=app, token="secret", hosts=("127.0.0.1",))  # noqa: S106 of no use elsewhere
    pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
    await guard({"type": "http", "path": path, "headers": pairs}, receive, send)

    assert sent[0]["status"] == status
    assert "secret" not in repr(guard)
