"""Conversations on every store: continued, written to from several sides, read back, forked.

| Behaviour | Here, or how it is settled |
| --- | --- |
| B226, B227 | `test_written_from_several_sides`, `test_appended_and_reset`; unknown is an error |
| B228, B229 | one write each: `test_what_waits_is_not_seen`, tests/agent/test_conversation.py |
| B230, B231, B246-B253 | test_kept_steering.py; "finalised" is how the last run ended (W17) |
| B232 | `test_appended_and_reset`; it raises while a run works |
| B233 | `test_deleted` |
| B234 | values are immutable, lists are copies: `test_appended_and_reset` |
| B235 | never so: every method of a store raises (W8), tests/stores |
| B236-B238 | other files, tables and drivers: tests/stores; IDs in test_kept_ids.py |
| B239 | one journal of entries, no split: DESIGN section 4 |
| B240 | the contract in treadle.testing.store_contract |
| B241 | `test_written_from_several_sides` |
| B242, S52 | no snapshots, history of any revision: `test_every_revision_is_readable` |
| B243, S53 | an end is an entry of its run: `test_resumed_twice_and_too_late`, test_kept_runs.py |
| B244 | `test_forked` |
| B245 | no older format exists yet; test_kept_formats.py |
| B112 | `test_how_runs_end` in test_kept_runs.py, and `test_forked` |
"""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from tests.agent.parts import check_answered
from tests.scenarios.stores import Kept
from treadle import (
    Agent,
    Conversation,
    ConversationBusy,
    ConversationNotFound,
    Image,
    InvalidInput,
    Message,
    ModelReply,
    ModelRequest,
    RevisionConflict,
    RunContext,
    RunNotFound,
    tool,
)
from treadle.messages import Text, ToolCall, ToolResult
from treadle.testing import FunctionModel, ScriptedModel, calls
from treadle.testing.store_handles import queued

PICTURE = Image.from_bytes(b"\x89PNG\r\n\x1a\n" + b"x" * 5000, "image/png")


def texts(messages: Any) -> list[str]:
    """The text of each message."""
    return [message.text for message in messages]


async def test_created_by_name_and_continued(kept: Kept) -> None:
    """S10, S11: a second run goes on under an ID of its own; one beside another is refused."""
    entered, release = asyncio.Event(), asyncio.Event()

    async def answer(request: ModelRequest) -> str:
        if len(request.messages) == 3:
            entered.set()
            await release.wait()
        return f"heard {request.messages[-1].text}"

    model = FunctionModel(answer)
    agent = Agent("a", model)
    first = await agent.run("one", conversation=kept.id(), store=kept.open())
    second = agent.start("two", conversation=kept.id(), store=await kept.reopen())
    await entered.wait()
    with pytest.raises(ConversationBusy, match=second.id):
        await agent.run("three", conversation=kept.id(), store=kept.open())
    asked = len(model.requests)
    release.set()
    await second

    assert asked == 2
    assert first.run_id != second.id
    assert texts(await kept.messages()) == ["one", "heard one", "two", "heard two"]


async def test_what_waits_is_not_seen(kept: Kept) -> None:
    """S49: until a turn takes it in, in order, once; resets keep it, odd things are refused."""
    conversation = await Conversation.create(
        kept.id(), store=kept.open(), history=[Message.user("old"), Message.assistant("yes")]
    )
    await conversation.steer("first")
    await (await kept.conversation()).steer("second", PICTURE)
    before = texts(await kept.messages())
    await (await kept.conversation()).reset([Message.user("new")])
    after = texts(await kept.messages())
    conversation = await kept.conversation()
    for odd in (Message.user("x"), ToolCall("1", "x"), ToolResult("1", "x"), 3):
        wrong: Any = odd
        with pytest.raises(InvalidInput):
            await conversation.steer(wrong)
    with pytest.raises(ConversationNotFound):
        await Conversation.open(kept.id("nobody"), store=kept.open())
    assert conversation.head.pending == 2

    agent = Agent("a", FunctionModel(lambda request: "ok"))
    for _ in range(2):
        await agent.run("go", conversation=kept.id(), store=await kept.reopen())

    assert (before, after) == (["old", "yes"], ["new"])
    messages = await kept.messages()
    assert texts(messages) == ["new", "first", "second", "go", "ok", "go", "ok"]
    assert messages[2].parts == (Text("second"), PICTURE)
    assert (await kept.conversation()).head.pending == 0


