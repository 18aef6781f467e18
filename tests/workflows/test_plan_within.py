"""Plans within other runs, and other runs within plans."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

from tests.workflows.dying import die_after
from tests.workflows.kitchen import THREE, Kitchen, asked, draft
from treadle import (
    END,
    START,
    Agent,
    Approve,
    Conversation,
    Graph,
    Interrupt,
    MemoryStore,
    ModelRequest,
    PlanExecute,
    Swarm,
    tool,
)
from treadle.testing import FunctionModel, ScriptedModel, calls, reply
from treadle.testing.scripted import last_text


async def test_it_is_a_tool() -> None:
    """A call of it is a child run; its plan is at its path."""
    made = Kitchen(THREE)
    boss = Agent(
        "boss",
        FunctionModel(
            lambda request: (
                calls(("b", "kitchen", {"input": "Bread"}))
                if len(request.messages) == 1
                else reply(last_text(request))
            )
        ),
        tools=[made.kitchen],
    )
    store = MemoryStore()
    result = await boss.run("Go.", store=store, conversation="c")
    assert result.output.startswith("It is done")
    plan = await (await Conversation.open("c", store=store)).plan(path="kitchen#1")
    assert plan is not None
    assert plan.done


async def test_it_is_the_executor_of_another() -> None:
    """Plans within plans; each has its own."""
    inner = Kitchen({"x": [], "y": ["x"]})
    outer = PlanExecute(
        "outer",
        planner=ScriptedModel([draft({"a": [], "b": ["a"]}), "All is done."]),
        executor=inner.kitchen,
    )
    store = MemoryStore()
    result = await outer.run("Go.", store=store, run_id="r")
    assert result.output == "All is done."
    assert [step.turns for step in result.steps] == [6, 6]
    assert result.turns == 14


async def test_a_swarm_carries_steps_out() -> None:
    """The planner is told the tools of its members."""
    asks = calls(("t", "transfer_to_two", {"message": "yours"}))
    swarm = Swarm(
        "team",
        agents=[
            Agent("one", FunctionModel(lambda request: asks), tools=Kitchen().cook.tools),
            Agent("two", FunctionModel(lambda request: reply("two did it"))),
        ],
    )
    planner = ScriptedModel([draft({"a": [], "b": []}), "All is done."])
    plan = PlanExecute("p", planner=planner, executor=swarm)
    store = MemoryStore()
    result = await plan.run("Go.", store=store, run_id="r")
    assert [step.output for step in result.steps] == ["two did it"] * 2
    assert "- mark: Mark a step." in planner.requests[0].messages[-1].text
    again = await plan.resume("r", store=store)
    assert again.steps == result.steps


async def test_a_member_of_a_swarm_asks_it() -> None:
    """As a colleague, who answers."""
    made = Kitchen(THREE)
    asks = calls(("t", "consult_kitchen", {"input": "Bread"}))
    one = Agent(
        "one",
        FunctionModel(
            lambda request: asks if len(request.messages) == 1 else reply(last_text(request))
        ),
    )
    result = await Swarm("team", agents=[one, made.kitchen]).run("Go.")
    assert "It is done" in result.output
    assert made.told.count("answer") == 1


async def test_it_is_a_node_of_a_graph() -> None:
    """Also in branches that run at the same time."""

    def graph(left: Kitchen, right: Kitchen) -> Graph:
        made = Graph("both")
        made.add_node("left", left.kitchen)
        made.add_node("right", right.kitchen)
        made.add_node("join", lambda s: f"{s.output('left')} | {s.output('right')}")
        made.add_fan_out("split", ["left", "right"], join="join")
        made.add_edge(START, "split")
        made.add_edge("join", END)
        return made

    whole = await graph(Kitchen(THREE), Kitchen({"x": []})).run("Go.")
    assert whole.output == "It is done: a done, b done, c done | It is done: x done"
    appends, died = 0, True
    while died:
        appends += 1
        left, right, store = Kitchen(THREE), Kitchen({"x": []}), MemoryStore()
        made = graph(left, right)
        died = await die_after(appends, made, store, conversation="c")
        result = await made.resume("r", store=store)
        assert result.output == whole.output
        assert result.usage.requests == whole.usage.requests
        assert len(left.did) == len(set(left.did)) == 3


async def test_as_a_tool_it_goes_on_after_a_crash_at_any_append() -> None:
    """Within the run that asked."""

    def boss(made: Kitchen) -> Agent[Any, str]:
        asks = calls(("b", "kitchen", {"input": "Bread"}))
        model = FunctionModel(
            lambda request: asks if len(request.messages) == 1 else reply(last_text(request))
        )
        return Agent("boss", model, tools=[made.kitchen])

    whole = await boss(Kitchen(THREE)).run("Go.")
    appends, died = 0, True
    while died:
        appends += 1
        made, store = Kitchen(THREE), MemoryStore()
        died = await die_after(appends, boss(made), store, conversation="c")
        result = await boss(made).resume("r", store=store)
        assert result.output == whole.output
        assert list(result.messages) == list(whole.messages)
        assert result.usage == whole.usage
        assert len(made.did) == len(set(made.did)) == 3
    assert appends > 15


async def test_a_planner_may_use_tools_and_wait_for_somebody() -> None:
    """Its own; it has them for plans, and not for the answer."""

    @tool(approval=True)
    async def ask_price(what: str) -> str:
        """Ask for the price."""
        return f"{what} costs 3"

    def think(request: ModelRequest) -> Any:
        said = asked(request)
        if said.startswith("The work is over"):
            assert request.tools == ()
            return reply("All is done.")
        if request.messages[-1].role != "tool":
            return calls(("p", "ask_price", {"what": "flour"}))
        return calls(("f", "final_result", PLAN))

    planner = Agent("chef", FunctionModel(think), tools=[ask_price])
    plan, store = Kitchen().kitchen.replace(planner=planner), MemoryStore()
    paused = await plan.run("Go.", store=store, run_id="r")
    assert [call.call_id for call in paused.pending] == ["plan#1:p"]
    assert paused.plan is None
    result = await plan.resume("r", store=store, decisions={"plan#1:p": Approve()})
    assert result.output == "All is done."


PLAN: dict[str, Any] = {
    "goal": "Bread",
    "steps": [{"id": "a", "description": "Do it.", "dependencies": []}],
}


async def test_a_tool_that_interrupts_pauses_the_run() -> None:
    """B145: as in any run."""

    @tool
    async def stop() -> Interrupt:
        """Stop."""
        return Interrupt("Look at this first.")

    def cooks(step: str, request: ModelRequest) -> Any:
        return None if request.messages[-1].role == "tool" else calls(("s", "stop", {}))

    def looked(step: str, request: ModelRequest) -> Any:
        return f"{step} done"

    store = MemoryStore()
    paused = await Kitchen({"a": []}, cooks=cooks, tools=[stop]).kitchen.run(
        "Go.", store=store, run_id="r"
    )
    assert (paused.stop_reason, paused.reason) == ("paused", "Look at this first.")
    again = Kitchen({"a": []}, cooks=looked, tools=[stop])
    result = await again.kitchen.resume("r", store=store)
    assert result.output == "It is done: a done"


@dataclass
class Loaf:
    """What an executor may give."""

    grams: int


async def test_outputs_that_are_values() -> None:
    """They come back in their type, and models read them as JSON."""

    def cooks(step: str, request: ModelRequest) -> Any:
        return '{"grams": 500}'

    made = Kitchen({"a": [], "b": ["a"]}, cooks=cooks, cook={"output_type": Loaf})
    store = MemoryStore()
    result = await made.kitchen.run("Go.", store=store, run_id="r")
    assert [step.output for step in result.steps] == [Loaf(500), Loaf(500)]
    assert result.output == 'It is done: {"grams":500}, {"grams":500}'
    again = await made.kitchen.resume("r", store=store)
    assert again.steps == result.steps


async def test_steering_while_the_plan_is_made() -> None:
    """It changes the plan before its first step."""
    begun, go = asyncio.Event(), asyncio.Event()

    async def slowly(request: ModelRequest) -> str:
        begun.set()
        await go.wait()
        return draft(THREE)

    made = Kitchen(slowly, {"d": []})
    run = made.kitchen.start("Go.")
    await begun.wait()
    receipt = await run.steer("Only d.")
    go.set()
    result = await run
    assert receipt.status == "applied"
    assert [step.id for step in result.steps] == ["d"]
    assert result.replans == 1


@pytest.mark.parametrize("most", [1, 2])
async def test_what_waits_takes_no_place(most: int) -> None:
    """Others go on beside it."""

    @tool(approval=True)
    async def pay() -> str:
        """Pay."""
        return "paid"

    def cooks(step: str, request: ModelRequest) -> Any:
        waits = step.startswith("wait") and request.messages[-1].role != "tool"
        return calls(("p", "pay", {})) if waits else None

    steps = {"wait1": [], "wait2": [], "x": [], "y": ["x"]}
    made = Kitchen(steps, cooks=cooks, tools=[pay], max_parallel_steps=most)
    paused = await made.kitchen.run("Go.", store=MemoryStore())
    assert [step.id for step in paused.steps] == ["x", "y"]
    assert len(paused.pending) == 2


async def test_a_scope_of_its_own_plan() -> None:
    """An executor that plans has a plan of its own in each step."""

    def cooks(step: str, request: ModelRequest) -> Any:
        if request.messages[-1].role == "tool":
            return f"{step} done"
        steps = [{"index": 1, "title": f"Part of {step}", "status": "pending"}]
        return calls(("g", "generate_plan", {"goal": step, "steps": steps}))

    made, store = Kitchen(THREE, cooks=cooks, cook={"planning": True}), MemoryStore()
    result = await made.kitchen.run("Go.", store=store, conversation="c")
    conversation = await Conversation.open("c", store=store)
    plans = [await conversation.plan(path=f"step:{id}#1/cook#1") for id in "abc"]
    assert [plan.goal for plan in plans if plan] == ["a", "b", "c"]
    assert await conversation.plan("kitchen") == result.plan
