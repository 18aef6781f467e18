"""Calls that wait for somebody: none runs before its decision, and each is decided on its own."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from tests.agent.parts import Failing, check_answered, types_of
from treadle import (
    Agent,
    Approve,
    Conversation,
    Deny,
    Edit,
    Finish,
    InvalidInput,
    MemoryStore,
    RunContext,
    RunSuperseded,
    ToolAbort,
    ToolAborted,
    tool,
)
from treadle.testing import ScriptedModel, calls

ran: list[Any] = []


@pytest.fixture(autouse=True)
def _forget() -> None:
    ran.clear()


@tool(approval=True)
async def mail(ctx: RunContext, to: str) -> str:
    """Send a mail."""
    ran.append(("mail", to, ctx.idempotency_key))
    return f"sent to {to}"


@tool(approval=True)
async def delete(path: str) -> str:
    """Delete."""
    ran.append(("delete", path))
    return "gone"


@tool
async def calc(a: int) -> int:
    """Calculate."""
    ran.append(("calc", a))
    return a + 1


@tool(approval=lambda ctx, args: args["amount"] > 100)
async def pay(amount: Decimal) -> str:
    """Pay."""
    ran.append(("pay", amount))
    return "paid"


BATCH = calls(("a", "calc", {"a": 1}), ("b", "mail", {"to": "ann"}), ("c", "delete", {"path": "x"}))


def agent_with(store: MemoryStore, *script: Any) -> tuple[Agent, ScriptedModel]:
    """An agent with all tools, and its model."""
    model = ScriptedModel(list(script))
    return Agent("a", model, tools=[mail, delete, calc, pay], store=store), model


async def test_nothing_runs_before_its_decision() -> None:
    """S25, BS-36: the others do, the run pauses, and reloading changes nothing of that."""
    store = MemoryStore()
    agent, model = agent_with(store, BATCH)
    result = await agent.run("go", conversation="c")

    assert (result.stop_reason, ran) == ("paused", [("calc", 1)])
    assert [(p.call_id, p.name, p.arguments) for p in result.pending] == [
        ("b", "mail", {"to": "ann"}),
        ("c", "delete", {"path": "x"}),
    ]
    assert "mail" in result.reason
    conversation = await Conversation.open("c", store=store)
    for _ in range(3):
        assert await conversation.pending() == result.pending
        messages = await conversation.messages()
        assert [r.synthetic for r in messages[-1].tool_results] == [False, True, True]
    entries = [type(entry).__name__ for _, entry in await conversation.entries()]
    assert entries.count("CallEnded") == 1
    assert conversation.head.status == "paused"
    assert len(model.requests) == 1


async def test_a_denied_call_leaves_its_siblings_alone() -> None:
    """BS-47: decided one by one, over restarts; results in order, one more call."""
    store = MemoryStore()
    agent, model = agent_with(store, BATCH, "done")
    first = await agent.run("go", conversation="c")

    second = await agent.resume(first.run_id, decisions={"c": Deny("too late")})
    assert (second.stop_reason, [p.call_id for p in second.pending]) == ("paused", ["b"])
    third = await agent.resume(first.run_id, decisions={"b": Approve()})

    assert (third.stop_reason, third.output, third.turns) == ("answer", "done", 2)
    assert [name for name, *_ in ran] == ["calc", "mail"]
    results = third.messages[2].tool_results
    assert [r.call_id for r in results] == ["a", "b", "c"]
    assert results[2].is_error
    assert "too late" in results[2].text
    assert len(model.requests) == 2
    assert third.usage.tool_calls == 2
    for request in model.requests:
        check_answered(list(request.messages))


async def test_an_edited_call_is_what_runs_and_what_the_model_sees() -> None:
    """BS-49: the original stays in the journal, the result tells of it, bad edits are refused."""
    store = MemoryStore()
    agent, model = agent_with(store, calls(("m", "mail", {"to": "ann"})), "done")
    first = await agent.run("go", conversation="c")

    for wrong in ({"to": 5}, {"cc": "bob"}, {"to": object()}):
        with pytest.raises(InvalidInput, match="still waits"):
            await agent.resume(first.run_id, decisions={"m": Edit(wrong)})
    conversation = await Conversation.open("c", store=store)
    assert [p.call_id for p in await conversation.pending()] == ["m"]
    assert conversation.head.status == "paused"
    result = await agent.resume(first.run_id, decisions={"m": Edit({"to": "bob"})})

    assert result.output == "done"
    assert ran == [("mail", "bob", f"{first.run_id}:m")]
    asked, told = model.requests[-1].messages[1:3]
    assert asked.tool_calls[0].arguments == {"to": "bob"}
    assert "changed the arguments" in told.tool_results[0].text
    journal = str(await conversation.entries())
    assert '{"to":"ann"}' in journal
    assert '{"to":"bob"}' in journal


async def test_a_rule_on_the_arguments() -> None:
    """Only the calls that it names wait; one that fails makes the call wait, and says so."""
    store = MemoryStore()
    script = calls(("1", "pay", {"amount": "50"}), ("2", "pay", {"amount": "500"}))
    agent, _ = agent_with(store, script, "done")
    first = await agent.run("go", conversation="c")
    assert ran == [("pay", Decimal(50))]
    assert [p.call_id for p in first.pending] == ["2"]
    assert (await agent.resume(first.run_id, decisions={"2": Approve()})).output == "done"
    assert len(ran) == 2

    @tool(approval=lambda ctx, args: args["nothing"])
    async def odd(a: int) -> str:
        """Odd."""
        ran.append("odd")
        return ""

    async def later(ctx: RunContext, args: dict[str, Any]) -> bool:
        return args["a"] > 1

    @tool(approval=later)
    async def asks(a: int) -> str:
        """Ask."""
        ran.append(a)
        return ""

    script = calls(("1", "odd", {"a": 1}), ("2", "asks", {"a": 1}), ("3", "asks", {"a": 2}))
    model = ScriptedModel([script])
    result = await Agent("a", model, tools=[odd, asks], store=store).run("x", conversation="d")
    assert [p.call_id for p in result.pending] == ["1", "3"]
    assert "KeyError" in result.pending[0].reason


async def test_arguments_that_are_no_good_need_nobody() -> None:
    """The model hears of them at once."""
    store = MemoryStore()
    agent, _ = agent_with(store, calls(("1", "mail", {"too": "x"})), "sorry")
    assert (await agent.run("go", conversation="c")).output == "sorry"


async def test_a_failing_sibling_does_not_lose_the_request() -> None:
    """BS-48: its error is stored, the call still waits, also when the sibling fails the run."""
    failed: list[int] = []

    @tool
    async def breaks(fatal: bool) -> str:
        """Break."""
        failed.append(1)
        if fatal:
            raise ToolAbort("no")
        raise RuntimeError("broken")

    store = MemoryStore()
    for fatal in (False, True):
        script = [calls(("1", "mail", {"to": "x"}), ("2", "breaks", {"fatal": fatal})), "done"]
        agent = Agent("a", ScriptedModel(script), tools=[mail, breaks], store=store)
        name = f"c{fatal}"
        if fatal:
            with pytest.raises(ToolAborted):
                await agent.run("go", conversation=name, run_id=name)
        else:
            first = await agent.run("go", conversation=name, run_id=name)
            assert "broken" in first.messages[-1].tool_results[1].text
        conversation = await Conversation.open(name, store=store)
        assert [p.call_id for p in await conversation.pending()] == ["1"]
        result = await agent.resume(name, decisions={"1": Approve()})
        assert (result.output, len(failed)) == ("done", 1 + fatal)
        assert [name for name, *_ in ran] == ["mail"] * (1 + fatal)


async def test_decisions_that_cannot_be() -> None:
    """Unknown calls, contradictions, odd objects, and a run that another one has superseded."""
    store = MemoryStore()
    agent, _ = agent_with(store, BATCH, "other", "done")
    first = await agent.run("go", conversation="c")
    odd: Any = "yes"
    for decisions, text in (
        ({"zz": Approve()}, "waiting: 'b', 'c'"),
        ({"b": odd}, "no decision"),
    ):
        with pytest.raises(InvalidInput, match=text):
            await agent.resume(first.run_id, decisions=decisions)
    run = agent.start("again", conversation="d")
    await agent.resume(first.run_id, decisions={"b": Approve()})
    with pytest.raises(InvalidInput, match=r"No call 'b'|before"):
        await agent.resume(first.run_id, decisions={"b": Deny()})
    await run
    await agent.run("never mind", conversation="c")
    with pytest.raises(RunSuperseded, match=first.run_id):
        await agent.resume(first.run_id, decisions={"c": Approve()})
    assert ("delete", "x") not in ran


async def test_decided_beforehand_from_the_handle() -> None:
    """The decision is stored; whoever resumes obeys it."""
    store = MemoryStore()
    agent, _ = agent_with(store, calls(("m", "mail", {"to": "ann"})), "done")
    run = agent.start("go", conversation="c")
    assert await types_of(run) == [
        "run.started",
        "model.started",
        "model.finished",
        "approval.requested",
        "run.paused",
    ]
    await run.decide({"m": Edit({"to": "eve"})})
    assert (await agent.resume(run.id)).output == "done"
    assert ran[0][1] == "eve"


async def test_a_pause_without_a_store_says_how_to_go_on() -> None:
    """Nothing is stored, so nothing can be resumed."""
    model = ScriptedModel([calls(("m", "mail", {"to": "ann"}))])
    run = Agent("a", model, tools=[mail]).start("go")
    result = await run
    assert (result.stop_reason, len(result.pending)) == ("paused", 1)
    assert "store=" in result.reason
    with pytest.raises(InvalidInput, match="store="):
        await run.decide({"m": Approve()})


async def test_an_output_beside_a_call_that_waits() -> None:
    """It counts only after the decision; a finishing sibling does not run away either."""

    @tool
    async def stop() -> Finish:
        """Stop."""
        return Finish("finished")

    store = MemoryStore()
    script = [calls(("1", "stop", {}), ("2", "mail", {"to": "x"}))]
    agent = Agent("a", ScriptedModel(script), tools=[stop, mail], store=store)
    first = await agent.run("go", conversation="c")
    assert first.stop_reason == "paused"
    result = await agent.resume(first.run_id, decisions={"2": Approve()})
    assert (result.stop_reason, result.output) == ("answer", "finished")

    script = [calls(("1", "final_result", {"result": 7}), ("2", "mail", {"to": "x"}))]
    typed = Agent("a", ScriptedModel(script), tools=[mail], store=store, output_type=int)
    first = await typed.run("go", conversation="d")
    assert first.stop_reason == "paused"
    again = await typed.resume(first.run_id, decisions={"2": Approve()})
    assert (again.stop_reason, again.output) == ("answer", 7)


async def test_a_new_run_closes_what_waited() -> None:
    """The model is told that the call never ran, and the history is valid."""
    store = MemoryStore()
    agent, model = agent_with(store, BATCH, "fine")
    await agent.run("go", conversation="c")
    result = await agent.run("forget it", conversation="c")
    assert result.output == "fine"
    check_answered(list(model.requests[-1].messages))
    results = model.requests[-1].messages[2].tool_results
    assert ["did not run" in r.text for r in results] == [False, True, True]
    assert [
        record.status for record in await (await Conversation.open("c", store=store)).runs()
    ] == [
        "superseded",
        "answered",
    ]


async def test_a_store_that_fails_while_resuming() -> None:
    """The run stays as it was, and can be resumed later."""
    store = Failing(10, OSError("disk full"))
    agent, _ = agent_with(store, calls(("m", "mail", {"to": "ann"})), "done")
    first = await agent.run("go", conversation="c")
    store.works = 0
    with pytest.raises(Exception, match="disk full"):
        await agent.resume(first.run_id, decisions={"m": Approve()})
    store.works = 100
    assert ran == []
    assert (await agent.resume(first.run_id, decisions={"m": Approve()})).output == "done"


async def test_an_approval_of_a_tool_that_is_another_now() -> None:
    """J11: accepted changes do not stretch a yes over what nobody has seen."""
    store = MemoryStore()
    agent, _ = agent_with(store, calls(("m", "mail", {"to": "ann"})), "done")
    first = await agent.run("go", conversation="c")

    @tool(name="mail", approval=True)
    async def other(to: str, urgent: bool = False) -> str:
        """Send a mail."""
        ran.append(("other", to))
        return "sent"

    changed = agent.replace(tools=[other, delete, calc, pay])
    decisions = {"m": Approve()}
    again = await changed.resume(first.run_id, decisions=decisions, on_change="accept")
    assert (again.stop_reason, ran) == ("paused", [])
    with pytest.raises(InvalidInput, match="'m' asks something else by now"):
        await changed.resume(first.run_id, decisions=decisions, on_change="accept")
    decisions = {again.pending[0].call_id: Approve()}
    result = await changed.resume(first.run_id, decisions=decisions, on_change="accept")
    assert (result.output, ran) == ("done", [("other", "ann")])
