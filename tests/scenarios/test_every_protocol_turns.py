"""Calls, thoughts and turns on every protocol: BS-04 to BS-06 and BS-23 to BS-26."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.scenarios.every_line import answer, connect, frame, on, on_every, saying, stream
from tests.scenarios.every_protocol import (
    ALL,
    ANTHROPIC,
    CHAT,
    GEMINI,
    RESPONSES,
    SIGNED,
    THOUGHT,
    Api,
    Call,
    Reply,
    Wire,
    user_turns,
)
from tests.scenarios.provider import ask, both_ways, watch
from tests.servers import Answer
from treadle import (
    Agent,
    Approve,
    MemoryStore,
    Message,
    SQLiteStore,
    tool,
)
from treadle.testing import assert_strict
from treadle.values import is_array, is_object

SEEN: list[str] = []


@pytest.fixture(autouse=True)
def _forget() -> None:
    SEEN.clear()


@tool
async def ls(path: str) -> str:
    """List."""
    SEEN.append(path)
    return f"files of {path}"


@tool
async def ping() -> str:
    """Ping."""
    return "pong"


@tool
async def touch() -> str:
    """Touch."""
    return ""


@tool(approval=True)
async def wipe() -> str:
    """Wipe."""
    return "wiped"


def calls_of(paths: str) -> tuple[Call, ...]:
    """A call of `ls` for each letter."""
    return tuple(Call(f"call_{path}", "ls", json.dumps({"path": path})) for path in paths)


def without(wire: Any, *names: str) -> Any:
    """An event in which these fields are missing, wherever they stood."""
    if is_array(wire):
        return [without(item, *names) for item in wire]
    if not is_object(wire):
        return wire
    return {name: without(item, *names) for name, item in wire.items() if name not in names}


def in_one(api: Api, reply: Reply) -> bytes:
    """All pieces of all calls at once: in one chunk where the protocol has that, else one write."""
    head = len(api.begun(Reply()))
    begun, events = api.begun(reply)[:head], api.begun(reply)[head:]
    if api is CHAT:
        first = events[0]["choices"][0]
        entries = [e for event in events for e in event["choices"][0]["delta"]["tool_calls"]]
        events = [{"choices": [{**first, "delta": {"tool_calls": entries}}]}]
    elif api is GEMINI:
        first = events[0]["candidates"][0]
        parts = [p for event in events for p in event["candidates"][0]["content"]["parts"]]
        events = [{"candidates": [{**first, "content": {"role": "model", "parts": parts}}]}]
    return b"".join(map(frame, [*begun, *events]))


async def list_files(api: Api, *pieces: Wire | bytes) -> list[str]:
    """What reaches the model of the calls in these pieces, once they ran."""
    end = Reply(calls=calls_of("a"))
    said = (*pieces, *api.ended(end), *api.end)
    if api is RESPONSES:  # what is said at the end of everything is not what is tested here
        said = (*pieces, {"type": "response.completed", "response": {"status": "completed"}})
    async with connect(api, stream(*said), saying(api, "ok", streamed=True)) as line:
        await watch(Agent("a", line.model, tools=[ls]))
        assert len(set(line.ids())) == len(line.ids())
    return line.results()


@on_every
async def test_several_calls_in_one_chunk(api: Api) -> None:
    """BS-04: heads and pieces of arguments of two calls at once are two calls."""
    found = await list_files(api, in_one(api, Reply(calls=calls_of("ab"))))

    assert (found, SEEN) == (["files of a", "files of b"], ["a", "b"])


@on(CHAT, RESPONSES, ANTHROPIC)
async def test_pieces_of_two_calls_in_turn(api: Api) -> None:
    """BS-04: each goes to the call of its index. Gemini's calls come whole, nothing mixes."""
    reply = Reply(calls=calls_of("ab"))
    head = len(api.begun(Reply()))
    begun, events = api.begun(reply)[:head], api.begun(reply)[head:]
    middle = len(events) // 2
    mixed = [event for pair in zip(events[:middle], events[middle:], strict=True) for event in pair]
    found = await list_files(api, *begun, *mixed)

    assert (found, SEEN) == (["files of a", "files of b"], ["a", "b"])


MISSING: dict[str, tuple[Api, tuple[str, ...]]] = {
    "chat": (CHAT, ("index",)),
    "responses": (RESPONSES, ("output_index",)),
    "responses without IDs": (RESPONSES, ("output_index", "item_id")),
    "anthropic": (ANTHROPIC, ("index",)),
}
"""Gemini has no indexes: its parts stand in their order."""