async def test_written_from_several_sides(kept: Kept) -> None:
    """S51, B227, B241: eight that append and eight that steer, all at once: nothing is lost."""
    store = kept.open()
    await Conversation.create(kept.id(), store=store)
    other = kept.open()

    async def append(number: int) -> None:
        conversation = await Conversation.open(kept.id(), store=(store, other)[number % 2])
        await conversation.append([Message.user(f"a{number}"), Message.assistant("yes")])

    async def steer(number: int) -> None:
        conversation = await Conversation.open(kept.id(), store=(store, other)[number % 2])
        await conversation.steer(f"s{number}")

    async with asyncio.TaskGroup() as group:
        for number in range(8):
            group.create_task(append(number))
            group.create_task(steer(number))

    messages = await kept.messages()
    assert sorted(texts(messages[::2])) == [f"a{n}" for n in range(8)]
    assert set(texts(messages[1::2])) == {"yes"}
    view = await (await kept.conversation()).view()
    assert sorted(texts(view.mail.inbox.values())) == [f"s{n}" for n in range(8)]
    assert view.revision == 16


async def test_a_stale_revision_changes_nothing(kept: Kept) -> None:
    """S51: the append says so, and what is there is as it was."""
    store = kept.open()
    await Agent("a", ScriptedModel(["ok"])).run("x", conversation=kept.id(), store=store)
    before = [(b.revision, b.entries) for b in await store.read(kept.id())]
    for stale in (0, 1, 99):
        with pytest.raises(RevisionConflict):
            await store.append(kept.id(), stale, [queued("late")])

    fresh = await kept.reopen()
    assert [(b.revision, b.entries) for b in await fresh.read(kept.id())] == before


