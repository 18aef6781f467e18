"""One tree of budgets, one deadline, one cancellation: nothing of a child run gets past them."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from tests.agent.nested import USAGE, asking, playing, repeating
from tests.agent.parts import Hanging, check_answered
from treadle import Agent, Conversation, Limits, MemoryStore, Price, Run, RunContext, Usage, tool
from treadle.events import AgentLeft
from treadle.journal import CallEnded, ChildEnded
from treadle.limits import Budget
from treadle.ports.model import ModelProfile, ModelRequest, ModelSettings
from treadle.testing import FunctionModel, calls, reply
from treadle.testing.scripted import last_text


def tools_of(did: list[str]) -> list[Any]:
    """A tool that notes who called it."""

    @tool
    async def work(ctx: RunContext) -> str:
        """Work."""
        did.append(ctx.call_id)
        await asyncio.sleep(0)
        return "worked"

    return [work]


def working(name: str, did: list[str], times: int = 3, **options: Any) -> Agent[Any, Any]:
    """An agent that calls its tool so many times, one after the other, and then answers."""
    rounds = [calls((f"w{n}", "work", {}), usage=USAGE) for n in range(times)]
    model = playing(*rounds, reply(f"{name} done", usage=USAGE))
    return Agent(name, model, tools=tools_of(did), **options)


async def test_tool_calls_are_counted_in_the_tree() -> None:
    """The parent's limit holds for its children; nobody runs more, also not both at once."""
    for most in range(8):
        did: list[str] = []
        boss = Agent(
            "boss",
            playing(asking(("a", "one"), ("b", "two")), last_text),
            tools=[working("one", did), working("two", did)],
        )
        result = await boss.run("go", limits=Limits(max_tool_calls=most))

        assert result.usage.tool_calls == most
        assert len(did) == max(0, most - 2)
        if most > 1:
            assert len(result.tool_results) == 2


async def test_the_limit_that_is_reached_is_told() -> None:
    """The child's model hears of the parent's, and answers early."""
    did: list[str] = []
    boss = Agent("boss", playing(asking(("a", "one")), last_text), tools=[working("one", did)])
    result = await boss.run("go", limits=Limits(max_tool_calls=3))

    assert len(did) == 2
    assert "one done" in result.output
    assert "That is an early answer" in result.output


async def test_turns_are_each_agents_own() -> None:
    """A child that runs out of them answers, and says that it did."""
    did: list[str] = []
    expert = working("one", did, limits=Limits(max_turns=2))
    boss = Agent("boss", playing(asking(("a", "one")), last_text), tools=[expert])
    result = await boss.run("go", limits=Limits(max_turns=2), store=MemoryStore())

    assert (result.stop_reason, result.turns) == ("answer", 2)
    assert "early answer" in result.output


@pytest.mark.parametrize("whose", ["own", "parent"])
async def test_a_budget_that_is_spent(whose: str) -> None:
    """Its own stops the child, with what it has and why; the parent's stops the run."""
    did: list[str] = []
    few = Limits(max_tokens=150)
    expert = working("one", did, times=50, limits=few if whose == "own" else Limits(max_turns=99))
    boss = Agent(
        "boss",
        playing(asking(("a", "one"), usage=USAGE), repeating),
        tools=[expert],
        settings=expert.settings,
    )
    result = await boss.run("go", limits=few if whose == "parent" else Limits())

    text = result.tool_results[0].text
    assert "one stopped without an answer (budget: The next model call could exceed" in text
    assert result.stop_reason == ("answer" if whose == "own" else "budget")
    assert result.usage.total_tokens <= 150 + (0 if whose == "parent" else 22)
    assert 0 < len(did) < 50


async def test_money_is_reserved_in_the_tree() -> None:
    """Two children at once do not both get what is left."""

    free, dear = Price(input=0, output=0), Price(input=0, output=1_000_000)
    named = ModelProfile(provider="p", name="m", price=dear)

    async def costly(request: ModelRequest) -> Any:
        await asyncio.sleep(0)
        return reply("bought", usage=Usage(output_tokens=1, requests=1))

    names = ("one", "two", "three")
    settings = ModelSettings(max_output_tokens=1)
    experts = [Agent(n, FunctionModel(costly, profile=named), settings=settings) for n in names]
    first = asking(("a", "one"), ("b", "two"), ("c", "three"))
    model = FunctionModel(
        lambda request: first if len(request.messages) == 1 else last_text(request),
        profile=ModelProfile(provider="p", name="b", price=free),
    )
    boss = Agent("boss", model, tools=experts)
    result = await boss.run("go", limits=Limits(max_cost=Decimal(2)))

    assert result.usage.cost == Decimal(2)
    assert sorted(each.is_error for each in result.tool_results) == [False, False, True]


@pytest.mark.parametrize("whose", ["own", "parent"])
async def test_a_deadline(whose: str) -> None:
    """The child's ends the child, the parent's everything."""
    hanging = Hanging()
    soon = Limits(deadline=timedelta(milliseconds=30))
    expert = Agent("one", hanging, limits=soon if whose == "own" else Limits())
    boss = Agent("boss", playing(asking(("a", "one")), last_text), tools=[expert])
    store = MemoryStore()
    limits = soon if whose == "parent" else Limits()
    result = await boss.run("go", limits=limits, store=store, conversation="c")

    assert hanging.stopped.is_set()
    check_answered(list(result.messages))
    if whose == "own":
        assert "one stopped without an answer (deadline: The run took longer than" in result.output
        assert result.stop_reason == "answer"
    else:
        assert result.stop_reason == "deadline"
        assert (await (await Conversation.open("c", store=store)).view()).children == {}


