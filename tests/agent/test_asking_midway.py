"""Calls that find out while they run that somebody has to decide: they wait, and run again."""

from __future__ import annotations

import asyncio
import pickle
from pathlib import Path
from typing import Any

import pytest

from tests.agent.dying import Dying
from tests.agent.parts import check_answered, types_of
from treadle import (
    Agent,
    ApprovalRequested,
    Approve,
    AskApproval,
    Conversation,
    Deny,
    Edit,
    InvalidInput,
    MemoryStore,
    RunContext,
    RunFailed,
    SQLiteStore,
    ToolAbort,
    ToolAborted,
    Usage,
    tool,
)
from treadle.journal import ApprovalDecided
from treadle.testing import ScriptedModel, calls

NAMED = {"properties": {"name": {"type": "string"}}, "required": ["name"]}
ran: list[Any] = []


@pytest.fixture(autouse=True)
def _forget() -> None:
    ran.clear()


@tool
async def book(ctx: RunContext, trip: str) -> str:
    """Book a trip."""
    ran.append(("book", trip, ctx.answer, ctx.idempotency_key))
    if ctx.answer is None:
        raise AskApproval(f"{trip} costs 900.")
    return f"{trip} is booked"


@tool
async def sign(ctx: RunContext) -> str:
    """Sign, once with each of two names."""
    ran.append(("sign", ctx.answers))
    if len(ctx.answers) < 2:
        raise AskApproval(f"Who is number {len(ctx.answers) + 1}?", NAMED)
    return " and ".join(answer["name"] for answer in ctx.answers)


@tool
async def calc(a: int) -> int:
    """Calculate."""
    ran.append(("calc", a))
    return a + 1


def agent_with(store: Any, *script: Any, tools: Any = (book, sign, calc)) -> Agent:
    """An agent with these tools."""
    return Agent("a", ScriptedModel(list(script)), tools=tools, store=store)


async def test_the_call_waits_and_runs_again_in_another_process(tmp_path: Path) -> None:
    """Its siblings run; the yes comes through another handle; one result, counted once."""
    path = tmp_path / "chat.db"
    store = SQLiteStore(path)
    batch = calls(("1", "calc", {"a": 1}), ("2", "book", {"trip": "Rome"}), ("3", "calc", {"a": 2}))
    agent = agent_with(store, batch, "done")
    first = await agent.run("go", conversation="c")
    assert first.stop_reason == "paused"
    assert [(p.call_id, p.reason, p.schema) for p in first.pending] == [
        ("2", "Rome costs 900.", None)
    ]
    check_answered(first.messages)
    assert "did not run to its end" in first.messages[-1].tool_results[1].text
    await store.close()

    again = SQLiteStore(path)
    conversation = await Conversation.open("c", store=again)
    assert await conversation.pending() == first.pending
    results = (await conversation.messages())[-1].tool_results
    assert [r.synthetic for r in results] == [False, True, False]
    yes = Approve(by="alice", note="seen the bill")
    result = await agent.resume(first.run_id, store=again, decisions={"2": yes})
    key = f"{first.run_id}:2"
    assert [r for r in ran if r[0] == "book"] == [
        ("book", "Rome", None, key),
        ("book", "Rome", {}, key),
    ]
    assert (result.output, result.usage.tool_calls) == ("done", 3)
    assert [r.text for r in result.messages[2].tool_results] == ["2", "Rome is booked", "3"]
    entries = [entry for _, entry in await conversation.entries()]
    decided = next(entry for entry in entries if isinstance(entry, ApprovalDecided))
    assert (decided.by, decided.note, decided.answer) == ("alice", "seen the bill", {})
    record = (await conversation.runs())[-1]
    assert record.tool_calls == 3
    await again.close()


