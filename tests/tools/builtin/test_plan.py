"""The plan tools: what they take, what they answer, and that a refused call changes nothing."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given as draws
from hypothesis import strategies as st

from treadle import Agent, Limits, Plan, RunContext, RunResult, State
from treadle.limits import Budget
from treadle.plan import STATUSES, PlanStep, new_plan, to_plain
from treadle.ports.context import RunFacts
from treadle.testing import ScriptedModel, calls
from treadle.testing.scripted import calls_raw
from treadle.tools.builtin.plan import plan_tools

STEPS = [
    {"index": 1, "title": "Find flights", "status": "pending"},
    {"index": 2, "title": "Book", "status": "pending", "dependencies": [1]},
    {"index": 3, "title": "Pack", "status": "pending", "dependencies": [1, 2]},
]
TRIP = {"goal": "Go to Oslo", "steps": STEPS}


async def keep(*given: tuple[str, Any], state: Any = None) -> RunResult[str]:
    """Run an agent whose model makes these calls, one after another."""
    made = [calls((f"c{n}", name, arguments)) for n, (name, arguments) in enumerate(given)]
    agent = Agent("planner", ScriptedModel([*made, "done"]), planning=True)
    return await agent.run("Plan.", state=state)


def answers_of(result: RunResult[str]) -> list[dict[str, Any]]:
    """What each call answered; none of them is an error of the call."""
    assert not any(each.is_error for each in result.tool_results)
    return [json.loads(each.text) for each in result.tool_results]


async def refused(arguments: Any, name: str = "update_plan") -> str:
    """Return why a call on the trip's plan is refused; nothing changes by it."""
    result = await keep(("generate_plan", TRIP), (name, arguments))
    first, second = answers_of(result)
    assert (first["ok"], second["ok"]) == (True, False)
    assert (second["version"], second["plan"]) == (1, first["plan"])
    assert result.plan is not None
    assert result.plan.version == 1
    message = second["message"]
    assert message.startswith("Nothing was changed. ")
    return message.removeprefix("Nothing was changed. ")


async def test_a_plan_is_made_and_answered_as_json() -> None:
    """B131, B133: with indexes, as the model gave them; indented."""
    given = {
        **TRIP,
        "constraints": ["No night trains"],
        "assumptions": "Two people",
        "notes": ["", "by rail?"],
    }
    result = await keep(("generate_plan", given))
    (answer,) = answers_of(result)
    assert answer == {
        "ok": True,
        "message": "The plan has 3 steps. 0 of 3 are done. Ready to begin: 1.",
        "version": 1,
        "plan": {
            **TRIP,
            "constraints": ["No night trains"],
            "assumptions": ["Two people"],
            "notes": ["by rail?"],
        },
    }
    assert result.tool_results[0].text.startswith('{\n  "ok": true,\n  "message"')
    assert result.plan == new_plan(
        "Go to Oslo",
        [
            PlanStep("1", "Find flights"),
            PlanStep("2", "Book", dependencies=("1",)),
            PlanStep("3", "Pack", dependencies=("1", "2")),
        ],
        constraints=["No night trains"],
        assumptions=["Two people"],
        notes=["by rail?"],
    )


async def test_steps_may_come_in_any_order() -> None:
    """Their indexes say which is which."""
    result = await keep(("generate_plan", {**TRIP, "steps": STEPS[::-1]}))
    assert answers_of(result)[0]["plan"]["steps"] == STEPS


@pytest.mark.parametrize("one", [1, 1.0, "1", " 1 ", "1.0", "+1"])
async def test_integers_may_come_as_what_models_write(one: Any) -> None:
    """B133: as integers, floats without a fraction, and texts."""
    steps = [{**STEPS[0], "index": one}, {**STEPS[1], "dependencies": [one]}, STEPS[2]]
    result = await keep(
        ("generate_plan", {**TRIP, "steps": steps}),
        ("update_plan", {"index": one, "status": "completed"}),
    )
    assert [each["ok"] for each in answers_of(result)] == [True, True]
    assert result.plan is not None
    assert result.plan.steps[0].status == "completed"
    assert result.plan.steps[1].dependencies == ("1",)