@pytest.mark.parametrize(("api", "names"), MISSING.values(), ids=MISSING)
async def test_pieces_without_an_index(api: Api, names: tuple[str, ...]) -> None:
    """BS-05: what is new opens a call, what is not goes on with the last; the order is kept."""
    reply = Reply(texts=("I look.",), calls=calls_of("ab"))
    found = await list_files(api, *(without(event, *names) for event in api.begun(reply)))

    assert (found, SEEN) == (["files of a", "files of b"], ["a", "b"])


@on_every
@both_ways
async def test_a_server_that_reuses_one_call_id(api: Api, streamed: bool) -> None:
    """BS-06: over turns, runs and within one reply; each result reaches the model as its own."""
    calls = [Call("x", "ls", json.dumps({"path": path})) for path in "abcd"]
    asks = [saying(api, "", call, streamed=streamed, number=i) for i, call in enumerate(calls[:2])]
    both = saying(api, "", *calls[2:], streamed=streamed, number=7)
    done = saying(api, "done", streamed=streamed)
    async with connect(api, *asks, done, both, done) as line:
        agent = Agent("a", line.model, tools=[ls])
        first = await ask(agent, "x", streamed=streamed)
        result = await ask(agent, "y", streamed=streamed, history=first.messages)

    assert (result.output, SEEN) == ("done", ["a", "b", "c", "d"])
    assert line.results() == [f"files of {path}" for path in "abcd"]
    if api is not GEMINI:  # which tells results apart by their order, too
        assert len(set(line.ids())) == 4


@on_every
@both_ways
@pytest.mark.parametrize("arguments", ["", "{}", "null"])
async def test_a_call_without_arguments(api: Api, arguments: str, streamed: bool) -> None:
    """BS-02: the tool that wants none runs, the other's validator says what is missing."""
    calls = (Call("c1", "ping", arguments), Call("c2", "ls", arguments))
    answers = (saying(api, "", *calls, streamed=streamed), saying(api, "ok", streamed=streamed))
    async with connect(api, *answers) as line:
        await ask(Agent("a", line.model, tools=[ping, ls]), "x", streamed=streamed)

    first, second = line.results()
    assert (first, SEEN) == ("pong", [])
    assert "path" in second


def sent_steps(api: Api, request: Wire) -> list[Wire]:
    """What the model said before, as a request tells it: one entry for each of its parts."""
    if api is CHAT:
        return [message for message in request["messages"] if message["role"] == "assistant"]
    if api is RESPONSES:
        return [item for item in request["input"] if "role" not in item and "output" not in item]
    if api is ANTHROPIC:
        said = [each["content"] for each in request["messages"] if each["role"] == "assistant"]
        return [block for content in said for block in content]
    said = [each["parts"] for each in request["contents"] if each["role"] == "model"]
    return [part for parts in said for part in parts]


def proofs(api: Api, steps: Sequence[Wire]) -> list[object]:
    """Of each step, what the server wants back as it was."""
    if api is CHAT:
        return [step.get("reasoning_content") for step in steps]
    if api is RESPONSES:
        names = ("type", "id", "encrypted_content", "summary", "call_id", "arguments")
        return [{name: step.get(name) for name in names} for step in steps]
    return list(steps)


def told_steps(api: Api, reply: Reply) -> list[Wire]:
    """The parts of a whole reply."""
    body = api.body(reply)
    if api is CHAT:
        return [body["choices"][0]["message"]]
    if api is RESPONSES:
        return body["output"]
    return body["content"] if api is ANTHROPIC else body["candidates"][0]["content"]["parts"]