async def test_several_questions_with_answers() -> None:
    """Each answer is checked against its schema; a wrong one leaves the call waiting."""
    agent = agent_with(MemoryStore(), calls(("s", "sign", {})), "done")
    result = await agent.run("go", conversation="c")
    assert result.pending[0].schema is not None
    assert result.pending[0].schema["required"] == ["name"]
    wrong: Any
    for wrong in (Approve(), Edit({}), Edit({"name": 5}), Edit({"name": object()}), Edit([1])):  # pyright: ignore[reportArgumentType]
        with pytest.raises(InvalidInput, match="still waits"):
            await agent.resume(result.run_id, decisions={result.pending[0].call_id: wrong})
    for name in ("Ann", "Bob"):
        answer = {result.pending[0].call_id: Edit({"name": name})}
        result = await agent.resume(result.run_id, decisions=answer)
    assert result.output == "done"
    assert result.tool_results[-1].text == "Ann and Bob"
    assert [len(answers) for _, answers in ran] == [0, 1, 2]


async def test_a_decision_that_is_sent_twice_answers_once() -> None:
    """The second time its call asks something else, which nobody has seen."""
    agent = agent_with(MemoryStore(), calls(("s", "sign", {})), "done")
    first = await agent.run("go", conversation="c")
    decisions = {first.pending[0].call_id: Edit({"name": "Ann"})}
    run = agent.resume(first.run_id, decisions=decisions)
    told = [event.call_id async for event in run if isinstance(event, ApprovalRequested)]
    second = await run
    assert [each.call_id for each in second.pending] == told == ["s#2"]
    with pytest.raises(InvalidInput, match=r"'s' asks something else by now; .* decide on 's#2'"):
        await agent.resume(first.run_id, decisions=decisions)
    with pytest.raises(InvalidInput, match="'s' asks something else by now"):
        await run.decide(decisions)
    with pytest.raises(InvalidInput, match="No call 'x#2' waits"):
        await agent.resume(first.run_id, decisions={"x#2": Approve()})
    last = await agent.resume(first.run_id, decisions={"s#2": Edit({"name": "Bob"})})
    assert last.tool_results[-1].text == "Ann and Bob"
    assert "changed the arguments" not in last.tool_results[-1].text


async def test_a_no_and_an_edit() -> None:
    """After a no the model is told; without a schema an edit changes the arguments."""
    agent = agent_with(
        MemoryStore(), calls(("1", "book", {"trip": "x"}), ("2", "book", {"trip": "y"})), "done"
    )
    first = await agent.run("go", conversation="c")
    second = await agent.resume(first.run_id, decisions={"1": Deny("too dear")})
    assert [p.call_id for p in second.pending] == ["2"]
    result = await agent.resume(first.run_id, decisions={"2": Edit({"trip": "z"})})
    told = result.messages[2].tool_results
    assert "did not get it. The reason: too dear" in told[0].text
    assert told[0].is_error
    assert told[1].text.startswith("z is booked")
    assert "changed the arguments" in told[1].text
    assert result.usage.tool_calls == 2


async def test_a_call_may_not_ask_for_ever() -> None:
    """After ten questions it gets an error."""

    @tool
    async def nags() -> str:
        """Nag."""
        ran.append(1)
        raise AskApproval("Sure?")

    agent = agent_with(MemoryStore(), calls(("1", "nags", {})), "done", tools=[nags])
    result = await agent.run("go", conversation="c")
    while result.pending:
        yes = {result.pending[0].call_id: Approve()}
        result = await agent.resume(result.run_id, decisions=yes)
    assert result.output == "done"
    assert "has asked 10 times" in result.tool_results[-1].text
    assert len(ran) == 11


async def test_whoever_watches_hears_of_it_at_once() -> None:
    """While its siblings are still at work."""
    heard = asyncio.Event()

    @tool
    async def slow() -> str:
        """End when somebody has heard."""
        await heard.wait()
        return "heard"

    batch = calls(("1", "book", {"trip": "x"}), ("2", "slow", {}))
    agent = agent_with(MemoryStore(), batch, tools=[book, slow])
    run = agent.start("go", conversation="c")
    kinds: list[str] = []
    async for event in run:
        kinds.append(event.type)
        if isinstance(event, ApprovalRequested):
            assert (event.call_id, event.reason) == ("1", "x costs 900.")
            heard.set()
    assert kinds[-2:] == ["tool.finished", "run.paused"]
    assert [p.call_id for p in (await run).pending] == ["1"]


