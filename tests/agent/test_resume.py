"""A run goes on in any process: what finished is never repeated, what was counted goes on."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from msgspec.structs import replace

from tests.agent.parts import check_answered
from treadle import (
    Agent,
    Approve,
    ConfigError,
    Conversation,
    ConversationBusy,
    DefinitionChanged,
    Deny,
    Finish,
    Interrupt,
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
    RunContext,
    RunNotFound,
    RunSuperseded,
    ToolAborted,
    Usage,
    tool,
)
from treadle.journal import AnyEntry, ModelReplied, RunBegan
from treadle.ports.model import ModelProfile
from treadle.testing import FunctionModel, ScriptedModel, calls, raises, reply


class Dying(MemoryStore):
    """A store whose process dies: no append after the last one allowed comes back, ever."""

    def __init__(self) -> None:
        super().__init__()
        self.left = 10_000
        self.dead, self.gone = asyncio.Event(), asyncio.Event()

    async def append(
        self,
        conversation_id: str,
        expected_revision: int,
        entries: Sequence[AnyEntry],
        *,
        fence: int | None = None,
    ) -> int:
        """Append, or never return."""
        if self.left <= 0:
            self.dead.set()
            await self.gone.wait()
            raise OSError("this process is no more")
        self.left -= 1
        return await super().append(conversation_id, expected_revision, entries, fence=fence)

    def revive(self) -> None:
        """A new process takes over: the old one's lease has ended."""
        self.left = 10_000
        self.gone.set()
        for journal in self._journals.values():
            journal.head = replace(journal.head, lease=None, fence=journal.head.fence + 1)


async def die_after(appends: int, agent: Agent[Any, Any], store: Dying, **options: Any) -> None:
    """Run in a process that dies at this append."""
    store.left, store.dead, store.gone = appends, asyncio.Event(), asyncio.Event()
    task = asyncio.ensure_future(agent.run("go", store=store, run_id="r", **options))
    dead = asyncio.ensure_future(store.dead.wait())
    await asyncio.wait([task, dead], return_when=asyncio.FIRST_COMPLETED)
    for each in (task, dead):
        each.cancel()
    store.revive()  # whatever the old one still does, its fence is stale
    await asyncio.wait([task], timeout=5)


class Tools:
    """Tools that note what they did."""

    def __init__(self) -> None:
        self.did: list[tuple[str, int, str]] = []

    def all(self) -> list[Any]:
        """Return them."""

        @tool(idempotent=True)
        async def put(ctx: RunContext, n: int) -> str:
            """Put."""
            self.did.append(("put", n, ctx.idempotency_key))
            return f"put {n}"

        @tool
        async def add(ctx: RunContext, n: int) -> str:
            """Add."""
            self.did.append(("add", n, ctx.idempotency_key))
            ctx.state.set("sum", ctx.state.get("sum", 0) + n)
            ctx.add_usage(Usage(input_tokens=5))
            return f"added {n}"

        return [put, add]


USAGE = Usage(input_tokens=10, output_tokens=1, requests=1)


def script() -> FunctionModel:
    """Four rounds and an answer, by what was said before."""

    def answer(request: ModelRequest) -> ModelReply:
        n = sum(message.role == "assistant" for message in request.messages)
        if n < 4:
            return calls((f"p{n}", "put", {"n": n}), (f"a{n}", "add", {"n": n}), usage=USAGE)
        return reply("done", usage=USAGE)

    return FunctionModel(answer)


@pytest.mark.parametrize("appends", range(1, 14))
async def test_after_a_crash_at_any_append(appends: int) -> None:
    """J4, J5, S55, S56: nothing that finished runs again, counters and state go on."""
    tools, store, model = Tools(), Dying(), script()
    agent = Agent("a", model, tools=tools.all(), max_parallel_tools=1)
    whole = await agent.replace(model=script()).run("go", store=MemoryStore())
    tools.did.clear()

    await die_after(appends, agent, store, conversation="c")
    asked = len(model.requests)
    replied = [e for b in await store.read("c") for e in b.entries if isinstance(e, ModelReplied)]
    result = await agent.resume("r", store=store)

    assert (result.output, result.stop_reason, result.turns) == ("done", "answer", 5)
    assert asked - len(replied) in (0, 1), "only a reply that was not stored is asked for again"
    check_answered(list(result.messages))
    synthetic = [r for m in result.messages for r in m.tool_results if r.synthetic]
    assert len(synthetic) <= 1
    if not synthetic:
        assert list(result.messages) == list(whole.messages)
        assert result.state.packed() == whole.state.packed()
        assert result.usage == whole.usage
    adds = [did for did in tools.did if did[0] == "add"]
    assert len(adds) == len(set(adds)), "none ran twice"
    puts = {(n, key) for name, n, key in tools.did if name == "put"}
    assert puts == {(n, f"r:p{n}") for n in range(4)}
    assert result.usage.tool_calls == 8
    runs = (await (await Conversation.open("c", store=store)).view()).runs
    assert list(runs) == ["r"]


