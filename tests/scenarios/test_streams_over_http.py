"""Streams that break, hesitate or say odd things, seen through `agent.stream`."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.scenarios.provider import (
    ask,
    kinds_of,
    patient,
    provider,
    saying,
    watch,
    wire,
)
from tests.servers import DONE, Answer, End, delta, event, reply, stream, whole
from treadle import (
    Agent,
    ContextOverflow,
    IncompleteReply,
    MemoryStore,
    Message,
    ModelFinished,
    ModelRetried,
    ReasoningDelta,
    RunFinished,
    TextDelta,
    tool,
)
from treadle.journal import RunEnded

HALF = delta(content="Hello wor")


def texts_of(events: list[Any]) -> list[str]:
    """The text that a reader has who forgets, at each retry, what the failed attempt said."""
    texts: list[str] = []
    for seen in events:
        if isinstance(seen, ModelRetried):
            texts.clear()
        elif isinstance(seen, TextDelta):
            texts.append(seen.text)
    return texts


def last_of(events: list[Any]) -> RunFinished:
    """The one terminal event, which is the last."""
    assert sum(isinstance(event, RunFinished) for event in events) == 1
    assert isinstance(events[-1], RunFinished)
    return events[-1]


async def test_chunks_without_choices() -> None:
    """BS-18: Azure's first chunk and the usage at the end are no text, and the usage counts."""
    answer = stream(
        {"choices": [], "prompt_filter_results": [{"prompt_index": 0}]},
        delta(content="he"),
        delta(content="llo"),
        {"choices": [{"delta": {}, "finish_reason": "stop"}]},
        {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 2}},
        DONE,
    )
    async with provider(answer) as line:
        events = await watch(Agent("a", line.model))

    usage = last_of(events).usage
    assert texts_of(events) == ["he", "llo"]
    assert (usage.input_tokens, usage.output_tokens) == (7, 2)


async def test_a_stream_of_nothing() -> None:
    """BS-18: it is asked for again, and in the end it is an error and no empty answer."""
    empty = stream({"choices": [], "prompt_filter_results": []}, {"choices": []}, DONE)
    retry, clock = patient()
    async with provider(empty) as line:
        with pytest.raises(IncompleteReply, match="empty"):
            await watch(Agent("a", line.model, retry=retry))

    assert len(line.requests) == 3
    assert len(clock.sleeps) == 2


async def test_an_error_in_a_stream_that_no_repetition_helps() -> None:
    """BS-19: by the code inside; the text so far is kept, marked, and the next run goes on."""
    error = {"error": {"message": "context too long", "type": "BadRequestError", "code": 400}}
    retry, _ = patient()
    async with provider(stream(HALF, error), saying("fine", streamed=True)) as line:
        agent = Agent("a", line.model, retry=retry)
        run = agent.start("x")
        events = [seen async for seen in run]
        with pytest.raises(ContextOverflow, match="context too long") as caught:
            await run
        result = await ask(agent, "y", streamed=True, history=caught.value.result.messages)

    assert (caught.value.status, caught.value.partial, len(line.requests)) == (400, "Hello wor", 2)
    assert last_of(events).stop_reason == "failed"
    assert caught.value.result.messages[-1].incomplete
    assert result.output == "fine"


async def test_an_error_in_a_stream_that_passes() -> None:
    """BS-19: a code given as text counts, and the second attempt replaces the first."""
    error = {"error": {"message": "later", "code": "503"}}
    retry, _ = patient()
    async with provider(stream(HALF, error), saying("Hello world", streamed=True)) as line:
        events = await watch(Agent("a", line.model, retry=retry))

    assert "".join(texts_of(events)) == "Hello world"
    assert kinds_of(events).count("model.retried") == 1


@pytest.mark.parametrize("end", ["done", "close", "reset"])
async def test_a_dropped_stream(end: End) -> None:
    """BS-20 (a), (b): without a reason it is no answer; it is asked for again."""
    retry, _ = patient()
    async with provider(stream(HALF, end=end), saying("Hello world", streamed=True)) as line:
        events = await watch(Agent("a", line.model, retry=retry))

    assert "".join(texts_of(events)) == "Hello world"
    assert (len(line.requests), last_of(events).usage.requests) == (2, 2)
    assert line.messages(0) == line.messages(1)


@pytest.mark.parametrize("end", ["done", "close", "reset"])
async def test_a_stream_that_is_dropped_for_ever(end: End) -> None:
    """BS-20: half an answer is never stored as one, whoever reads it later."""
    store = MemoryStore()
    retry, _ = patient(2)
    async with provider(stream(HALF, end=end)) as line:
        agent = Agent("a", line.model, retry=retry, store=store)
        with pytest.raises(IncompleteReply) as caught:
            await watch(agent, conversation="c")

    entries = [entry for batch in await store.read("c") for entry in batch.entries]
    kept = caught.value.result.messages[-1]
    assert (kept.text, kept.incomplete) == ("Hello wor", True)
    assert [e.stop_reason for e in entries if isinstance(e, RunEnded)] == ["failed"]
    assert len(line.requests) == 2


@pytest.mark.parametrize("end", ["done", "close", "reset"])
async def test_a_reason_without_an_end_mark(end: End) -> None:
    """BS-20 (c): the reply is whole, whatever becomes of the connection."""
    async with provider(stream(HALF, delta("stop"), end=end)) as line:
        events = await watch(Agent("a", line.model))

    assert (texts_of(events), last_of(events).stop_reason) == (["Hello wor"], "answer")


