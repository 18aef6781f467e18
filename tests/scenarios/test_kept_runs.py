"""Runs on every store: cut off anywhere, they leave a valid history, and go on in a new process.

| Behaviour | Here, or how it is settled |
| --- | --- |
| B202 | a store makes a run durable; its ID is on the handle before the first step (W4) |
| B203 | after every reply and outcome: `test_a_crash_in_the_second_of_four_rounds` |
| B204, B205 | entries in one journal instead of records (C6): `test_how_runs_end` |
| B206 | `Conversation.runs`, `store.find`: `test_unfinished_runs_are_found`; test_kept_ids.py |
| B207 | a failed save fails the run (W3): `test_a_store_that_fails`; numbers: test_kept_values.py |
| B208 | `test_a_crash_in_the_second_of_four_rounds`, `test_resumed_twice_and_too_late` |
| B209 | mid-run too: `test_a_crash_and_the_same_run` |
| S55 of swarms and graphs, S57 `best_effort`, W19 | there are none yet |
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tests.agent.parts import check_answered
from tests.scenarios.provider import provider, saying
from tests.scenarios.stores import Dying, Kept
from treadle import (
    Agent,
    Conversation,
    Interrupt,
    InvalidInput,
    ModelReply,
    ModelRequest,
    Overloaded,
    Retry,
    RunContext,
    RunNotFound,
    RunSuperseded,
    StoreUnavailable,
    Tool,
    Usage,
    tool,
)
from treadle.journal import AnyEntry
from treadle.ports.store import Store
from treadle.testing import FakeClock, FunctionModel, ScriptedModel, calls, raises, reply

USAGE = Usage(input_tokens=10, output_tokens=1, requests=1)


async def test_a_crash_between_call_and_result(kept: Kept) -> None:
    """BS-35, J3, J5: a new message is accepted; the real result stays, nothing runs again."""
    did: list[str] = []
    dying = Dying(kept.open(), 3)

    @tool
    async def pay() -> str:
        """Pay."""
        did.append("pay")
        await dying.die()
        return "paid"

    @tool
    async def look() -> str:
        """Look."""
        did.append("look")
        return "seen"

    asks = saying("", ("c1", "pay", "{}"), ("c2", "look", "{}"), streamed=False)
    answers = [asks, saying("still here", streamed=False)]
    async with provider(*answers, answers[1]) as there:
        agent = Agent("a", there.model, tools=[pay, look])
        await dying.run(agent, "go", conversation=kept.id())
        once = await kept.messages()
        twice = await kept.messages()
        result = await agent.run("still there?", conversation=kept.id(), store=await kept.reopen())
        again = await agent.run("and now?", conversation=kept.id(), store=await kept.reopen())
        sent = there.results(1)
        first, second = there.messages(1), there.messages(2)

    assert once == twice
    assert sorted(did) == ["look", "pay"]
    assert result.output == again.output == "still here"
    assert sent["c2"] == "seen"
    assert "whether it took effect is unknown" in sent["c1"]
    assert second[: len(first)] == first
    results = (await kept.messages())[2].tool_results
    assert [(r.call_id, r.synthetic) for r in results] == [("c1", True), ("c2", False)]


async def test_a_crash_and_the_same_run(kept: Kept) -> None:
    """BS-35: resumed instead, only what is declared idempotent runs again, under the same key."""
    keys: list[str] = []
    dying = Dying(kept.open(), 2)

    async def act(ctx: RunContext, arguments: dict[str, Any]) -> str:
        keys.append(f"{ctx.tool} {ctx.idempotency_key}")
        if dying.dead.is_set():
            return "done"
        if len(keys) == 2:
            await dying.die()
        await FakeClock.forever()
        return ""

    tools = [
        Tool.from_schema(name, "Act.", {"properties": {}}, act, idempotent=name == "put")
        for name in ("put", "pay")
    ]
    asks = saying("", ("c1", "put", "{}"), ("c2", "pay", "{}"), streamed=False)
    async with provider(asks, saying("ok", streamed=False)) as there:
        agent = Agent("a", there.model, tools=tools)
        await dying.run(agent, "go", conversation=kept.id(), run_id=kept.id("r"))
        result = await agent.resume(kept.id("r"), store=await kept.reopen())
        sent = there.results(1)

    run = kept.id("r")
    assert Counter(keys) == {f"put {run}:c1": 2, f"pay {run}:c2": 1}
    assert result.output == "ok"
    assert sent["c1"] == "done"
    assert "unknown" in sent["c2"]


def counting(did: list[int]) -> tuple[Tool, Callable[[], FunctionModel]]:
    """Return a tool that counts in the state, and a model that calls it in four rounds."""

    @tool
    async def step(ctx: RunContext, n: int) -> str:
        """Step."""
        did.append(n)
        ctx.state.set("sum", ctx.state.get("sum", 0) + n)
        return f"step {n}"

    def answer(request: ModelRequest) -> ModelReply:
        n = sum(message.role == "assistant" for message in request.messages) + 1
        if n == 5:
            return reply("done", usage=USAGE)
        return calls((f"s{n}", "step", {"n": n}), usage=USAGE)

    return step, lambda: FunctionModel(answer)


@pytest.mark.parametrize("appends", [4, 5], ids=["before the outcome", "after it"])
async def test_a_crash_in_the_second_of_four_rounds(kept: Kept, appends: int) -> None:
    """S55, S56, J4, W5, W6: finished rounds and tools are not repeated; counters, state go on."""
    did: list[int] = []
    step, model = counting(did)
    whole = await Agent("a", model(), tools=[step]).run("go")
    did.clear()

    before, after = model(), model()
    agent = Agent("a", before, tools=[step])
    options = {"conversation": kept.id(), "run_id": kept.id("r"), "metadata": {"who": "ann"}}
    await Dying(kept.open(), appends).run(agent, "go", **options)
    result = await agent.replace(model=after).resume(kept.id("r"), store=await kept.reopen())

    unknown = appends == 4
    assert did == [1, 2, 3, 4]
    assert len(after.requests) == 3
    assert (result.turns, result.usage) == (whole.turns, whole.usage)
    assert [r.synthetic for r in result.tool_results] == [False, unknown, False, False]
    found = await (await kept.conversation()).state()
    assert found.get("agent::a::sum") == result.state.get("agent::a::sum") == 8 + 2 * (not unknown)
    if not unknown:
        assert list(result.messages) == list(whole.messages)
    assert await kept.messages() == list(result.messages)
    runs = await (await kept.conversation()).runs()
    assert [(r.run_id, r.status, r.turns, r.tool_calls) for r in runs] == [
        (kept.id("r"), "answered", 5, 4)
    ]


async def test_one_call_id_for_ever(kept: Kept) -> None:
    """BS-06: each call has its own ID and result, and none runs again after a crash."""
    did: list[str] = []

    @tool
    async def write(f: str) -> str:
        """Write."""
        did.append(f)
        return f"wrote {f}"

    rounds = [saying("", ("x", "write", f'{{"f":"{f}"}}'), streamed=False) for f in "abc"]
    async with provider(*rounds, saying("done", streamed=False)) as there:
        agent = Agent("a", there.model, tools=[write])
        await Dying(kept.open(), 6).run(agent, "go", conversation=kept.id(), run_id=kept.id("r"))
        result = await agent.resume(kept.id("r"), store=await kept.reopen())
        sent = there.results()

    assert (did, result.output) == (["a", "b", "c"], "done")
    assert len(sent) == 3
    assert list(sent.values())[:2] == ["wrote a", "wrote b"]


async def test_an_interrupt_beside_another_call(kept: Kept) -> None:
    """S24: both ran, both results are kept, the model is not asked again until somebody answers."""

    @tool
    async def ask() -> Interrupt:
        """Ask."""
        return Interrupt("which city?")

    @tool
    async def look() -> str:
        """Look."""
        return "seen"

    asks = saying("", ("1", "ask", "{}"), ("2", "look", "{}"), streamed=False)
    async with provider(asks, saying("fine", streamed=False)) as there:
        agent = Agent("a", there.model, tools=[ask, look])
        first = await agent.run("go", conversation=kept.id(), store=kept.open())
        assert (first.stop_reason, first.reason) == ("paused", "which city?")
        assert len(there.requests) == 1
        conversation = await Conversation.open(kept.id(), store=await kept.reopen())
        assert conversation.head.status == "paused"
        assert (await conversation.messages()) == list(first.messages)
        result = await agent.run("Paris", conversation=kept.id(), store=kept.open())
        sent = there.messages()

    assert result.output == "fine"
    assert [m["role"] for m in sent] == ["user", "assistant", "tool", "tool", "user"]
    assert sent[3]["content"] == "seen"
    runs = await (await kept.conversation()).runs()
    assert (runs[0].status, runs[0].reason) == ("superseded", "which city?")


async def test_how_runs_end(kept: Kept) -> None:
    """S68, B112, W18: what is stored is what was told, for every way out; each can be forked."""
    started = asyncio.Event()

    @tool
    async def wait() -> str:
        """Wait."""
        started.set()
        await FakeClock.forever()
        return ""

    @tool
    async def ask() -> Interrupt:
        """Ask."""
        return Interrupt("human")

    store = kept.open()
    script = [
        "fine",
        calls(("1", "wait", {})),
        raises(Overloaded("down"), "half"),
        calls(("2", "ask", {})),
    ]
    agent = Agent(
        "a", ScriptedModel(script), tools=[wait, ask], store=store, retry=Retry(attempts=1)
    )
    ends: list[tuple[str, str]] = []
    for number in range(4):
        run = agent.start(f"{number}", conversation=kept.id(), run_id=kept.id(f"r{number}"))
        if number == 1:
            await started.wait()
            await run.cancel("enough")
        events = [event async for event in run]
        ends.append((events[-1].type, getattr(events[-1], "stop_reason", "paused")))
        if number == 2:
            with pytest.raises(Overloaded):
                await run
    store = await kept.reopen()
    runs = await (await kept.conversation()).runs()

    assert ends == [
        ("run.finished", "answer"),
        ("run.finished", "cancelled"),
        ("run.finished", "failed"),
        ("run.paused", "paused"),
    ]
    assert [r.status for r in runs] == ["answered", "stopped", "failed", "paused"]
    assert [r.stop_reason for r in runs] == ["answer", "cancelled", "failed", None]
    assert runs[0].text == "fine"
    assert runs[2].error == "down"
    assert [r.place for r in runs] == [0, 2, 5, 7]
    await check_forks(kept, agent.replace(store=store))


async def check_forks(kept: Kept, agent: Agent[Any, Any]) -> None:
    """Fork after each of the runs, and go on."""
    conversation = await kept.conversation()
    with pytest.raises(InvalidInput, match="has not ended"):
        await conversation.fork(kept.id("r3"))
    forks = [(kept.id(f"r{number}"), kept.id(f"f{number}")) for number in range(3)]
    branches = [await conversation.fork(run, new_id=new) for run, new in forks]
    branches.append(await conversation.fork(new_id=kept.id("f3")))
    whole = await conversation.messages()
    for branch, length in zip(branches, (2, 5, 7, 10), strict=True):
        messages = await branch.messages()
        check_answered(messages)
        assert messages == whole[:length]
        more = agent.replace(model=ScriptedModel(["more"]))
        assert (await more.run("on", conversation=branch.id)).output == "more"


async def test_resumed_twice_and_too_late(kept: Kept) -> None:
    """S53: an end is stored once; older, unknown and superseded runs are told apart."""

    @tool
    async def ask() -> Interrupt:
        """Ask."""
        return Interrupt("human")

    script = [calls(("1", "ask", {})), "new", "never"]
    agent = Agent("a", ScriptedModel(script), tools=[ask], store=kept.open())
    await agent.run("1", conversation=kept.id(), run_id=kept.id("old"))
    await agent.run("2", conversation=kept.id(), run_id=kept.id("new"))
    agent = agent.replace(store=await kept.reopen())
    before = (await kept.conversation()).head
    for _ in range(2):
        assert (await agent.resume(kept.id("new"))).output == "new"
    with pytest.raises(RunSuperseded, match="has begun in its conversation since"):
        await agent.resume(kept.id("old"))
    with pytest.raises(RunNotFound, match="nobody"):
        await agent.resume(kept.id("nobody"))

    after = (await kept.conversation()).head
    assert (after.revision, after.status) == (before.revision, "answered")


async def test_unfinished_runs_are_found(kept: Kept) -> None:
    """W4, B206: by the status of their conversations, and every run by its ID."""

    @tool
    async def ask() -> Interrupt:
        """Ask."""
        return Interrupt("human")

    script = [calls(("1", "ask", {})), "fine", calls(("2", "ask", {}))]
    agent = Agent("a", ScriptedModel(script), tools=[ask], store=kept.open())
    await agent.run("x", conversation=kept.id("paused"), run_id=kept.id("r1"))
    await agent.run("x", conversation=kept.id("answered"))
    await Dying(kept.open(), 2).run(agent, "x", conversation=kept.id("dead"), run_id=kept.id("r2"))
    store = await kept.reopen()

    found: dict[str, str | None] = {}
    for status in ("running", "paused"):
        for each in await Conversation.list(store=store, status=status, limit=1000):
            if each.id.endswith(kept.stamp):
                found[each.id] = each.head.run_id
    assert found == {kept.id("paused"): kept.id("r1"), kept.id("dead"): kept.id("r2")}
    for name, run_id in found.items():
        assert run_id is not None
        assert await store.find(run_id) == name


class Failing:
    """A store that fails from its nth append on."""

    def __init__(self, store: Store, works: int) -> None:
        self._store, self._works = store, works

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def append(self, id: str, at: int, entries: Sequence[AnyEntry], **options: Any) -> int:
        """Append, or fail."""
        self._works -= 1
        if self._works < 0:
            raise StoreUnavailable("gone")
        return await self._store.append(id, at, entries, **options)


@pytest.mark.parametrize("works", [0, 1, 2, 3])
async def test_a_store_that_fails(kept: Kept, works: int) -> None:
    """S57, W3: the run fails with the store's error, nothing half-written shows, it goes on."""
    did: list[int] = []

    @tool
    async def act() -> str:
        """Act."""
        did.append(1)
        return "done"

    def answer(request: ModelRequest) -> str | ModelReply:
        return calls(("1", "act", {})) if len(request.messages) < 3 else "end"

    failing: Any = Failing(kept.open(), works)
    agent = Agent("a", FunctionModel(answer), tools=[act])
    options: Any = {"conversation": kept.id(), "run_id": kept.id("r")}
    with pytest.raises(StoreUnavailable, match="gone") as caught:
        await agent.run("go", store=failing, **options)
    check_answered(caught.value.result.messages)
    store = await kept.reopen()
    conversation = await kept.conversation()
    assert conversation.head.revision == works
    assert conversation.head.owner is None
    check_answered(await conversation.messages())

    if not works:
        assert await conversation.runs() == []
        result = await agent.run("go", store=store, **options)
    else:
        result = await agent.resume(kept.id("r"), store=store)
    assert (result.output, len(did)) == ("end", 1)
