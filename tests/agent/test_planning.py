"""Agents that plan: what they are offered and told, and where a plan lives."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from msgspec.json import encode

from tests.agent.dying import Dying, die_after
from tests.agent.nested import playing
from treadle import (
    Agent,
    ConfigError,
    Conversation,
    DefinitionChanged,
    DuplicateTool,
    Interrupt,
    MemoryStore,
    Middleware,
    ModelRequest,
    PlanChanged,
    PlanInvalid,
    RunContext,
    RunNotFound,
    State,
    tool,
)
from treadle.plan import PlanChange, change_step
from treadle.prompts.planning import PLANNING
from treadle.testing import FunctionModel, ScriptedModel, calls

TRIP = {
    "goal": "Go",
    "steps": [
        {"index": 1, "title": "Book", "status": "pending"},
        {"index": 2, "title": "Pack", "status": "pending", "dependencies": [1]},
    ],
}
PLANS = ["generate_plan", "update_plan"]


def update(call_id: str, index: int, status: str) -> tuple[str, str, dict[str, Any]]:
    """A call that updates a step."""
    return call_id, "update_plan", {"index": index, "status": status}


GENERATE = ("g", "generate_plan", TRIP)


def statuses(plan: Any) -> list[str]:
    """The statuses of a plan's steps."""
    return [each.status for each in plan.steps]


@tool
async def look(what: str) -> str:
    """Look."""
    return f"saw {what}"


@tool
def stop() -> Interrupt:
    """Stop for a while."""
    return Interrupt("a rest")


def offered(request: ModelRequest) -> list[str]:
    """The names of the tools that a model is offered."""
    return [spec.name for spec in request.tools]


@pytest.mark.parametrize(
    ("own", "option", "told"),
    [
        (False, None, None),
        (True, None, PLANNING),
        ("Plan it.", None, "Plan it."),
        (False, True, PLANNING),
        (True, False, None),
        ("Plan it.", True, "Plan it."),
        ("Plan it.", "Plan well.", "Plan well."),
        ("Plan it.", False, None),
    ],
)
async def test_planning_is_on_or_off(own: Any, option: Any, told: str | None) -> None:
    """For an agent or for one run: with it on the model has the tools, and is told how to plan."""
    model = ScriptedModel(["yes", "yes"])
    agent = Agent("a", model, instructions="Be kind.", tools=[look], planning=own)
    for _ in range(2):
        await agent.run("x", planning=option, requirements=["In verse"])
    first, again = model.requests
    on = told is not None
    assert offered(first) == ["look", *(PLANS if on else [])]
    assert first.system == "\n\n".join(
        ["Be kind.", *([told] if told else []), "Requirements:\n- In verse"]
    )
    assert again.tools is first.tools, "they are the same objects, whose bytes can be kept"


async def test_planning_needs_no_instructions() -> None:
    """Nor tools of one's own."""
    model = ScriptedModel(["yes"])
    await Agent("a", model, planning=True).run("x")
    assert (model.requests[0].system, offered(model.requests[0])) == (PLANNING, PLANS)


async def test_with_planning_off_the_tools_cannot_be_called() -> None:
    """S39: not even by a model that knows their names."""
    model = ScriptedModel([calls(GENERATE), "no"])
    result = await Agent("a", model, tools=[look], planning=True).run("x", planning=False)
    (answer,) = result.tool_results
    assert answer.is_error
    assert answer.text.startswith("There is no tool 'generate_plan'.")
    assert result.plan is None


@pytest.mark.parametrize("wrong", [1, "", "  ", ["plan"], 0.5])
async def test_other_values_are_refused(wrong: Any) -> None:
    """Of an agent and of a run."""
    with pytest.raises(ConfigError, match=r"planning=.*: give True, False, or your own text"):
        Agent("a", ScriptedModel([]), planning=wrong)
    with pytest.raises(ConfigError, match=r"planning=.*: give True, False, or your own text"):
        await Agent("a", ScriptedModel([])).run("x", planning=wrong)


async def test_a_tool_of_such_a_name_stands_in_the_way() -> None:
    """And it is said which."""

    @tool
    async def update_plan() -> str:
        """Update."""
        return "mine"

    agent = Agent("a", ScriptedModel(["yes", "no"]), tools=[update_plan])
    assert (await agent.run("x")).output == "yes"
    with pytest.raises(DuplicateTool, match="'update_plan' is defined twice"):
        await agent.run("x", planning=True)
    with pytest.raises(DuplicateTool):
        await agent.replace(planning=True).run("x")