@pytest.mark.parametrize(
    "none", [True, 1.5, "one", "1.5", "", 0, -1, "-2", None, [1], 1e300, "9" * 40, 10**30]
)
async def test_other_values_are_no_index(none: Any) -> None:
    """S38: also not in dependencies."""
    why = await refused({"index": none, "status": "completed"})
    assert why.startswith("'index' has to be the index of a step, 1 or more; ")
    why = await refused({"index": 3, "status": "pending", "dependencies": [1, none]})
    assert why.startswith("'dependencies' has to be a list of indexes of steps, each 1 or more; ")


@pytest.mark.parametrize(
    ("steps", "why"),
    [
        ([], "'steps' has to be a list of at least one step; [] was given."),
        ("1. Go", "'steps' has to be a list of at least one step; '1. Go' was given."),
        (["go"], "Step at place 1: it has to be an object; 'go' was given."),
        ([STEPS[0], STEPS[0]], "Indexes have to run from 1 to 2, each once; 1, 1 were given."),
        ([STEPS[0], STEPS[2]], "Indexes have to run from 1 to 2, each once; 1, 3 were given."),
        ([{**STEPS[0], "dependencies": [4]}], "Step 1 depends on 4, which is no step of the plan."),
        ([{**STEPS[0], "dependencies": [1]}], "Step 1 depends on itself."),
        (
            [STEPS[0], {**STEPS[1], "dependencies": [1, 1]}],
            "Step 2 depends on 1 twice.",
        ),
        (
            [{**STEPS[0], "dependencies": [2]}, STEPS[1]],
            "Steps wait for each other: 1 -> 2 -> 1.",
        ),
        (
            [{**STEPS[0], "status": "done"}],
            f"Step 1 is 'done', which is none of {', '.join(STATUSES)}.",
        ),
        ([{**STEPS[0], "title": " "}], "Step 1 has no title."),
        (
            [{"index": 1, "titel": "x"}],
            (
                "Step at place 1: There is no field 'titel'; there are index, title, status, "
                "dependencies, detail, notes. Step at place 1: 'title' has to be a text; it is "
                "missing. Step at place 1: 'status' has to be a text; it is missing."
            ),
        ),
    ],
)
async def test_a_plan_that_cannot_be_is_refused(steps: Any, why: str) -> None:
    """S38: gaps, duplicates, unknown and self dependencies, circles, wrong statuses."""
    assert await refused({**TRIP, "steps": steps}, "generate_plan") == why


async def test_what_a_plan_cannot_be_without() -> None:
    """A goal and steps, and lists that are lists; all of it is told at once."""
    why = await refused({"notes": 3, "constraints": [1]}, "generate_plan")
    assert why == (
        "'goal' has to be a text; it is missing. 'steps' has to be a list of at least one step; it "
        "is missing. 'constraints' has to be a list of texts; [1] was given. 'notes' has to be a "
        "list of texts; 3 was given."
    )
    assert await refused({**TRIP, "goal": "  "}, "generate_plan") == "The plan has no goal."
    assert (await refused({}, "generate_plan")).startswith(
        "'goal' has to be a text; it is missing."
    )


async def test_a_step_changes_in_what_is_given() -> None:
    """B132: the rest stays; the version counts; nulls are nothing given."""
    result = await keep(
        ("generate_plan", TRIP),
        ("update_plan", {"index": 2, "status": "in_progress", "detail": "two seats"}),
        (
            "update_plan",
            {"index": 2, "status": "completed", "title": None, "notes": "AB12", "detail": None},
        ),
        ("update_plan", {"index": 2, "status": "completed", "detail": "", "dependencies": []}),
    )
    answers = answers_of(result)
    assert [each["version"] for each in answers] == [1, 2, 3, 4]
    assert answers[2]["message"] == (
        "Step 2 was updated: completed. 1 of 3 are done. Ready to begin: 1."
    )
    assert answers[2]["plan"]["last_update"] == {"action": "updated", "indexes": [2]}
    assert answers[2]["plan"]["steps"][1] == {
        "index": 2,
        "title": "Book",
        "status": "completed",
        "dependencies": [1],
        "detail": "two seats",
        "notes": "AB12",
    }
    assert result.plan is not None
    assert result.plan.steps[1] == PlanStep("2", "Book", "completed", notes="AB12")