@pytest.mark.parametrize("policy", ["tell_model", "ask", "fail"])
async def test_a_call_whose_outcome_is_unknown(policy: Any) -> None:
    """J5: told to the model, asked of somebody, or the run fails, as the tool says."""
    did: list[int] = []

    @tool(on_unknown=policy)
    async def pay(n: int) -> str:
        """Pay."""
        did.append(n)
        return "paid"

    store = Dying()
    model = ScriptedModel([calls(("1", "pay", {"n": 1})), "done"])
    agent = Agent("a", model, tools=[pay])
    await die_after(2, agent, store, conversation="c")
    assert did == [1]

    if policy == "fail":
        with pytest.raises(ToolAborted, match="unknown"):
            await agent.resume("r", store=store)
        return
    result = await agent.resume("r", store=store)
    if policy == "ask":
        assert (result.stop_reason, result.pending[0].call_id) == ("paused", "1")
        assert "unknown" in result.pending[0].reason
        again = await agent.resume("r", store=store, decisions={"1": Deny("it was paid")})
        assert "it was paid" in again.messages[2].tool_results[0].text
        result = again
    else:
        assert result.messages[2].tool_results[0].synthetic
    assert (result.output, did) == ("done", [1])


async def test_asked_and_told_to_run_again() -> None:
    """Somebody knows that it did not take effect."""
    did: list[int] = []

    @tool(on_unknown="ask")
    async def pay(n: int) -> str:
        """Pay."""
        did.append(n)
        return "paid"

    store = Dying()
    agent = Agent("a", ScriptedModel([calls(("1", "pay", {"n": 1})), "done"]), tools=[pay])
    await die_after(2, agent, store, conversation="c")
    await agent.resume("r", store=store)
    result = await agent.resume("r", store=store, decisions={"1": Approve()})
    assert (result.output, did, result.usage.tool_calls) == ("done", [1, 1], 1)


async def test_what_a_finished_call_asked_for_still_counts() -> None:
    """A finish or an interrupt that was stored is obeyed, though the process died right after."""

    @tool
    async def stop() -> Finish:
        """Stop."""
        return Finish({"n": Decimal("1.10")})

    @tool
    async def pause() -> Interrupt:
        """Pause."""
        return Interrupt("look at this")

    for each, reason in ((stop, "answer"), (pause, "paused")):
        store = Dying()
        agent = Agent("a", ScriptedModel([calls(("1", each.name, {}))]), tools=[each])
        await die_after(3, agent, store, conversation="c")
        result = await agent.resume("r", store=store)
        assert result.stop_reason == reason
        if reason == "answer":
            assert result.output == {"n": Decimal("1.10")}


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
    result = await agent.resume("r", limits=Limits(max_turns=9, max_tool_calls=8))
    assert (result.output, result.turns, result.usage.tool_calls) == ("done", 5, 8)
    assert result.usage.input_tokens == 5 * 10 + 4 * 5
    assert len(result.tool_results) == 8
    assert result.seconds >= first.seconds > 0

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


async def test_accepted_changes() -> None:
    """The calls of a tool that is gone get an error, as those of any unknown tool."""
    store = Dying()
    agent = Agent("a", script(), tools=Tools().all(), max_parallel_tools=1)
    await die_after(1, agent, store, conversation="c")
    bare = Agent("a", FunctionModel(lambda request: "on my own"))
    result = await bare.resume("r", store=store, on_change="accept")
    assert result.output == "on my own"


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


async def test_a_reply_that_was_cut_off_runs_no_call() -> None:
    """BS-13: nor after a crash between it and what it was told."""
    tools, store = Tools(), Dying()
    cut = replace(calls(("p", "put", {"n": 1})), finish_reason="length")
    agent = Agent("a", ScriptedModel([cut, "done", "done"]), tools=tools.all())
    await die_after(2, agent, store, conversation="c")
    result = await agent.resume("r", store=store)
    assert (result.output, tools.did) == ("done", [])
    assert "cut off" in result.messages[2].tool_results[0].text


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
