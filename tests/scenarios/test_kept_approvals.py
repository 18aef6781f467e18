"""Calls that wait for somebody, on every store: through restarts, forks, crashes and siblings."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from tests.agent.parts import check_answered
from tests.scenarios.provider import provider, saying
from tests.scenarios.stores import Dying, Kept
from treadle import (
    Agent,
    Approve,
    Conversation,
    Deny,
    Edit,
    InvalidInput,
    RunContext,
    RunSuperseded,
    ToolAbort,
    ToolAborted,
    tool,
)
from treadle.journal import ApprovalDecided, CallEnded, ModelReplied
from treadle.testing import ScriptedModel, calls

ran: list[str] = []


@pytest.fixture(autouse=True)
def _forget() -> None:
    ran.clear()


@tool(approval=True)
async def mail(ctx: RunContext, to: str) -> str:
    """Send a mail."""
    ran.append(f"mail {to} {ctx.idempotency_key}")
    return f"sent to {to}"


@tool(approval=True)
async def delete(path: str) -> str:
    """Delete."""
    ran.append(f"delete {path}")
    return "gone"


@tool
async def calc(a: int) -> int:
    """Calculate."""
    ran.append(f"calc {a}")
    return a + 1


BATCH = (
    ("a", "calc", '{"a":1}'),
    ("b", "mail", '{"to":"ann"}'),
    ("c", "delete", '{"path":"x"}'),
)
TOOLS = [mail, delete, calc]


async def test_nothing_touches_what_waits(kept: Kept) -> None:
    """BS-36, S25: read, listed, forked: it still waits; approved it runs; a crash is healed."""
    asks = saying("", *BATCH[1:], streamed=False)
    later = saying("", ("d", "calc", '{"a":2}'), streamed=False)
    async with provider(asks, saying("done", streamed=False), later, later) as there:
        agent = Agent("a", there.model, tools=TOOLS)
        first = await agent.run(
            "go", conversation=kept.id(), run_id=kept.id("r"), store=kept.open()
        )
        conversation = await kept.conversation()
        for _ in range(3):
            store = await kept.reopen()
            conversation = await kept.conversation()
            assert await conversation.pending() == first.pending
            results = (await conversation.messages())[-1].tool_results
            assert ["waits for" in r.text for r in results] == [True, True]
            assert kept.id() in [c.id for c in await Conversation.list(store=store)]
        branch = await conversation.fork(new_id=kept.id("b"))
        assert await branch.pending() == []
        assert (await kept.conversation()).head.status == "paused"
        assert not any(isinstance(e, CallEnded) for _, e in await conversation.entries())
        yes = {call.call_id: Approve() for call in first.pending}
        done = await agent.resume(kept.id("r"), store=await kept.reopen(), decisions=yes)
        assert done.output == "done"
        assert ran == [f"mail ann {kept.id('r')}:b", "delete x"]

        dying = Dying(await kept.reopen(), 2)
        await dying.run(agent, "more", conversation=kept.id(), run_id=kept.id("dead"))
        last = await kept.messages()
        assert last[-1].tool_results[0].synthetic
        limits = agent.limits.__class__(max_turns=1)
        result = await agent.resume(kept.id("dead"), store=await kept.reopen(), limits=limits)
    assert result.stop_reason == "limit"
    assert ran.count("calc 2") == 1


async def test_each_call_is_decided_on_its_own(kept: Kept) -> None:
    """BS-47, S25: one denied, a restart, one approved; results in order, one more model call."""
    async with provider(
        saying("", *BATCH, streamed=False), saying("done", streamed=False)
    ) as there:
        agent = Agent("a", there.model, tools=TOOLS)
        run_id = kept.id("r")
        await agent.run("go", conversation=kept.id(), run_id=run_id, store=kept.open())
        for call_id, decision, waiting in (("c", Deny("too late"), ["b"]), ("b", Approve(), [])):
            run = agent.resume(run_id, store=await kept.reopen(), decisions={call_id: decision})
            result = await run
            assert [call.call_id for call in result.pending] == waiting
            assert len(there.requests) == 2 - len(waiting)
        told = there.results()

    assert ran == ["calc 1", f"mail ann {run_id}:b"]
    assert list(told) == ["a", "b", "c"]
    assert told["b"] == "sent to ann"
    assert "too late" in told["c"]
    assert (result.output, result.turns, result.usage.tool_calls) == ("done", 2, 2)
    assert await kept.messages() == list(result.messages)


@pytest.mark.parametrize("fatal", [False, True], ids=["reported", "fatal"])
async def test_a_sibling_that_fails(kept: Kept, fatal: bool) -> None:
    """BS-48: its error is kept, the request too, which is decided on in another process."""

    @tool
    async def breaks() -> str:
        """Break."""
        await asyncio.sleep(0.01)
        ran.append("breaks")
        if fatal:
            raise ToolAbort("no")
        raise RuntimeError("broken")

    asks = saying("", BATCH[1], ("2", "breaks", "{}"), streamed=False)
    async with provider(asks, saying("done", streamed=False)) as there:
        agent = Agent("a", there.model, tools=[mail, breaks])
        options: Any = {"conversation": kept.id(), "run_id": kept.id("r"), "store": kept.open()}
        if fatal:
            with pytest.raises(ToolAborted):
                await agent.run("go", **options)
        else:
            assert (await agent.run("go", **options)).stop_reason == "paused"
        await kept.reopen()
        conversation = await kept.conversation()
        assert [call.call_id for call in await conversation.pending()] == ["b"]
        assert conversation.head.status == ("stopped" if fatal else "paused")
        check_answered(await conversation.messages())
        result = await agent.resume(
            kept.id("r"), store=await kept.reopen(), decisions={"b": Approve()}
        )
        told = there.results()

    assert result.output == "done"
    assert ran == ["breaks", f"mail ann {kept.id('r')}:b"]
    assert ("broken" in told["2"]) is not fatal


async def test_edited_arguments(kept: Kept) -> None:
    """BS-49: what ran is what the model sees; both are in the journal; bad edits change nothing."""
    run_id = kept.id("r")
    asks = saying("", BATCH[1], streamed=False)
    async with provider(asks, saying("done", streamed=False)) as there:
        agent = Agent("a", there.model, tools=TOOLS)
        await agent.run("go", conversation=kept.id(), run_id=run_id, store=kept.open())
        store = await kept.reopen()
        before = (await kept.conversation()).head.revision
        for wrong in ({"to": 5}, {"cc": "bob"}, {"to": object()}):
            with pytest.raises(InvalidInput, match="still waits"):
                await agent.resume(run_id, store=store, decisions={"b": Edit(wrong)})
        conversation = await kept.conversation()
        assert conversation.head.revision == before
        assert conversation.head.owner is None
        assert [call.call_id for call in await conversation.pending()] == ["b"]
        edit = {"b": Edit({"to": "bob\x00 \\u0000"})}
        result = await agent.resume(run_id, store=await kept.reopen(), decisions=edit)
        said, told = there.messages()[1]["tool_calls"][0], there.results()["b"]

    assert result.output == "done"
    assert "bob" in said["function"]["arguments"]
    assert "ann" not in said["function"]["arguments"]
    assert "changed the arguments" in told
    assert len(ran) == 1
    assert "bob" in ran[0]
    entries = [entry for _, entry in await (await kept.conversation()).entries()]
    replies = [e.message.tool_calls for e in entries if isinstance(e, ModelReplied)]
    assert replies[0][0].arguments == {"to": "ann"}
    decided = [e.raw or "" for e in entries if isinstance(e, ApprovalDecided)]
    assert len(decided) == 1
    assert "bob" in decided[0]
    assert await kept.messages() == list(result.messages)


async def test_decided_from_elsewhere_and_superseded(kept: Kept) -> None:
    """B246, S25: decided in one process, resumed in another; a new run closes what waited."""
    script = [calls(("m", "mail", {"to": "ann"})), "done"]
    agent = Agent("a", ScriptedModel(script), tools=TOOLS)
    run = agent.start("go", conversation=kept.id(), store=kept.open())
    await run
    await run.decide({"m": Edit({"to": "eve"})})
    result = await agent.resume(run.id, store=await kept.reopen())
    assert result.output == "done"
    assert ran == [f"mail eve {run.id}:m"]

    script = [calls(("n", "mail", {"to": "ann"})), "new"]
    agent = agent.replace(model=ScriptedModel(script))
    paused = await agent.run("go", conversation=kept.id(), store=await kept.reopen())
    after = await agent.run("never mind", conversation=kept.id(), store=await kept.reopen())
    with pytest.raises(RunSuperseded):
        await agent.resume(paused.run_id, store=await kept.reopen(), decisions={"n": Approve()})
    assert "did not run" in after.messages[-3].tool_results[0].text
    assert len(ran) == 1
    assert await (await kept.conversation()).pending() == []


async def test_paused_again_and_again(kept: Kept) -> None:
    """BS-43: watched or not, each entry is stored once, and the history is as without pauses."""

    @tool(approval=True)
    async def act(n: int) -> str:
        """Act."""
        return f"did {n}"

    def script() -> ScriptedModel:
        return ScriptedModel(
            [calls(("1", "act", {"n": 1})), calls(("2", "act", {"n": 2}), text="so"), "done"]
        )

    plain = act.replace(approval=False)
    whole = await Agent("a", script(), tools=[plain]).run("go")
    for watched in (False, True):
        name = f"c{watched}"
        model = script()
        agent = Agent("a", model, tools=[act])
        result = await agent.run("go", conversation=kept.id(name), store=await kept.reopen())
        while result.stop_reason == "paused":
            yes = {call.call_id: Approve() for call in result.pending}
            run = agent.resume(result.run_id, store=await kept.reopen(), decisions=yes)
            if watched:
                assert [event async for event in run]
            result = await run
        entries = await (await kept.conversation(name)).entries()

        assert list(result.messages) == list(whole.messages) == await kept.messages(name)
        assert len({id for id, _ in entries}) == len(entries)
        ended = [e.result.call_id for _, e in entries if isinstance(e, CallEnded)]
        assert ended == ["1", "2"]
        assert (result.turns, result.usage) == (whole.turns, whole.usage)


async def test_decided_and_resumed_twice_at_once(kept: Kept) -> None:
    """BS-41, BS-47: two processes resume: the call runs once; of two decisions the first counts."""
    script = [calls(("m", "mail", {"to": "ann"})), "done", calls(("n", "mail", {"to": "bob"}))]
    agent = Agent("a", ScriptedModel(script), tools=TOOLS)
    first = await agent.run("go", conversation=kept.id(), store=kept.open())
    yes = {"m": Approve()}
    runs = [agent.resume(first.run_id, store=kept.open(), decisions=yes) for _ in range(2)]
    ends = [await run for run in runs]
    assert [end.output for end in ends] == ["done", "done"]
    assert list(ends[0].messages) == list(ends[1].messages) == await kept.messages()
    assert ran == [f"mail ann {first.run_id}:m"]

    run = agent.start("more", conversation=kept.id(), store=kept.open())
    await run
    no = {"n": Deny("no")}
    async with asyncio.TaskGroup() as group:
        deciding = [group.create_task(refusal(run.decide(each))) for each in ({"n": Approve()}, no)]
    assert sorted(each.result() for each in deciding) == [False, True]


async def refusal(deciding: Coroutine[Any, Any, None]) -> bool:
    """Whether it is refused."""
    try:
        await deciding
    except InvalidInput:
        return True
    return False
