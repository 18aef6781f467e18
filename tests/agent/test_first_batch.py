"""The first batch takes a conversation that this process knows: one write in place of two."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import Any

import pytest

from tests.agent.parts import Hanging
from treadle import (
    Agent,
    Conversation,
    ConversationBusy,
    ConversationNotFound,
    InvalidId,
    MemoryStore,
    Message,
    RunContext,
    RunFailed,
    SQLiteStore,
    State,
)
from treadle.agent import settle
from treadle.journal import AnyEntry
from treadle.messages import Thread
from treadle.ports.model import ModelRequest
from treadle.ports.store import Batch, Begun, Head, Lease, never_waits
from treadle.ports.transport import HttpRequest
from treadle.providers import OpenAI
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
    agent = heard(store=store, instructions="Count.")
    await agent.run("1", conversation="c")
    await heard(store=other).run("2", conversation="c")
    await other.append("c", (await other.head("c")).revision, [queued("3")])
    result = await agent.run("4", conversation="c")
    assert result.output == "6 messages"
    assert [message.text for message in result.messages[-3:]] == ["3", "4", "6 messages"]
    assert (await store.head("c")).pending == 0
    await store.close()
    await other.close()


async def test_what_users_wrote_is_called_once_a_run(tmp_path: Path) -> None:
    """A function of instructions may pay, and a State is the caller's: neither is begun twice."""
    store, other = SQLiteStore(tmp_path / "chat.db"), SQLiteStore(tmp_path / "chat.db")
    prompts: list[str] = []

    def instruct(ctx: RunContext) -> str:
        prompts.append(ctx.run_id)
        ctx.state.set("n", ctx.state.get("n", 0) + 1)
        return "Count."

    for number in range(4):
        here = (store, other)[number % 2]
        await heard(store=here, instructions=instruct).run("x", conversation="c")
    assert len(prompts) == len(set(prompts)) == 4
    state = State()
    await heard(store=store).run("x", conversation="d")
    await heard(store=other).run("y", conversation="d")
    agent = heard(store=store, instructions=instruct)
    result = await agent.run("z", conversation="d", state=state)
    assert list(result.state.packed().values()) == [1]
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
        with pytest.raises(InvalidId, match="taken"):
            await agent.run("2", conversation=conversation, run_id="taken")
    with pytest.raises(RunFailed, match="no instructions today"):
        await agent.run("2", instructions=fails)
    assert await store.list() == [before]
    with pytest.raises(RunFailed, match="no instructions today"):
        await agent.run("2", conversation="c", instructions=fails)
    assert [(head.revision, head.owner) for head in await store.list()] == [(2, None)]
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


@pytest.mark.parametrize("kind", [Noting, Unready])
async def test_cancelled_while_the_first_batch_is_refused(
    kind: type[SQLiteStore], tmp_path: Path
) -> None:
    """The cancellation is what counts: nobody is waited for, asked to stop, or paid."""
    store, other = kind(tmp_path / "chat.db"), SQLiteStore(tmp_path / "chat.db")
    model = ScriptedModel(["1", "unheard"])
    agent = Agent("a", model, store=store)
    await agent.run("1", conversation="c")
    _, lease = await other.claim("c", "another@elsewhere", 15)
    locked = sqlite3.connect(tmp_path / "chat.db", isolation_level=None)
    locked.execute("BEGIN IMMEDIATE")
    run = agent.start("2", conversation="c", if_busy="interrupt")
    for _ in range(20):
        await asyncio.sleep(0)
    stopping = asyncio.ensure_future(run.cancel())
    await asyncio.sleep(0)
    locked.execute("ROLLBACK")
    locked.close()
    stopped = await stopping
    assert stopped is not None
    assert stopped.stop_reason == "cancelled"
    assert len(model.requests) == 1
    head = await other.head("c")
    assert (head.revision, head.lease) == (2, lease)
    await store.close()
    await other.close()


@pytest.mark.parametrize("way", ["run", "append"])
async def test_cancelled_while_the_conversation_is_taken(way: str, tmp_path: Path) -> None:
    """Whatever was taken is let go: the next one need not wait for a lease to end."""
    path = tmp_path / "chat.db"
    store, other = SQLiteStore(path), SQLiteStore(path)
    await heard(store=other).run("1", conversation="c")
    conversation = await Conversation.open("c", store=store)
    locked = sqlite3.connect(path, isolation_level=None)
    locked.execute("BEGIN IMMEDIATE")
    ways: dict[str, Callable[[], Any]] = {
        "run": lambda: heard(store=store).run("2", conversation="c"),
        "append": lambda: conversation.append([Message.user("2")]),
    }
    task = asyncio.ensure_future(ways[way]())
    for _ in range(20):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.sleep(0)
    locked.execute("ROLLBACK")
    locked.close()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await other.head("c")).lease is None
    assert (await heard(store=other).run("3", conversation="c")).stop_reason == "answer"
    await store.close()
    await other.close()


async def test_a_result_may_be_written_to(store: Noting) -> None:
    """What a caller does to the messages of a result changes no later run of the conversation."""
    sent: list[list[str]] = []

    class Wire:
        status = 200
        headers: Mapping[str, str] = {"content-type": "application/json"}

        async def send(self, request: HttpRequest) -> Wire:
            sent.append([each["content"] for each in json.loads(request.body)["messages"]])
            return self

        async def read(self) -> bytes:
            said = {"role": "assistant", "content": "fine"}
            return json.dumps({"choices": [{"message": said, "finish_reason": "stop"}]}).encode()

        async def pieces(self) -> AsyncIterator[bytes]:
            yield await self.read()

        async def close(self) -> None:
            """There is no connection."""

    model = OpenAI("m", api_key="k", transport=Wire())
    agent = Agent("a", model, store=store)
    result = await agent.run("Seven.", conversation="c")
    result.messages.append(Message.user("Give this a title."))
    await model.complete(ModelRequest(messages=Thread(result.messages)))
    await model.complete(ModelRequest(messages=result.messages))  # pyright: ignore[reportArgumentType] it is one
    await agent.run("What is 2+2?", conversation="c")
    assert sent[-1] == ["Seven.", "fine", "What is 2+2?"]


async def test_an_end_that_took_long_is_an_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The result says what the journal says, also when a locked file was waited for too long."""
    monkeypatch.setattr(settle, "SETTLE_SECONDS", 0.01)
    store = SQLiteStore(tmp_path / "chat.db")
    model = Hanging()
    run = Agent("a", model, store=store).start("1", conversation="c")
    await model.asked.wait()
    locked = sqlite3.connect(tmp_path / "chat.db", isolation_level=None)
    locked.execute("BEGIN IMMEDIATE")
    stopping = asyncio.ensure_future(run.cancel("enough"))
    await asyncio.wait([stopping], timeout=0.1)
    locked.execute("ROLLBACK")
    locked.close()
    stopped = await stopping
    assert stopped is not None
    assert (stopped.stop_reason, stopped.reason) == ("cancelled", "enough")
    assert (await store.head("c")).status == "stopped"
    await store.close()


async def test_what_wraps_a_store_in_memory_may_wait() -> None:
    """A copied mark does not make it one that never waits."""
    store = MemoryStore()
    plain = store.append

    @wraps(plain)
    async def slowly(*args: Any, **options: Any) -> int:
        await asyncio.sleep(0)
        return await plain(*args, **options)

    store.append = slowly
    assert not never_waits(store)
    assert never_waits(MemoryStore())
    assert (await heard(store=store).run("1", conversation="c")).output == "1 messages"
