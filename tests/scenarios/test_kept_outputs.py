"""Outputs that are too long for the model, on every store: kept whole and read in pages."""

from __future__ import annotations

from typing import Any

import pytest

from tests.scenarios.stores import Kept
from treadle import Agent, Conversation, ConversationNotFound, InvalidInput, tool
from treadle.journal import CallEnded
from treadle.ports.model import ModelProfile
from treadle.stores.codec import encode_batch
from treadle.testing import ScriptedModel, calls

LINES = [f"{n:06} {'x' * 52}" for n in range(1, 50_001)]
WHOLE = "\n".join(LINES)


@tool
async def dump() -> str:
    """Dump 3,000,000 characters of numbered lines."""
    return WHOLE


def small(*script: Any) -> ScriptedModel:
    """A model with a window of 8,000 tokens."""
    return ScriptedModel(list(script), profile=ModelProfile(name="small", window=8_000))


async def test_one_huge_result_does_not_end_a_conversation(kept: Kept) -> None:
    """BS-11: the next request fits, has both ends, the sizes and a way to read on."""
    assert len(WHOLE) == 50_000 * 60 - 1
    model = small(calls(("1", "dump", {})), "ok")
    agent = Agent("a", model, tools=[dump])
    first = await agent.run("go", conversation=kept.id(), store=kept.open())
    assert first.output == "ok"
    told = model.requests[1].messages[-1].tool_results[0]
    assert told.text.startswith(LINES[0])
    assert told.text.endswith(LINES[-1])
    assert f"{len(WHOLE)} bytes in all, 50000 lines; lines " in told.text
    assert len(told.text.encode()) <= 3_000
    artefact = told.artefact
    assert artefact is not None
    assert (artefact.size, artefact.lines) == (len(WHOLE), 50_000)
    assert f'read_output(id="{artefact.id}", start=' in told.text
    assert first.artefacts == {}
    assert [spec.name for spec in model.requests[0].tools] == ["dump"]
    assert [spec.name for spec in model.requests[1].tools] == ["dump", "read_output"]

    await kept.reopen()
    conversation = await kept.conversation()
    entries = [e for _, e in await conversation.entries() if isinstance(e, CallEnded)]
    assert len(encode_batch(entries)[0]) < 5_000
    assert await conversation.artefacts() == [artefact]
    assert await conversation.artefact(artefact) == WHOLE


async def test_it_goes_where_the_conversation_goes(kept: Kept) -> None:
    """Into another process, and into a fork that outlives its parent; with the last it is gone."""
    agent = Agent("a", small(calls(("1", "dump", {})), "ok"), tools=[dump])
    first = await agent.run("go", conversation=kept.id(), store=kept.open())
    artefact = first.tool_results[0].artefact
    assert artefact is not None
    store = await kept.reopen()
    conversation = await kept.conversation()
    page = {"id": artefact.id, "start": 49_990, "count": 11}
    model = small(calls(("2", "read_output", page)), "read")
    agent = Agent("a", model, tools=[dump])
    second = await agent.run("more", conversation=kept.id(), store=store)
    assert [spec.name for spec in model.requests[0].tools] == ["dump", "read_output"]
    assert second.tool_results[0].text == "\n".join(
        ["[lines 49990 to 50000 of 50000]", *LINES[49_989:]]
    )

    early = await conversation.fork(revision=1, new_id=kept.id("early"))
    assert await early.artefacts() == []
    with pytest.raises(InvalidInput, match="it has none"):
        await early.artefact(artefact)
    branch = await conversation.fork(new_id=kept.id("branch"))
    await conversation.delete()
    store = await kept.reopen()
    branch = await Conversation.open(branch.id, store=store)
    assert await branch.artefact(artefact.id) == WHOLE
    with pytest.raises(ConversationNotFound):
        await store.get(kept.id(), artefact.digest)


async def test_only_those_of_its_own_conversation(kept: Kept) -> None:
    """The ID of another conversation's output opens nothing, though the store has it."""
    agent = Agent("a", small(calls(("1", "dump", {})), "ok"), tools=[dump])
    store = kept.open()
    first = await agent.run("go", conversation=kept.id(), store=store)
    artefact = first.tool_results[0].artefact
    assert artefact is not None

    @tool
    async def other() -> str:
        """Return something else that is long."""
        return "other\n" * 10_000

    model = small(calls(("1", "other", {})), calls(("2", "read_output", {"id": artefact.id})), "ok")
    agent = Agent("a", model, tools=[other])
    result = await agent.run("go", conversation=kept.id("d"), store=store)
    told = result.tool_results[1]
    assert told.is_error
    assert "no output" in told.text
    assert result.tool_results[0].artefact is not None
    assert result.tool_results[0].artefact.id in told.text
    conversation = await kept.conversation("d")
    with pytest.raises(InvalidInput, match="has no"):
        await conversation.artefact(artefact)
