"""Plans that are steered, paused, cancelled, forked, and resumed by others."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from tests.workflows.kitchen import THREE, Kitchen, asked
from treadle import (
    Approve,
    Conversation,
    ConversationFinalized,
    DefinitionChanged,
    Deny,
    Limits,
    MemoryStore,
    ModelRequest,
    RunContext,
    tool,
)
from treadle.events import PlanChanged, SteerApplied
from treadle.journal import InboxApplied
from treadle.testing import calls


class Slow:
    """Holds a step up until it is let go."""

    def __init__(self, step: str) -> None:
        self.step = step
        self.begun, self.go = asyncio.Event(), asyncio.Event()

    async def __call__(self, step: str, request: ModelRequest) -> Any:
        if step == self.step and not self.go.is_set():
            self.begun.set()
            await self.go.wait()
        return None


async def test_steering_changes_the_plan_after_the_step_under_way() -> None:
    """S47: the messages join the history, and the planner sees them; no agent at work does."""
    slow, store = Slow("b"), MemoryStore()
    made = Kitchen(THREE, {"a": ["b"]}, {"d": ["b"]}, cooks=slow)
    run = made.kitchen.start("Go.", store=store, conversation="c")
    await slow.begun.wait()
    receipt = await run.steer("With seeds.")
    other = await run.steer("And salt.")
    assert receipt.status == "queued"
    slow.go.set()
    events = [event async for event in run]
    result = await run

    assert (receipt.status, other.status) == ("applied", "applied")
    assert await receipt.refresh() == "applied"
    assert [step.id for step in result.steps] == ["a", "b", "d"]
    assert result.replans == 1
    assert [m.text for m in result.messages] == ["Go.", "With seeds.", "And salt.", result.output]
    assert list(await (await Conversation.open("c", store=store)).messages()) == list(
        result.messages
    )
    (change,) = [
        e.plan.change
        for e in events
        if isinstance(e, PlanChanged) and e.plan.change.kind == "revised"
    ]
    assert (change.reason, change.steps) == ("user steering", ("d",))
    planner = next(r for r in made.requests if asked(r).startswith("The plan has to change"))
    assert [m.text for m in planner.messages][:3] == ["Go.", "With seeds.", "And salt."]
    assert "Step a is over already" in str([asked(r) for r in made.requests])
    cooks = [r for r in made.requests if "Your step" in r.messages[0].text]
    assert not any("With seeds." in m.text for r in cooks for m in r.messages)
    assert sum(isinstance(e, SteerApplied) for e in events) == 2
    paths = {
        e.path for b in await store.read("c") for e in b.entries if isinstance(e, InboxApplied)
    }
    assert paths == {""}


@pytest.mark.parametrize("on_steer", ["continue", "carry_over", "discard"])
async def test_beyond_the_replans_messages_reach_the_answer(on_steer: Any) -> None:
    """S47: the plan stays."""
    slow = Slow("b")
    made = Kitchen(THREE, cooks=slow, max_replans=0)
    run = made.kitchen.start("Go.", on_steer=on_steer)
    await slow.begun.wait()
    receipt = await run.steer("With seeds.")
    slow.go.set()
    result = await run
    assert receipt.status == "applied"
    assert result.replans == 0
    assert [step.id for step in result.steps] == ["a", "b", "c"]
    assert [m.text for m in made.requests[-1].messages][:2] == ["Go.", "With seeds."]
    assert [m.role for m in result.messages] == ["user", "user", "assistant"]


@pytest.mark.parametrize("on_steer", ["continue", "carry_over", "discard"])
@pytest.mark.parametrize("replans", [0, 2])
async def test_messages_while_the_answer_is_written(on_steer: Any, replans: int) -> None:
    """J8: the run goes on, or the next one begins with them, or they are dropped."""
    begun, go = asyncio.Event(), asyncio.Event()
    made = Kitchen(THREE, {"d": []}, max_replans=replans)
    chef: Any = made.planner.model

    class Waiting:
        async def complete(self, request: ModelRequest) -> Any:
            if asked(request).startswith("The work is over") and not go.is_set():
                begun.set()
                await go.wait()
            return await chef.complete(request)

    kitchen = made.kitchen.replace(planner=made.planner.replace(model=Waiting()))
    store = MemoryStore()
    run = kitchen.start("Go.", store=store, conversation="c", on_steer=on_steer)
    await begun.wait()
    receipt = await run.steer("With seeds.")
    go.set()
    result = await run
    roles = [m.role for m in result.messages]
    if on_steer != "continue":
        told = "discarded" if on_steer == "discard" else "carried_over"
        assert (receipt.status, roles) == (told, ["user", "assistant"])
        if on_steer == "carry_over":
            await kitchen.run("More.", store=store, conversation="c")
            assert await receipt.refresh() == "applied"
        return
    assert receipt.status == "applied"
    assert roles == ["user", "assistant", "user", "assistant"]
    assert made.told.count("answer") == 2
    assert result.replans == (1 if replans else 0)
    assert ("d" in [step.id for step in result.steps]) == bool(replans)
    kept = await (await Conversation.open("c", store=store)).messages()
    assert list(kept) == list(result.messages)


async def test_a_run_that_has_answered_takes_no_messages() -> None:
    """As with an agent."""
    run = Kitchen(THREE).kitchen.start("Go.")
    await run
    with pytest.raises(ConversationFinalized):
        await run.steer("Late.")


async def test_messages_that_waited_are_part_of_the_first_plan() -> None:
    """They cost no change of it."""
    made, store = Kitchen(THREE), MemoryStore()
    run = made.kitchen.start("Go.", store=store, conversation="c")
    receipt = await run.steer("At once.")
    result = await run
    assert receipt.status == "applied"
    assert result.replans == 0
    assert "At once." in [m.text for m in made.requests[0].messages]


def asking(*steps: str) -> tuple[Any, Any, list[str]]:
    """Return a tool that has to be approved, a cook who calls it, and what it did."""
    did: list[str] = []

    @tool(approval=True)
    async def pay(ctx: RunContext, what: str) -> str:
        """Pay."""
        did.append(what)
        return f"{what} paid"

    def cooks(step: str, request: ModelRequest) -> Any:
        if step in steps and request.messages[-1].role != "tool":
            return calls(("p", "pay", {"what": step}))
        return None

    return pay, cooks, did


async def test_steps_that_wait_for_somebody_pause_the_run() -> None:
    """All that can go on does; another process decides, and each goes on once."""
    pay, cooks, did = asking("a", "b")
    steps = {"a": [], "b": [], "other": [], "later": ["other"], "c": ["a", "b"]}
    made, store = Kitchen(steps, cooks=cooks, tools=[pay], max_parallel_steps=2), MemoryStore()
    paused = await made.kitchen.run("Go.", store=store, run_id="r", conversation="c")
    assert paused.stop_reason == "paused"
    assert sorted(p.call_id for p in paused.pending) == ["step:a#1/cook#1:p", "step:b#1/cook#1:p"]
    assert [step.id for step in paused.steps] == ["other", "later"]
    assert did == []

    decisions = {"step:a#1/cook#1:p": Approve()}
    still = await made.kitchen.resume("r", store=store, decisions=decisions)
    assert still.stop_reason == "paused"
    assert did == ["a"]
    assert [p.call_id for p in still.pending] == ["step:b#1/cook#1:p"]
    result = await made.kitchen.resume(
        "r", store=store, decisions={"step:b#1/cook#1:p": Deny("No money.")}
    )
    assert result.stop_reason == "answer"
    assert did == ["a"]
    assert made.told.count("plan") == 1
    assert len(result.steps) == 5


async def test_steering_a_paused_run() -> None:
    """It waits until the step is over."""
    pay, cooks, _ = asking("a")
    made, store = Kitchen(THREE, {"d": []}, cooks=cooks, tools=[pay]), MemoryStore()
    await made.kitchen.run("Go.", store=store, run_id="r", conversation="c")
    conversation = await Conversation.open("c", store=store)
    receipt = await conversation.steer("With seeds.")
    result = await made.kitchen.resume("r", store=store, decisions={"step:a#1/cook#1:p": Approve()})
    assert await receipt.refresh() == "applied"
    assert [step.id for step in result.steps] == ["a", "d"]


async def test_cancelling_leaves_nothing_and_a_resume_goes_on() -> None:
    """What was done stays done."""
    slow, store = Slow("b"), MemoryStore()
    made = Kitchen(THREE, cooks=slow)
    before = len(asyncio.all_tasks())
    run = made.kitchen.start("Go.", store=store, run_id="r")
    await slow.begun.wait()
    cancelled = await run.cancel("enough")
    assert cancelled is not None
    assert (cancelled.stop_reason, cancelled.reason) == ("cancelled", "enough")
    assert [step.id for step in cancelled.steps] == ["a"]
    assert len(asyncio.all_tasks()) <= before + 1
    slow.go.set()
    result = await made.kitchen.resume("r", store=store)
    assert [step.status for step in result.steps] == ["completed"] * 3
    assert made.did == ["r:step:a#1/cook#1:m", "r:step:b#1/cook#1:m", "r:step:c#1/cook#1:m"]


async def test_the_deadline_of_the_whole_run() -> None:
    """It ends all steps."""
    slow = Slow("b")
    run = Kitchen(THREE, cooks=slow).kitchen
    result = await run.run("Go.", limits=Limits(deadline=timedelta(seconds=0.1)))
    assert result.stop_reason == "deadline"
    assert result.plan is not None
    assert result.plan.steps[1].status == "in_progress"


async def test_a_fork_is_a_conversation_of_its_own() -> None:
    """At every revision, with the plan as it was."""
    made, store = Kitchen(THREE), MemoryStore()
    whole = await made.kitchen.run("Go.", store=store, conversation="c")
    conversation = await Conversation.open("c", store=store)
    for revision in range(1, (await store.head("c")).revision + 1):
        copy = await conversation.fork(revision=revision)
        again = await Kitchen(THREE).kitchen.run("Again.", store=store, conversation=copy.id)
        assert again.output == whole.output
        assert len(again.steps) == 3


async def test_a_definition_that_changed() -> None:
    """It is refused, in words, or accepted."""
    pay, cooks, did = asking("b")
    made, store = Kitchen(THREE, cooks=cooks, tools=[pay]), MemoryStore()
    await made.kitchen.run("Go.", store=store, run_id="r")

    @tool
    async def more() -> str:
        """More."""
        return "more"

    other = Kitchen(THREE, cooks=cooks, tools=[pay, more])
    decisions = {"step:b#1/cook#1:p": Approve()}
    with pytest.raises(DefinitionChanged, match="more"):
        await other.kitchen.resume("r", store=store, decisions=decisions)
    result = await other.kitchen.resume("r", store=store, decisions=decisions, on_change="accept")
    assert result.stop_reason == "answer"
    assert did == ["b"]


async def test_options_of_the_run_are_for_all_agents() -> None:
    """A model that is given is asked by all of them."""
    made = Kitchen(THREE)

    class Asked:
        async def complete(self, request: ModelRequest) -> Any:
            cooks = "Your step" in str(request.messages)
            model: Any = made.cook.model if cooks else made.planner.model
            return await model.complete(request)

    kitchen = made.kitchen.replace(
        planner=made.planner.replace(model=None), executor=made.cook.replace(model=None)
    )
    store = MemoryStore()
    result = await kitchen.run("Go.", model=Asked(), store=store, run_id="r")
    assert len(result.steps) == 3
    again = await kitchen.resume("r", store=store, model=Asked())
    assert again.output == result.output