async def test_decided_while_the_run_is_at_work() -> None:
    """A sibling takes long; the decision comes from the handle, and the run never pauses."""
    store = MemoryStore()
    runs: list[Any] = []

    @tool
    async def decides(ctx: RunContext) -> str:
        """Decide on the other call, as somebody at a terminal would."""
        conversation = await Conversation.open("c", store=store)
        while not await conversation.pending():
            await store.wait("c", conversation.head.revision, 0.01)
        await runs[0].decide({"1": Approve(by="bob")})
        return "decided"

    batch = calls(("1", "book", {"trip": "x"}), ("2", "decides", {}))
    agent = agent_with(store, batch, "done", tools=[book, decides])
    runs.append(agent.start("go", conversation="c"))
    kinds = await types_of(runs[0])
    result = await runs[0]
    assert (result.output, result.usage.tool_calls) == ("done", 2)
    assert kinds.count("approval.requested") == kinds.count("approval.decided") == 1
    assert "run.paused" not in kinds


async def test_a_decision_that_waited_is_not_one_on_the_next_question() -> None:
    """Two people say yes to the same question; the call goes on and asks something else."""
    store, going, go_on = MemoryStore(), asyncio.Event(), asyncio.Event()

    @tool
    async def spend(ctx: RunContext) -> str:
        """Spend money, twice as much each time."""
        ran.append(len(ctx.answers))
        if ctx.answers:
            going.set()
            await go_on.wait()
        raise AskApproval(f"{9 * 2 ** len(ctx.answers)}?")

    agent = agent_with(store, calls(("1", "spend", {})), "done", tools=[spend])
    first = await agent.run("go", conversation="c")
    yes = {"1": Approve()}
    ann = agent.resume(first.run_id, decisions=yes)
    await going.wait()
    bob = agent.resume(first.run_id, decisions=yes)
    await asyncio.sleep(0.05)
    go_on.set()
    assert [p.reason for p in (await ann).pending] == ["18?"]
    with pytest.raises(InvalidInput, match="'1' asks something else by now"):
        await bob
    conversation = await Conversation.open("c", store=store)
    assert [p.reason for p in await conversation.pending()] == ["18?"]
    assert ran == [0, 1]


async def test_what_was_used_and_written_before_stays() -> None:
    """Usage is counted once for each try, state is journaled with the question."""

    @tool
    async def costs(ctx: RunContext) -> str:
        """Use some."""
        ctx.add_usage(Usage(input_tokens=7))
        ctx.state.set("tries", ctx.state.get("tries", 0) + 1)
        if ctx.answer is None:
            raise AskApproval("Go on?")
        return "ok"

    store = MemoryStore()
    agent = agent_with(store, calls(("1", "costs", {})), "done", tools=[costs])
    first = await agent.run("go", conversation="c")
    conversation = await Conversation.open("c", store=store)
    assert (await conversation.state()).get("agent::a::tries") == 1
    assert (await conversation.runs())[0].usage.input_tokens == first.usage.input_tokens
    result = await agent.resume(first.run_id, decisions={"1": Approve()})
    assert result.usage.input_tokens - 14 >= 0
    assert (await conversation.state()).get("agent::a::tries") == 2


async def test_a_process_that_died_after_the_yes() -> None:
    """What became of the second try is unknown: an idempotent tool has its answers again."""

    @tool(idempotent=True)
    async def named(ctx: RunContext) -> str:
        """Ask for a name."""
        ran.append(ctx.answers)
        if ctx.answer is None:
            raise AskApproval("Sure?", NAMED)
        return str(ctx.answer["name"])

    store = Dying()
    agent = agent_with(store, calls(("1", "named", {})), "done", tools=[named])
    first = await agent.run("go", conversation="c")
    store.left = 2  # the decision is written, and that the call begins; not how it ends
    run = agent.resume(first.run_id, decisions={"1": Edit({"name": "Ann"})})
    await store.dead.wait()
    store.revive()
    with pytest.raises(RunFailed, match="no more"):
        await run
    conversation = await Conversation.open("c", store=store)
    assert await conversation.pending() == []
    assert "unknown" in (await conversation.messages())[-1].tool_results[0].text
    result = await agent.resume(first.run_id)
    assert result.tool_results[-1].text == "Ann"
    assert ran == [(), ({"name": "Ann"},), ({"name": "Ann"},)]


