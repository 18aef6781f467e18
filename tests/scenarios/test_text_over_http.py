"""Text that is hard to carry: split, foreign, or of no encoding, from the bytes to the history."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.scenarios.provider import ask, both_ways, kinds_of, provider, saying, watch
from tests.servers import DONE, delta, event, stream
from treadle import (
    Agent,
    AnswerStored,
    MemoryStore,
    Message,
    RunContext,
    Text,
    TextDelta,
    ToolCall,
    ToolResult,
    ToolStarted,
    tool,
)
from treadle.journal import CallEnded, ModelReplied, RunBegan

HARD = "Zürich ✅ 東京"


def raw_event(text: str) -> bytes:
    """An event whose text stands there in UTF-8, not in escapes."""
    return b"data: " + json.dumps(delta(content=text), ensure_ascii=False).encode() + b"\n\n"


def answer_of(events: list[Any]) -> str:
    """The stored answer, which is also what the deltas make."""
    [stored] = [event.text for event in events if isinstance(event, AnswerStored)]
    assert stored == "".join(event.text for event in events if isinstance(event, TextDelta))
    return stored


@both_ways
async def test_bad_text_from_every_side(streamed: bool) -> None:
    """BS-14: halves of a pair and NUL in the input, in arguments, in a result and in an answer."""
    seen: list[str] = []

    @tool
    async def scrape(url: str) -> str:
        """Scrape."""
        seen.append(url)
        return "ok \ud83d end\0"

    arguments = r'{"url": "a\ud800b\u0000c \ud83d\ude00"}'
    answers = (
        saying("I \ud83d look\0.", ("c1", "scrape", arguments), streamed=streamed),
        saying("done \udc00", streamed=streamed),
        saying("again", streamed=streamed),
    )
    store = MemoryStore()
    async with provider(*answers) as line:
        agent = Agent("a", line.model, tools=[scrape], store=store, instructions="Be \udfff nice.")
        result = await ask(agent, "hi \udcc1\0", streamed=streamed, conversation="c")
        await ask(agent, "more", streamed=streamed, conversation="c")

    assert seen == ["a\ufffdb\ufffdc \U0001f600"]
    assert result.output == "done \ufffd"
    for request in line.server.requests:
        told = request.body.decode("utf-8")
        assert "\\u0000" not in told
        assert "\0" not in told
        assert json.dumps(request.json).lower().count("\\ud83d") == told.count("\U0001f600")
    said = line.messages()
    assert said[0]["content"] == "Be \ufffd nice."
    assert said[1]["content"] == "hi \ufffd\ufffd"
    assert said[3]["content"] == "ok \ufffd end\ufffd"


async def test_bad_text_in_other_places() -> None:
    """BS-14: in requirements, in a tool's error, in names of calls and in structured results."""

    @tool
    async def fails() -> str:
        """Fail."""
        raise ValueError("bad \ud800\0")

    @tool
    async def rows() -> dict[str, str]:
        """Return."""
        return {"k\ud800": "v\0"}

    calls = (("a\ud800", "fails", "{}"), ("b\0", "rows", "{}"))
    answers = (saying(None, *calls, streamed=True), saying("ok", streamed=True))
    async with provider(*answers) as line:
        agent = Agent("a", line.model, tools=[fails, rows])
        result = await ask(agent, "x", streamed=True, requirements=["Be \ud800 short."])

    failed, table = line.results().values()
    assert failed == "Tool 'fails' failed: ValueError: bad \ufffd\ufffd"
    assert json.loads(table) == {"k\ufffd": "v\ufffd"}
    assert result.output == "ok"


@pytest.mark.parametrize("split", ["inside", "across chunks"])
async def test_halves_of_a_pair_meet(split: str) -> None:
    """BS-14: a character whose halves come apart is one character, in text and in arguments."""
    seen: list[str] = []

    @tool
    async def note(text: str) -> str:
        """Note."""
        seen.append(text)
        return text

    halves = ('{"text": "\\ud83d', '\\ude00"}') if split == "inside" else ('{"text": "\\ud8', "3d")
    pieces = halves if split == "inside" else (*halves, '\\ude00"}')
    head = {"index": 0, "id": "c", "function": {"name": "note", "arguments": ""}}
    more = [{"index": 0, "function": {"arguments": piece}} for piece in pieces]
    calls = [delta(tool_calls=[piece]) for piece in (head, *more)]
    texts = [b'data: {"choices":[{"delta":{"content":"\\ud83d"}}]}\n\n']
    texts.append(b'data: {"choices":[{"delta":{"content":"\\ude00"}}]}\n\n')
    answers = (
        stream(*calls, delta("tool_calls"), DONE),
        stream(*texts, delta("stop"), DONE),
    )
    async with provider(*answers) as line:
        events = await watch(Agent("a", line.model, tools=[note]))

    assert seen == [answer_of(events)] == ["\U0001f600"]
    assert line.results() == {"c": "\U0001f600"}