async def test_every_revision_is_readable(kept: Kept) -> None:
    """S52, B242, J3: more than 64 of them, exactly as they were, each a valid history."""

    @tool
    async def count(ctx: RunContext, n: int) -> str:
        """Count."""
        ctx.state.set("n", n)
        return str(n)

    def answer(request: ModelRequest) -> str | ModelReply:
        n = len(request.messages) // 2
        return calls((f"c{n}", "count", {"n": n})) if n < 35 else "end"

    agent = Agent("a", FunctionModel(answer), tools=[count])
    limits = agent.limits.__class__(max_turns=50)
    await agent.run("go", conversation=kept.id(), store=kept.open(), limits=limits)
    store = await kept.reopen()
    batches = await store.read(kept.id())
    conversation = await kept.conversation()
    last = conversation.head.revision
    whole = await conversation.messages()

    assert last == len(batches) == 72
    sizes = [len(str(batch.entries)) for batch in batches[10:60:2]]
    assert max(sizes) - min(sizes) < 20, "each holds what is new"
    for revision in (0, 1, 2, 3, 35, 63, 64, 65, 71, 72):
        messages = await conversation.messages(revision)
        check_answered(messages)
        assert len(messages) == [0, 1, 3, 3, *range(4, 99)][revision] or revision > 3
        done = messages if revision == last or revision % 2 else messages[:-1]
        assert done == whole[: len(done)]
        state = await conversation.state(revision)
        assert state.get("agent::a::n", -1) == max(-1, min((revision - 3) // 2, 34))
    with pytest.raises(InvalidInput, match="revisions 0 to 72, not 73"):
        await conversation.messages(73)


async def test_appended_and_reset(kept: Kept) -> None:
    """B227, B232, B234, W10: calls with their results too; what is handed out is one's own."""
    history = [
        Message.user("go", PICTURE),
        Message("assistant", (ToolCall("1", "look"), ToolCall("2", "look"))),
        Message("tool", (ToolResult("1", "look", (Text("seen"),)), ToolResult("2", "look"))),
        Message("assistant", (ToolCall("3", "look"),)),
    ]
    conversation = await Conversation.create(kept.id(), store=kept.open(), history=history)
    await conversation.append([])
    for wrong in ([history[2]], [Message.system("x"), Message.system("y")]):
        with pytest.raises(InvalidInput):
            await conversation.append(wrong)
    messages = await kept.messages()
    check_answered(messages)
    assert messages[:3] == history[:3]
    assert [r.synthetic for r in messages[4].tool_results] == [True]
    messages.clear()
    history.clear()
    assert len(await (await kept.conversation()).messages()) == 5

    conversation = await kept.conversation()
    await conversation.reset([Message.user("new")])
    await conversation.reset()
    await conversation.append([Message.user("newer")])
    assert texts(await kept.messages()) == ["newer"]
    assert len(await (await kept.conversation()).messages(1)) == 5


async def test_a_reset_ends_what_waits(kept: Kept) -> None:
    """Its head says so on every store, whichever way the store moves it, and after a reopening."""

    @tool(approval=True)
    async def pay() -> str:
        """Pay."""
        return "paid"

    agent = Agent("a", ScriptedModel([calls(("1", "pay", {})), "ok"]), tools=[pay])
    first = await agent.run("q", conversation=kept.id(), store=kept.open())
    assert (first.stop_reason, (await kept.conversation()).head.status) == ("paused", "paused")
    await (await kept.conversation()).reset()
    await kept.reopen()
    conversation = await kept.conversation()
    assert (conversation.head.status, await conversation.pending()) == ("stopped", [])
    again = await agent.run("q", conversation=kept.id(), store=kept.handles[-1])
    await (await kept.conversation()).reset()
    assert (again.output, (await kept.conversation()).head.status) == ("ok", "answered")


async def test_forked(kept: Kept) -> None:
    """S54, B244, B112, J9: through a run, without what waits, and its parent may change or go."""
    store = kept.open()
    agent = Agent("a", FunctionModel(lambda request: f"heard {request.messages[-1].text}"))
    first = await agent.run(["one", PICTURE], conversation=kept.id(), store=store)
    conversation = await Conversation.open(kept.id(), store=store)
    await conversation.append([Message.user("between")])
    second = await agent.run("two", conversation=kept.id(), store=store)
    await conversation.reset([Message.user("summary")])
    branch = await conversation.fork(first.run_id, new_id=kept.id("b"))
    deeper = await branch.fork(first.run_id, new_id=kept.id("d"))
    for wrong in ("nobody", second.run_id):
        with pytest.raises(RunNotFound):
            await branch.fork(wrong)
    with pytest.raises(InvalidInput, match="revisions 0 to"):
        await conversation.fork(revision=99)
    await conversation.delete()
    store = await kept.reopen()
    await agent.run("on", conversation=kept.id("d"), store=store)
    await agent.run("else", conversation=kept.id("b"), store=store)

    assert await kept.messages("d") == [
        *first.messages,
        Message.user("on"),
        Message.assistant("heard on"),
    ]
    assert texts(await kept.messages("b"))[2:] == ["else", "heard else"]
    assert (await kept.conversation("b")).head.pending == 0
    runs = await (await kept.conversation("d")).runs()
    assert runs[0].run_id == first.run_id
    assert [(record.place, record.status) for record in runs] == [(0, "answered"), (2, "answered")]
    view = await (await kept.conversation("d")).view()
    assert view.forked is not None
    assert view.forked.parent == branch.id
    with pytest.raises(ConversationNotFound):
        await Conversation.open(kept.id(), store=store)
    assert deeper.id == kept.id("d")


async def test_forked_while_messages_wait(kept: Kept) -> None:
    """S54: they stay with the original, whose runs are found there."""
    store = kept.open()
    conversation = await Conversation.create(
        kept.id(), store=store, history=[Message.user("a"), Message.assistant("b")]
    )
    await conversation.steer("later")
    branch = await conversation.fork(new_id=kept.id("b"))
    agent = Agent("a", ScriptedModel(["c", "d"]))
    await agent.run("x", conversation=branch.id, store=await kept.reopen())
    await agent.run("y", conversation=kept.id(), store=kept.open())

    assert texts(await kept.messages("b")) == ["a", "b", "x", "c"]
    assert texts(await kept.messages()) == ["a", "b", "later", "y", "d"]


async def test_deleted(kept: Kept) -> None:
    """B233: all of it goes, twice is no error, and the name begins anew."""
    agent = Agent("a", FunctionModel(lambda request: "ok"))
    first = await agent.run(["x", PICTURE], conversation=kept.id(), store=kept.open())
    conversation = await kept.conversation()
    await conversation.delete()
    store = await kept.reopen()
    await store.delete(kept.id())
    with pytest.raises(RunNotFound):
        await agent.resume(first.run_id, store=store)
    with pytest.raises(ConversationNotFound):
        await store.head(kept.id())
    result = await agent.run("y", conversation=kept.id(), store=store, run_id=first.run_id)

    assert texts(result.messages) == ["y", "ok"]
    if kept.folder.joinpath("kept").exists():
        assert not any(b"x" * 5000 in p.read_bytes() for p in kept.folder.rglob("*") if p.is_file())


async def test_nobody_waits_any_more(kept: Kept, caplog: pytest.LogCaptureFixture) -> None:
    """BS-67: a look that was given up on fails in silence, and the next one works."""
    store = kept.open()
    await store.create(kept.id())
    for _ in range(10):
        looking = asyncio.ensure_future(store.head(kept.id("nobody")))
        await asyncio.sleep(0)
        looking.cancel()
        with pytest.raises((asyncio.CancelledError, ConversationNotFound)):
            await looking
    assert (await store.head(kept.id())).revision == 0
    await store.close()
    gc.collect()
    await asyncio.sleep(0)
    assert caplog.messages == []
