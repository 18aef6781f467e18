"""Messages that steer a run: applied where the protocol allows it, never lost."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.agent.parts import Hanging, check_answered
from treadle import (
    Agent,
    Approve,
    Conversation,
    ConversationBusy,
    ConversationFinalized,
    ConversationNotFound,
    Finish,
    Image,
    InvalidInput,
    Limits,
    MemoryStore,
    Message,
    ModelFinished,
    ModelRequest,
    Receipt,
    Run,
    RunNotFound,
    SteerApplied,
    SteerCarriedOver,
    SteerDiscarded,
    tool,
)
from treadle.agent.ledger import ATTEND_SECONDS
from treadle.agent.outside import steering
from treadle.testing import FunctionModel, ScriptedModel, calls


class Gated:
    """A model that answers with the last text it was told, when it is let to."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.go = asyncio.Event()
        self.model = FunctionModel(self._answer)

    async def _answer(self, request: ModelRequest) -> str:
        self.asked.set()
        await self.go.wait()
        return f"heard {request.messages[-1].text}"

    async def start(self, agent: Agent[Any, Any], **options: Any) -> Run[Any]:
        """Start a run and wait until its model is asked."""
        self.asked.clear()
        self.go.clear()
        run = agent.replace(model=self.model).start("hello", **options)
        await self.asked.wait()
        return run


@pytest.fixture
def gated() -> Gated:
    return Gated()


AGENT = Agent("a")


def texts(messages: Any) -> list[str]:
    return [message.text for message in messages]


@pytest.mark.parametrize("store", [None, MemoryStore()])
async def test_another_turn_with_what_came_in(store: MemoryStore | None, gated: Gated) -> None:
    """S60, W61: by default the run answers again; in order, and the receipts say so."""
    run = await gated.start(AGENT, store=store)
    first, second = await run.steer("one"), await run.steer("two", "and a half")
    assert [first.status, second.status] == ["queued", "queued"]
    gated.go.set()
    events = [event async for event in run]
    result = await run

    assert result.output == "heard twoand a half"
    assert texts(result.messages)[:4] == ["hello", "heard hello", "one", "twoand a half"]
    assert (result.turns, result.stop_reason) == (2, "answer")
    assert [first.status, second.status] == ["applied", "applied"]
    assert [e.text for e in events if isinstance(e, SteerApplied)] == ["one", "twoand a half"]
    assert [e.final for e in events if isinstance(e, ModelFinished)] == [False, True]
    with pytest.raises(ConversationFinalized):
        await run.steer("late")


@pytest.mark.parametrize("store", [None, MemoryStore()])
async def test_applied_after_all_results(store: MemoryStore | None) -> None:
    """S59, BS-26: messages that came while tools ran follow all of their results, in order."""
    steered: list[Receipt] = []

    @tool
    async def work(n: int) -> str:
        """Work."""
        if n == 1:
            steered.extend([await run.steer("first"), await run.steer("second")])
        return str(n)

    batch = calls(("1", "work", {"n": 1}), ("2", "work", {"n": 2}))
    model = ScriptedModel([batch, "done"])
    run = Agent("a", model, tools=[work], store=store).start("go")
    result = await run

    history = list(model.requests[1].messages)
    assert [m.role for m in history] == ["user", "assistant", "tool", "user", "user"]
    assert texts(history[3:]) == ["first", "second"]
    check_answered(history)
    assert [r.status for r in steered] == ["applied", "applied"]
    assert result.output == "done"


@pytest.mark.parametrize("store", [None, MemoryStore()])
async def test_carried_over_and_discarded(store: MemoryStore | None, gated: Gated) -> None:
    """S60, B70: as the run was told; only "discard" ever drops, and the receipts say so."""
    for policy, status, kind in (
        ("carry_over", "carried_over", SteerCarriedOver),
        ("discard", "discarded", SteerDiscarded),
    ):
        run = await gated.start(AGENT, store=store, on_steer=policy, conversation=policy)
        receipt = await run.steer("late")
        gated.go.set()
        events = [event async for event in run]
        assert (await run).output == "heard hello"
        assert receipt.status == status
        assert [e.text for e in events if isinstance(e, kind)] == ["late"]
    if store is not None:
        gated.go.set()
        agent = AGENT.replace(model=gated.model, store=store)
        after = [await agent.run("next", conversation=p) for p in ("carry_over", "discard")]
        assert texts(after[0].messages)[2:] == ["late", "next", "heard next"]
        assert texts(after[1].messages)[2:] == ["next", "heard next"]


