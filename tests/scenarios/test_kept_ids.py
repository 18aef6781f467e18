"""IDs on every store: what cannot be one is refused before anything is touched, in one way."""

from __future__ import annotations

from typing import Any

import pytest

from tests.scenarios.stores import Kept
from treadle import (
    Agent,
    Conversation,
    ConversationNotFound,
    InvalidId,
    Message,
    RunNotFound,
)
from treadle.ports.store import Store
from treadle.testing import FunctionModel
from treadle.testing.store_journals import ODD_IDS

BAD: list[Any] = [
    "",
    " ",
    "\t",
    ".",
    "..",
    "../x",
    "a/b",
    "/etc/passwd",
    "..\\x",
    "C:\\x",
    "a\x00b",
    "a\nb",
    "\x7f",
    "\x1b[0m",
    "a\u2028b",
    "half \ud83d",
    "\U000e0fff",
    "x" * 201,
    "x" * 500,
    "\u00e4" * 101,
    b"bytes",
    7,
    ("c",),
]


def files(kept: Kept) -> dict[str, bytes]:
    """Everything that is on disk."""
    found = [path for path in kept.folder.rglob("*") if path.is_file()]
    # SQLite's index of its log holds no content, and its readers and checkpoints write in it.
    return {str(p): b"" if p.name.endswith("-shm") else p.read_bytes() for p in found}


@pytest.fixture
def agent() -> Agent[None, str]:
    return Agent("a", FunctionModel(lambda request: f"heard {request.messages[-1].text}"))


async def test_what_cannot_be_one(kept: Kept, agent: Agent[None, str]) -> None:
    """S58, W12, J10: path steps, control characters, too long, no text: `InvalidId` everywhere."""
    store = kept.open()
    conversation = await Conversation.create(kept.id(), store=store, history=[Message.user("x")])
    model = agent.model
    assert isinstance(model, FunctionModel)
    before = files(kept)

    async def refused(bad: Any) -> None:
        for ask in (
            lambda: Conversation.open(bad, store=store),
            lambda: Conversation.create(bad, store=store),
            lambda: conversation.fork(new_id=bad),
            lambda: agent.run("x", conversation=bad, store=store),
            lambda: agent.run("x", run_id=bad, store=store),
            lambda: agent.resume(bad, store=store).result(),
        ):
            with pytest.raises(InvalidId) as caught:
                await ask()
            assert len(str(caught.value)) < 400

    for bad in BAD:
        await refused(bad)
    with pytest.raises(RunNotFound, match="nobody"):
        await agent.resume("nobody", store=store)

    assert model.requests == []
    assert files(kept) == before
    assert (await (await kept.conversation()).messages()) == [Message.user("x")]


async def test_what_is_there_already(kept: Kept, agent: Agent[None, str]) -> None:
    """S58: neither a conversation nor a run begins twice, whichever way; what is there stays."""
    store = kept.open()
    run_id = kept.id("r")
    await agent.run("one", conversation=kept.id(), run_id=run_id, store=store)
    await agent.run("two", conversation=kept.id("other"), store=store)
    conversation = await kept.conversation("other")
    for ask in (
        lambda: Conversation.create(kept.id(), store=store),
        lambda: conversation.fork(new_id=kept.id()),
        lambda: conversation.fork(new_id=kept.id("other")),
        lambda: agent.run("x", conversation=kept.id("third"), run_id=run_id, store=store),
        lambda: agent.run("x", conversation=kept.id(), run_id=run_id, store=store),
    ):
        with pytest.raises(InvalidId, match="already"):
            await ask()

    for name, said in (("c", "one"), ("other", "two")):
        messages = await kept.messages(name)
        assert [m.text for m in messages] == [said, f"heard {said}"]
        assert (await kept.conversation(name)).head.owner is None
    assert (await agent.resume(run_id, store=kept.open())).output == "heard one"


async def test_odd_but_allowed(kept: Kept, agent: Agent[None, str]) -> None:
    """S58, J10: names that files and databases take for one another stay apart."""
    names = [odd if len(odd.encode()) > 150 else f"{odd}{kept.stamp}{odd}" for odd in ODD_IDS]
    names = [name for name in names if len(name.encode()) <= 200]
    store = kept.open()
    await forgotten(store, names)
    for number, name in enumerate(names):
        run_id = f"{name[:100]}{number}"
        await agent.run(f"{number}", conversation=name, run_id=run_id, store=store)
    fresh = await kept.reopen()
    for number, name in enumerate(names):
        result = await agent.run(f"again {number}", conversation=name, store=fresh)
        assert [m.text for m in result.messages][::2] == [f"{number}", f"again {number}"]
        assert await fresh.find(f"{name[:100]}{number}") == name
    found = {head.conversation_id for head in await fresh.list(limit=1000)}
    assert found >= set(names)
    await forgotten(fresh, names)


async def forgotten(store: Store, names: list[str]) -> None:
    """Delete these, which other tests on the same server may have left."""
    for name in names:
        await store.delete(name)
        with pytest.raises(ConversationNotFound):
            await store.head(name)
