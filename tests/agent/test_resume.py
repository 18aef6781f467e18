"""A run goes on in any process, with what it had and what it has used."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.agent.dying import Tools, script
from treadle import (
    Agent,
    Approve,
    ConfigError,
    Conversation,
    ConversationBusy,
    DefinitionChanged,
    InvalidId,
    LeaseLost,
    Limits,
    MemoryStore,
    Message,
    ModelReply,
    ModelRequest,
    Overloaded,
    Price,
    Retry,
    RunNotFound,
    RunSuperseded,
    Usage,
    tool,
)
from treadle.journal import AnyEntry, ModelReplied, RunBegan
from treadle.ports.model import ModelProfile
from treadle.testing import FunctionModel, ScriptedModel, calls, raises


async def test_a_run_that_has_answered_gives_its_result_again() -> None:
    """B208: resuming twice does nothing twice; typed outputs come back in their type."""
    store = MemoryStore()
    model = ScriptedModel(['{"result": [1, 2]}'])
    agent = Agent("a", model, store=store, output_type=tuple[int, int])
    first = await agent.run("go", conversation="c", run_id="r")
    head = await store.head("c")
    again = await agent.resume("r")
    assert (again.output, again.stop_reason) == (first.output, "answer")
    assert list(again.messages) == list(first.messages)
    assert (again.usage, again.turns) == (first.usage, first.turns)
    assert (await store.head("c")).revision == head.revision
    assert len(model.requests) == 1


async def test_failed_and_cancelled_runs_go_on() -> None:
    """BS-06: a provider that was down, a deadline, a cancel: the same run, later."""
    store = MemoryStore()
    model = ScriptedModel([calls(("1", "put", {"n": 1})), raises(Overloaded("down")), "done"])
    tools = Tools()
    agent = Agent("a", model, tools=tools.all(), store=store, retry=Retry(attempts=1))
    with pytest.raises(Overloaded):
        await agent.run("go", conversation="c", run_id="r")
    result = await agent.resume("r")
    assert (result.output, len(tools.did)) == ("done", 1)

    slow = FunctionModel(lambda request: "later")
    gate = asyncio.Event()

    async def hang(request: ModelRequest) -> str:
        gate.set()
        return await asyncio.get_running_loop().create_future()

    run = agent.replace(model=FunctionModel(hang)).start("go", conversation="d")
    await gate.wait()
    await run.cancel("not now")
    assert (await agent.replace(model=slow).resume(run.id)).output == "later"


async def test_counters_limits_and_money_go_on() -> None:
    """W6: turns, calls, spend and time count over all parts of a run."""
    tools, store = Tools(), MemoryStore()
    limits = Limits(max_turns=2)
    model = script()
    agent = Agent("a", model, tools=tools.all(), store=store, limits=limits, on_limit="pause")
    first = await agent.run("go", conversation="c", run_id="r")
    assert (first.stop_reason, first.turns) == ("paused", 2)
    again = await agent.resume("r")
    assert (again.stop_reason, again.turns, len(model.requests)) == ("paused", 2, 2)
    more = await agent.resume("r", limits=Limits(max_turns=3))
    assert (more.stop_reason, more.turns) == ("paused", 3)
    (before,) = await (await Conversation.open("c", store=store)).runs()
    result = await agent.resume("r", limits=Limits(max_turns=9, max_tool_calls=8))
    assert (result.output, result.turns, result.usage.tool_calls) == ("done", 5, 8)
    assert result.usage.input_tokens == 5 * 10 + 4 * 5
    assert len(result.tool_results) == 8
    assert result.seconds >= before.seconds > 0

    class Priced:
        profile = ModelProfile(provider="p", name="m", price=Price(input=1_000_000, output=0))

        async def complete(self, request: ModelRequest) -> ModelReply:
            usage = Usage(input_tokens=3, requests=1)
            return ModelReply(message=Message.assistant("ok"), usage=usage)

    spent = await agent.replace(model=Priced()).run("go", conversation="d", run_id="d")
    assert spent.usage.cost == 3
    assert (await agent.resume("d")).usage.cost == 3


async def test_a_deadline_counts_the_time_at_work_only() -> None:
    """Pauses do not; what the parts took does."""
    store = MemoryStore()

    @tool(approval=True)
    async def ask() -> str:
        """Ask."""
        return "yes"

    model = ScriptedModel([calls(("1", "ask", {})), "done"])
    limits = Limits(deadline=timedelta(milliseconds=300))
    agent = Agent("a", model, tools=[ask], store=store, limits=limits)
    first = await agent.run("go", conversation="c", run_id="r")
    await asyncio.sleep(0.4)
    result = await agent.resume(first.run_id, decisions={"1": Approve()})
    assert result.stop_reason == "answer"
    assert result.seconds < 0.3


async def test_another_agent_is_refused() -> None:
    """J11, W7: with the difference in words; a changed prompt is only logged."""
    store, tools = MemoryStore(), Tools()
    model = script()
    agent = Agent("a", model, tools=tools.all(), store=store, instructions="Be kind.")
    paused = agent.replace(limits=Limits(max_turns=1), on_limit="pause")
    await paused.run("go", conversation="c", run_id="r")

    @tool(name="add")
    async def other(m: str) -> str:
        """Add."""
        return m

    @tool
    async def new() -> str:
        """New."""
        return ""

    changed = agent.replace(tools=[other, new])
    with pytest.raises(DefinitionChanged, match="tool add has another schema") as caught:
        await changed.resume("r")
    assert caught.value.changes == (
        "tool add has another schema",
        "tool new is new",
        "tool put is gone",
    )
    assert (await store.head("c")).status == "paused"
    seen: list[Sequence[str]] = []

    def refuse(changes: Sequence[str]) -> bool:
        seen.append(changes)
        return False

    with pytest.raises(DefinitionChanged):
        await changed.resume("r", on_change=refuse)
    assert list(seen[0]) == list(caught.value.changes)
    result = await agent.resume("r", on_change=refuse)
    assert (result.output, len(seen)) == ("done", 1)


async def test_a_changed_prompt_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """It is part of no structure, and the run goes on with the new one."""
    store = MemoryStore()
    model = ScriptedModel([calls(("p", "put", {"n": 1})), "done"])
    agent = Agent("a", model, tools=Tools().all(), store=store, instructions="one")
    await agent.replace(limits=Limits(max_turns=1), on_limit="pause").run("x", run_id="r")
    with caplog.at_level(logging.WARNING):
        await agent.resume("r", instructions="two")
    assert "instructions" in caplog.text
    assert model.requests[-1].system == "two"


async def test_runs_that_cannot_be_resumed() -> None:
    """Unknown, superseded, at work elsewhere, with options that resuming does not take."""
    store = MemoryStore()
    agent = Agent("a", FunctionModel(lambda request: "ok"), store=store)
    with pytest.raises(RunNotFound, match="nobody"):
        await agent.resume("nobody")
    await agent.replace(limits=Limits(max_turns=1)).run("1", conversation="c", run_id="r1")
    wrong: list[Any] = [{"history": []}, {"conversation": "c"}, {"on_change": "maybe"}]
    for options in wrong:
        with pytest.raises(ConfigError):
            agent.resume("r1", **options)
    hang = asyncio.Event()

    async def wait(request: ModelRequest) -> str:
        await hang.wait()
        return "at last"

    run = agent.replace(model=FunctionModel(wait)).start("2", conversation="c")
    await asyncio.sleep(0.01)
    with pytest.raises(ConversationBusy):
        await agent.resume(run.id, if_busy="raise")
    second = agent.resume(run.id)
    hang.set()
    assert (await second).output == "at last"
    assert (await run).output == "at last"
    assert (await agent.resume("r1")).output == "ok", "it had answered, whatever came later"

    pausing = Agent("a", ScriptedModel([calls(("1", "x", {}))]), store=store, on_limit="pause")
    paused = await pausing.run("3", conversation="d", limits=Limits(max_turns=1))
    await agent.run("4", conversation="d")
    with pytest.raises(RunSuperseded):
        await pausing.resume(paused.run_id)


async def test_a_frozen_process_writes_nothing_when_it_wakes() -> None:
    """J7: its lease was taken; what it then does ends in an error, and the journal stays."""
    store = MemoryStore()
    gate = asyncio.Event()

    async def frozen(request: ModelRequest) -> str:
        gate.set()
        await asyncio.sleep(0.05)
        return "too late"

    agent = Agent("a", FunctionModel(frozen), store=store)
    run = agent.start("go", conversation="c")
    await gate.wait()
    lease = (await store.head("c")).lease
    assert lease is not None
    await store.claim("c", "other", 15, instead_of=lease.fence)
    before = await store.read("c")
    with pytest.raises(LeaseLost):
        await run
    assert list(await store.read("c")) == list(before)


async def test_a_run_id_is_used_once() -> None:
    """A second start under it writes nothing, anywhere."""
    store = MemoryStore()
    agent = Agent("a", FunctionModel(lambda request: "ok"), store=store)
    await agent.run("1", conversation="c", run_id="r")
    for name in ("c", "d"):
        with pytest.raises(InvalidId, match="'r' already"):
            await agent.run("2", conversation=name, run_id="r")
    assert [m.text for m in (await agent.run("3", conversation="c")).messages] == [
        "1",
        "ok",
        "3",
        "ok",
    ]


async def test_an_unfinished_history_is_asked_to_go_on() -> None:
    """A journal that ends with something the model said is continued, not repeated."""
    store = MemoryStore()
    _, lease = await store.claim("c", "old", 15)
    at = datetime.now(UTC)
    said = Message.assistant("Half an ans")
    entries: list[AnyEntry] = [
        RunBegan(run_id="r", at=at, agent="a", input=Message.user("go")),
        ModelReplied(run_id="r", at=at, message=said),
    ]
    await store.append("c", 0, entries, fence=lease.fence)
    await store.release(lease)
    model = FunctionModel(lambda request: f"after {request.messages[-1].text}")
    result = await Agent("a", model).resume("r", store=store)
    assert [m.role for m in result.messages] == ["user", "assistant", "user", "assistant"]
