"""Where two things meet: resuming and answering, steering and cancelling, chains and approval."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.agent.dying import Dying, die_after
from tests.agent.parts import check_answered
from treadle import (
    Agent,
    Approve,
    Conversation,
    ConversationBusy,
    ConversationFinalized,
    Deny,
    Finish,
    InvalidInput,
    MemoryStore,
    Middleware,
    Next,
    Overloaded,
    Retry,
    RunContext,
    RunFailed,
    RunSuperseded,
    SQLiteStore,
    tool,
)
from treadle.ports.store import Batch
from treadle.testing import FunctionModel, ScriptedModel, calls, raises


class SlowReads(SQLiteStore):
    """A store in a file whose reads take a while, when they are told to."""

    slow = 0.0

    async def read(self, conversation_id: str, from_revision: int = 0) -> Sequence[Batch]:
        """Read slowly."""
        if self.slow:
            await asyncio.sleep(self.slow)
        return await super().read(conversation_id, from_revision)


CALLS: dict[bool, tuple[str, str, dict[str, Any]]] = {
    True: ("1", "final_result", {"result": 1}),
    False: ("1", "stop", {}),
}


@tool
async def stop() -> Finish:
    """Stop."""
    return Finish("finished")


@pytest.mark.parametrize("typed", [True, False])
async def test_an_answer_by_a_call_gives_a_valid_history_again(typed: bool) -> None:
    """J3: the result of the call is part of it, also when the run is resumed after its end."""
    store = MemoryStore()
    call = CALLS[typed]
    model = ScriptedModel([calls(call), "more"])
    agent = Agent("a", model, tools=[stop], store=store, output_type=int if typed else str)
    first = await agent.run("q", conversation="c", run_id="r")
    again = await agent.resume("r")

    assert again.output == first.output
    assert list(again.messages) == list(first.messages)
    check_answered(list(again.messages))
    with pytest.raises(InvalidInput, match="does not wait"):
        await agent.resume("r", decisions={"1": Approve()})


@pytest.mark.parametrize("typed", [True, False])
async def test_an_accepted_answer_outlives_a_crash(typed: bool) -> None:
    """J4: the process died after the output was accepted and before the run had ended."""
    call = CALLS[typed]
    store, model = Dying(), ScriptedModel([calls(call), "another"])
    agent = Agent("a", model, tools=[stop], output_type=int if typed else str)
    await die_after(3, agent, store, conversation="c")
    result = await agent.resume("r", store=store)
    assert result.output == (1 if typed else "finished")
    assert len(model.requests) == 1


async def test_a_cancel_while_the_answer_meets_a_message(tmp_path: Path) -> None:
    """J8: a resumed run says that it has answered only when the journal says so."""
    store = SlowReads(tmp_path / "chat.db")
    tries: list[int] = []
    conversation = await Conversation.create("c", store=store)

    async def answer(request: Any) -> str:
        tries.append(1)
        if len(tries) == 1:
            raise Overloaded("down")
        await conversation.steer("psst")
        store.slow = 0.1
        return "the answer"

    agent = Agent("a", FunctionModel(answer), store=store, retry=Retry(attempts=1))
    with pytest.raises(Overloaded):
        await agent.run("q", conversation="c", run_id="r")
    run = agent.resume("r", on_steer="carry_over")
    while not store.slow:  # noqa: ASYNC110 until the model has answered
        await asyncio.sleep(0.002)
    await asyncio.sleep(0.03)
    result = await run.cancel("enough")
    store.slow = 0
    (record,) = await conversation.runs()

    assert result is not None
    assert (result.stop_reason, record.stop_reason) == ("cancelled", "cancelled")
    assert record.error is None
    await store.close()


async def test_a_cancel_while_an_outcome_meets_a_message(tmp_path: Path) -> None:
    """J4: what the result tells of a call, the journal tells, too, and it never runs again."""
    store, paid = SlowReads(tmp_path / "chat.db"), list[int]()

    @tool(idempotent=True)
    async def pay(n: int) -> str:
        """Pay."""
        paid.append(n)
        conversation = await Conversation.open("c", store=store)
        await conversation.steer("psst")
        store.slow = 0.1
        return "paid"

    model = ScriptedModel([calls(("1", "pay", {"n": 5})), "ok"])
    agent = Agent("a", model, tools=[pay], store=store)
    run = agent.start("q", conversation="c", run_id="r")
    while not store.slow:  # noqa: ASYNC110 until the tool has paid
        await asyncio.sleep(0.002)
    await asyncio.sleep(0.03)
    result = await run.cancel("enough")
    store.slow = 0
    conversation = await Conversation.open("c", store=store)

    assert result is not None
    assert [found.text for found in result.tool_results] == ["paid"]
    assert list(await conversation.messages()) == list(result.messages)
    assert ((await agent.resume("r")).output, paid) == ("ok", [5])
    await store.close()


async def test_a_chain_does_not_run_what_needs_approval() -> None:
    """Nobody has seen the call, so nobody can have approved it."""
    ran: list[str] = []

    @tool
    async def check(path: str) -> Next:
        """Check."""
        return Next("delete", {"path": path})

    @tool(approval=lambda ctx, args: args["path"] != "tmp")
    async def delete(path: str) -> str:
        """Delete."""
        ran.append(path)
        return "gone"

    model = ScriptedModel(
        [calls(("1", "check", {"path": "home"}), ("2", "check", {"path": "tmp"})), "ok"]
    )
    result = await Agent("a", model, tools=[check, delete], store=MemoryStore()).run("q")
    assert ran == ["tmp"]
    assert "approval" in result.messages[2].tool_results[0].text


async def test_a_denied_repetition_does_not_say_that_nothing_ran() -> None:
    """The call was under way when its process died: only somebody who knows may say more."""

    @tool(on_unknown="ask")
    async def pay() -> str:
        """Pay."""
        return "paid"

    store = Dying()
    agent = Agent("a", ScriptedModel([calls(("1", "pay", {})), "ok"]), tools=[pay])
    await die_after(2, agent, store, conversation="c")
    await agent.resume("r", store=store)
    result = await agent.resume("r", store=store, decisions={"1": Deny("it was paid")})
    told = result.messages[2].tool_results[0].text
    assert "it was paid" in told
    assert "Not run" not in told


async def test_a_late_decision_is_not_swallowed() -> None:
    """Whoever denies what has run is told; to repeat what happened is no error."""

    @tool(approval=True)
    async def pay() -> str:
        """Pay."""
        return "paid"

    agent = Agent(
        "a", ScriptedModel([calls(("1", "pay", {})), "ok"]), tools=[pay], store=MemoryStore()
    )
    first = await agent.run("q", run_id="r")
    assert first.stop_reason == "paused"
    for _ in range(2):
        assert (await agent.resume("r", decisions={"1": Approve()})).output == "ok"
    for decisions, text in (({"1": Deny()}, "before: approve"), ({"2": Deny()}, "does not wait")):
        with pytest.raises(InvalidInput, match=text):
            await agent.resume("r", decisions=decisions)


async def test_a_reset_ends_what_was_under_way() -> None:
    """There is nothing left that the paused run could go on with."""

    @tool(approval=True)
    async def pay() -> str:
        """Pay."""
        return "paid"

    store = MemoryStore()
    agent = Agent("a", ScriptedModel([calls(("1", "pay", {})), "ok"]), tools=[pay], store=store)
    first = await agent.run("q", conversation="c")
    conversation = await Conversation.open("c", store=store)
    await conversation.reset()
    assert (conversation.head.status, await conversation.pending()) == ("stopped", [])
    with pytest.raises(RunSuperseded, match="reset"):
        await agent.resume(first.run_id)


async def test_a_resumed_run_has_left_its_failure_behind() -> None:
    """Its record tells how things are, and it has not ended."""
    store = MemoryStore()

    @tool(approval=True)
    async def pay() -> str:
        """Pay."""
        return "paid"

    model = ScriptedModel([raises(Overloaded("down")), calls(("1", "pay", {}))])
    agent = Agent("a", model, tools=[pay], store=store, retry=Retry(attempts=1))
    with pytest.raises(Overloaded):
        await agent.run("q", conversation="c", run_id="r")
    await agent.resume("r")
    conversation = await Conversation.open("c", store=store)
    (record,) = await conversation.runs()
    assert (record.status, record.stop_reason, record.error) == ("paused", None, None)
    with pytest.raises(InvalidInput, match="has not ended"):
        await conversation.fork("r")


async def test_an_older_answer_comes_with_its_own_past() -> None:
    """Not with the results, messages and state of the runs after it; links of chains included."""

    @tool
    async def first(ctx: RunContext, n: int) -> Next:
        """First."""
        ctx.state.set("n", n)
        return Next("second", {"n": n}, output=f"link {n}")

    @tool
    async def second(n: int) -> str:
        """Second."""
        return f"result {n}"

    script = [calls(("1", "first", {"n": 1})), "one", calls(("2", "first", {"n": 2})), "two"]
    agent = Agent("a", ScriptedModel(script), tools=[first, second], store=MemoryStore())
    before = await agent.run("q", conversation="c")
    await agent.run("q", conversation="c")
    again = await agent.resume(before.run_id)
    assert list(again.messages) == list(before.messages)
    assert [r.text for r in again.tool_results] == ["link 1", "result 1"]
    assert again.state.packed() == before.state.packed()


async def test_receipts_follow_their_messages() -> None:
    """Also to the next run; and a run that never began takes none, least of all for another."""
    store = MemoryStore()
    asked, go = asyncio.Event(), asyncio.Event()

    async def answer(request: Any) -> str:
        asked.set()
        await go.wait()
        return "ok"

    agent = Agent("a", FunctionModel(answer), store=store)
    run = agent.start("one", conversation="c")
    await asked.wait()
    receipt = await run.steer("two")
    refused = agent.start("for me", conversation="c")
    with pytest.raises(ConversationFinalized):
        await refused.steer("for me only")
    with pytest.raises(ConversationBusy):
        await refused
    await run.cancel("enough")
    go.set()
    result = await agent.run("three", conversation="c")
    assert [m.text for m in result.messages] == ["one", "two", "three", "ok"]
    assert await receipt.refresh() == "applied"


async def test_a_run_that_is_about_to_begin_can_be_stopped() -> None:
    """J7: by whoever wants the conversation, before the journal knows of the run."""
    opening = asyncio.Event()

    async def instructions(ctx: RunContext) -> str:
        opening.set()
        await asyncio.sleep(0.05)
        return "Be brief."

    store = MemoryStore()
    model = FunctionModel(lambda request: "ok")
    run = Agent("a", model, instructions=instructions, store=store).start("one", conversation="c")
    await opening.wait()
    result = await Agent("b", model, store=store).run("two", conversation="c", if_busy="interrupt")
    assert (result.output, (await run).stop_reason) == ("ok", "cancelled")


async def test_a_reply_that_was_seen_is_kept_when_its_check_fails() -> None:
    """What the user has read is in the history, marked, whatever middleware did after it."""

    class Broken(Middleware):
        async def before_final(self, ctx: RunContext, output: Any) -> Any:
            """Break."""
            raise ValueError("the guard is down")

    store = MemoryStore()
    agent = Agent("a", ScriptedModel(["The whole answer."]), middleware=[Broken()], store=store)
    with pytest.raises(RunFailed, match="guard") as caught:
        await agent.run("q", conversation="c")
    conversation = await Conversation.open("c", store=store)
    for messages in (caught.value.result.messages, await conversation.messages()):
        assert [(m.text, m.incomplete) for m in messages][1:] == [("The whole answer.", True)]
