"""Conversations over a store: continued, journaled, and valid whatever happened."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from typing import Any

import pytest
from msgspec import UNSET

from tests.agent.parts import Failing, Hanging, check_answered
from treadle import (
    Agent,
    AuthenticationFailed,
    ConversationBusy,
    Interrupt,
    MemoryStore,
    Message,
    Middleware,
    ModelRequest,
    NotStorable,
    RunContext,
    RunFailed,
    State,
    StoreError,
    StoreUnavailable,
    tool,
)
from treadle.errors import InvalidInput, RevisionConflict
from treadle.fold import fold
from treadle.journal import (
    CallBegan,
    CallEnded,
    ModelReplied,
    RunBegan,
    RunEnded,
    StateChanged,
)
from treadle.ports.store import Lease, Store
from treadle.testing import FunctionModel, ScriptedModel, calls, raises
from treadle.view import View


@tool
async def add(ctx: RunContext, a: int, b: int) -> int:
    """Add, and remember."""
    ctx.state.set("last", a + b)
    return a + b


async def view_of(store: Store, conversation: str) -> View:
    """The conversation as its journal tells it."""
    return fold((batch.revision, batch.entries) for batch in await store.read(conversation))


async def test_a_conversation_is_created_and_continued() -> None:
    """S10: the ID need not exist; the second run has another run ID and sees the first."""
    store, model = MemoryStore(), ScriptedModel(["one", "two"])
    agent = Agent("a", model, store=store)

    first = await agent.run("1", conversation="c1")
    second = await agent.run("2", conversation="c1")

    assert [m.text for m in model.requests[1].messages] == ["1", "one", "2"]
    assert first.run_id != second.run_id
    assert first.conversation_id == second.conversation_id == "c1"


async def test_without_a_store_a_named_conversation_lives_in_the_process() -> None:
    """Nothing is written unasked, and naming one is asking."""
    model = ScriptedModel(["one", "two"])
    agent = Agent("a", model)

    await agent.run("1", conversation="in-process")
    result = await agent.run("2", conversation="in-process")

    assert len(result.messages) == 4


async def test_the_journal_tells_the_run() -> None:
    """Calls begin in the write of their reply; the answer and the end are one write."""
    store = MemoryStore()
    model = ScriptedModel(
        [calls(("1", "add", {"a": 1, "b": 2}), ("2", "add", {"a": 3, "b": 4})), "done"]
    )

    result = await Agent("a", model, tools=[add], max_parallel_tools=1).run(
        "x", conversation="c", store=store, metadata={"who": "ann"}
    )

    batches = await store.read("c")
    assert [[type(entry) for entry in batch.entries] for batch in batches] == [
        [RunBegan],
        [ModelReplied, CallBegan],
        [CallEnded, CallBegan],
        [CallEnded],
        [ModelReplied, RunEnded],
    ]
    assert [batch.revision for batch in batches] == [1, 2, 3, 4, 5]
    ended = batches[-1].entries[-1]
    assert isinstance(ended, RunEnded)
    assert (ended.stop_reason, ended.output, ended.usage) == ("answer", UNSET, result.usage)


async def test_the_view_is_valid_at_every_revision() -> None:
    """Each call has exactly one result, in order, at whatever point the journal is cut."""
    store = MemoryStore()
    model = ScriptedModel(
        [calls(("1", "add", {"a": 1, "b": 2}), ("2", "add", {"a": 3, "b": 4})), "done"]
    )
    await Agent("a", model, tools=[add], max_parallel_tools=1).run(
        "x", conversation="c", store=store
    )
    batches = [(batch.revision, batch.entries) for batch in await store.read("c")]

    assert len(batches) == 5
    for end in range(len(batches) + 1):
        check_answered(fold(batches[:end]).messages)
    middle = fold(batches[:3]).messages[-1].tool_results
    assert [found.synthetic for found in middle] == [False, True]


async def test_state_is_journaled_and_comes_back() -> None:
    """S32: types and values are the same in the next run; private keys stay private."""

    @tool
    async def remember(ctx: RunContext) -> str:
        """Remember."""
        ctx.state.set("n", 2**70)
        ctx.state.session.set("price", Decimal("1.10"))
        ctx.state.session.set("nested", {"t": (1, 2), "l": [1, 2.5]})
        return "ok"

    @tool
    async def recall(ctx: RunContext) -> str:
        """Recall."""
        seen.extend((ctx.state.get("n"), ctx.state.get("price"), ctx.state.get("nested")))
        return "ok"

    seen: list[Any] = []
    store = MemoryStore()
    model = ScriptedModel([calls(("1", "remember", {})), "ok", calls(("1", "recall", {})), "ok"])
    agent = Agent("a", model, tools=[remember, recall], store=store)

    await agent.run("x", conversation="c", state={"session::from_caller": 1})
    result = await agent.run("y", conversation="c")

    assert seen == [2**70, Decimal("1.10"), {"t": (1, 2), "l": [1, 2.5]}]
    assert type(seen[2]["t"]) is tuple
    assert result.state.get("session::from_caller") == 1
    assert (await view_of(store, "c")).state == result.state.packed()


async def test_state_of_the_caller() -> None:
    """A State object is shared; with a conversation that has its own it is refused."""
    store, shared = MemoryStore(), State()
    model = FunctionModel(lambda request: "ok")
    agent = Agent("a", model, store=store)
    shared.set("session::k", 1)

    result = await agent.run("x", conversation="c", state=shared)
    assert result.state is shared
    with pytest.raises(InvalidInput, match="state="):
        await agent.run("x", conversation="c", state=shared)

    assert (await view_of(store, "c")).state == {"session::k": 1}


async def test_a_value_that_cannot_be_stored() -> None:
    """It is refused at the write, with the key and the type, and the model hears of it."""

    @tool
    async def bad(ctx: RunContext) -> str:
        """Store a function."""
        ctx.state.set("handle", print)
        return "never"

    model = ScriptedModel([calls(("1", "bad", {})), "ok"])
    result = await Agent("a", model, tools=[bad]).run("x")

    assert result.tool_results[0].is_error
    assert "handle" in result.tool_results[0].text
    assert "builtin_function" in result.tool_results[0].text
    assert result.state.snapshot() == {}
    with pytest.raises(NotStorable, match="metadata"):
        await Agent("a", ScriptedModel(["x"])).run(
            "x", conversation="c", store=MemoryStore(), metadata={"f": print}
        )


async def test_instructions_and_middleware_may_change_the_state() -> None:
    """What they write is journaled too."""

    def instructions(ctx: RunContext) -> str:
        ctx.state.set("rendered", True)
        return "x"

    class Counting(Middleware):
        async def before_model(self, ctx: RunContext, request: ModelRequest) -> None:
            ctx.state.set("asked", ctx.state.get("asked", 0) + 1)

        async def before_final(self, ctx: RunContext, output: Any) -> Any:
            ctx.state.session.set("final", output)
            return output

    store = MemoryStore()
    model = ScriptedModel([calls(("1", "add", {"a": 1, "b": 2})), "ok"])
    result = await Agent(
        "a", model, tools=[add], instructions=instructions, middleware=[Counting()]
    ).run("x", conversation="c", store=store)

    batches = await store.read("c")
    assert any(isinstance(entry, StateChanged) for batch in batches for entry in batch.entries)
    assert (await view_of(store, "c")).state == {
        "agent::a::rendered": True,
        "agent::a::asked": 2,
        "agent::a::last": 3,
        "session::final": "ok",
    }
    assert (await view_of(store, "c")).state == result.state.packed()


async def test_two_runs_in_one_conversation() -> None:
    """S11: the second is refused as busy before any model call; the first is not disturbed."""
    entered, release = asyncio.Event(), asyncio.Event()

    async def answer(request: object) -> str:
        entered.set()
        await release.wait()
        return "ok"

    store = MemoryStore()
    model = FunctionModel(answer)
    agent = Agent("a", model, store=store)
    first = agent.start("1", conversation="c")
    await entered.wait()
    with pytest.raises(ConversationBusy):
        await agent.run("2", conversation="c")
    release.set()

    assert (await first).output == "ok"
    assert len(model.requests) == 1
    assert (await agent.run("3", conversation="c")).output == "ok"


async def test_a_failed_and_a_cancelled_run_leave_a_usable_conversation() -> None:
    """The next run goes on from a valid history."""
    store = MemoryStore()
    model = ScriptedModel([raises(AuthenticationFailed("no")), "fine"])
    agent = Agent("a", model, store=store)
    with pytest.raises(AuthenticationFailed):
        await agent.run("1", conversation="c")

    hanging = Hanging()
    run = agent.replace(model=hanging).start("2", conversation="c")
    await hanging.asked.wait()
    await run.cancel("enough")
    result = await agent.run("3", conversation="c")

    assert [m.text for m in result.messages] == ["1", "2", "3", "fine"]
    runs = (await view_of(store, "c")).runs.values()
    assert [record.stop_reason for record in runs] == ["failed", "cancelled", "answer"]


async def test_an_interrupt_pauses_the_conversation() -> None:
    """The head says so, and the next run goes on."""

    @tool
    async def ask() -> Interrupt:
        """Ask."""
        return Interrupt("human")

    store = MemoryStore()
    agent = Agent("a", ScriptedModel([calls(("1", "ask", {})), "ok"]), tools=[ask], store=store)

    await agent.run("1", conversation="c")
    assert (await store.head("c")).status == "paused"
    result = await agent.run("yes", conversation="c")

    assert result.output == "ok"
    assert (await store.head("c")).status == "answered"


async def test_history_seeds_a_new_conversation_only() -> None:
    """With an existing one it is an error, and nothing is written."""
    store = MemoryStore()
    agent = Agent("a", FunctionModel(lambda request: "ok"), store=store)
    seed = [Message.user("before"), Message.assistant("yes")]

    result = await agent.run("1", conversation="c", history=seed)
    before = await store.head("c")
    with pytest.raises(InvalidInput, match="only seeds a new one"):
        await agent.run("2", conversation="c", history=seed)

    assert [m.text for m in result.messages] == ["before", "yes", "1", "ok"]
    assert (before.status, before.owner) == ("answered", None)
    after = await store.head("c")
    assert (after.revision, after.status, after.owner) == (before.revision, "answered", None)


@pytest.mark.parametrize("works", [0, 1, 2, 3])
async def test_a_store_that_fails_fails_the_run(works: int) -> None:
    """W3: a save that failed is never swallowed; the result so far is on the error."""
    store = Failing(works, StoreError("disk full"))
    model = ScriptedModel([calls(("1", "add", {"a": 1, "b": 2})), "done"])
    run = Agent("a", model, tools=[add]).start("x", conversation="c", store=store)

    events = [event.type async for event in run]
    with pytest.raises(StoreError, match="disk full") as caught:
        await run

    assert events[-1] == "run.finished"
    assert events.count("run.finished") == 1
    assert caught.value.result.stop_reason == "failed"
    check_answered(caught.value.result.messages)
    check_answered((await view_of(store, "c")).messages)
    assert (await store.head("c")).owner is None


@pytest.mark.parametrize("works", [1, 2, 3])
async def test_a_store_that_fails_in_words_of_its_own(works: int) -> None:
    """W3: whatever a driver raises ends the run like any other failure."""
    store = Failing(works, OSError("disk full"))
    model = ScriptedModel([calls(("1", "add", {"a": 1, "b": 2})), "done"])
    run = Agent("a", model, tools=[add]).start("x", conversation="c", store=store)
    events = aiter(run)

    with pytest.raises(RunFailed, match="disk full") as caught:
        await run

    assert caught.value.result.stop_reason == "failed"
    assert [event.type async for event in events][-1] == "run.finished"


class Unreachable(MemoryStore):
    """A store that is gone when a run lets its conversation go."""

    async def release(self, lease: Lease) -> None:
        """Fail."""
        raise StoreUnavailable("gone")


async def test_a_lease_that_cannot_be_let_go() -> None:
    """The run has answered and that is stored: the lease ends by itself."""
    agent = Agent("a", ScriptedModel(["ok"]), store=Unreachable())

    assert (await agent.run("x", conversation="c")).output == "ok"


async def test_a_stale_revision_changes_nothing() -> None:
    """S51: the append says so."""
    store = MemoryStore()
    await Agent("a", ScriptedModel(["ok"])).run("x", conversation="c", store=store)
    before = await store.read("c")

    with pytest.raises(RevisionConflict):
        await store.append("c", 0, before[0].entries, fence=1)

    assert await store.read("c") == before