@on_every
@both_ways
async def test_thoughts_go_back_in_front_of_the_calls(
    api: Api, streamed: bool, tmp_path: Path
) -> None:
    """BS-23, BS-24: signed as they were, over rounds, after a pause, in later runs; to no other."""
    rounds = [
        Reply(thought=THOUGHT, calls=calls_of("ab"), number=1),
        Reply(thought=THOUGHT, calls=(Call("c3", "wipe"),), number=2),
    ]
    made = [answer(api, reply, streamed=streamed) for reply in rounds]
    fine = saying(api, "fine", streamed=streamed)
    async with connect(api, *made, fine) as line:
        before, after = SQLiteStore(tmp_path / "a.db"), SQLiteStore(tmp_path / "a.db")
        agent = Agent("a", line.model, tools=[ls, wipe])
        paused = await ask(agent, "x", streamed=streamed, store=before, conversation="c")
        await before.close()
        there = Agent("a", api.client(line.server.url), tools=[ls, wipe], store=after)
        [waits] = paused.pending
        await there.resume(paused.run_id, decisions={waits.call_id: Approve()})
        await ask(there, "y", streamed=streamed, conversation="c")
        other = ALL[(ALL.index(api) + 1) % len(ALL)]
        async with connect(other, saying(other, "ok", streamed=streamed)) as foreign:
            model = foreign.model
            await ask(there, "z", streamed=streamed, conversation="c", model=model)
        await after.close()

    told = [proofs(api, told_steps(api, reply)) for reply in rounds]
    for number, known in ((1, told[0]), (2, [*told[0], *told[1]]), (3, [*told[0], *told[1]])):
        assert proofs(api, sent_steps(api, line.requests[number]))[: len(known)] == known
    for secret in (THOUGHT, SIGNED, "gAAA", "blob"):
        assert secret not in foreign.server.requests[0].body.decode()


@on_every
@both_ways
async def test_nothing_empty_is_sent(api: Api, streamed: bool) -> None:
    """BS-25: no blank text beside a call, none of an empty result, no blank reply."""
    empty = answer(api, Reply(texts=("",), calls=(Call("c1", "touch"),)), streamed=streamed)
    blank, ok = (saying(api, text, streamed=streamed) for text in ("   ", "ok"))
    async with connect(api, empty, blank, ok, ok) as line:
        agent = Agent("a", line.model, tools=[touch])
        result = await ask(agent, "x", streamed=streamed)
        await ask(agent, "y", streamed=streamed, history=result.messages)

    assert (result.output, len(line.requests)) == ("ok", 4)
    assert line.requests[1] == line.requests[2]
    assert [text for text in texts_in(line.requests) if not text.strip()] == []


def texts_in(wire: Any) -> list[str]:
    """Every text block in a request."""
    if is_array(wire):
        return [text for item in wire for text in texts_in(item)]
    if not is_object(wire):
        return []
    own = [wire["text"]] if isinstance(wire.get("text"), str) else []
    return own + [text for item in wire.values() for text in texts_in(item)]


SILENT = Answer(raw=b"", end="hang")
TURNS = {"chat": 1, "responses": 2, "anthropic": 1, "gemini": 1}
"""As how many of the user's turns two inputs on end are sent; Responses takes neighbours."""


@on_every
async def test_the_system_prompt_and_neighbours(api: Api) -> None:
    """BS-26: one system prompt; what a cancelled run leaves behind is in order, and apart in us."""
    store = MemoryStore()
    options = {"merge_roles": True} if api is CHAT else {}
    async with connect(api, SILENT, saying(api, "ok", streamed=True), **options) as line:
        agent = Agent("a", line.model, instructions="Be kind.", store=store)
        run = agent.start("first", conversation="c", requirements=["Be short."])
        await line.server.wait_asked()
        await run.cancel("enough")
        result = await ask(
            agent, "second", streamed=True, conversation="c", requirements=["Be short."]
        )

    sent = line.server.requests[-1].body.decode()
    assert (sent.count("Be kind."), sent.count("Be short.")) == (1, 1)
    turns = user_turns(api, line.requests[-1])
    assert len(turns) == TURNS[api.name]
    shown = json.dumps(turns)
    assert 0 < shown.index("first") < shown.index("second")
    assert [message.text for message in result.messages] == ["first", "second", "ok"]
    if api is CHAT:
        assert_strict(line.requests[-1], "template")


@on_every
async def test_a_history_that_does_not_alternate(api: Api) -> None:
    """BS-26: one that the assistant begins, with a reply that says nothing and two on end."""
    history = [
        Message.assistant("Welcome."),
        Message.user("Hello."),
        Message("assistant", ()),
        Message.user("Anybody?"),
        Message.assistant("Yes."),
        Message.assistant("Sorry."),
    ]
    async with connect(api, saying(api, "ok", streamed=False)) as line:
        await Agent("a", line.model).run("x", history=history)

    sent = line.server.requests[0].body.decode()
    places = [sent.index(text) for text in ("Welcome.", "Hello.", "Anybody?", "Yes.", "Sorry.")]
    assert places == sorted(places)