@pytest.mark.parametrize("stored", [True, False])
async def test_each_version_is_an_event(stored: bool) -> None:
    """With the plan and what was changed; a refused call is none."""
    script = [
        calls(GENERATE),
        calls(update("u1", 1, "completed"), update("bad", 9, "completed")),
        calls(("u2", "update_plan", {"index": 3, "status": "pending", "title": "Go"})),
        "done",
    ]
    agent = Agent("a", ScriptedModel(script), planning=True)
    run = agent.start("x", store=MemoryStore() if stored else None)
    seen = [event async for event in run if isinstance(event, PlanChanged)]
    assert [event.plan.change for event in seen] == [
        PlanChange("created"),
        PlanChange("updated", ("1",)),
        PlanChange("added", ("3",)),
    ]
    assert [event.plan.version for event in seen] == [1, 2, 3]
    assert {(event.type, event.agent, event.path) for event in seen} == {("plan.changed", "a", "")}
    assert seen[-1].plan == (await run).plan
    told = json.loads(encode(seen[0]))["plan"]
    assert (told["version"], told["change"]["kind"], told["steps"][0]["status"]) == (
        1,
        "created",
        "pending",
    ), "also what is as it is at first"


async def test_calls_of_one_reply_take_effect_in_their_order() -> None:
    """B136: beside others that take long, and however long middleware holds each of them."""
    looked = asyncio.Event()
    order: list[str] = []

    class Holding(Middleware):
        """Hold the first call back for longest."""

        async def before_tool(self, ctx: RunContext, call: Any, arguments: Any) -> Any:
            """Wait."""
            for _ in range({"u1": 30, "u2": 5}.get(call.id, 0)):
                await asyncio.sleep(0)
            order.append(call.id)

    @tool
    async def watch() -> str:
        """Watch until the plan is changed."""
        await looked.wait()
        return "it changed"

    @tool
    async def ring() -> str:
        """Ring."""
        looked.set()
        return "rung"

    both = calls(
        ("w", "watch", {}),
        update("u1", 1, "in_progress"),
        update("u2", 1, "completed"),
        ("r", "ring", {}),
    )
    agent = Agent(
        "a",
        ScriptedModel([calls(GENERATE), both, "done"]),
        tools=[watch, ring],
        middleware=[Holding()],
        planning=True,
    )
    result = await asyncio.wait_for(agent.run("x", store=MemoryStore()), 10)
    assert order.index("u1") < order.index("u2")
    assert [json.loads(each.text)["version"] for each in result.tool_results[2:4]] == [2, 3]
    assert result.plan is not None
    assert (statuses(result.plan), result.plan.version) == (["completed", "pending"], 3)


async def test_a_plan_lives_as_long_as_its_conversation() -> None:
    """S39: through an interrupt and a resume, in the next run, and in a fork of its own."""
    store = MemoryStore()
    script = [
        calls(GENERATE),
        calls(("s", "stop", {})),
        calls(update("u1", 1, "completed")),
        "half",
        calls(update("u2", 2, "completed")),
        "whole",
        calls(update("u3", 2, "blocked")),
        "or not",
    ]
    agent = Agent("a", ScriptedModel(script), tools=[stop], planning=True, store=store)
    paused = await agent.run("x", conversation="c")
    assert paused.stop_reason == "paused"
    assert paused.plan is not None
    resumed = await agent.resume(paused.run_id)
    assert resumed.plan is not None
    assert statuses(resumed.plan) == ["completed", "pending"]

    conversation = await Conversation.open("c", store=store)
    branch = await conversation.fork(resumed.run_id)
    result = await agent.run("And on.", conversation="c")
    assert result.plan is not None
    assert (result.plan.version, result.plan.done) == (3, True)
    assert await conversation.plan() == await conversation.plan("a") == result.plan
    assert await branch.plan() == resumed.plan
    result = await agent.run("Otherwise.", conversation=branch.id)
    assert result.plan is not None
    assert statuses(result.plan) == ["completed", "blocked"]
    assert statuses(await conversation.plan()) == ["completed", "completed"]
    versions: list[int] = []
    for revision in range(1, (await conversation.refresh()).revision + 1):
        plan = await (await conversation.fork(revision=revision)).plan()
        versions.append(0 if plan is None else plan.version)
    assert versions == sorted(versions)
    assert set(versions) == {0, 1, 2, 3}


async def test_a_resume_needs_the_planning_that_the_run_had() -> None:
    """It is part of what the agent is made of; the option is there to say it again."""
    store = MemoryStore()
    script = [calls(GENERATE), calls(("s", "stop", {})), calls(update("u", 1, "completed")), "ok"]
    agent = Agent("a", ScriptedModel(script), tools=[stop], store=store)
    paused = await agent.run("x", planning=True)
    with pytest.raises(DefinitionChanged, match="tool generate_plan is gone; tool update_plan is"):
        await agent.resume(paused.run_id)
    with pytest.raises(ConfigError, match="planning=''"):
        await agent.resume(paused.run_id, planning="")
    result = await agent.resume(paused.run_id, planning=True)
    assert result.plan is not None
    assert statuses(result.plan) == ["completed", "pending"]


