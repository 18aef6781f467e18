"""Agents in conversations of their own: linked both ways, and they outlive the run."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.agent.dying import Dying, die_after
from tests.agent.nested import playing
from tests.agent.parts import Hanging
from tests.workflows.crews import boss, checks, outputs, starts, states, waits
from tests.workflows.test_delegates import Gated
from tests.workflows.test_delegates_pausing import deploying
from treadle import Agent, Approve, ConfigError, Conversation, MemoryStore, ModelRequest, open_store
from treadle.journal import ChildBegan, ChildLinked, MessageQueued
from treadle.ports.store import Store
from treadle.testing import calls
from treadle.testing.scripted import last_text


async def links_of(store: Store, conversation: str) -> list[ChildLinked]:
    """The links in a journal."""
    batches = await store.read(conversation)
    return [e for batch in batches for e in batch.entries if isinstance(e, ChildLinked)]


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_a_conversation_of_its_own(kind: str, tmp_path: Path) -> None:
    """It is linked both ways, and its output comes as that of any other."""
    store = open_store("memory:" if kind == "memory" else f"sqlite:///{tmp_path}/chat.db")
    scout = Agent("scout", playing("found"))
    agent = boss(starts(("a", "scout", "look")), waits("w"), outputs, agents=[scout], detached=True)
    result = await agent.run(
        "go", store=store, run_id="r", conversation="c", metadata={"user": "Ann"}
    )
    assert result.output == "found"
    assert result.usage.requests == 3, "it has a budget of its own"
    (link,) = await links_of(store, "c")
    assert (link.link, link.agent, link.call_id) == ("scout#1", "scout", "a")
    assert result.tool_results[1].value[0]["conversation"] == link.conversation_id
    own = await Conversation.open(link.conversation_id, store=store)
    (record,) = await own.runs()
    assert (record.run_id, record.output) == (link.child_run_id, "found")
    assert record.metadata == {
        "user": "Ann",
        "parent_conversation_id": "c",
        "parent_run_id": "r",
        "delegate_id": "scout#1",
    }
    entries = [e for batch in await store.read("c") for e in batch.entries]
    assert not [entry for entry in entries if isinstance(entry, ChildBegan)]
    await store.close()


async def test_it_outlives_the_run() -> None:
    """The run answers; the other one works on."""
    store, scout = MemoryStore(), Gated()
    agent = boss(starts(("a", "scout", "look")), "done", agents=[scout.agent], detached=True)
    result = await agent.run("go", store=store, conversation="c")
    assert result.output == "done"
    (link,) = await links_of(store, "c")
    own = await Conversation.open(link.conversation_id, store=store)
    assert own.head.status == "running"
    scout.gate.set()
    while own.head.status == "running":
        await store.wait(own.id, own.head.revision, 1)
        await own.refresh()
    assert [record.output for record in await own.runs()] == ["heard look"]


async def test_without_a_store() -> None:
    """There is nowhere to keep a conversation."""
    agent = boss(starts(("a", "scout", "look")), "done", agents=[Gated().agent], detached=True)
    with pytest.raises(ConfigError, match="pass store="):
        await agent.run("go")


async def test_it_is_cancelled_and_spoken_to() -> None:
    """By the tools of the run, while it works."""
    store, scout, model = MemoryStore(), Gated(), Hanging()
    other = Agent("other", model)

    async def begun(_: ModelRequest) -> Any:
        await scout.asked.wait()
        await model.asked.wait()
        said = ("m", "message_delegate", {"id": "scout#1", "text": "Wait!"})
        return calls(said, ("k", "cancel_delegate", {"id": "other#1"}))

    def sent(_: ModelRequest) -> Any:
        assert model.stopped.is_set()
        scout.gate.set()
        return waits("w")

    agent = boss(
        starts(("a", "scout", "look"), ("b", "other", "x")),
        begun,
        sent,
        outputs,
        agents=[scout.agent, other],
        detached=True,
    )
    result = await agent.run("go", store=store)
    assert result.output.startswith("heard Wait!; other stopped without an answer (cancelled")


async def test_its_calls_wait_by_themselves() -> None:
    """The run that waits for it is told; somebody decides in the other conversation."""
    did, store = list[str](), MemoryStore()
    scout = deploying(did)
    agent = boss(starts(("a", "scout", "x")), waits("w"), states, agents=[scout], detached=True)
    result = await agent.run("go", store=store, conversation="c")
    assert (result.stop_reason, result.output) == ("answer", "scout#1 waiting")
    (link,) = await links_of(store, "c")
    own = await Conversation.open(link.conversation_id, store=store)
    (call,) = await own.pending()
    later = await scout.resume(link.child_run_id, store=store, decisions={call.call_id: Approve()})
    assert (later.output, did) == ("deployed here", ["here"])


async def test_one_that_waits_for_somebody_is_cancelled() -> None:
    """It is over, makes room for another, and hears nothing any more."""
    did, store = list[str](), MemoryStore()
    agent = boss(
        starts(("a", "scout", "x")),
        waits("w"),
        calls(("k", "cancel_delegate", {"id": "scout#1"})),
        calls(("m", "message_delegate", {"id": "scout#1", "text": "Hello?"})),
        starts(("b", "scout", "y")),
        checks("c"),
        states,
        agents=[deploying(did)],
        detached=True,
        max_running=1,
    )
    result = await agent.run("go", store=store, conversation="c")
    assert result.tool_results[2].value["state"] == "cancelled"
    assert "hears nothing any more" in result.tool_results[3].text
    assert result.output == "scout#1 cancelled; scout#2 waiting"
    link, _ = await links_of(store, "c")
    own = await Conversation.open(link.conversation_id, store=store)
    assert ([record.stop_reason for record in await own.runs()], did) == (["cancelled"], [])


async def test_one_that_failed_hears_nothing() -> None:
    """A message to it is an error for the model, and waits for nobody."""
    store = MemoryStore()
    agent = boss(
        starts(("a", "scout", "x")),
        waits("w"),
        calls(("m", "message_delegate", {"id": "scout#1", "text": "Hello?"})),
        last_text,
        agents=[Agent("scout", playing())],
        detached=True,
    )
    result = await agent.run("go", store=store, conversation="c")
    assert "hears nothing any more" in result.output
    (link,) = await links_of(store, "c")
    batches = await store.read(link.conversation_id)
    assert not [e for batch in batches for e in batch.entries if isinstance(e, MessageQueued)]


async def test_those_of_one_reply_begin_at_the_same_time() -> None:
    """No more than may be at work; one that is about to begin is at work."""
    agent = boss(
        calls(
            ("a", "delegate", {"agent": "scout", "task": "1"}),
            ("b", "delegate", {"agent": "scout", "task": "2"}),
            ("w", "wait_for_delegate", {"timeout": 0.01}),
        ),
        waits("v"),
        outputs,
        agents=[Agent("scout", playing("found"))],
        detached=True,
        max_running=1,
    )
    async with asyncio.timeout(20):
        result = await agent.run("go", store=MemoryStore())
    assert [each.is_error for each in result.tool_results[:2]] == [False, True]
    assert result.output == "found"


async def test_there_may_be_so_many() -> None:
    """One more is an error for the model."""
    agent = boss(
        starts(("a", "scout", "1")),
        starts(("b", "scout", "2")),
        last_text,
        agents=[Gated().agent],
        detached=True,
        max_running=1,
    )
    result = await agent.run("go", store=MemoryStore())
    assert "max_running=1" in result.output


@pytest.mark.parametrize("appends", range(2, 11))
async def test_after_a_crash_at_any_append(appends: int) -> None:
    """It is started once; where its process died with that of the run, it goes on."""

    def agent() -> Agent[Any, Any]:
        begins = starts(("a", "scout", "look"))
        scout = Agent("scout", playing("found"))
        return boss(begins, checks("x"), waits("w"), outputs, agents=[scout], detached=True)

    store = Dying()
    await die_after(appends, agent(), store, conversation="c")
    result = await agent().resume("r", store=store)
    assert result.output == "found"
    (link,) = await links_of(store, "c")
    own = await Conversation.open(link.conversation_id, store=store)
    assert len(await own.runs()) == 1
    assert own.head.status == "answered"
