"""The first batch takes a conversation that this process knows: one write in place of two."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Any

import pytest

from treadle import (
    Agent,
    ConversationBusy,
    ConversationNotFound,
    InvalidId,
    RunContext,
    RunFailed,
    SQLiteStore,
)
from treadle.journal import AnyEntry
from treadle.ports.store import Batch, Begun, Head, Lease
from treadle.testing import FunctionModel, ScriptedModel
from treadle.testing.store_handles import queued


class Noting(SQLiteStore):
    """A store in a file that notes what it is asked to do."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.did: list[str] = []
        self.writing = asyncio.Event()

    async def claim(self, *args: Any, **options: Any) -> tuple[Head, Lease]:
        """Claim, and note it."""
        self.did.append("claim")
        return await super().claim(*args, **options)

    async def read(self, conversation_id: str, from_revision: int = 0) -> Sequence[Batch]:
        """Read, and note it."""
        self.did.append("read")
        return await super().read(conversation_id, from_revision)

    def begin_append(self, *args: Any, **options: Any) -> Begun[int]:
        """Append, and note it."""
        self.did.append("append")
        return super().begin_append(*args, **options)

    def begin_claim_and_append(self, *args: Any, **options: Any) -> Begun[tuple[Head, Lease]]:
        """Claim and append, and note it."""
        self.did.append("claim_and_append")
        self.writing.set()
        return super().begin_claim_and_append(*args, **options)


class Unready(SQLiteStore):
    """The same store, without writes that can be begun."""

    async def append(
        self,
        conversation_id: str,
        expected_revision: int,
        entries: Sequence[AnyEntry],
        *,
        fence: int | None = None,
    ) -> int:
        """Append."""
        return await super().append(conversation_id, expected_revision, entries, fence=fence)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncGenerator[Noting]:
    """Give a store that notes what it does."""
    store = Noting(tmp_path / "chat.db")
    yield store
    await store.close()


def heard(**options: Any) -> Agent[Any, Any]:
    """Return an agent that says how many messages it was sent."""
    model = FunctionModel(lambda request: f"{len(request.messages)} messages")
    return Agent("a", model, **options)


async def test_a_known_conversation_takes_two_writes(store: Noting) -> None:
    """The first run asks; the next one begins with its first batch."""
    agent = heard(store=store)
    await agent.run("1", conversation="c")
    assert store.did == ["claim", "append", "append"]
    store.did.clear()
    result = await agent.run("2", conversation="c")
    assert store.did == ["claim_and_append", "append"]
    assert result.output == "3 messages"
    assert (await store.head("c")).owner is None


async def test_a_new_conversation_takes_two_writes(store: Noting) -> None:
    """Its ID is ours, so it cannot be there."""
    result = await heard(store=store).run("1")
    assert store.did == ["claim_and_append", "append"]
    assert (await store.head(result.conversation_id)).status == "answered"


@pytest.mark.parametrize("kind", [Noting, Unready])
async def test_what_others_wrote_meanwhile_is_read(kind: type[SQLiteStore], tmp_path: Path) -> None:
    """J2: the first batch is refused, and the run begins again with all there is."""
    store, other = kind(tmp_path / "chat.db"), SQLiteStore(tmp_path / "chat.db")
    prompts: list[str] = []

    def instruct(ctx: RunContext) -> str:
        prompts.append(ctx.run_id)
        return "Count."

    agent = heard(store=store, instructions=instruct)
    await agent.run("1", conversation="c")
    await heard(store=other).run("2", conversation="c")
    await other.append("c", (await other.head("c")).revision, [queued("3")])
    result = await agent.run("4", conversation="c")
    assert result.output == "6 messages"
    assert [message.text for message in result.messages[-3:]] == ["3", "4", "6 messages"]
    assert (await store.head("c")).pending == 0
    assert len(prompts) == 3  # once more for the second beginning
    await store.close()
    await other.close()


async def test_a_message_that_was_taken_meanwhile_is_not_said_twice(tmp_path: Path) -> None:
    """J8: what waited when this process last looked may have been heard by another."""
    store, other = SQLiteStore(tmp_path / "chat.db"), SQLiteStore(tmp_path / "chat.db")
    agent = heard(store=store)
    first = await agent.run("1", conversation="c")
    await other.append("c", (await other.head("c")).revision, [queued("once")])
    with pytest.raises(InvalidId):
        await agent.run("2", conversation="c", run_id=first.run_id)  # now it knows of the message
    await heard(store=other).run("2", conversation="c")
    result = await agent.run("3", conversation="c")
    assert [message.text for message in result.messages].count("once") == 1
    await store.close()
    await other.close()


async def test_another_conversation_of_the_same_name_is_not_taken_for_it(tmp_path: Path) -> None:
    """J2: deleted and begun anew by another process, to the very same revision."""
    store, other = SQLiteStore(tmp_path / "chat.db"), SQLiteStore(tmp_path / "chat.db")
    agent = heard(store=store)
    await agent.run("1", conversation="c")
    await other.delete("c")
    await heard(store=other).run("anew", conversation="c")
    result = await agent.run("2", conversation="c")
    assert [message.text for message in result.messages] == [
        *("anew", "1 messages"),
        *("2", "3 messages"),
    ]
    await other.delete("c")
    result = await agent.run("3", conversation="c", history=[])
    assert [message.text for message in result.messages] == ["3", "1 messages"]
    await store.close()
    await other.close()


async def test_who_owns_it_is_not_disturbed(tmp_path: Path) -> None:
    """J7: also where this process knows the conversation."""
    store, other = SQLiteStore(tmp_path / "chat.db"), SQLiteStore(tmp_path / "chat.db")
    agent = heard(store=store)
    await agent.run("1", conversation="c")
    head, lease = await other.claim("c", "another@elsewhere", 15)
    with pytest.raises(ConversationBusy, match="another"):
        await agent.run("2", conversation="c")
    assert await other.head("c") == head
    await other.release(lease)
    assert (await agent.run("3", conversation="c")).output == "3 messages"
    await store.close()
    await other.close()


async def test_a_start_that_is_refused_leaves_nothing(store: Noting) -> None:
    """Instructions that fail, an ID that is taken: no conversation, no lease, and it goes on."""

    def fails(ctx: RunContext) -> str:
        raise ValueError("no instructions today")

    agent = heard(store=store)
    await agent.run("1", run_id="taken", conversation="c")
    before = await store.head("c")
    for conversation in ("c", None):
        with pytest.raises(RunFailed, match="no instructions today"):
            await agent.run("2", conversation=conversation, instructions=fails)
        with pytest.raises(InvalidId, match="taken"):
            await agent.run("2", conversation=conversation, run_id="taken")
    assert await store.list() == [before]
    assert (await agent.run("3", conversation="c")).output == "3 messages"


async def test_cancelled_while_the_first_batch_is_written(store: Noting) -> None:
    """J1: it stands, and so does the end; nobody owns the conversation afterwards."""
    agent = Agent("a", ScriptedModel(["unheard"]), store=store)
    task = asyncio.ensure_future(agent.run("1", run_id="r"))
    await store.writing.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    conversation = await store.find("r")
    head = await store.head(conversation)
    assert (head.status, head.owner) == ("stopped", None)
    with pytest.raises(ConversationNotFound):
        await store.head("c")
