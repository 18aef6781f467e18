"""Plans whose steps fail, and plans that change."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from tests.agent.parts import Failing
from tests.workflows.kitchen import THREE, Kitchen, asked, draft
from treadle import Agent, Limits, MemoryStore, ModelRequest, RunContext, State, Usage, tool
from treadle.errors import BranchConflict, Overloaded, RunFailed, StoreUnavailable
from treadle.events import NodeFinished, PlanChanged
from treadle.testing import FunctionModel, calls, reply


def broken(*steps: str) -> Any:
    """Let these steps fail."""

    def cooks(step: str, request: ModelRequest) -> Any:
        return ValueError(f"no {step} here") if step in steps else None

    return cooks


async def test_a_failed_step_changes_the_plan() -> None:
    """What is over stays; the planner is told why, and IDs of it are refused."""
    again = {"a": [], "b2": ["a"]}
    made = Kitchen(THREE, again, {"b2": ["a"], "c": ["b2"]}, cooks=broken("b"))
    run = made.kitchen.start("Go.")
    events = [event async for event in run]
    result = await run
    assert [(s.id, s.status) for s in result.steps] == [
        ("a", "completed"),
        ("b", "blocked"),
        ("b2", "completed"),
        ("c", "completed"),
    ]
    assert "no b here" in result.steps[1].error
    assert result.steps[1].output is None
    assert result.replans == 1
    assert result.plan is not None
    assert [step.id for step in result.plan.steps] == ["a", "b2", "c"]
    revised = next(e.plan for e in events if isinstance(e, PlanChanged) and e.plan.version > 4)
    assert "step b failed" in next(
        e.plan.change.reason
        for e in events
        if isinstance(e, PlanChanged) and e.plan.change.kind == "revised"
    )
    assert revised.goal == "Bread"
    told = [asked(r) for r in made.requests]
    change = next(text for text in told if text.startswith("The plan has to change"))
    assert "no b here" in change
    assert "Result: a done" in change
    refused = next(text for text in told if "is over already" in text)
    assert "Step a is over already" in refused
    failed = [e.error for e in events if isinstance(e, NodeFinished) and e.node == "b"]
    assert failed[0] is not None


async def test_a_step_of_the_same_id_is_tried_again() -> None:
    """Only what is over keeps its ID to itself."""
    tries: list[str] = []

    def cooks(step: str, request: ModelRequest) -> Any:
        tries.append(step)
        return ValueError("not yet") if step == "b" and tries.count("b") == 1 else f"{step} done"

    made = Kitchen(THREE, {"b": ["a"], "c": ["b"]}, cooks=cooks)
    result = await made.kitchen.run("Go.", store=MemoryStore(), conversation="c")
    assert [(s.id, s.status) for s in result.steps] == [
        ("a", "completed"),
        ("b", "blocked"),
        ("b", "completed"),
        ("c", "completed"),
    ]
    assert result.stop_reason == "answer"


async def test_nothing_may_be_left_to_do() -> None:
    """A plan that changes may have no more steps, when some are done."""
    made = Kitchen(THREE, {}, cooks=broken("b"))
    result = await made.kitchen.run("Go.")
    assert result.stop_reason == "answer"
    assert result.plan is not None
    assert [step.id for step in result.plan.steps] == ["a"]


async def test_others_under_way_end_before_the_plan_changes() -> None:
    """Their results are not lost."""
    failed = asyncio.Event()

    async def cooks(step: str, request: ModelRequest) -> Any:
        if step == "a":
            failed.set()
            return ValueError("no")
        await failed.wait()
        await asyncio.sleep(0)
        return f"{step} done"

    made = Kitchen({"a": [], "b": [], "c": []}, {"c": []}, cooks=cooks, max_parallel_steps=2)
    result = await made.kitchen.run("Go.")
    assert [(s.id, s.status) for s in result.steps] == [
        ("a", "blocked"),
        ("b", "completed"),
        ("c", "completed"),
    ]


@pytest.mark.parametrize("options", [{"max_replans": 0}, {"on_failure": "fail"}])
async def test_a_failed_step_fails_the_run_and_a_resume_goes_on_with_it(
    options: dict[str, Any],
) -> None:
    """W49: nothing that was done is lost."""
    made, store = Kitchen(THREE, cooks=broken("b"), **options), MemoryStore()
    with pytest.raises(RunFailed, match="no b here") as caught:
        await made.kitchen.run("Go.", store=store, run_id="r")
    assert [step.id for step in caught.value.result.steps] == ["a"]
    assert caught.value.result.plan.steps[1].status == "in_progress"

    mended = Kitchen(THREE, **options)
    result = await mended.kitchen.resume("r", store=store)
    assert [step.status for step in result.steps] == ["completed"] * 3
    assert result.replans == 0
    assert mended.told == ["b 0", "b 1", "c 0", "c 1", "answer"]


async def test_a_failure_beyond_the_replans_fails_the_run() -> None:
    """Each change counts."""
    made = Kitchen(THREE, THREE_MORE, cooks=broken("b", "b2"), max_replans=1)
    with pytest.raises(RunFailed, match="no b2 here") as caught:
        await made.kitchen.run("Go.")
    assert caught.value.result.replans == 1


THREE_MORE: dict[str, list[str]] = {"b2": ["a"]}


async def test_a_failed_step_is_skipped() -> None:
    """Those that wait for it begin, and know."""
    made = Kitchen(THREE, cooks=broken("b"), on_failure="skip")
    result = await made.kitchen.run("Go.")
    assert [step.status for step in result.steps] == ["completed", "skipped", "completed"]
    last = next(r for r in made.requests if "Your step, c" in asked(r))
    assert "Status: failed" in asked(last)
    assert "no b here" in asked(last)
    assert "no b here" in asked(made.requests[-1])
    assert result.plan is not None
    assert result.plan.done


async def test_a_step_that_stops_without_an_answer_has_failed() -> None:
    """Its own deadline, for instance."""

    async def cooks(step: str, request: ModelRequest) -> Any:
        if step == "b":
            await asyncio.sleep(60)
        return f"{step} done"

    limits = Limits(deadline=timedelta(seconds=0.05))
    made = Kitchen(THREE, {"c": ["a"]}, cooks=cooks, cook={"limits": limits})
    result = await made.kitchen.run("Go.")
    assert (result.steps[1].status, result.stop_reason) == ("blocked", "answer")
    assert "deadline" in result.steps[1].error


async def test_a_step_that_reached_its_limit_has_an_early_answer() -> None:
    """It counts, and is marked."""
    made = Kitchen(THREE, cook={"limits": Limits(max_turns=1)})
    result = await made.kitchen.run("Go.")
    assert result.stop_reason == "answer"
    assert result.plan is not None
    assert "limit was reached" in result.plan.steps[0].notes
    assert "limit was reached" in asked(made.requests[-1])


async def test_failures_of_the_store_are_none_of_a_step() -> None:
    """No other plan helps."""

    @tool
    async def lose(ctx: RunContext) -> str:
        """Lose."""
        raise AssertionError(ctx)

    def cooks(step: str, request: ModelRequest) -> Any:
        return StoreUnavailable("the disk is full")

    made = Kitchen(THREE, cooks=cooks, tools=[lose])
    with pytest.raises(StoreUnavailable):
        await made.kitchen.run("Go.")
    assert made.told.count("plan") == 1


async def test_a_store_that_fails_fails_the_run() -> None:
    """At every append: nothing hangs, nothing goes on unwritten."""
    works = 0
    while True:
        store = Failing(works, StoreUnavailable("the disk is full"))
        made = Kitchen({"a": [], "b": [], "c": ["a"]})
        try:
            result = await made.kitchen.run("Go.", store=store)
        except StoreUnavailable:
            works += 1
        else:
            break
    assert result.stop_reason == "answer"
    assert works > 15


async def test_a_blank_answer_is_no_message() -> None:
    """As with an agent."""

    def think(request: ModelRequest) -> Any:
        return reply(draft({"a": []})) if asked(request).startswith("Make") else reply("")

    planner = Agent("chef", FunctionModel(think))
    result = await Kitchen().kitchen.replace(planner=planner).run("Go.", store=MemoryStore())
    assert result.output == ""
    assert [message.role for message in result.messages] == ["user"]


async def test_a_reducer_that_fails_fails_the_step() -> None:
    """What others wrote stays."""

    @tool
    async def write(ctx: RunContext, value: str) -> str:
        """Write."""
        ctx.state.session.set("all", value)
        return value

    def cooks(step: str, request: ModelRequest) -> Any:
        if request.messages[-1].role == "tool":
            return f"{step} done"
        return calls(("w", "write", {"value": step}))

    def never(old: Any, new: Any) -> Any:
        raise OSError("no")

    made = Kitchen(
        {"a": [], "b": []},
        cooks=cooks,
        tools=[write],
        reducers={"session::all": never},
        on_failure="skip",
    )
    result = await made.kitchen.run("Go.")
    assert [step.status for step in result.steps] == ["completed", "skipped"]
    assert result.state.get("session::all") == "a"


async def test_a_planner_that_fails_fails_the_run_and_goes_on_when_resumed() -> None:
    """The steps are not carried out again."""
    store = MemoryStore()
    error = Overloaded("busy", retryable=False)
    made = Kitchen(THREE, error, cooks=broken("b"))
    with pytest.raises(Overloaded):
        await made.kitchen.run("Go.", store=store, run_id="r")
    mended = Kitchen({"c": ["a"]})
    result = await mended.kitchen.resume("r", store=store)
    assert mended.told == ["plan", "c 0", "c 1", "answer"]
    assert [(s.id, s.status) for s in result.steps][1:] == [("b", "blocked"), ("c", "completed")]
    assert result.replans == 1


@pytest.mark.parametrize("policy", ["replan", "skip", "fail"])
async def test_steps_that_write_the_same_key_conflict(policy: Any) -> None:
    """As in a graph: nothing is overwritten silently."""
    both = asyncio.Event()

    @tool
    async def write(ctx: RunContext, value: str) -> str:
        """Write."""
        ctx.state.session.set("shared", value)
        if value == "b":
            both.set()
        await both.wait()
        return value

    def cooks(step: str, request: ModelRequest) -> Any:
        if request.messages[-1].role == "tool":
            return f"{step} done"
        return calls(("w", "write", {"value": step}))

    made = Kitchen({"a": [], "b": []}, {"z": []}, cooks=cooks, tools=[write], on_failure=policy)
    if policy == "fail":
        with pytest.raises(BranchConflict, match="session::shared"):
            await made.kitchen.run("Go.")
        return
    result = await made.kitchen.run("Go.")
    assert "session::shared" in result.steps[1].error
    assert result.steps[1].status == ("blocked" if policy == "replan" else "skipped")
    assert result.state.get("session::shared") == ("z" if policy == "replan" else "a")


async def test_a_reducer_settles_what_steps_write() -> None:
    """In the order in which they end."""

    @tool
    async def write(ctx: RunContext, value: str) -> str:
        """Write."""
        ctx.state.session.set("all", [value])
        return value

    def cooks(step: str, request: ModelRequest) -> Any:
        if request.messages[-1].role == "tool":
            return f"{step} done"
        return calls(("w", "write", {"value": step}))

    def join(old: list[str], new: list[str]) -> list[str]:
        return sorted(old + new)

    made = Kitchen(
        {"a": [], "b": [], "c": []},
        cooks=cooks,
        tools=[write],
        reducers={"session::all": join},
        on_failure="fail",
    )
    result = await made.kitchen.run("Go.", state=State())
    assert result.state.get("session::all") == ["a", "b", "c"]


async def test_a_limit_of_the_whole_run_stops_it() -> None:
    """What a resume with more goes on from."""

    def cooks(step: str, request: ModelRequest) -> Any:
        return reply("a done", usage=Usage(input_tokens=5_000)) if step == "a" else None

    made, store = Kitchen(THREE, cooks=cooks), MemoryStore()
    result = await made.kitchen.run(
        "Go.", store=store, run_id="r", limits=Limits(max_turns=None, max_tokens=5_040)
    )
    assert result.stop_reason == "budget"
    assert [step.id for step in result.steps] == ["a"]
    more = await made.kitchen.resume("r", store=store, limits=Limits(max_turns=None))
    assert more.stop_reason == "answer"
    assert more.replans == 0
    assert [step.status for step in more.steps] == ["completed"] * 3


async def test_a_limit_stops_the_planner_too() -> None:
    """Before there is a plan, and before there is an answer."""
    first = await Kitchen(THREE).kitchen.run("Go.", limits=Limits(max_turns=None, max_tokens=50))
    assert (first.stop_reason, first.steps, first.plan) == ("budget", [], None)

    def cooks(step: str, request: ModelRequest) -> Any:
        return reply("a done", usage=Usage(input_tokens=5_000))

    made, store = Kitchen({"a": []}, cooks=cooks), MemoryStore()
    limits = Limits(max_turns=None, max_tokens=5_040)
    last = await made.kitchen.run("Go.", store=store, run_id="r", limits=limits)
    assert (last.stop_reason, len(last.steps)) == ("budget", 1)
    more = await made.kitchen.resume("r", store=store, limits=Limits(max_turns=None))
    assert more.output == "It is done: a done"


async def test_a_change_that_had_begun_goes_on() -> None:
    """Also where the plan may not change any more when the run is resumed."""
    store = MemoryStore()
    made = Kitchen(THREE, Overloaded("busy", retryable=False), cooks=broken("b"))
    with pytest.raises(Overloaded):
        await made.kitchen.run("Go.", store=store, run_id="r")
    result = await Kitchen({}, max_replans=0).kitchen.resume("r", store=store)
    assert (result.stop_reason, result.replans) == ("answer", 1)


async def test_turns_are_shared() -> None:
    """At the limit each agent still answers."""
    result = await Kitchen(THREE).kitchen.run("Go.", limits=Limits(max_turns=3))
    assert result.stop_reason == "limit"
    assert result.output


async def test_the_goal_may_change() -> None:
    """With the plan."""

    def cake(_: ModelRequest) -> str:
        return draft({"c": ["a"]}, "Cake")

    made = Kitchen(THREE, cake, cooks=broken("b"))
    result = await made.kitchen.run("Go.")
    assert result.plan is not None
    assert result.plan.goal == "Cake"


async def test_long_results_are_shown_in_part() -> None:
    """The plan keeps less than the result has."""

    def cooks(step: str, request: ModelRequest) -> Any:
        return reply("x" * 50_000) if step == "a" else f"{step} done"

    made = Kitchen(THREE, cooks=cooks)
    result = await made.kitchen.run("Go.")
    assert len(result.steps[0].output) == 50_000
    assert result.plan is not None
    assert result.plan.steps[0].result.endswith("[48000 more characters]")
    assert "[30000 more characters]" in asked(made.requests[-1])
