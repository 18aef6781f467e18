"""Questions in the middle of a call, and a yes that holds: on every store, through every death."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.agent.parts import check_answered
from tests.scenarios.stores import Dying, Kept, keeping
from treadle import Agent, Approve, AskApproval, Conversation, Edit, Run, RunContext, tool
from treadle.journal import ApprovalDecided
from treadle.testing import ScriptedModel, calls
from treadle.tools import Rule, Rules

NAMED = {"properties": {"name": {"type": "string"}}, "required": ["name"]}
ran: list[Any] = []


@pytest.fixture(autouse=True)
def _forget() -> None:
    ran.clear()


@tool(idempotent=True)
async def sign(ctx: RunContext, paper: str) -> str:
    """Have a paper signed by two."""
    ran.append(("sign", paper, ctx.answers))
    if len(ctx.answers) < 2:
        raise AskApproval(f"Who is number {len(ctx.answers) + 1}?", NAMED)
    return f"{paper}: {' and '.join(answer['name'] for answer in ctx.answers)}"


@tool
async def pay(amount: int) -> str:
    """Pay."""
    ran.append(("pay", amount))
    return f"paid {amount}"


RULES = Rules(Rule("ask", "pay", once="tool", name="paying"))
BATCH = calls(("s", "sign", {"paper": "x"}), ("p", "pay", {"amount": 1}))


def agent_of(*script: Any) -> Agent:
    """An agent as each process makes it anew."""
    return Agent("a", ScriptedModel(list(script)), tools=[sign, pay], approval=RULES)


async def test_each_step_in_a_process_of_its_own(kept: Kept) -> None:
    """Nothing but the store goes from one to the next; both kinds of answers are in the journal."""
    run_id = kept.id("r")
    await agent_of(BATCH).run("go", conversation=kept.id(), run_id=run_id, store=kept.open())
    for decisions, waiting in (
        ({"s": Edit({"name": "Ann"}, by="alice")}, ["s#2", "p"]),
        ({"p": Approve(by="bob", note="fine")}, ["s#2"]),
        ({"s#2": Edit({"name": "Carl"})}, []),
    ):
        store = await kept.reopen()
        conversation = await kept.conversation()
        check_answered(list(await conversation.messages()))
        result = await agent_of("done").resume(run_id, store=store, decisions=decisions)
        assert [call.call_id for call in await conversation.pending()] == waiting
    assert result.output == "done"
    assert [r.text for r in result.messages[2].tool_results] == ["x: Ann and Carl", "paid 1"]
    assert result.usage.tool_calls == 2

    store = await kept.reopen()
    more = agent_of(calls(("q", "pay", {"amount": 2})), "paid")
    result = await more.run("more", conversation=kept.id(), store=store)
    assert (result.output, ran[-1]) == ("paid", ("pay", 2))
    branch = await (await kept.conversation()).fork(new_id=kept.id("b"))
    again = agent_of(calls(("z", "pay", {"amount": 3})), "paid")
    assert (await again.run("more", conversation=branch.id, store=store)).output == "paid"
    entries = await (await kept.conversation()).entries()
    made = [e for _, e in entries if isinstance(e, ApprovalDecided)]
    assert [(e.call_id, e.verdict, e.by, e.rule, e.note) for e in made] == [
        ("s", "edit", "alice", "", ""),
        ("p", "approve", "bob", "paying", "fine"),
        ("s", "edit", "", "", ""),
        ("q", "approve", "bob", "paying", "The yes to call 'p' holds."),
    ]


@pytest.mark.parametrize(
    "kind", ["memory", *(pytest.param(kind, marks=pytest.mark.e2e) for kind in ("file", "sqlite"))]
)
async def test_a_death_at_every_append(kind: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Whichever process dies at whichever step, the next goes on: each answer is given once."""
    deaths = 0
    for dies in range(4):
        for appends in range(1, 6):
            ran.clear()
            async with keeping(kind, tmp_path_factory.mktemp("kept")) as kept:
                died, result = await _carried_through(kept, dies, appends)
                deaths += died
                signed, paid = (r.text for r in result.messages[2].tool_results)
                assert signed == "x: Ann and Bob"
                assert paid == "paid 1" or "unknown" in paid
                assert len([r for r in ran if r[0] == "pay"]) <= 1, "it is not idempotent"
                check_answered(list(result.messages))
                assert result.usage.tool_calls == 2
    assert deaths >= 10


async def _carried_through(kept: Kept, dies: int, appends: int) -> tuple[bool, Any]:
    """Run and answer, each time in another process; one of them dies. Return the last result."""
    names = {"Who is number 1?": "Ann", "Who is number 2?": "Bob"}
    died = False
    for number in range(12):
        dying = Dying(await kept.reopen(), appends if number == dies else 1_000)
        known = [c.id for c in await Conversation.list(store=kept.handles[-1])]
        if not known:
            begin = agent_of(BATCH, "done").start(
                "go",
                conversation=kept.id(),
                run_id=kept.id("r"),
                store=dying,  # pyright: ignore[reportArgumentType] a wrapper
            )
            died = await _outlived(dying, begin) is None or died
            continue
        conversation = await Conversation.open(kept.id(), store=kept.handles[-1])
        pending = await conversation.pending()
        decisions = {
            call.call_id: Edit({"name": names[call.reason]}) if call.schema else Approve()
            for call in pending
        }
        replied = any(m.role == "assistant" for m in await conversation.messages())
        agent = agent_of("done") if replied else agent_of(BATCH, "done")
        again = agent.resume(kept.id("r"), store=dying, decisions=decisions)  # pyright: ignore[reportArgumentType]
        result = await _outlived(dying, again)
        if result is None:
            died = True
        elif result.stop_reason == "answer":
            return died, result
    raise AssertionError("it never ended")


async def _outlived(dying: Dying, run: Run[Any]) -> Any:
    """Return what the run came to, None when its process died."""
    task = asyncio.ensure_future(run.result())
    dead = asyncio.ensure_future(dying.dead.wait())
    await asyncio.wait([task, dead], return_when=asyncio.FIRST_COMPLETED)
    dead.cancel()
    if task.done():
        return task.result()
    dying.bury()
    await asyncio.wait([task], timeout=5)
    assert task.exception() is not None
    return None
