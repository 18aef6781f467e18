"""Messages that steer, on every store: from any process, in order, never lost.

| Behaviour | Here, or how it is settled |
| --- | --- |
| B246 | `test_steered_from_elsewhere`; several inputs make one message, in one call of `steer` |
| B247, B228 | `test_steered_from_elsewhere`, also over HTTP |
| B248, B249, B250 | J8 overrules: `test_as_the_run_was_told`; discarding is a choice |
| B251 | `test_what_waited_comes_first` |
| B252 | nothing compacts yet; resets leave the inbox: test_kept_conversations.py |
| B253 | an event and a receipt for each message: `test_as_the_run_was_told` |
"""

from __future__ import annotations

import asyncio
from typing import Any, Literal

import pytest

from tests.agent.parts import Hanging
from tests.scenarios.provider import provider, saying
from tests.scenarios.stores import Kept
from treadle import (
    Agent,
    Conversation,
    ConversationFinalized,
    Image,
    Interrupt,
    ModelRequest,
    Overloaded,
    Retry,
    tool,
)
from treadle.ports.model import ModelReply
from treadle.testing import FunctionModel, ScriptedModel, calls, raises

Policy = Literal["continue", "carry_over", "discard"]
PICTURE = Image.from_bytes(b"\x89PNG\r\n\x1a\n" + b"x" * 3000, "image/png")


def texts(messages: Any) -> list[str]:
    """The text of each message."""
    return [message.text for message in messages]


class Gated:
    """A model that says when it is asked, and answers when it is let to."""

    def __init__(self, *replies: str | ModelReply) -> None:
        self.asked, self.go = asyncio.Event(), asyncio.Event()
        self._replies = iter(replies)
        self.model = FunctionModel(self._answer)

    async def _answer(self, request: ModelRequest) -> str | ModelReply:
        self.asked.set()
        await self.go.wait()
        return next(self._replies)


async def test_steered_from_elsewhere(kept: Kept) -> None:
    """S59: while a tool runs, by another process; the next call ends with both, in order."""
    entered, go = asyncio.Event(), asyncio.Event()

    @tool
    async def work(n: int) -> str:
        """Work."""
        entered.set()
        await go.wait()
        return str(n)

    asks = saying("", ("1", "work", '{"n":1}'), ("2", "work", '{"n":2}'), streamed=False)
    async with provider(asks, saying("done", streamed=False), kinds=["openai"]) as there:
        agent = Agent("a", there.model, tools=[work])
        run = agent.start("go", conversation=kept.id(), store=kept.open())
        await entered.wait()
        elsewhere = await Conversation.open(kept.id(), store=kept.open())
        first = await elsewhere.steer("one", " and a half")
        second = await run.steer("two\x00", PICTURE)
        assert (await elsewhere.refresh()).pending == 2
        assert len(await elsewhere.messages()) == 3
        go.set()
        result = await run
        sent = there.messages()

    assert [m["role"] for m in sent] == ["user", "assistant", "tool", "tool", "user", "user"]
    assert texts(result.messages)[3:] == ["one and a half", "two\ufffd", "done"]
    assert (first.status, await first.refresh(), second.status) == ("queued", "applied", "applied")
    assert await kept.messages() == list(result.messages)


@pytest.mark.parametrize("policy", ["continue", "carry_over", "discard"])
async def test_as_the_run_was_told(kept: Kept, policy: Policy) -> None:
    """S50, S60, W61: one more turn, the next run, or dropped; final until the next run."""
    gated = Gated("answer", "another")
    agent = Agent("a", gated.model)
    store = kept.open()
    run = agent.start("go", conversation=kept.id(), store=store, on_steer=policy)
    await gated.asked.wait()
    elsewhere = await Conversation.open(kept.id(), store=kept.open())
    receipts = [await elsewhere.steer("late"), await run.steer("later")]
    gated.go.set()
    kinds = [event.type for event in [event async for event in run]]
    result = await run
    became = {"continue": "applied", "carry_over": "carried_over", "discard": "discarded"}[policy]
    told = {"applied": "steer.applied", "carried_over": "steer.carried_over"}

    assert [await receipt.refresh() for receipt in receipts] == [became, became]
    assert kinds.count(told.get(became, "steer.discarded")) == 2
    assert result.output == ("another" if policy == "continue" else "answer")
    for refused in (elsewhere.steer("too late"), run.steer("too late")):
        with pytest.raises(ConversationFinalized):
            await refused
    after = Agent("a", ScriptedModel(["end"]))
    last = await after.run("next", conversation=kept.id(), store=await kept.reopen())
    expected = {
        "continue": ["go", "answer", "late", "later", "another", "next", "end"],
        "carry_over": ["go", "answer", "late", "later", "next", "end"],
        "discard": ["go", "answer", "next", "end"],
    }
    assert texts(last.messages) == expected[policy]
    assert (await kept.conversation()).head.pending == 0


async def test_what_waited_comes_first(kept: Kept) -> None:
    """S61, B251: after an interrupt, a cancel, a failure, and before the first run at all."""
    store = kept.open()
    conversation = await Conversation.create(kept.id(), store=store)
    await conversation.steer("before")

    @tool
    async def ask() -> Interrupt:
        """Ask."""
        return Interrupt("human")

    hanging = Hanging()
    agent = Agent("a", hanging, tools=[ask], store=store, retry=Retry(attempts=1))
    run = agent.start("1", conversation=kept.id())
    await hanging.asked.wait()
    receipt = await run.steer("during")
    await run.cancel("enough")
    with pytest.raises(Overloaded):
        await agent.replace(model=ScriptedModel([raises(Overloaded("down"))])).run(
            "2", conversation=kept.id()
        )
    await (await Conversation.open(kept.id(), store=kept.open())).steer("after")
    script = [calls(("1", "ask", {}))]
    paused = await agent.replace(model=ScriptedModel(script)).run("3", conversation=kept.id())
    assert paused.stop_reason == "paused"
    late = await (await kept.conversation()).steer("while it is paused")
    last = await agent.replace(model=ScriptedModel(["end"]), store=await kept.reopen()).run(
        "4", conversation=kept.id()
    )

    said = ["before", "1", "during", "2", "after", "3", "", "", "while it is paused", "4", "end"]
    assert texts(last.messages) == said
    assert texts(await kept.messages()) == said
    view = await (await kept.conversation()).view()
    assert view.mail.receipts[receipt.id] == view.mail.receipts[late.id] == "applied"


async def test_stopped_from_elsewhere(kept: Kept) -> None:
    """J7, B30: in a long call, by another process; the next run finds a valid history."""
    hanging = Hanging()
    run = Agent("a", hanging).start("go", conversation=kept.id(), store=kept.open())
    await hanging.asked.wait()
    conversation = await Conversation.open(kept.id(), store=kept.open())
    await conversation.cancel("closing time")
    async with asyncio.timeout(10):
        result = await run
    await conversation.cancel("again")

    assert (result.stop_reason, result.reason) == ("cancelled", "closing time")
    assert (await kept.conversation()).head.status == "stopped"
    runs = await (await kept.conversation()).runs()
    assert [record.stop_reason for record in runs] == ["cancelled"]
