"""Flows: runs that are made of steps, each of which is taken once whatever happens."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.agent.dying import Dying, die_after
from tests.agent.nested import USAGE
from tests.agent.parts import check_answered
from tests.agent.relay import Relay, RelayResult
from tests.agent.test_children_crashes import histories
from treadle import (
    Agent,
    Approve,
    Conversation,
    Deny,
    Limits,
    MemoryStore,
    ModelReply,
    ModelRequest,
    RunContext,
    open_store,
    tool,
)
from treadle.errors import ConfigError
from treadle.events import AgentEntered, RunFinished
from treadle.journal import ChildBegan, ModelReplied, StepBegan, StepEnded
from treadle.testing import FunctionModel, calls, reply
from treadle.testing.scripted import last_text
from treadle.view import View

APPENDS = 19


class Made:
    """A relay, what its models were asked, and what its tools and its function did."""

    def __init__(self, **options: Any) -> None:
        self.asked: list[str] = []
        self.did: list[str] = []

        @tool
        async def mark(ctx: RunContext) -> str:
            """Mark."""
            self.did.append(ctx.idempotency_key)
            ctx.state.set(ctx.call_id.replace(":", "."), 1)
            return "marked"

        def agent(name: str) -> Agent[Any, str]:
            def answer(request: ModelRequest) -> ModelReply:
                turn = sum(message.role == "assistant" for message in request.messages)
                self.asked.append(f"{name} {turn}")
                if turn == 0 and name != "last":
                    return calls(("m", "mark", {}), usage=USAGE)
                return reply(f"{name}: {last_text(request)}", usage=USAGE)

            return Agent(name, FunctionModel(answer), tools=[mark])

        self.relay = Relay(
            "relay",
            agent("first"),
            (agent("one"), agent("two")),
            agent("last"),
            self.did,
            **options,
        )


async def test_a_flow_runs_like_an_agent() -> None:
    """The same ways of running; steps, counters and events of all its parts."""
    made = Made()
    run = made.relay.start("go", run_id="r")
    events = [event async for event in run]
    result = await run

    assert isinstance(result, RelayResult)
    assert result.stop_reason == "answer"
    assert result.took == ["first#1", "note#1", "all#1", "last#1"]
    assert result.output.startswith("last: ")
    assert "first: marked" in result.output
    assert (result.turns, result.usage.tool_calls, result.usage.requests) == (7, 3, 7)
    assert result.messages[-1].text == result.output
    assert [e.seq for e in events] == list(range(1, len(events) + 1))
    assert sum(isinstance(event, RunFinished) for event in events) == 1
    entered = {event.path for event in events if isinstance(event, AgentEntered)}
    assert entered == {"first#1", "all#1/branch#1/one#1", "all#1/branch#2/two#1", "last#1"}
    spans = {event.span_id for event in events}
    assert all(event.parent_id in spans for event in events if event.parent_id)


def test_a_flow_runs_from_sync_code() -> None:
    """Like an agent."""
    assert Made().relay.run_sync("go").took[-1] == "last#1"


async def test_options_for_one_agent_are_refused() -> None:
    """They belong to the agents in it."""
    for wrong in ({"instructions": "Be brief."}, {"output_type": int}, {"planning": True}):
        options: Any = wrong
        with pytest.raises(ConfigError, match="= is for one agent"):
            Made().relay.start("go", **options)


async def test_options_are_laid_over_all_agents() -> None:
    """A model that is given is asked by each of them."""
    model = FunctionModel(lambda request: reply("same"))
    result = await Made().relay.run("go", model=model)
    assert result.output == "same"
    assert result.turns == 4


async def test_a_flow_is_a_tool(tmp_path: Path) -> None:
    """A call of it is a child run, made of steps itself; in a store it comes back as it was."""
    made = Made()
    boss = Agent(
        "boss",
        FunctionModel(
            lambda request: (
                calls(("b", "relay", {"input": "go"}))
                if len(request.messages) == 1
                else reply(last_text(request))
            )
        ),
        tools=[made.relay],
    )
    store = open_store(f"sqlite:///{tmp_path}/x.db")
    result = await boss.run("now", store=store, conversation="c")
    kept = await (await Conversation.open("c", store=store)).messages()
    await store.close()
    assert result.output.startswith("last: ")
    assert (result.turns, result.usage.requests) == (2, 9)
    assert list(kept) == list(result.messages)


@pytest.mark.parametrize("appends", range(1, APPENDS))
async def test_after_a_crash_at_any_append(appends: int) -> None:
    """J3, J4: what is over is not done again, what was under way goes on."""
    whole_made, store = Made(), MemoryStore()
    whole = await whole_made.relay.run("go", store=store, run_id="r", conversation="c")
    assert (await store.head("c")).revision == APPENDS

    made, store = Made(), Dying()
    await die_after(appends, made.relay, store, conversation="c")
    replied = [e for b in await store.read("c") for e in b.entries if isinstance(e, ModelReplied)]
    repeated = Counter(made.asked).total() - len(replied)
    result = await made.relay.resume("r", store=store)

    assert result.stop_reason == "answer"
    assert result.took == whole.took
    assert repeated <= 2, "one for each branch at work"
    keys = Counter(key for key in made.did if " " not in key)
    assert all(times == 1 for times in keys.values())
    assert result.usage.requests == whole.usage.requests
    assert result.turns == whole.turns
    view = View()
    entries: list[Any] = []
    for batch in await store.read("c"):
        view.take_in(batch.revision, batch.entries)
        entries += batch.entries
        for each in histories(view):
            check_answered(list(each.messages))
    assert view.children == {}
    began = Counter(e.path for e in entries if isinstance(e, ChildBegan))
    assert set(began.values()) == {1}
    ended = Counter((e.path, e.step) for e in entries if isinstance(e, StepEnded))
    assert set(ended.values()) == {1}
    tries = sum(isinstance(e, StepBegan) for e in entries)
    assert tries == sum(" " in key for key in made.did) or tries <= 2
    again = await made.relay.resume("r", store=store)
    assert (again.output, again.took) == (result.output, result.took)


async def test_a_function_asks_somebody() -> None:
    """It waits; after a yes it runs, in another process, and after a no it does not."""
    made, store = Made(asks=True), MemoryStore()
    paused = await made.relay.run("go", store=store, run_id="r", conversation="c")
    assert paused.stop_reason == "paused"
    (pending,) = paused.pending
    assert (pending.call_id, pending.name, pending.reason) == ("note#1", "note", "May it be noted?")
    assert not [key for key in made.did if " " in key]

    result = await made.relay.resume("r", store=store, decisions={"note#1": Approve()})
    assert result.stop_reason == "answer"
    assert [key for key in made.did if " " in key] == ["r:note#1 2"]
    with pytest.raises(Exception, match="was decided on before"):
        await made.relay.resume("r", store=store, decisions={"note#1": Deny()})


async def test_a_limit_of_turns_is_shared() -> None:
    """The flow's own limit counts the turns of all its agents; at it each answers."""
    result = await Made().relay.run("go", limits=Limits(max_turns=3))
    assert result.stop_reason == "answer"
    assert result.turns >= 3


