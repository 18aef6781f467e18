"""Tool calls, from a server's bytes through the loop and back to the server."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.scenarios.provider import ask, both_ways, kinds_of, provider, saying, watch, wire
from tests.servers import DONE, delta, stream
from treadle import Agent, IncompleteReply, tool

SEEN: list[Any] = []


@pytest.fixture(autouse=True)
def forgotten() -> None:
    """Each test begins with tools that saw nothing."""
    SEEN.clear()


@tool
async def ls(path: str) -> str:
    """List."""
    SEEN.append(path)
    return f"files of {path}"


@tool
async def write(path: str, content: str) -> str:
    """Write."""
    SEEN.append((path, content))
    return "written"


@tool
async def ping() -> str:
    """Ping."""
    return "pong"


@tool
async def greet(city: str) -> str:
    """Greet."""
    return f"hello {city}"


@both_ways
async def test_broken_arguments_never_run(streamed: bool) -> None:
    """BS-01: the raw text stays in the history, an object is sent back, the model hears why."""
    raw = '{"path": "say "hi" 你好"}'
    answers = (saying("", ("c1", "ls", raw), streamed=streamed), saying("ok", streamed=streamed))
    async with provider(*answers) as line:
        result = await ask(Agent("a", line.model, tools=[ls]), "x", streamed=streamed)

    assert SEEN == []
    assert result.output == "ok"
    assert result.messages[1].tool_calls[0].raw == raw
    assert "'ls' did not run" in line.results()["c1"]
    sent = line.messages()[1]["tool_calls"][0]["function"]["arguments"]
    assert raw in json.loads(sent).values()


@both_ways
@pytest.mark.parametrize("raw", ["", "  ", "null", "{}"])
async def test_blank_arguments(raw: str, streamed: bool) -> None:
    """BS-02: blank means {}; the tool without parameters runs, the other hears what is missing."""
    calls = (("a", "ping", raw), ("b", "greet", raw))
    answers = (saying(None, *calls, streamed=streamed), saying("ok", streamed=streamed))
    async with provider(*answers) as line:
        await ask(Agent("a", line.model, tools=[ping, greet]), "x", streamed=streamed)

    assert line.results()["a"] == "pong"
    assert "city" in line.results()["b"]


@both_ways
async def test_truncated_arguments(streamed: bool) -> None:
    """BS-02: half an object is not guessed at, although the server calls the reply finished."""
    call = ("a", "greet", '{"city": "San Fra')
    answers = (saying(None, call, streamed=streamed), saying("ok", streamed=streamed))
    async with provider(*answers) as line:
        result = await ask(Agent("a", line.model, tools=[greet]), "x", streamed=streamed)

    assert result.tool_results[0].is_error
    assert "'greet' did not run" in line.results()["a"]


@both_ways
async def test_wrong_arguments_can_be_put_right(streamed: bool) -> None:
    """S16: the tool does not run, the error names the field, and the second try runs it."""
    wrong, right = ("a", "ls", '{"path": ["."], "depth": 1}'), ("b", "ls", '{"path": "."}')
    answers = [saying(None, call, streamed=streamed) for call in (wrong, right)]
    async with provider(*answers, saying("ok", streamed=streamed)) as line:
        result = await ask(Agent("a", line.model, tools=[ls]), "x", streamed=streamed)

    assert (SEEN, result.output) == (["."], "ok")
    assert "path" in line.results()["a"]
    assert line.results()["b"] == "files of ."


@both_ways
async def test_an_unknown_tool(streamed: bool) -> None:
    """BS-03: its call is answered with the nearest names, the other call runs."""
    calls = (("c1", "get_greeting", "{}"), ("c2", "ping", "{}"))
    answers = (saying(None, *calls, streamed=streamed), saying("ok", streamed=streamed))
    async with provider(*answers) as line:
        result = await ask(Agent("a", line.model, tools=[ping, greet]), "x", streamed=streamed)

    assert list(line.results()) == ["c1", "c2"]
    assert "greet" in line.results()["c1"]
    assert (line.results()["c2"], result.output) == ("pong", "ok")


@pytest.mark.parametrize("name", ["functions.ls", "list files", "ls\u0000", "工具", "x" * 80, ""])
async def test_a_name_that_no_provider_takes_back(name: str) -> None:
    """BS-03: a made-up name of any form leaves a history that a strict server accepts."""
    call = ("c1", name, '{"path": "."}')
    answers = (saying(None, call, streamed=True), saying("ok", streamed=True))
    async with provider(*answers) as line:
        result = await ask(Agent("a", line.model, tools=[ls]), "x", streamed=True)

    assert (SEEN, result.output) == ([], "ok")
    assert "ls" in line.results()["c1"]


async def test_entries_of_one_index_in_one_chunk() -> None:
    """BS-04: the ID and the first piece of arguments stand apart, and are one call."""
    head = wire("c1", "ls", "", index=0)
    del head["function"]["arguments"]
    first = delta(tool_calls=[head, {"index": 0, "function": {"arguments": '{"pa'}}])
    second = delta(tool_calls=[{"index": 0, "function": {"arguments": 'th": "."}'}}])
    answers = (stream(first, second, delta("tool_calls"), DONE), saying("ok", streamed=True))
    async with provider(*answers) as line:
        events = await watch(Agent("a", line.model, tools=[ls]))

    assert SEEN == ["."]
    assert kinds_of(events).count("tool.started") == 1
    assert line.results() == {"c1": "files of ."}


async def test_pieces_without_an_index() -> None:
    """BS-05: a new ID opens a call, a piece without one goes on; the order is kept."""

    @tool
    async def clock(tz: str) -> str:
        """Tell the time."""
        return f"noon in {tz}"

    pieces: list[dict[str, Any]] = [
        {"id": "a", "function": {"name": "greet", "arguments": '{"city":'}},
        {"function": {"arguments": '"Rome"}'}},
        {"id": "b", "function": {"name": "clock", "arguments": '{"tz":"JST"}'}},
        {"index": 2, "id": "d", "function": {"name": "ping", "arguments": "{}"}},
    ]
    chunks = [delta(tool_calls=[piece]) for piece in pieces]
    answers = (stream(*chunks, delta("tool_calls"), DONE), saying("ok", streamed=True))
    async with provider(*answers) as line:
        await watch(Agent("a", line.model, tools=[clock, greet, ping]))

    assert line.results() == {"a": "hello Rome", "b": "noon in JST", "d": "pong"}


@both_ways
async def test_a_server_that_reuses_one_call_id(streamed: bool) -> None:
    """BS-06: three results reach the model, under IDs that differ, in one run and over two."""
    asks = [saying(None, ("x", "ls", f'{{"path": "{n}"}}'), streamed=streamed) for n in "abc"]
    done = saying("done", streamed=streamed)
    async with provider(*asks[:2], done, asks[2], done) as line:
        agent = Agent("a", line.model, tools=[ls])
        first = await ask(agent, "x", streamed=streamed)
        await ask(agent, "y", streamed=streamed, history=first.messages)

    assert list(line.results().values()) == ["files of a", "files of b", "files of c"]
    assert SEEN == ["a", "b", "c"]


@both_ways
async def test_two_calls_of_one_reply_with_one_id(streamed: bool) -> None:
    """BS-06: both run, and each result has an ID of its own."""
    calls = (("x", "ls", '{"path": "a"}'), ("x", "ls", '{"path": "b"}'))
    answers = (saying(None, *calls, streamed=streamed), saying("done", streamed=streamed))
    async with provider(*answers) as line:
        await ask(Agent("a", line.model, tools=[ls]), "x", streamed=streamed)

    assert list(line.results().values()) == ["files of a", "files of b"]


@both_ways
@pytest.mark.parametrize("finish", ["length", "max_tokens", "MAX_TOKENS"])
async def test_a_call_that_was_cut_off(finish: str, streamed: bool) -> None:
    """BS-13: it never runs, nor do the calls before it; two hints, then a typed end."""
    calls = (("a", "ls", '{"path": "."}'), ("b", "write", '{"path":"x.md","content":"aaaa'))
    cut = saying(None, *calls, streamed=streamed, finish=finish)
    async with provider(cut) as line:
        with pytest.raises(IncompleteReply, match="output limit") as caught:
            await ask(Agent("a", line.model, tools=[ls, write]), "x", streamed=streamed)

    assert SEEN == []
    assert len(line.requests) == 3
    assert all("truncated" in text for text in line.results().values())
    assert caught.value.result.stop_reason == "failed"


@both_ways
async def test_nothing_empty_is_sent(streamed: bool) -> None:
    """BS-25: no blank text beside a call, none of an empty result, no blank reply."""

    @tool
    async def touch() -> str:
        """Touch."""
        return ""

    blank = saying("   ", streamed=streamed)
    calls = saying("", ("c1", "touch", "{}"), streamed=streamed)
    async with provider(calls, blank, saying("ok", streamed=streamed)) as line:
        result = await ask(Agent("a", line.model, tools=[touch]), "x", streamed=streamed)

    assert (result.output, len(line.requests)) == ("ok", 3)
    assert line.messages(1) == line.messages(2)
    assert [message["content"] for message in line.messages()] == ["x", None, ""]