async def test_a_failing_sibling_does_not_lose_the_question() -> None:
    """BS-48 for a call that asks in the middle."""

    @tool
    async def breaks() -> str:
        """Break."""
        raise ToolAbort("no")

    store = MemoryStore()
    batch = calls(("1", "book", {"trip": "x"}), ("2", "breaks", {}))
    agent = agent_with(store, batch, "done", tools=[book, breaks])
    with pytest.raises(ToolAborted):
        await agent.run("go", conversation="c", run_id="r")
    conversation = await Conversation.open("c", store=store)
    assert [p.call_id for p in await conversation.pending()] == ["1"]
    assert (await agent.resume("r", decisions={"1": Approve()})).output == "done"


async def test_a_schema_that_is_none_and_odd_reasons() -> None:
    """The model hears of the first; nothing that cannot be stored comes into the journal."""

    @tool
    def odd(kind: str) -> str:
        """Ask oddly, from a thread."""
        schema: Any = {"list": [1], "live": {"properties": {"x": {"default": object()}}}}.get(kind)
        raise AskApproval("half \ud83d of it", schema)

    batch = calls(*((kind, "odd", {"kind": kind}) for kind in ("list", "live", "none")))
    agent = agent_with(MemoryStore(), batch, "done", tools=[odd])
    first = await agent.run("go", conversation="c")
    assert [p.call_id for p in first.pending] == ["none"]
    assert first.pending[0].reason == "half \ufffd of it"
    texts = [r.text for r in first.messages[-1].tool_results]
    assert all("schema that is none" in text for text in texts[:2])
    copied = pickle.loads(pickle.dumps(AskApproval("why", NAMED)))  # noqa: S301 our own bytes
    assert (copied.reason, copied.schema, str(copied)) == ("why", NAMED, "why")


async def test_another_tool_is_asked_from_the_start() -> None:
    """An answer given to a tool of another schema is not held against it."""
    store = MemoryStore()
    agent = agent_with(store, calls(("1", "book", {"trip": "x"})), "done")
    first = await agent.run("go", conversation="c")

    @tool(name="book")
    async def other(ctx: RunContext, trip: str, seats: int = 1) -> str:
        """Book a trip."""
        ran.append(("other", ctx.answers))
        if ctx.answer is None:
            raise AskApproval("Again?")
        return "booked"

    changed = agent.replace(tools=[other])
    second = await changed.resume(first.run_id, decisions={"1": Approve()}, on_change="accept")
    assert [p.reason for p in second.pending] == ["Again?"]
    yes = {second.pending[0].call_id: Approve()}
    result = await changed.resume(first.run_id, decisions=yes, on_change="accept")
    assert result.output == "done"
    assert [r for r in ran if r[0] == "other"] == [("other", ()), ("other", ({},))]


@tool(isolation="process")
def signs_apart(ctx: RunContext, paper: str) -> str:
    """Sign, in a process of its own."""
    if ctx.answer is None:
        raise AskApproval(f"Who signs {paper}?", NAMED)
    return f"{paper}: {ctx.answer['name']}"


async def test_a_tool_in_a_process_of_its_own() -> None:
    """Its question comes through, and the answer goes back."""
    script = calls(("1", "signs_apart", {"paper": "x"}))
    agent = agent_with(MemoryStore(), script, "done", tools=[signs_apart])
    first = await agent.run("go", conversation="c")
    assert [(p.reason, p.schema is None) for p in first.pending] == [("Who signs x?", False)]
    result = await agent.resume(first.run_id, decisions={"1": Edit({"name": "Ann"})})
    assert result.tool_results[-1].text == "x: Ann"