async def test_turns_that_are_used_up(gated: Gated) -> None:
    """J8: the answer stands, and the message waits for the next run."""
    store = MemoryStore()
    agent = AGENT.replace(store=store, limits=Limits(max_turns=1))
    run = await gated.start(agent, conversation="c")
    receipt = await run.steer("late")
    gated.go.set()
    assert (await run).turns == 1
    assert receipt.status == "carried_over"


async def test_steered_from_elsewhere(gated: Gated) -> None:
    """B246: by the conversation's ID; the receipt there looks when it is asked."""
    store = MemoryStore()
    run = await gated.start(AGENT, store=store, conversation="c")
    conversation = await Conversation.open("c", store=store)
    receipt = await conversation.steer("from elsewhere")
    assert (await conversation.refresh()).pending == 1
    gated.go.set()
    result = await run

    assert result.output == "heard from elsewhere"
    assert (receipt.status, await receipt.refresh()) == ("queued", "applied")
    assert (await conversation.refresh()).pending == 0
    with pytest.raises(ConversationFinalized, match="start another"):
        await conversation.steer("late")


async def test_steered_as_the_answer_is_written() -> None:
    """J8, S50: the write that came first wins; nothing of either is lost."""

    class Racing(MemoryStore):
        async def append(self, *args: Any, **options: Any) -> int:
            if any(type(e).__name__ == "RunEnded" for e in args[2]) and not raced:
                raced.append(True)
                head = await self.head("c")
                await super().append("c", head.revision, [steering(["just in time"])])
            return await super().append(*args, **options)

        append.never_waits = append  # pyright: ignore[reportFunctionMemberAccess]

    raced: list[bool] = []
    store = Racing()
    model = FunctionModel(lambda request: f"heard {request.messages[-1].text}")
    result = await Agent("a", model, store=store).run("hello", conversation="c")
    assert result.output == "heard just in time"
    assert texts(result.messages) == ["hello", "heard hello", "just in time", result.output]
    raced.clear()
    result = await Agent("a", model, store=store).run("x", conversation="c", on_steer="carry_over")
    assert result.output == "heard x"
    conversation = await Conversation.open("c", store=store)
    assert set((await conversation.view()).mail.receipts.values()) == {"applied", "carried_over"}


async def test_before_during_and_after_runs_that_do_not_answer(gated: Gated) -> None:
    """S61, B251: a conversation that is new, paused, failed or cancelled takes messages in."""
    store = MemoryStore()
    await store.create("c")
    conversation = await Conversation.open("c", store=store)
    await conversation.steer("before")
    hanging = Hanging()
    run = Agent("a", hanging, store=store).start("hello", conversation="c")
    await hanging.asked.wait()
    while_it_runs = await run.steer("during")
    await run.cancel("enough")
    afterwards = await run.steer("after")
    assert (while_it_runs.status, afterwards.status) == ("queued", "queued")
    gated.go.set()
    result = await Agent("a", gated.model, store=store).run("again", conversation="c")

    assert texts(result.messages) == ["before", "hello", "during", "after", "again", "heard again"]
    assert await afterwards.refresh() == "applied"


async def test_a_finishing_tool_takes_another_turn() -> None:
    """J8: whatever way the run was about to answer."""

    @tool
    async def stop() -> Finish:
        """Stop."""
        await run.steer("wait")
        return Finish("finished")

    model = ScriptedModel([calls(("1", "stop", {})), "as you wish"])
    run = Agent("a", model, tools=[stop], store=MemoryStore()).start("go")
    assert (await run).output == "as you wish"


async def test_media_and_nothing() -> None:
    """A picture steers too; nothing does not."""
    gated = Gated()
    run = await gated.start(AGENT)
    for nothing in ((), ("",)):
        with pytest.raises(InvalidInput, match="nothing to say"):
            await run.steer(*nothing)
    await run.steer(Image.from_url("https://example.test/cat.png"))
    gated.go.set()
    result = await run
    assert result.messages[2].has_media
    with pytest.raises(ConversationNotFound):
        await Conversation.open("nobody", store=MemoryStore())