async def test_steering_reaches_the_agent_at_work() -> None:
    """J8: it is applied, once, and not carried over."""
    made, store = Made(), MemoryStore()
    run = made.relay.start("go", store=store, conversation="c")
    receipt = await run.steer("Be quick.")
    await run
    assert receipt.status == "applied"
    assert await receipt.refresh() == "applied"


async def test_cancelling_ends_all_branches() -> None:
    """Nothing goes on after it, and a resume finishes what was begun."""
    started = asyncio.Event()

    async def slow(request: ModelRequest) -> ModelReply:
        started.set()
        await asyncio.sleep(60)
        raise AssertionError(request)

    store = MemoryStore()
    made = Made()
    parts = made.relay
    stuck = Relay(
        "relay",
        parts.first,
        (parts.branches[0], Agent("two", FunctionModel(slow), tools=parts.branches[1].tools)),
        parts.last,
        made.did,
    )
    run = stuck.start("go", store=store, run_id="r", conversation="c")
    await started.wait()
    cancelled = await run.cancel("enough")
    assert cancelled is not None
    assert (cancelled.stop_reason, cancelled.reason) == ("cancelled", "enough")
    result = await parts.resume("r", store=store)
    assert result.stop_reason == "answer"
    assert Counter(key for key in made.did if " " not in key).most_common(1)[0][1] == 1
