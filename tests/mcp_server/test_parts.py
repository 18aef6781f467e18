"""The parts of a server that need no client: progress, contents, questions, access."""

from __future__ import annotations

import math
from contextlib import nullcontext
from typing import Any, Literal

import pytest

from treadle import Agent, Audio, ConfigError, DuplicateTool, File, Image, MemoryStore, Text, tool
from treadle.mcp import MCPServer
from treadle.mcp.server_asking import NotReadable, decision_of, question_about
from treadle.mcp.server_http import Gone, allowed_hosts, check_access, is_loopback
from treadle.mcp.server_progress import Progress, report_of
from treadle.mcp.server_wire import Answer, Asking, Call, Refused, content_of
from treadle.ports.approval import Approve, Deny, Edit, PendingCall
from treadle.testing import ScriptedModel


class Hearer:
    """A client that hears of progress."""

    wants_progress = True

    def __init__(self) -> None:
        self.heard: list[tuple[float, float | None, str | None]] = []

    async def progress(self, amount: float, total: float | None, message: str | None) -> None:
        self.heard.append((amount, total, message))

    def shield(self) -> Any:
        return nullcontext()


@tool
def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


def agent(name: str = "clerk", **options: Any) -> Agent[Any, Any]:
    """Return an agent that answers once."""
    return Agent(name, ScriptedModel(["Done."] * 9), **options)


async def test_progress_always_grows() -> None:
    """Numbers that stand still or fall are replaced; totals that are passed are left out."""
    hearer = Hearer()
    progress = Progress(hearer)
    for given in (0, 50, 50, {"progress": 10, "total": 20}, "word", {"progress": 99, "total": 100}):
        await progress.send(report_of(given))

    amounts = [amount for amount, _, _ in hearer.heard]
    assert amounts == sorted(set(amounts))
    assert hearer.heard[0] == (0, None, None)
    assert hearer.heard[3] == (52, None, None)
    assert hearer.heard[-1] == (99, 100, None)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (0.5, (0.5, None, None)),
        ({"progress": 1, "message": "half"}, (1, None, "half")),
        ("half", (None, None, "half")),
        ({"done": 1}, (None, None, '{"done":1}')),
        (True, (None, None, "true")),
        (math.nan, (None, None, '"NaN"')),
        (math.inf, (None, None, '"Infinity"')),
        (10**400, (None, None, str(10**400))),
    ],
)
def test_reports(given: Any, told: Any) -> None:
    """A report is a number, a number of a total, or words."""
    assert report_of(given)[:2] == told[:2]
    assert (report_of(given)[2] or "")[:20] == (told[2] or "")[:20]


@pytest.mark.parametrize(
    ("part", "wire"),
    [
        (Text("a"), {"type": "text", "text": "a"}),
        (
            Image.from_bytes(b"x", "image/gif"),
            {"type": "image", "data": "eA==", "mimeType": "image/gif"},
        ),
        (
            Audio.from_bytes(b"x", "audio/wav"),
            {"type": "audio", "data": "eA==", "mimeType": "audio/wav"},
        ),
        (
            Image.from_url("https://x.example/a/cat.png"),
            {"type": "resource_link", "uri": "https://x.example/a/cat.png", "name": "cat.png"},
        ),
        (
            File.from_bytes(b"x", "text/plain", name="a b.txt"),
            {
                "type": "resource",
                "resource": {"uri": "file:///a%20b.txt", "text": "x", "mimeType": "text/plain"},
            },
        ),
        (
            File.from_bytes(b"\xff", "text/plain"),
            {
                "type": "resource",
                "resource": {"uri": "file:///file", "blob": "/w==", "mimeType": "text/plain"},
            },
        ),
        (File(file_id="f1"), {"type": "text", "text": "[file f1 at the model's provider]"}),
    ],
)
def test_contents(part: Any, wire: dict[str, Any]) -> None:
    """Every part has a form in the protocol."""
    assert content_of(part) == wire


PENDING = PendingCall("c1", "refund", {"amount": 5}, "A rule asks.")


@pytest.mark.parametrize(
    ("answer", "decision"),
    [
        (Answer("accept", {"decision": "approve"}), Approve()),
        (Answer("accept", {"decision": "approve", "arguments": " "}), Approve()),
        (Answer("accept", {"decision": "approve", "arguments": '{"amount": 5}'}), Approve()),
        (
            Answer("accept", {"decision": "approve", "arguments": '{"amount": 6}'}),
            Edit({"amount": 6}),
        ),
        (Answer("accept", {"decision": "deny", "reason": "no"}), Deny("no")),
        (Answer("decline", {}), Deny("Somebody at the client declined it.")),
        (Answer("cancel", {}), None),
    ],
)
def test_decisions(answer: Answer, decision: Any) -> None:
    """A form that was filled in is a decision."""
    assert decision_of(answer, PENDING) == decision


@pytest.mark.parametrize(
    "content",
    [{}, {"decision": "yes"}, {"decision": "approve", "arguments": "[1]"}, {"decision": 1}],
)
def test_what_is_no_decision(content: dict[str, Any]) -> None:
    """Only a clear yes is a yes."""
    with pytest.raises(NotReadable):
        decision_of(Answer("accept", content), PENDING)