async def test_a_character_split_between_writes() -> None:
    """BS-16: byte by byte, and cut in two at every place, the text is the same."""
    chunk = raw_event(HARD)
    tail = (delta("stop"), DONE)
    single = stream(*(chunk[at : at + 1] for at in range(len(chunk))), *tail)
    cut = [stream(chunk[:at], chunk[at:], *tail) for at in range(1, len(chunk))]
    async with provider(single, *cut) as line:
        agent = Agent("a", line.model)
        answers = {answer_of(await watch(agent)) for _ in range(len(cut) + 1)}

    assert answers == {HARD}
    assert len(line.requests) == len(chunk)


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"], ids=["LF", "CRLF", "CR"])
@pytest.mark.parametrize("text", ["✅ ok", "a\u2028b\u2029c", "a\u0085b", "a\x0bb\x0cc"])
async def test_characters_that_look_like_line_ends(text: str, end: bytes) -> None:
    """BS-17: without a charset it is UTF-8, and only CR, LF and CRLF end a line."""
    body = json.dumps(delta(content=text), ensure_ascii=False).encode()
    lines = [b"data: " + body, b"", b"data: " + event(delta("stop"))[6:-2], b""]
    pieces = [piece for line in lines for piece in (line, end[:1], end[1:]) if piece]
    async with provider(stream(*pieces, DONE)) as line:
        assert answer_of(await watch(Agent("a", line.model))) == text
    assert line.server.requests[0].headers["content-type"] == "application/json"


async def test_comments_unknown_fields_and_joined_lines() -> None:
    """BS-21: OpenRouter's and llama.cpp's signs of life say nothing and cost no event."""
    pieces = (
        b": OPENROUTER PROCESSING\n\n",
        b":\n",
        b"event: ping\n\n",
        b'id: 1\nretry: 10\ndata:{"choices":[{"delta":{"content":"he"}}]}\n\n',
        b'data: {"choices":[{"delta":\ndata: {"content":"llo"}}]}\n\n',
        b"colour: red\n\n",
        b": still here\n\n",
    )
    async with provider(stream(*pieces, delta("stop"), DONE)) as line:
        events = await watch(Agent("a", line.model))

    assert answer_of(events) == "hello"
    assert kinds_of(events) == [
        "run.started",
        "model.started",
        "text.delta",
        "text.delta",
        "model.finished",
        "answer.stored",
        "run.finished",
    ]


async def test_events_and_state_take_any_text() -> None:
    """BS-14: what watchers see of a call is clean too, and so is what the run stores."""
    store = MemoryStore()

    @tool
    async def keep(ctx: RunContext, text: str) -> str:
        """Keep."""
        ctx.state.set("kept", text)
        return text

    call = ("c", "keep", r'{"text": "\ud800"}')
    async with provider(saying(None, call, streamed=True), saying("ok", streamed=True)) as line:
        agent = Agent("a", line.model, tools=[keep])
        run = agent.start("x", conversation="c", store=store)
        started = [event async for event in run if isinstance(event, ToolStarted)]
        result = await run

    assert started[0].arguments == {"text": "\ufffd"}
    assert result.state.get("agent::a::kept") == "\ufffd"
    assert result.messages[1].tool_calls[0].arguments == {"text": "\ufffd"}


async def test_a_journal_from_before_texts_were_cleaned() -> None:
    """BS-14: what an older writer stored raw is read, and what is sent of it can be sent."""
    store = MemoryStore()
    at = datetime(2026, 1, 1, tzinfo=UTC)
    call = ToolCall("c\0", "scrape", '{"url": "\ud800"}')
    said = Message("user", (Text("hi \udcc1\0"),))
    asked = Message("assistant", (Text("I \ud83d look"), call))
    result = ToolResult(call.id, call.name, (Text("\0 \udfff"),))
    _, lease = await store.claim("c", "older", 15)
    entries = (
        RunBegan(run_id="r", at=at, agent="a", input=said),
        ModelReplied(run_id="r", at=at, message=asked),
        CallEnded(run_id="r", at=at, result=result),
    )
    for revision, entry in enumerate(entries):
        await store.append("c", revision, [entry], fence=lease.fence)
    await store.release(lease)
    async with provider(saying("ok", streamed=True)) as line:
        agent = Agent("a", line.model, store=store)
        found = await ask(agent, "more", streamed=True, conversation="c")

    assert found.output == "ok"
    assert [message["role"] for message in line.messages()] == ["user", "assistant", "tool", "user"]
    assert "\\ud" not in json.dumps(line.requests[0])
    assert "\\u0000" not in json.dumps(line.requests[0])
    assert line.messages()[0]["content"] == "hi \ufffd\ufffd"