@pytest.mark.parametrize("end", ["close", "reset"])
async def test_a_second_attempt_replaces_the_first(end: End) -> None:
    """BS-22: text, reasoning and half a call of the first are forgotten; the tool runs once."""
    ran: list[str] = []

    @tool
    async def run(code: str) -> str:
        """Run."""
        ran.append(code)
        return "1"

    half_call = delta(tool_calls=[wire("c1", "run", '{"code":"pri', index=0)])
    broken = stream(delta(reasoning="Hm, "), HALF, half_call, end=end)
    call = ("c1", "run", '{"code":"print(1)"}')
    answers = (broken, saying("Hello world", call, streamed=True), saying("done", streamed=True))
    retry, _ = patient()
    async with provider(*answers) as line:
        events = await watch(Agent("a", line.model, tools=[run], retry=retry))

    kinds = kinds_of(events)
    assert ran == ["print(1)"]
    assert kinds.index("text.delta") < kinds.index("model.retried") < kinds.index("tool.started")
    assert "".join(texts_of(events)) == "Hello worlddone"
    assert [message["role"] for message in line.messages()] == ["user", "assistant", "tool"]
    assert line.messages()[1]["content"] == "Hello world"


async def test_reasoning_and_text_are_two_channels() -> None:
    """S67: deltas on both, the stored answer, one end; the thought goes back to its server."""
    first = stream(
        delta(reasoning_content="I "), delta(reasoning_content="think."), HALF, delta("stop"), DONE
    )
    async with provider(first, saying("ok", streamed=True)) as line:
        agent = Agent("a", line.model)
        run = agent.start("x")
        events = [seen async for seen in run]
        result = await run
        await ask(agent, "y", streamed=True, history=result.messages)

    thoughts = [event.text for event in events if isinstance(event, ReasoningDelta)]
    assert (thoughts, texts_of(events)) == (["I ", "think."], ["Hello wor"])
    assert kinds_of(events)[-2:] == ["answer.stored", "run.finished"]
    assert (result.messages[-1].reasoning, result.output) == ("I think.", "Hello wor")
    assert line.messages()[1]["reasoning_content"] == "I think."


async def test_a_server_that_cannot_stream() -> None:
    """S67: it answers in one piece, and there is one delta of each kind."""
    async with provider(whole(reply("hello", reasoning="hm"))) as line:
        events = await watch(Agent("a", line.model))

    assert kinds_of(events)[2:4] == ["reasoning.delta", "text.delta"]
    assert texts_of(events) == ["hello"]


async def test_a_preamble_is_told_from_the_answer() -> None:
    """B179, B181: deltas have their turn, and the end of a turn says whether it was the answer."""

    @tool
    async def look() -> str:
        """Look."""
        return "it rains"

    answers = (
        saying("Let me look.", ("c", "look", "{}"), streamed=True),
        saying("Rain.", streamed=True),
    )
    async with provider(*answers) as line:
        events = await watch(Agent("a", line.model, tools=[look]))

    final = {e.turn: e.final for e in events if isinstance(e, ModelFinished)}
    said = dict.fromkeys(final, "")
    for piece in events:
        if isinstance(piece, TextDelta):
            said[piece.turn] += piece.text
    assert final == {1: False, 2: True}
    assert said == {1: "Let me look.", 2: "Rain."}


async def test_a_reader_that_stops_reading() -> None:
    """S69: a run whose events nobody takes ends all the same, and a late reader is told so."""
    answer = stream(event(delta(content="ab")) * 6_000, DONE)
    async with provider(answer) as line:
        run = Agent("a", line.model).start("x")
        async for _ in run:
            break
        result = await run
        late = [event.type async for event in run]

    assert result.output == "ab" * 6_000
    assert late == ["run.finished"]


async def test_a_stream_that_is_left_drops_its_connection() -> None:
    """B6: whoever leaves the iteration stops the server's writing."""
    async with provider(stream(HALF, end="hang")) as line:
        events = Agent("a", line.model).stream("x")
        async for event in events:
            if isinstance(event, TextDelta):
                break
        await events.aclose()
        await line.server.wait_closed_by_client()


async def test_a_cancel_reaches_the_connection() -> None:
    """B6: the server is hung up on, what was seen is kept, and the conversation goes on."""
    async with provider(stream(HALF, end="hang"), saying("on", streamed=True)) as line:
        agent = Agent("a", line.model)
        run = agent.start("x")
        async for event in run:
            if isinstance(event, TextDelta):
                break
        result = await run.cancel("enough")
        await line.server.wait_closed_by_client()
        assert result is not None
        after = await ask(agent, "y", streamed=True, history=result.messages)

    assert (result.stop_reason, result.messages[-1].incomplete) == ("cancelled", True)
    assert [m["content"] for m in line.messages()] == ["x", "Hello wor", "y"]
    assert after.messages[-1] == Message.assistant("on")


async def test_cancelling_the_caller_reaches_the_connection() -> None:
    """B6: a task that awaits `agent.run` takes the request with it when it is cancelled."""
    async with provider(Answer(raw=b"", end="hang")) as line:
        caller = asyncio.ensure_future(Agent("a", line.model).run("x"))
        await line.server.wait_asked()
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller
        await line.server.wait_closed_by_client()