async def test_steered_before_its_first_step() -> None:
    """A run that was just started takes it in."""
    model = FunctionModel(lambda request: request.messages[-1].text)
    run = Agent("a", model, store=MemoryStore()).start("hello")
    await run.steer("at once")
    assert (await run).output == "at once"


async def test_a_resumed_run_before_its_first_step() -> None:
    """Its handle finds the conversation: for the receipt, and for a decision."""

    @tool(approval=True)
    async def pay() -> str:
        """Pay."""
        return "paid"

    model = ScriptedModel([calls(("p", "pay", {})), "done"])
    agent = Agent("a", model, tools=[pay], store=MemoryStore())
    paused = await agent.run("hello")
    run = agent.resume(paused.run_id)
    receipt = await run.steer("at once")
    assert await receipt.refresh() == "queued"
    assert (await run).stop_reason == "paused"
    run = agent.resume(paused.run_id)
    await run.decide({"p": Approve()})
    assert (await run).output == "done"
    assert await receipt.refresh() == "applied"
    nobody = agent.resume("nobody")
    with pytest.raises(RunNotFound):
        await nobody.decide({"p": Approve()})


async def test_a_run_is_stopped_from_elsewhere() -> None:
    """B30: in the middle of a long call, through the store alone; the reason is told."""
    store, hanging = MemoryStore(), Hanging()
    run = Agent("a", hanging, store=store).start("hello", conversation="c")
    await hanging.asked.wait()
    await asyncio.sleep(ATTEND_SECONDS * 1.2)
    conversation = await Conversation.open("c", store=store)
    await conversation.cancel("closing time")
    async with asyncio.timeout(5):
        result = await run
    assert (result.stop_reason, result.reason) == ("cancelled", "closing time")
    assert hanging.stopped.is_set()
    await conversation.cancel("again")  # nobody is there: nothing happens
    assert (await conversation.refresh()).status == "stopped"


async def test_a_second_run_of_one_conversation(gated: Gated) -> None:
    """S11, B25, BS-41: refused, waited for, or interrupting, as asked."""
    store = MemoryStore()
    agent = AGENT.replace(store=store)
    first = await gated.start(agent, conversation="c")
    with pytest.raises(ConversationBusy, match=first.id):
        await agent.replace(model=gated.model).run("x", conversation="c")
    waiting = agent.replace(model=gated.model).start("second", conversation="c", if_busy="wait")
    await asyncio.sleep(0.01)
    assert not waiting.done
    gated.go.set()
    assert texts((await waiting).messages) == ["hello", "heard hello", "second", "heard second"]

    first = await gated.start(agent, conversation="d")
    await asyncio.sleep(ATTEND_SECONDS * 1.2)
    taking = FunctionModel(lambda request: "mine")
    result = await agent.replace(model=taking).run("x", conversation="d", if_busy="interrupt")
    assert (result.output, (await first).stop_reason) == ("mine", "cancelled")
    assert "takes over" in (await first).reason


async def test_appended_and_reset_without_a_run(gated: Gated) -> None:
    """B227, B232, W10: the view changes, the journal keeps what was; never while a run works."""
    store = MemoryStore()
    conversation = await Conversation.create("c", store=store, history=[Message.user("old")])
    await conversation.append([Message.assistant("yes")])
    await conversation.steer("waits")
    await conversation.reset([Message.user("new")])
    assert texts(await conversation.messages()) == ["new"]
    assert texts(await conversation.messages(revision=2)) == ["old", "yes"]
    assert conversation.head.pending == 1
    run = await gated.start(AGENT, store=store, conversation="c")
    for refused in (conversation.append([Message.user("x")]), conversation.reset()):
        with pytest.raises(ConversationBusy):
            await refused
    with pytest.raises(ConversationBusy):
        await conversation.delete()
    gated.go.set()
    assert texts((await run).messages) == ["new", "waits", "hello", "heard hello"]
    await conversation.delete()
    with pytest.raises(ConversationNotFound):
        await conversation.messages()