async def events_of(run: Run[Any]) -> list[Any]:
    """What happens in a run, to its end."""
    return [event async for event in run]


@pytest.mark.parametrize("together", [True, False])
async def test_cancelling_stops_everything(together: bool) -> None:
    """Models and tools of children, two deep; the journal is whole, and nothing outlives it."""
    stopped: list[str] = []
    began = asyncio.Semaphore(0)

    @tool
    async def hang(ctx: RunContext) -> str:
        """Hang."""
        try:
            began.release()
            await asyncio.Event().wait()
        finally:
            stopped.append(ctx.call_id)
        return ""

    inner = Agent("inner", playing(calls(("h", "hang", {}), ("i", "hang", {}))), tools=[hang])
    middle = Agent("middle", playing(asking(("m", "inner"))), tools=[inner])
    asked = [("a", "middle"), ("b", "middle")] if together else [("a", "middle")]
    boss = Agent("boss", playing(asking(*asked)), tools=[middle])
    store = MemoryStore()
    run = boss.start("go", store=store, conversation="c")
    watching = asyncio.ensure_future(events_of(run))
    for _ in range(2 * len(asked)):
        await began.acquire()
    result = await run.cancel("enough")
    events = await watching

    assert result is not None
    assert (result.stop_reason, result.reason) == ("cancelled", "enough")
    assert len(stopped) == 2 * len(asked)
    assert [event.type for event in events].count("run.finished") == 1
    left = [event for event in events if isinstance(event, AgentLeft)]
    assert {event.stop_reason for event in left} == {"cancelled"}
    assert len(left) == 2 * len(asked)
    conversation = await Conversation.open("c", store=store)
    entries = [entry for _, entry in await conversation.entries()]
    ends = [entry.path for entry in entries if isinstance(entry, ChildEnded)]
    assert len(ends) == len(set(ends)) == 2 * len(asked)
    results = [entry for entry in entries if isinstance(entry, CallEnded)]
    assert len(results) == 4 * len(asked)
    assert list(await conversation.messages()) == list(result.messages)
    assert (await conversation.view()).children == {}
    resumed = await boss.replace(model=playing("never", "so be it")).resume(
        result.run_id, store=store
    )
    assert resumed.output == "so be it"


async def test_a_task_that_is_cancelled_from_outside() -> None:
    """The cancellation is raised, after the children have let go."""
    hanging = Hanging()
    boss = Agent("boss", playing(asking(("a", "one"))), tools=[Agent("one", hanging)])
    task = asyncio.ensure_future(boss.run("go"))
    await hanging.asked.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert hanging.stopped.is_set()


async def test_a_sibling_that_fails_the_run_stops_the_children() -> None:
    """As it stops tools."""
    hanging = Hanging()

    @tool(on_error="fail")
    async def fail() -> str:
        """Fail."""
        await hanging.asked.wait()
        raise ValueError("enough")

    asked = calls(("a", "one", {"input": "?"}), ("b", "fail", {}))
    boss = Agent("boss", playing(asked), tools=[Agent("one", hanging), fail])
    store = MemoryStore()
    with pytest.raises(Exception, match="enough"):
        await boss.run("go", store=store, conversation="c")
    assert hanging.stopped.is_set()
    view = await (await Conversation.open("c", store=store)).view()
    assert view.children == {}
    check_answered(list(view.messages))


def test_budgets_of_a_tree() -> None:
    """What a child may do is bounded by all above it; turns are its own."""
    root = Budget(Limits(max_tool_calls=5, max_depth=2))
    child = Budget(Limits(max_tool_calls=3), root)
    grandchild = Budget(Limits(max_turns=1), child)

    assert (root.depth_left(), child.depth_left(), grandchild.depth_left()) == (2, 1, 0)
    grandchild.hold_calls(2)
    assert (root.tool_calls_left(), grandchild.tool_calls_left()) == (3, 1)
    assert grandchild.most_tool_calls() == 3
    root.hold_calls(3)
    assert grandchild.most_tool_calls() == 5
    grandchild.restore(Usage(requests=4, tool_calls=2), 1, 2)
    assert (grandchild.usage.requests, grandchild.usage.tool_calls) == (4, 2)
    assert (root.usage.requests, root.tool_calls) == (0, 0)
    assert Budget(Limits()).most_tool_calls() is None


async def test_the_model_may_be_a_function_that_hangs() -> None:
    """A child's model that swallows its cancellation does not go on."""
    asked = asyncio.Event()

    async def stubborn(request: ModelRequest) -> Any:
        asked.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return reply("I would rather not")

    child = Agent("one", FunctionModel(stubborn))
    run = Agent("boss", playing(asking(("a", "one"))), tools=[child]).start("go")
    await asked.wait()
    result = await run.cancel("stop")
    assert result is not None
    assert result.stop_reason == "cancelled"