async def test_the_next_index_adds_a_step() -> None:
    """B132: with a title."""
    result = await keep(
        ("generate_plan", TRIP),
        (
            "update_plan",
            {"index": 4, "status": "pending", "title": "Go", "dependencies": [3], "notes": "!"},
        ),
    )
    answer = answers_of(result)[1]
    assert answer["message"] == "Step 4 was added: pending. 0 of 4 are done. Ready to begin: 1."
    assert answer["plan"]["last_update"] == {"action": "added", "indexes": [4]}
    assert result.plan is not None
    assert result.plan.steps[3] == PlanStep("4", "Go", "pending", ("3",), notes="!")


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"index": 4, "status": "pending"}, "Step 4 is new and needs a title."),
        (
            {"index": 5, "status": "pending", "title": "x"},
            "There is no step 5: the plan has 3 steps, and index 4 would add one.",
        ),
        ({"index": 1}, "'status' has to be a text; it is missing."),
        (
            {"index": 1, "status": "done", "dependencies": [1, 7]},
            (
                f"Step 1 is 'done', which is none of {', '.join(STATUSES)}. Step 1 depends on "
                "itself. Step 1 depends on 7, which is no step of the plan."
            ),
        ),
        (
            {"index": 1, "status": "pending", "dependencies": [3]},
            "Steps wait for each other: 1 -> 3 -> 1.",
        ),
        ({"index": 1, "status": "pending", "title": ""}, "Step 1 has no title."),
        (
            {"index": 4, "status": "pending", "title": "x", "dependencies": [4]},
            "Step 4 depends on itself.",
        ),
        (
            {"index": 1, "status": "pending", "dependencies": "2"},
            "'dependencies' has to be a list of indexes of steps, each 1 or more; '2' was given.",
        ),
        (
            {"step": 1},
            (
                "There is no field 'step'; there are index, title, status, dependencies, detail, "
                "notes. 'index' has to be the index of a step, 1 or more; it is missing. 'status' "
                "has to be a text; it is missing."
            ),
        ),
    ],
)
async def test_an_update_that_cannot_be_is_refused(arguments: Any, why: str) -> None:
    """S38: without change, and with everything that is wrong."""
    assert await refused(arguments) == why


async def test_without_a_plan_there_is_nothing_to_update() -> None:
    """And what somebody else wrote where it is kept is none; a new one takes its place."""
    update = ("update_plan", {"index": 1, "status": "completed"})
    for state in (None, State({"plan::planner": {"goal": 7}})):
        result = await keep(update, ("generate_plan", TRIP), update, state=state)
        first, _, third = answers_of(result)
        assert first == {
            "ok": False,
            "message": "Nothing was changed. There is no plan yet; make one with generate_plan.",
            "version": 0,
            "plan": None,
        }
        assert third["version"] == 2


async def test_a_new_plan_takes_the_place_of_the_old() -> None:
    """B131: its version starts at 1 again."""
    other = {"goal": "Stay", "steps": [STEPS[0]]}
    result = await keep(
        ("generate_plan", TRIP),
        ("update_plan", {"index": 1, "status": "completed"}),
        ("generate_plan", other),
    )
    assert [each["version"] for each in answers_of(result)] == [1, 2, 1]
    assert result.plan == new_plan("Stay", [PlanStep("1", "Find flights")])


