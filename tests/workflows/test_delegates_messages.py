"""What is said to agents in the background while they work."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.agent.dying import Dying, die_after
from tests.agent.nested import playing
from tests.agent.parts import Hanging
from tests.workflows.crews import boss, outputs, starts, waits
from tests.workflows.test_delegates import Gated
from treadle import (
    Agent,
    Conversation,
    MemoryStore,
    Message,
    ModelRequest,
    tool,
)
from treadle.journal import InboxApplied, InboxDiscarded, MessageQueued
from treadle.testing import calls
from treadle.testing.scripted import last_text


@pytest.mark.parametrize("stored", [False, True])
async def test_a_message_is_heard(stored: bool) -> None:
    """It joins the history of that agent before its next model call, and nobody else's."""
    going, gate = asyncio.Event(), asyncio.Event()

    @tool
    async def work() -> str:
        """Work."""
        going.set()
        await gate.wait()
        return "worked"

    scout = Agent("scout", playing(calls(("s", "work", {})), last_text), tools=[work])
    said = calls(("m", "message_delegate", {"id": "scout#1", "text": "Hurry!"}))

    async def begun(_: ModelRequest) -> Any:
        await going.wait()
        return said

    def sent(request: ModelRequest) -> Any:
        assert all(message.text != "Hurry!" for message in request.messages)
        gate.set()
        return waits("w")

    store = MemoryStore() if stored else None
    agent = boss(starts(("a", "scout", "look")), begun, sent, outputs, agents=[scout])
    run = agent.start("go", store=store, conversation="c" if stored else None)
    result = await run
    assert result.output == "Hurry!"
    assert result.tool_results[1].text == "scout#1 hears it before its next step."
    if store is not None:
        entries = [e for b in await store.read("c") for e in b.entries]
        queued = [e.path for e in entries if isinstance(e, MessageQueued)]
        applied = [e.path for e in entries if isinstance(e, InboxApplied)]
        assert queued == applied == ["scout#1"]
        assert (await store.head("c")).pending == 0


async def test_a_message_when_it_is_about_to_answer() -> None:
    """It takes another turn for it."""
    scout = Gated()

    async def begun(_: ModelRequest) -> Any:
        await scout.asked.wait()
        return calls(("m", "message_delegate", {"id": "scout#1", "text": "Wait!"}))

    def sent(_: ModelRequest) -> Any:
        scout.gate.set()
        return waits("w")

    agent = boss(starts(("a", "scout", "look")), begun, sent, outputs, agents=[scout.agent])
    result = await agent.run("go", store=MemoryStore())
    assert result.output == "heard Wait!"


async def test_a_message_that_comes_too_late() -> None:
    """The model is told, and nothing waits."""
    store = MemoryStore()
    agent = boss(
        starts(("a", "scout", "look")),
        waits("w"),
        calls(("m", "message_delegate", {"id": "scout#1", "text": "Wait!"})),
        last_text,
        agents=[Agent("scout", playing("found"))],
    )
    result = await agent.run("go", store=store, conversation="c")
    assert result.output == "scout#1 is over and hears nothing any more; start another one."
    assert (await store.head("c")).pending == 0


async def test_a_message_to_one_that_is_stopped() -> None:
    """It was not heard: it does not wait for anybody."""
    model, store = Hanging(), MemoryStore()

    async def begun(_: ModelRequest) -> Any:
        await model.asked.wait()
        return calls(("m", "message_delegate", {"id": "scout#1", "text": "Wait!"}))

    agent = boss(starts(("a", "scout", "look")), begun, "done", agents=[Agent("scout", model)])
    result = await agent.run("go", store=store, conversation="c")
    assert result.output == "done"
    assert model.stopped.is_set()
    entries = [e for b in await store.read("c") for e in b.entries]
    assert [e.path for e in entries if isinstance(e, InboxDiscarded)] == ["scout#1"]
    assert (await store.head("c")).pending == 0
    view = await (await Conversation.open("c", store=store)).view()
    assert not view.mail.inbox


async def test_a_message_is_for_one_agent_only() -> None:
    """Nested ones of the same run do not hear it; nor does the run when it is steered."""
    scout = Gated()

    async def begun(_: ModelRequest) -> Any:
        await scout.asked.wait()
        await run.steer("To the boss.")
        return waits("w", timeout=0.01)

    async def later(request: ModelRequest) -> Any:
        assert request.messages[-1] == Message.user("To the boss.")
        scout.gate.set()
        return waits("x")

    agent = boss(starts(("a", "scout", "look")), begun, later, outputs, agents=[scout.agent])
    run = agent.start("go", store=MemoryStore())
    assert (await run).output == "heard look"


@pytest.mark.parametrize("appends", range(4, 14))
async def test_a_message_is_heard_after_a_crash(appends: int) -> None:
    """J8: it is in the journal before the tool says so, and it is heard once."""
    heard: list[str] = []

    def agent(*, again: bool) -> Agent[Any, Any]:
        going, gate = asyncio.Event(), asyncio.Event()

        @tool(idempotent=True)
        async def work() -> str:
            """Work."""
            going.set()
            if not again:
                await gate.wait()
            return "worked"

        async def begun(_: ModelRequest) -> Any:
            await going.wait()
            return calls(("m", "message_delegate", {"id": "scout#1", "text": "Hurry!"}))

        def sent(_: ModelRequest) -> Any:
            gate.set()
            return waits("w")

        def answer(request: ModelRequest) -> str:
            heard.append(last_text(request))
            return f"{sum(m.text == 'Hurry!' for m in request.messages)} heard"

        scout = Agent("scout", playing(calls(("s", "work", {})), answer), tools=[work])
        return boss(starts(("a", "scout", "look")), begun, sent, outputs, agents=[scout])

    store = Dying()
    await die_after(appends, agent(again=False), store, conversation="c")
    was_queued = any(isinstance(e, MessageQueued) for b in await store.read("c") for e in b.entries)
    result = await agent(again=True).resume("r", store=store)
    if was_queued:
        assert result.output == "1 heard"
        assert (await store.head("c")).pending == 0
    else:
        assert result.output in ("0 heard", "1 heard")
