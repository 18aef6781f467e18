"""Histories of every making, as strict providers and chat templates want them."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from tests.scenarios.provider import ask, both_ways, provider, saying, wire
from tests.servers import DONE, Answer, delta, stream
from treadle import (
    Agent,
    Interrupt,
    LimitReached,
    Limits,
    MemoryStore,
    Message,
    Reasoning,
    ToolAbort,
    ToolAborted,
    tool,
)
from treadle.journal import CallBegan, RunBegan

SILENT = Answer(raw=b"", end="hang")


@tool
async def look() -> str:
    """Look."""
    return "rain"


async def cancelled(agent: Agent[Any, Any], line: Any, said: str, **options: Any) -> Any:
    """Cancel a run while the server is still silent."""
    run = agent.start(said, **options)
    await line.server.wait_asked()
    return await run.cancel("enough")


async def test_the_system_prompt_and_neighbours() -> None:
    """BS-26: one system message in front; what follows each other is merged, in order."""
    store = MemoryStore()
    async with provider(SILENT, saying("ok", streamed=True), merge_roles=True) as line:
        agent = Agent("a", line.model, instructions="Be kind.", store=store)
        await cancelled(agent, line, "first", conversation="c", requirements=["Be short."])
        result = await ask(
            agent, "second", streamed=True, conversation="c", requirements=["Be short."]
        )

    assert line.messages() == [
        {"role": "system", "content": "Be kind.\n\nRequirements:\n- Be short."},
        {"role": "user", "content": "first\n\nsecond"},
    ]
    assert [message.text for message in result.messages] == ["first", "second", "ok"]
    entries = [entry for batch in await store.read("c") for entry in batch.entries]
    inputs = [entry.input for entry in entries if isinstance(entry, RunBegan)]
    assert inputs == [Message.user("first"), Message.user("second")]


async def test_a_server_without_a_system_role() -> None:
    """BS-26: the prompt is the beginning of what the user says."""
    answers = (SILENT, saying("ok", streamed=True))
    async with provider(*answers, merge_roles=True, system_role=False) as line:
        agent = Agent("a", line.model, instructions="Be kind.")
        first = await cancelled(agent, line, "first")
        await ask(agent, "second", streamed=True, history=first.messages)

    assert line.messages() == [{"role": "user", "content": "Be kind.\n\nfirst\n\nsecond"}]


async def test_without_merging_they_stay_apart() -> None:
    """BS-26: OpenAI takes neighbours as they are."""
    async with provider(SILENT, saying("ok", streamed=True), kinds=["openai"]) as line:
        agent = Agent("a", line.model)
        first = await cancelled(agent, line, "first")
        await ask(agent, "second", streamed=True, history=first.messages)

    assert [message["content"] for message in line.messages()] == ["first", "second"]


async def test_a_cancelled_batch() -> None:
    """BS-50: the call that ran to its end keeps its result, the other one is answered."""

    @tool
    async def hangs() -> str:
        """Hang."""
        started.set()
        await asyncio.get_running_loop().create_future()
        return "never"

    started = asyncio.Event()
    calls = (("1", "look", "{}"), ("2", "hangs", "{}"))
    async with provider(saying(None, *calls, streamed=True), saying("ok", streamed=True)) as line:
        agent = Agent("a", line.model, tools=[look, hangs])
        run = agent.start("x")
        await started.wait()
        first = await run.cancel("enough")
        assert first is not None
        result = await ask(agent, "go on", streamed=True, history=first.messages)

    assert list(line.results()) == ["1", "2"]
    assert line.results()["1"] == "rain"
    assert "cancelled" in line.results()["2"]
    assert result.output == "ok"


async def test_a_cancelled_batch_whose_tools_do_not_care() -> None:
    """BS-50: calls that waited for them do not begin, and the run is cancelled all the same."""
    started = asyncio.Event()
    began: list[int] = []

    @tool
    async def stubborn(n: int) -> str:
        """Give a result instead of being cancelled."""
        began.append(n)
        started.set()
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            await asyncio.sleep(0)
        return "late"

    calls = [(str(n), "stubborn", f'{{"n": {n}}}') for n in range(4)]
    store = MemoryStore()
    async with provider(saying(None, *calls, streamed=True), saying("ok", streamed=True)) as line:
        agent = Agent("a", line.model, tools=[stubborn], max_parallel_tools=2, store=store)
        run = agent.start("x", conversation="c")
        await started.wait()
        result = await run.cancel("enough")
        del run
        await ask(agent, "go on", streamed=True, conversation="c")
    gc.collect()  # a coroutine that was never awaited is told of now

    assert result is not None
    assert (result.stop_reason, began) == ("cancelled", [0, 1])
    assert list(line.results()) == ["0", "1", "2", "3"]
    entries = [entry for batch in await store.read("c") for entry in batch.entries]
    assert [entry.call_id for entry in entries if isinstance(entry, CallBegan)] == ["0", "1"]


@both_ways
async def test_an_interrupt_and_what_the_human_says(streamed: bool) -> None:
    """S24, B70: the batch is stored whole; the human's word is the next user message."""

    @tool
    async def ask_human() -> Interrupt:
        """Ask."""
        return Interrupt("May I?")

    calls = (("1", "ask_human", "{}"), ("2", "look", "{}"))
    answers = (saying(None, *calls, streamed=streamed), saying("ok", streamed=streamed))
    async with provider(*answers) as line:
        agent = Agent("a", line.model, tools=[look, ask_human])
        paused = await ask(agent, "x", streamed=streamed)
        asked = len(line.requests)
        await ask(agent, "You may.", streamed=streamed, history=paused.messages)

    assert (paused.stop_reason, paused.reason, asked) == ("paused", "May I?", 1)
    assert line.results() == {"1": "May I?", "2": "rain"}
    assert line.messages()[-1] == {"role": "user", "content": "You may."}