def test_answers_of_a_schema() -> None:
    """A flat schema is the form; a deep one is filled in as JSON. Both are checked."""
    flat = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    deep = {"type": "object", "properties": {"n": {"type": "object"}}, "required": ["n"]}
    asked = [PendingCall("c", "t", {}, "Why?", schema) for schema in (flat, deep)]

    assert question_about(asked[0], "me").schema == flat
    assert list(question_about(asked[1], "me").schema["properties"]) == ["answer"]
    assert decision_of(Answer("accept", {"n": 1}), asked[0]) == Edit({"n": 1})
    assert decision_of(Answer("accept", {"answer": '{"n": {}}'}), asked[1]) == Edit({"n": {}})
    for wrong, call in (({"n": "x"}, asked[0]), ({"answer": "{"}, asked[1]), ({}, asked[1])):
        with pytest.raises(NotReadable):
            decision_of(Answer("accept", wrong), call)


def test_what_cannot_be_offered() -> None:
    """Nothing, one name twice, descriptions of nobody, and odd resources are told at once."""
    with pytest.raises(ConfigError, match="nothing to serve"):
        MCPServer()
    with pytest.raises(DuplicateTool, match="'add' is offered twice"):
        MCPServer(agent("add"), add)
    with pytest.raises(ConfigError, match=r"description of 'x'.*there are: clerk"):
        MCPServer(agent(), descriptions={"x": "y"})
    odd: list[dict[str, Any]] = [{"nowhere": "x"}, {"a:///{id}": "x"}, {"a:///x": add}]
    for resources in odd:
        with pytest.raises(ConfigError):
            MCPServer(add, resources=resources)


@pytest.mark.parametrize(
    ("host", "token", "allowed"),
    [
        ("127.0.0.1", None, True),
        ("localhost", None, True),
        ("::1", None, True),
        ("127.8.9.1", None, True),
        ("0.0.0.0", None, False),  # noqa: S104
        ("::", None, False),
        ("192.168.1.5", None, False),
        ("example.org", None, False),
        ("0.0.0.0", "x" * 16, True),  # noqa: S104
        ("127.0.0.1", "short", False),
        ("127.0.0.1", "with a space in the token", False),
        ("127.0.0.1", "ünïcode-in-the-token", False),
    ],
)
def test_access(host: str, token: str | None, allowed: bool) -> None:
    """Beyond loopback a token is needed, and a token is worth the name."""
    if allowed:
        check_access(host, token)
        return
    with pytest.raises(ConfigError) as caught:
        check_access(host, token)
    assert token is None or token not in str(caught.value)


def test_a_client_that_leaves_is_told_of_once() -> None:
    """Who listens is told once, also when it comes too late; who has done is told nothing."""
    told: list[str] = []
    gone = Gone()
    with gone.telling(lambda: told.append("done")):
        pass
    with gone.telling(lambda: told.append("listens")):
        gone.tell()
        gone.tell()
    with gone.telling(lambda: told.append("late")):
        pass

    assert told == ["listens", "late"]


def test_host_names() -> None:
    """Loopback has its names; everywhere else those that are given."""
    assert is_loopback("localhost")
    assert set(allowed_hosts("127.0.0.1", ["me"])) == {"127.0.0.1", "localhost", "::1", "me"}
    assert allowed_hosts("0.0.0.0", []) == ()  # noqa: S104
    assert allowed_hosts("10.0.0.1", ["me"]) == ("10.0.0.1", "me")


async def test_what_nobody_asks_for_again_is_not_kept() -> None:
    """Runs without a conversation leave nothing in memory; a store of the user's keeps all."""
    store = MemoryStore()
    kept = MCPServer(agent(), store=store)
    passing = MCPServer(agent())
    call = {"name": "clerk", "arguments": {"input": "hi"}}
    for server in (kept, passing):
        for _ in range(3):
            await server.answer("tools/call", call, Hearer())
    own: Any = getattr(passing._tools["clerk"], "store")  # noqa: B009  # pyright: ignore[reportPrivateUsage] nothing else shows it

    assert len(await store.list()) == 3
    assert len(await own.list()) == 0


async def test_requests_that_are_refused() -> None:
    """Unknown tools, prompts, addresses and requests are errors of the protocol."""

    def greet(name: str) -> str:
        return f"Hello, {name}."

    server = MCPServer(add, prompts=[greet], resources={"a:///b": "c"})
    for method, params in (
        ("tools/call", {"name": "ad"}),
        ("prompts/get", {"name": "gret"}),
        ("prompts/get", {"name": "greet", "arguments": {"label": "x"}}),
        ("resources/read", {"uri": "a:///c"}),
        ("no/such", {}),
    ):
        with pytest.raises(Refused):
            await server.answer(method, params, Hearer())


async def test_a_call_that_waits_is_asking() -> None:
    """Without an answer a call with approval is a question, with what to say if nobody is asked."""
    server = MCPServer(add.replace(approval=True))
    found = await server.answer("tools/call", {"name": "add", "arguments": {"a": 1}}, Hearer())

    assert isinstance(found, Asking)
    assert found.questions[0].message == 'treadle wants to call add with {"a": 1}.'
    assert found.otherwise["isError"]
    assert Call(name="add", arguments={}).answers == {}


async def test_choices_of_a_prompt_are_completed() -> None:
    """An argument that is a choice is completed from its values."""

    def paint(colour: Literal["red", "rose", "green"]) -> str:
        return colour

    server = MCPServer(prompts=[paint])
    asked = {
        "ref": {"type": "ref/prompt", "name": "paint"},
        "argument": {"name": "colour", "value": "r"},
    }
    found = await server.answer("completion/complete", asked, Hearer())

    assert isinstance(found, dict)
    assert found["completion"]["values"] == ["red", "rose"]
