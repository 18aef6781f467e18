"""Plans that are carried out: in order, at the same time, with one answer at the end."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.workflows.kitchen import SIX, THREE, Kitchen, asked, draft, step_in
from treadle import (
    Agent,
    Conversation,
    Image,
    MemoryStore,
    ModelRequest,
    PlanExecute,
    PlanInvalid,
    PlanResult,
    State,
)
from treadle.errors import ConfigError
from treadle.events import (
    AgentEntered,
    NodeFinished,
    NodeStarted,
    PlanChanged,
    RunFinished,
    RunPaused,
    TextDelta,
)
from treadle.testing import FunctionModel, reply


async def test_steps_are_carried_out_in_the_order_of_their_dependencies() -> None:
    """S45: one terminal event, a short history, and usage that is the sum of all."""
    made = Kitchen(SIX)
    run = made.kitchen.start("Bread, please.", store=MemoryStore(), conversation="c")
    events = [event async for event in run]
    result = await run

    assert isinstance(result, PlanResult)
    assert result.stop_reason == "answer"
    assert [step.id for step in result.steps] == [
        "heat",
        "weigh",
        "knead",
        "bake",
        "slice",
        "serve",
    ]
    assert all(step.status == "completed" for step in result.steps)
    assert [step.output for step in result.steps][:2] == ["heat done", "weigh done"]
    assert [m.role for m in result.messages] == ["user", "assistant"]
    assert result.messages[0].text == "Bread, please."
    assert result.messages[1].text == result.output
    assert result.output.startswith("It is done: ")
    assert result.usage.requests == result.turns == 2 + 6 * 2
    assert result.usage.input_tokens == 140
    assert result.usage.tool_calls == 6
    assert sum(step.usage.requests for step in result.steps) == 12
    assert {step.turns for step in result.steps} == {2}
    assert sum(isinstance(event, RunFinished | RunPaused) for event in events) == 1
    assert [e.seq for e in events] == list(range(1, len(events) + 1))
    assert result.plan is not None
    assert result.plan.done
    assert [step.id for step in result.plan.steps] == list(SIX)
    assert result.plan.steps[0].result == "bake done"
    assert result.replans == 0


async def test_events_tell_the_plan_and_its_steps() -> None:
    """Each step is a node whose span holds what happens in it; the answer is streamed."""
    made = Kitchen(THREE)
    events = [event async for event in made.kitchen.stream("Go.")]
    nodes = [e for e in events if isinstance(e, NodeStarted | NodeFinished)]
    assert [(type(e).__name__, e.node, e.path) for e in nodes[:2]] == [
        ("NodeStarted", "a", "step:a#1"),
        ("NodeFinished", "a", "step:a#1"),
    ]
    spans = {event.span_id for event in events}
    assert all(event.parent_id in spans for event in events if event.parent_id)
    begun = {e.node: e.span_id for e in nodes if isinstance(e, NodeStarted)}
    entered = {e.path: e.parent_id for e in events if isinstance(e, AgentEntered)}
    assert entered["step:a#1/cook#1"] == begun["a"]
    assert list(entered) == ["plan#1", *(f"step:{id}#1/cook#1" for id in "abc"), "answer#1"]
    plans = [event.plan for event in events if isinstance(event, PlanChanged)]
    assert [plan.version for plan in plans] == [1, 2, 3, 4, 5, 6, 7]
    assert [plan.steps[0].status for plan in plans[:3]] == ["pending", "in_progress", "completed"]
    assert any(isinstance(e, TextDelta) and e.path == "answer#1" for e in events)


async def test_steps_that_wait_for_no_other_run_at_the_same_time() -> None:
    """At most so many, and the next one begins as soon as there is a place."""
    under_way, most, gate = 0, 0, asyncio.Event()

    async def cooks(step: str, request: ModelRequest) -> str:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        if under_way == 3:
            gate.set()
        await gate.wait()
        under_way -= 1
        return f"{step} done"

    made = Kitchen({str(n): [] for n in range(7)}, cooks=cooks, max_parallel_steps=3)
    result = await made.kitchen.run("Go.")
    assert most == 3
    assert [step.status for step in result.steps] == ["completed"] * 7


async def test_a_slow_step_holds_up_only_those_that_wait_for_it() -> None:
    """No waves: what is ready begins."""
    others = asyncio.Event()

    async def cooks(step: str, request: ModelRequest) -> str:
        if step == "slow":
            await others.wait()
        if step == "third":
            others.set()
        return f"{step} done"

    steps = {"slow": [], "first": [], "second": ["first"], "third": ["second"]}
    result = await Kitchen(steps, cooks=cooks, max_parallel_steps=2).kitchen.run("Go.")
    assert [step.id for step in result.steps][:2] == ["first", "second"]
    assert len(result.steps) == 4


async def test_what_a_step_is_told() -> None:
    """The goal, the step, and results of what it depends on; not those of others."""
    made = Kitchen({"a": [], "b": ["a"], "other": [], "c": ["b"]})
    await made.kitchen.run(["Look at this.", Image(url="https://example.org/x.png")])
    told = {step_in(r): r for r in made.requests if "Your step" in asked(r)}
    assert "Goal of the whole work: Bread" in asked(told["c"])
    assert "Result: a done" in asked(told["c"])
    assert "Result: b done" in asked(told["c"])
    assert "other done" not in asked(told["c"])
    assert "Results" not in asked(told["a"])
    assert "b done" not in asked(told["b"])
    assert any(isinstance(part, Image) for part in told["a"].messages[0].parts)
    assert [m.role for m in told["a"].messages][:2] == ["user", "assistant"]


async def test_what_the_planner_is_told() -> None:
    """The tools of the executor, how many steps there may be, what the answer has to meet."""
    made = Kitchen(THREE, max_steps=5)
    await made.kitchen.run("Go.", requirements=["Be brief."])
    first, last = made.requests[0], made.requests[-1]
    assert "1 to 5 steps" in asked(first)
    assert "- mark: Mark a step." in asked(first)
    assert "1. Be brief." in asked(first)
    assert first.messages[0].text == "Go."
    assert "- Be brief." in last.system
    assert last.tools == ()
    assert last.output is None
    assert all("Be brief." in r.system for r in made.requests[1:])


async def test_a_plan_that_cannot_be_is_asked_for_again() -> None:
    """S46: every problem is told."""
    made = Kitchen('{"goal": " ", "steps": [{"id": "a", "description": ""}]}', THREE)
    result = await made.kitchen.run("Go.")
    assert result.output.startswith("It is done")
    told = asked(made.requests[1])
    assert "The plan has no goal." in told
    assert "Step a has no description." in told


@pytest.mark.parametrize(
    ("steps", "problem"),
    [
        ({"a": ["a"]}, "Step a depends on itself."),
        ({"a": ["b"]}, "Step a depends on b, which is no step of the plan."),
        ({"a": ["b"], "b": ["a"]}, "Steps wait for each other: a -> b -> a."),
        ({str(n): list[str]() for n in range(9)}, "The plan has 9 steps; 8 is the most."),
        (dict[str, list[str]](), "The plan has no steps."),
        ({"": []}, "The step at place 1 has no ID."),
        ({"a": ["b", "b"], "b": []}, "Step a depends on b twice."),
        ({"x" * 65: []}, "The ID xxxxxxxxxxxxxxxxxxxx... is too long: 64 characters are the most."),
    ],
)
async def test_a_run_without_a_plan_that_can_be_fails(
    steps: dict[str, list[str]], problem: str
) -> None:
    """S46: with what was wrong with the last one."""
    made = Kitchen(steps)
    with pytest.raises(PlanInvalid) as caught:
        await made.kitchen.run("Go.")
    assert problem in caught.value.problems
    assert caught.value.result.stop_reason == "failed"
    assert caught.value.result.plan is None
    assert len(made.requests) == 3


async def test_two_steps_of_one_id() -> None:
    """They are refused."""
    step = '{"id": "a", "description": "x"}'
    made = Kitchen('{"goal": "x", "steps": [' + f"{step}, {step}" + "]}")
    with pytest.raises(PlanInvalid, match="Two steps are called a"):
        await made.kitchen.run("Go.")


async def test_no_json_at_all() -> None:
    """The run fails with a plan error, and says what came."""
    with pytest.raises(PlanInvalid, match="no valid output"):
        await Kitchen("I would rather not.").kitchen.run("Go.")


async def test_a_plan_in_a_fence() -> None:
    """It is one."""
    result = await Kitchen(f"```json\n{draft(THREE)}\n```").kitchen.run("Go.")
    assert len(result.steps) == 3


@pytest.mark.parametrize("id", ["plan", "answer", "a/b", "x#1", "50%", "step:a", "ä ö"])
async def test_ids_of_any_kind(id: str) -> None:
    """They are escaped where they have to be."""
    made, store = Kitchen({id: [], "z": [id]}), MemoryStore()
    result = await made.kitchen.run("Go.", store=store, conversation="c", run_id="r")
    assert [step.id for step in result.steps] == [id, "z"]
    again = await made.kitchen.resume("r", store=store)
    assert again.steps == result.steps
    assert again.plan == result.plan


async def test_the_executors_model_plans_where_no_other_is_given() -> None:
    """A planner is an agent, a model, or whoever works."""

    def answer(request: ModelRequest) -> Any:
        said = asked(request)
        if said.startswith("Make a plan"):
            return reply(draft({"a": []}))
        return reply("over" if said.startswith("The work") else "a done")

    model = FunctionModel(answer)
    result = await PlanExecute("p", executor=Agent("worker", model)).run("Go.")
    assert (result.output, result.steps[0].output) == ("over", "a done")


async def test_one_agent_plans_and_works() -> None:
    """Also one that is called like a step of the flow, and plans by itself."""

    def answer(request: ModelRequest) -> Any:
        said = asked(request)
        if said.startswith("Make a plan"):
            return reply(draft({"a": [], "b": []}))
        return reply("over" if said.startswith("The work") else "done")

    agent = Agent("plan", FunctionModel(answer), planning=True)
    store = MemoryStore()
    result = await PlanExecute("p", planner=agent, executor=agent).run(
        "Go.", store=store, run_id="r"
    )
    assert [step.output for step in result.steps] == ["done", "done"]


async def test_a_conversation_goes_on() -> None:
    """The planner sees what was said before; the plan is another one."""
    made, store = Kitchen(THREE), MemoryStore()
    await made.kitchen.run("One.", store=store, conversation="c")
    before = len(made.requests)
    result = await made.kitchen.run("Two.", store=store, conversation="c")
    assert [m.text for m in made.requests[before].messages][0:3:2] == ["One.", "Two."]
    assert [m.role for m in result.messages] == ["user", "assistant"] * 2
    assert len(result.steps) == 3
    assert result.plan is not None
    assert result.plan.version == 7
    kept = await (await Conversation.open("c", store=store)).plan("kitchen")
    assert kept == result.plan


async def test_a_run_that_fails_to_plan_has_no_plan_of_the_run_before() -> None:
    """What was planned for another question is gone."""
    made, store = Kitchen(THREE), MemoryStore()
    await made.kitchen.run("One.", store=store, conversation="c")
    failing = Kitchen("no")
    with pytest.raises(PlanInvalid) as caught:
        await failing.kitchen.run("Two.", store=store, conversation="c")
    assert caught.value.result.plan is None


async def test_state_of_steps_is_merged_when_they_end() -> None:
    """What a step writes is seen by those that wait for it."""
    state = State({"session::seen": 1})
    made = Kitchen(THREE)
    result = await made.kitchen.run("Go.", state=state)
    assert result.state.get("session::done a") == 1
    assert sorted(k for k in result.state.keys("session::")) == [
        "session::done a",
        "session::done b",
        "session::done c",
        "session::seen",
    ]


async def test_without_a_store_it_is_the_same() -> None:
    """And from sync code."""
    kept = await Kitchen().kitchen.run("Go.", store=MemoryStore(), conversation="c")
    loose = await Kitchen().kitchen.run("Go.")
    assert loose.output == kept.output
    assert loose.usage == kept.usage
    assert loose.steps == kept.steps
    assert loose.plan == kept.plan
    assert list(loose.messages) == list(kept.messages)
    assert loose.state.snapshot() == kept.state.snapshot()


def test_it_runs_from_sync_code() -> None:
    """Like an agent."""
    assert Kitchen(THREE).kitchen.run_sync("Go.").replans == 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"max_steps": 0}, "from 1 to 100"),
        ({"max_steps": 101}, "from 1 to 100"),
        ({"max_replans": -1}, "from 0 on"),
        ({"max_replans": True}, "from 0 on"),
        ({"max_parallel_steps": 0}, "from 1 on"),
        ({"max_parallel_steps": 1.5}, "from 1 on"),
        ({"on_failure": "stop"}, "is none of replan, fail, skip"),
        ({"name": " "}, "need a name"),
        ({"executor": "me"}, "cannot be run"),
        ({"planner": Kitchen(THREE).kitchen}, "give an agent"),
        ({"planner": None, "executor": Kitchen(THREE).kitchen}, "needs a planner"),
        ({"limits": 3}, "limits"),
        ({"store": 3}, "store"),
        ({"reducers": {"a": 1}}, "not callable"),
        ({"reducers": 5}, "give a dict of functions"),
        ({"reducers": {1: max}}, "keys of the state are texts"),
        ({"description": 5}, "description"),
        ({"planner": 3}, "not a model"),
    ],
)
async def test_what_cannot_be(options: dict[str, Any], words: str) -> None:
    """It is said at once, or when the run begins."""
    given: dict[str, Any] = {
        "name": "p",
        "executor": Kitchen().cook,
        "planner": Kitchen().planner,
    } | options
    with pytest.raises(ConfigError, match=words):
        await PlanExecute(given.pop("name"), **given).run("Go.")


def test_a_copy() -> None:
    """With other fields."""
    made = Kitchen().kitchen
    assert made.replace(max_steps=3).max_steps == 3
    with pytest.raises(ConfigError, match="no field 'steps'"):
        made.replace(steps=3)
