"""Child runs that wait for somebody: the whole run pauses, and goes on where it was."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from tests.agent.nested import asking, playing
from tests.agent.parts import check_answered
from treadle import (
    Agent,
    Approve,
    AskApproval,
    Conversation,
    Deny,
    Edit,
    Interrupt,
    InvalidInput,
    Limits,
    MemoryStore,
    ModelRequest,
    PendingCall,
    RunContext,
    tool,
)
from treadle.events import AgentLeft, ApprovalDecided, ApprovalRequested
from treadle.journal import RunSuspended
from treadle.ports.approval import Decision
from treadle.testing import FunctionModel, calls, reply
from treadle.testing.scripted import last_text


class Deploying:
    """A boss asks two agents at once; the inner of one deploys, which somebody has to approve."""

    def __init__(self, did: list[str], inner: Any = None, first: Any = None) -> None:
        @tool(approval=True)
        async def deploy(ctx: RunContext, place: str) -> str:
            """Deploy."""
            did.append(f"{place} {ctx.idempotency_key}")
            return f"deployed {place}"

        first = calls(("d", "deploy", {"place": "here"})) if first is None else first
        inner = Agent("inner", playing(first, last_text), tools=[inner or deploy])
        mid = Agent("mid", playing(asking(("m", "inner")), last_text), tools=[inner])
        self.side = Agent("side", playing("side done"))
        self.rounds: tuple[Any, ...] = (asking(("a", "mid"), ("b", "side")), last_text)
        self.boss = Agent("boss", playing(*self.rounds), tools=[mid, self.side])


PATH = "mid#1/inner#1"
CALL = f"{PATH}:d"


@pytest.mark.parametrize(
    ("decision", "made", "told"),
    [
        (Approve(), [f"here r:{CALL}"], "deployed here"),
        (Edit({"place": "there"}), [f"there r:{CALL}"], "deployed there"),
        (Deny("not today"), [], "not today"),
    ],
)
async def test_an_approval_in_a_child(decision: Decision, made: list[str], told: str) -> None:
    """S57: the run pauses when all else is done; another process decides, and it goes on."""
    did: list[str] = []
    store = MemoryStore()
    run = Deploying(did).boss.start("go", store=store, run_id="r", conversation="c")
    events = [event async for event in run]
    paused = await run

    (asked,) = [event for event in events if isinstance(event, ApprovalRequested)]
    assert (asked.path, asked.call_id, asked.agent) == (PATH, CALL, "inner")
    left = {event.path: event.stop_reason for event in events if isinstance(event, AgentLeft)}
    assert left == {"side#1": "answer", PATH: "paused", "mid#1": "paused"}
    assert events[-1].type == "run.paused"
    assert paused.pending == [PendingCall(CALL, "deploy", {"place": "here"}, path=PATH)]
    assert paused.reason == "Somebody has to decide on deploy."
    conversation = await Conversation.open("c", store=store)
    assert await conversation.pending() == paused.pending
    assert list(await conversation.messages()) == list(paused.messages)
    check_answered(list(paused.messages))
    entries = [entry for _, entry in await conversation.entries()]
    rests = [entry.path for entry in entries if isinstance(entry, RunSuspended)]
    assert rests == [""], "it is the run that pauses"

    other = Deploying(did)
    assert (await other.boss.resume("r", store=store)).pending == paused.pending
    run = other.boss.resume("r", store=store, decisions={CALL: decision})
    decided = [event async for event in run if isinstance(event, ApprovalDecided)]
    result = await run
    assert [(event.path, event.call_id) for event in decided] == [(PATH, CALL)]
    assert did == made
    assert told in result.output
    assert result.usage.tool_calls == (4 if made else 3)
    assert (result.usage.requests, result.pending) == (7, [])
    assert await conversation.pending() == []
    again = await other.boss.resume("r", store=store, decisions={CALL: decision})
    assert again.output == result.output
    wrong = Deny() if made else Approve()
    with pytest.raises(InvalidInput, match="was decided on before"):
        await other.boss.resume("r", store=store, decisions={CALL: wrong})


@pytest.mark.parametrize(
    ("decisions", "why"),
    [
        ({"d": Approve()}, f"No call 'd' waits for a decision; waiting: '{CALL}'"),
        ({CALL: Edit({"place": 7})}, "the call still waits"),
    ],
)
async def test_decisions_that_cannot_be(decisions: Mapping[str, Decision], why: str) -> None:
    """The calls of the children go on waiting."""
    did: list[str] = []
    store = MemoryStore()
    await Deploying(did).boss.run("go", store=store, run_id="r")
    with pytest.raises(InvalidInput, match=why.replace("(", r"\(")):
        await Deploying(did).boss.resume("r", store=store, decisions=decisions)
    result = await Deploying(did).boss.resume("r", store=store, decisions={CALL: Approve()})
    assert "deployed here" in result.output


async def test_a_decision_while_the_run_is_at_work() -> None:
    """The child goes on as soon as the others of its batch are done; the run does not pause."""
    did: list[str] = []
    decided = asyncio.Event()
    tree = Deploying(did)

    async def later(request: Any) -> Any:
        await decided.wait()
        return reply("side done")

    side = tree.side.replace(model=FunctionModel(later))
    boss = tree.boss.replace(tools=[tree.boss.tools[0], side])
    run = boss.start("go", store=MemoryStore())
    entered: list[str] = []
    async for event in run:
        if event.type == "agent.entered":
            entered.append(event.path)
        if event.type == "agent.left" and event.path == "mid#1":
            if not decided.is_set():
                await run.decide({CALL: Approve()})
            decided.set()
    result = await run

    assert result.stop_reason == "answer"
    assert "deployed here" in result.output
    assert entered == ["mid#1", PATH, "side#1", "mid#1", PATH]
    assert len(did) == 1


async def test_two_children_wait() -> None:
    """Each call is decided on by itself; what is left goes on waiting."""
    did: list[str] = []
    tree = Deploying(did)
    first = asking(("a", "mid"), ("b", "mid"))
    boss = tree.boss.replace(model=playing(first, last_text))
    store = MemoryStore()
    paused = await boss.run("go", store=store, run_id="r")
    one, two = (call.call_id for call in paused.pending)
    assert (one, two) == (CALL, "mid#2/inner#1:d")
    half = await boss.resume("r", store=store, decisions={two: Approve()})
    assert [call.call_id for call in half.pending] == [one]
    assert did == [f"here r:{two}"]
    result = await boss.resume("r", store=store, decisions={one: Approve()})
    assert (result.stop_reason, len(did)) == ("answer", 2)
    assert result.usage.tool_calls == 6


async def test_an_interrupt_in_a_child_pauses_the_run() -> None:
    """And it is not asked again when the run goes on."""

    @tool
    async def stop() -> Interrupt:
        """Stop."""
        return Interrupt("look at this", output="seen")

    store = MemoryStore()
    boss = Deploying([], stop, calls(("s", "stop", {}))).boss
    paused = await boss.run("go", store=store, run_id="r")
    assert (paused.stop_reason, paused.reason, paused.pending) == ("paused", "look at this", [])
    result = await boss.resume("r", store=store)
    assert result.output.startswith("seen")
    assert result.usage.tool_calls == 4


async def test_a_tool_of_a_child_asks_midway() -> None:
    """With a schema for the answer."""

    @tool
    async def book(ctx: RunContext) -> str:
        """Book."""
        if ctx.answer is None:
            raise AskApproval("It costs 900.", {"properties": {"seats": {"type": "integer"}}})
        if len(ctx.answers) == 1:
            raise AskApproval("Sure?")
        return f"booked {ctx.answers[0]['seats']}"

    store = MemoryStore()
    boss = Deploying([], book, calls(("k", "book", {}))).boss
    paused = await boss.run("go", store=store, run_id="r")
    (asked,) = paused.pending
    assert (asked.path, asked.reason) == (PATH, "It costs 900.")
    assert asked.schema is not None
    answer = {asked.call_id: Edit({"seats": 2})}
    again = await boss.resume("r", store=store, decisions=answer)
    assert [call.call_id for call in again.pending] == [f"{PATH}:k#2"]
    with pytest.raises(InvalidInput, match="asks something else by now"):
        await boss.resume("r", store=store, decisions=answer)
    result = await boss.resume("r", store=store, decisions={f"{PATH}:k#2": Approve()})
    assert result.output.startswith("booked 2")


async def test_the_tool_of_an_agent_may_need_approval_itself() -> None:
    """Before its child run begins; an edit is what it is asked."""

    def about(request: ModelRequest) -> str:
        return f"about {request.messages[0].text}"

    expert = Agent("expert", playing(about))
    tools = [expert.as_tool(approval=True)]
    boss = Agent("boss", playing(asking(("a", "expert")), last_text), tools=tools)
    store = MemoryStore()
    paused = await boss.run("go", store=store, run_id="r")
    assert [(call.call_id, call.path) for call in paused.pending] == [("a", "")]
    decisions = {"a": Edit({"input": "roses"})}
    result = await boss.resume("r", store=store, decisions=decisions)
    assert result.output.startswith("about roses")


async def test_a_child_that_pauses_at_its_limit() -> None:
    """The whole run waits, with the child's reason, and may go on with more."""
    model = playing(calls(("x", "nothing", {})))

    def boss(turns: int) -> Agent[None, str]:
        limits = Limits(max_turns=turns)
        expert = Agent("expert", model, on_limit="pause", limits=limits)
        return Agent("boss", playing(asking(("a", "expert")), "done"), tools=[expert])

    store = MemoryStore()
    paused = await boss(1).run("go", store=store, run_id="r")
    assert paused.reason == "The run reached max_turns=1."
    again = await boss(2).resume("r", store=store)
    assert again.reason == "The run reached max_turns=2."
    assert len(model.requests) == 2


async def test_without_a_store_it_says_so() -> None:
    """As for the run's own calls."""
    paused = await Deploying([]).boss.run("go")
    assert paused.stop_reason == "paused"
    assert paused.reason.endswith("pass store= to be able to resume.")
    assert [call.call_id for call in paused.pending] == [CALL]


async def test_a_new_run_supersedes_what_waits() -> None:
    """A later decision on a child's call is refused."""
    store = MemoryStore()
    boss = Deploying([]).boss
    await boss.run("go", store=store, run_id="r", conversation="c")
    await boss.replace(model=playing("never mind")).run("stop", store=store, conversation="c")
    with pytest.raises(Exception, match="cannot go on"):
        await boss.resume("r", store=store, decisions={CALL: Approve()})
    assert await (await Conversation.open("c", store=store)).pending() == []