@both_ways
async def test_an_aborted_run(streamed: bool) -> None:
    """S22, B49: all calls of the reply are answered, also those that never began."""

    @tool
    def abort() -> str:
        """Abort."""
        raise ToolAbort("disk on fire")

    calls = (("1", "abort", "{}"), ("2", "look", "{}"), ("3", "abort", "{}"))
    answers = (saying(None, *calls, streamed=streamed), saying("ok", streamed=streamed))
    async with provider(*answers) as line:
        agent = Agent("a", line.model, tools=[look, abort])
        with pytest.raises(ToolAborted, match="disk on fire") as caught:
            await ask(agent, "x", streamed=streamed)
        await ask(agent, "y", streamed=streamed, history=caught.value.result.messages)

    assert list(line.results()) == ["1", "2", "3"]


@both_ways
async def test_the_limit_and_the_forced_answer(streamed: bool) -> None:
    """S5, B17: without tools, with the requirements; the instruction is not kept."""
    answers = (
        saying(None, ("1", "look", "{}"), streamed=streamed),
        saying("wet", streamed=streamed),
    )
    async with provider(*answers, saying("still wet", streamed=streamed)) as line:
        agent = Agent("a", line.model, tools=[look], limits=Limits(max_turns=1))
        first = await ask(agent, "x", streamed=streamed, requirements=["Be short."])
        await ask(agent, "y", streamed=streamed, history=first.messages)

    assert (first.output, first.stop_reason) == ("wet", "limit")
    assert "tools" not in line.requests[1]
    assert "1. Be short." in line.messages(1)[-1]["content"]
    assert [m["content"] for m in line.messages()] == ["x", None, "rain", "wet", "y"]


async def test_the_limit_as_an_error() -> None:
    """S4: after exactly that many requests, with a history that can go on."""
    call = saying(None, ("1", "look", "{}"), streamed=False)
    async with provider(call, call, call, saying("ok", streamed=False)) as line:
        agent = Agent("a", line.model, tools=[look], limits=Limits(max_turns=3), on_limit="error")
        with pytest.raises(LimitReached) as caught:
            await agent.run("x")
        await agent.run("y", history=caught.value.result.messages)

    assert len(line.requests) == 4
    assert len(line.results()) == 3


async def test_a_history_goes_to_another_server() -> None:
    """BS-23: reasoning goes back to the server it is of, in front of its calls, and to no other."""
    call = ("c", "look", "{}")
    thought = saying("", call, streamed=True, reasoning_content="I should look.")
    async with provider(thought, saying("ok", streamed=True)) as line:
        agent = Agent("a", line.model, tools=[look])
        result = await ask(agent, "x", streamed=True)
    assert line.messages()[1]["reasoning_content"] == "I should look."
    assert isinstance(result.messages[1].parts[0], Reasoning)

    async with provider(saying("ok", streamed=True)) as other:
        await ask(agent, "y", streamed=True, model=other.model, history=result.messages)
    assert "I should look." not in other.server.requests[0].body.decode()
    assert len(other.messages()) == 5


async def test_a_partial_text_is_said_again() -> None:
    """BS-20: what the user saw before a cancel is the assistant's word in the next request."""
    half = stream(delta(content="Half a "), end="hang")
    async with provider(half, saying("ok", streamed=True)) as line:
        agent = Agent("a", line.model)
        run = agent.start("x")
        async for event in run:
            if event.type == "text.delta":
                break
        first = await run.cancel("enough")
        assert first is not None
        await ask(agent, "go on", streamed=True, history=first.messages)

    roles = [(message["role"], message["content"]) for message in line.messages()]
    assert roles == [("user", "x"), ("assistant", "Half a "), ("user", "go on")]


@pytest.mark.parametrize("place", ["call", "message"])
async def test_a_signature_goes_back_where_it_was(place: str) -> None:
    """BS-24: Google's endpoint signs a call or a message, and wants that again in every round."""
    signature = {"google": {"thought_signature": "sig-1"}}
    calls = [wire("c1", "look", "{}", index=0), wire("c2", "look", "{}", index=1)]
    deltas = [delta(tool_calls=[call]) for call in calls]
    signed = calls[0] if place == "call" else deltas[0]["choices"][0]["delta"]
    signed["extra_content"] = signature
    second = saying(None, ("c3", "look", "{}"), streamed=True)
    answers = (stream(*deltas, delta("tool_calls"), DONE), second, saying("ok", streamed=True))
    store = MemoryStore()
    async with provider(*answers, saying("ok", streamed=True)) as line:
        agent = Agent("a", line.model, tools=[look], store=store)
        await ask(agent, "x", streamed=True, conversation="c")
        await ask(agent, "y", streamed=True, conversation="c")

    for number in (1, 2, 3):
        said = line.messages(number)[1]
        kept = said["tool_calls"][0] if place == "call" else said
        assert kept["extra_content"] == signature
        assert "extra_content" not in said["tool_calls"][1]


async def test_a_run_that_ends_blank() -> None:
    """BS-25: the third blank reply ends the run; the journal keeps no message that says nothing."""
    store = MemoryStore()
    async with provider(saying("  ", streamed=True), merge_roles=True) as line:
        agent = Agent("a", line.model, store=store)
        result = await ask(agent, "x", streamed=True, conversation="c")
        again = await ask(agent, "y", streamed=True, conversation="c")

    assert (result.output, len(line.requests)) == ("", 6)
    assert result.messages == [Message.user("x")]
    assert again.messages == [Message.user("x"), Message.user("y")]