async def test_each_agent_has_a_plan_of_its_own() -> None:
    """In one conversation, and under any name; its own tools and instructions can read it."""
    store = MemoryStore()
    seen: list[Any] = []

    @tool
    async def peek(ctx: RunContext) -> str:
        """Look at the plan."""
        seen.append(ctx.plan)
        return "seen"

    def told(ctx: RunContext) -> str:
        seen.append(ctx.plan)
        return "Be brief."

    for name in ("a", "b/c#1", "%"):
        model = ScriptedModel([calls(GENERATE), calls(("p", "peek", {})), "done"])
        agent = Agent(name, model, tools=[peek], instructions=told, planning=True, store=store)
        result = await agent.run("x", conversation="c")
        assert seen[-2:] == [None, result.plan]
    conversation = await Conversation.open("c", store=store)
    assert await conversation.plan("nobody") is None
    assert (await conversation.state()).keys("plan::") == [
        "plan::a",
        "plan::b%2Fc%231",
        "plan::%25",
    ]
    assert await (await Conversation.create("new", store=store)).plan() is None


async def test_child_runs_have_plans_of_their_own() -> None:
    """S38: two of one agent at once; told with their paths; and each begins without one."""
    store = MemoryStore()
    first = update("u0", 1, "completed")
    model = playing(calls(first), calls(GENERATE), calls(update("u", 1, "blocked")), "planned")
    expert = Agent("expert", model, planning=True)
    both = calls(GENERATE, *((f"c{n}", "expert", {"input": "?"}) for n in range(2)))
    script = ScriptedModel([both, "done", both, "done"])
    boss = Agent("boss", script, tools=[expert], planning=True, store=store)
    for _ in range(2):
        run = boss.start("x", conversation="c")
        changed = [event async for event in run if isinstance(event, PlanChanged)]
        result = await run
        assert [each.text for each in result.tool_results[1:]] == ["planned", "planned"]
        told = sorted((each.agent, each.path, each.plan.version) for each in changed)
        assert told == [  # no update before there is a plan, though a run before has left one
            ("boss", "", 1),
            *(("expert", "expert#1", version) for version in (1, 2)),
            *(("expert", "expert#2", version) for version in (1, 2)),
        ]
    conversation = await Conversation.open("c", store=store)
    assert statuses(await conversation.plan()) == ["pending", "pending"]
    assert statuses(await conversation.plan(path="expert#2")) == ["blocked", "pending"]
    assert await conversation.plan("expert") is None


def four_edits() -> FunctionModel:
    """Make a plan, change it twice in one reply, add to it, and answer."""
    added = ("n", "update_plan", {"index": 3, "status": "pending", "title": "Go"})
    return playing(
        calls(GENERATE),
        calls(
            update("u1", 1, "in_progress"),
            ("l", "look", {"what": "x"}),
            update("u2", 1, "completed"),
        ),
        calls(added),
        "done",
    )


@pytest.mark.parametrize("appends", range(1, 9))
async def test_no_edit_is_lost_or_made_twice_by_a_crash(appends: int) -> None:
    """S39: the process dies at any write; each edit counts once."""
    store = Dying()
    agent = Agent("a", four_edits(), tools=[look], planning=True)
    await die_after(appends, agent, store)
    try:
        result = await agent.resume("r", store=store)
    except RunNotFound:  # it died before it had begun
        result = await agent.run("go", store=store)
    assert result.output == "done"
    assert result.plan is not None
    assert (result.plan.version, statuses(result.plan)) == (4, ["completed", "pending", "pending"])


async def test_something_else_in_the_place_of_a_plan_ends_no_run(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It is said where it is looked at."""
    state = State({"plan::a": "mine"})
    store = MemoryStore()
    result = await Agent("a", ScriptedModel(["hi"]), store=store).run(
        "x", state=state, conversation="c"
    )
    assert (result.output, result.plan) == ("hi", None)
    assert "has no plan to show: This is no plan" in caplog.text
    conversation = await Conversation.open("c", store=store)
    with pytest.raises(PlanInvalid, match="This is no plan"):
        await conversation.plan()


@tool(isolation="process")
def skip_all(ctx: RunContext) -> str:
    """Skip every step."""
    assert ctx.plan is not None
    for step in ctx.plan.steps:
        ctx.put_plan(change_step(ctx.plan, step.id, status="skipped"))
    return "skipped"


@pytest.mark.e2e
async def test_a_tool_in_a_process_reads_the_plan() -> None:
    """And one that has a reason may put another."""
    model = ScriptedModel([calls(GENERATE), calls(("p", "skip_all", {})), "done"])
    agent = Agent("a", model, tools=[skip_all], planning=True)
    run = agent.start("x")
    versions = [event.plan.version async for event in run if isinstance(event, PlanChanged)]
    result = await run
    assert versions == [1, 2, 3]
    assert statuses(result.plan) == ["skipped", "skipped"]