async def test_a_plan_with_ids_of_its_own_can_be_kept() -> None:
    """The tools know its steps by their places, and give what they add an ID that is free."""
    plan = new_plan("g", [PlanStep("2", "two"), PlanStep("fetch", "get", dependencies=("2",))])
    result = await keep(
        ("update_plan", {"index": 2, "status": "completed", "dependencies": []}),
        ("update_plan", {"index": 3, "status": "pending", "title": "x", "dependencies": [1, 2]}),
        ("update_plan", {"index": 4, "status": "pending", "title": "y", "dependencies": [3, 4]}),
        state=State({"plan::planner": to_plain(plan)}),
    )
    assert result.plan is not None
    assert [(each.id, each.status, each.dependencies) for each in result.plan.steps] == [
        ("2", "pending", ()),
        ("fetch", "completed", ()),
        ("3", "pending", ("2", "fetch")),
    ]
    assert answers_of(result)[2]["message"] == "Nothing was changed. Step 4 depends on itself."


async def test_texts_are_cleaned() -> None:
    """Nothing that a store cannot take gets into a plan."""
    step = r'{"index": 1, "title": "a\u0000b\ud800", "status": "pending"}'
    given = calls_raw(("c", "generate_plan", rf'{{"goal": "g\u0000", "steps": [{step}]}}'))
    result = await Agent("a", ScriptedModel([given, "done"]), planning=True).run("x")
    assert isinstance(result.plan, Plan)
    assert (result.plan.goal, result.plan.steps[0].title) == ("g\ufffd", "a\ufffdb\ufffd")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 9) | st.floats() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(("index", "title", "status", "x")), inner, max_size=3)
    ),
    max_leaves=6,
)
indexes = st.sampled_from((1, 2, "2", 3, 4.0, 5, None, 0))
near_updates = st.fixed_dictionaries(
    {"index": indexes, "status": st.sampled_from((*STATUSES, "done"))},
    optional={"title": st.sampled_from(("t", "")), "dependencies": st.lists(indexes, max_size=3)},
)
near_steps = st.lists(near_updates, max_size=3)


def unheard(*_: Any) -> None:
    """Nobody listens to progress."""


@draws(
    st.lists(
        st.tuples(
            st.sampled_from((0, 1)),
            near_updates
            | st.fixed_dictionaries({"goal": st.just("g"), "steps": near_steps | json_values})
            | st.dictionaries(st.sampled_from(("goal", "steps", "index")), json_values),
        ),
        max_size=8,
    )
)
def test_whatever_is_given_there_is_an_answer(given: list[tuple[int, Any]]) -> None:
    """B133: as JSON; what is refused changes nothing, and what is not is the plan from then on."""
    state = State({"plan::planner": to_plain(new_plan("g", [PlanStep("1", "one")]))})
    told: list[Plan] = []
    facts = RunFacts(
        run_id="r",
        conversation_id="c",
        agent="planner",
        deps=None,
        metadata={},
        budget=Budget(Limits()),
        state=state,
        report=unheard,
    )
    facts.tell_plan = told.append
    for which, arguments in given:
        ctx: RunContext[Any] = RunContext(facts)
        before, number = ctx.plan, len(told)
        answer = json.loads(asyncio.run(plan_tools()[which](ctx, arguments)))
        after = ctx.plan
        assert after is not None
        if answer["ok"]:
            assert after == told[-1]
            assert after.version == (before.version + 1 if which and before else 1)
        else:
            assert (after, len(told), ctx.writes) == (before, number, ())
        assert answer["version"] == after.version
        assert [each["title"] for each in answer["plan"]["steps"]] == [s.title for s in after.steps]


def test_models_are_told_what_the_tools_take() -> None:
    """The schemas name every field, and every status."""
    generate, update = plan_tools()
    assert generate.parameters["required"] == ["goal", "steps"]
    assert update.parameters["required"] == ["index", "status"]
    assert update.parameters["properties"]["status"]["enum"] == list(STATUSES)
