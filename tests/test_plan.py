"""Plans as values: what may be, what may not, and what every edit leaves whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle import Plan, PlanInvalid, PlanStep
from treadle.plan import (
    MOST_STEPS,
    OVER,
    STATUSES,
    PlanChange,
    Status,
    add_step,
    change_step,
    from_plain,
    new_plan,
    problems_of,
    revise,
    to_plain,
)

NAMES = ("a", "b", "c", "d", "e")


def step(id: str, *dependencies: str, status: Status = "pending") -> PlanStep:
    """A step with a title of its own."""
    return PlanStep(id, f"do {id}", status, dependencies)


def bread() -> Plan:
    """Three steps in a row."""
    return new_plan("bread", [step("mix"), step("bake", "mix"), step("eat", "bake")])


@st.composite
def any_steps(draw: st.DrawFn) -> Sequence[PlanStep]:
    """Steps that may depend on anything, each other and nothing known."""
    ids = draw(st.lists(st.sampled_from(NAMES), max_size=5))
    wanted = st.lists(st.sampled_from((*NAMES, "x")), max_size=3).map(tuple)
    statuses = st.sampled_from(cast("tuple[Status, ...]", STATUSES))
    return [
        PlanStep(id, draw(st.sampled_from(("t", " "))), draw(statuses), draw(wanted)) for id in ids
    ]


def runs_in_a_circle(steps: Sequence[PlanStep]) -> bool:
    """Whether no order of the steps lets each come after those that it waits for."""
    left = list(steps)
    done: set[str] = set()
    while free := [each for each in left if done.issuperset(each.dependencies)]:
        done.update(each.id for each in free)
        left = [each for each in left if each not in free]
    return bool(left)


def test_a_plan_knows_what_is_ready() -> None:
    """What is skipped is over like what is completed; what is blocked or under way is not ready."""
    plan = bread()
    assert [each.id for each in plan.ready] == ["mix"]
    assert (plan.version, plan.change, plan.done) == (1, PlanChange("created"), False)

    plan = change_step(plan, "mix", status="in_progress")
    assert plan.ready == ()
    plan = change_step(plan, "mix", status="skipped", notes="there was some")
    assert [each.id for each in plan.ready] == ["bake"]
    plan = change_step(change_step(plan, "bake", status="completed"), "eat", status="completed")
    assert (plan.done, plan.ready, plan.version) == (True, (), 5)
    assert plan.change == PlanChange("updated", ("eat",))
    assert plan.step("mix") == PlanStep("mix", "do mix", "skipped", notes="there was some")
    assert plan.step("wash") is None


def test_every_problem_is_told_at_once() -> None:
    """Each as a sentence, also as a list."""
    steps = [
        PlanStep("1", "", cast("Status", "done"), ("1", "9", "9")),
        PlanStep("1", "twice"),
        PlanStep(" ", "nameless"),
    ]
    with pytest.raises(PlanInvalid) as caught:
        new_plan("", steps)
    assert caught.value.problems == (
        "The plan has no goal.",
        "Step 1 has no title.",
        "Step 1 is 'done', which is none of pending, in_progress, completed, blocked, skipped.",
        "Step 1 depends on itself.",
        "Step 1 depends on 9, which is no step of the plan.",
        "Step 1 depends on 9, which is no step of the plan.",
        "Step 1 depends on 9 twice.",
        "Two steps are called 1.",
        "The step at place 3 has no ID.",
    )
    assert str(caught.value) == " ".join(caught.value.problems)


@pytest.mark.parametrize("count", [0, MOST_STEPS + 1])
def test_a_plan_has_some_steps_and_not_too_many(count: int) -> None:
    """Between one and a hundred."""
    with pytest.raises(PlanInvalid, match=r"no steps|101 steps; 100 is the most"):
        new_plan("much", [step(str(n)) for n in range(count)])
    assert len(new_plan("all", [step(str(n)) for n in range(MOST_STEPS)]).ready) == MOST_STEPS


def test_each_circle_is_named() -> None:
    """With the steps in it, not those that only wait for it."""
    steps = [
        step("start", "a"),
        *(step("a", "b"), step("b", "c"), step("c", "a")),
        *(step("x", "y"), step("y", "x")),
    ]
    with pytest.raises(PlanInvalid) as caught:
        new_plan("never", steps)
    assert caught.value.problems == (
        "Steps wait for each other: a -> b -> c -> a.",
        "Steps wait for each other: x -> y -> x.",
    )


def test_an_edit_that_cannot_be_changes_nothing() -> None:
    """The plan is a value: what was there is there."""
    plan = bread()
    before = to_plain(plan)
    for edit in (
        lambda: change_step(plan, "mix", dependencies=("eat",)),
        lambda: change_step(plan, "mix", title=" "),
        lambda: change_step(plan, "wash", status="completed"),
        lambda: add_step(plan, step("mix")),
        lambda: add_step(plan, step("wash", "dirt")),
        lambda: revise(plan, []),
    ):
        with pytest.raises(PlanInvalid):
            edit()
    assert to_plain(plan) == before


def test_revising_keeps_what_is_over() -> None:
    """New steps may wait for what is over, and what is over may not be used again."""
    plan = change_step(bread(), "mix", status="completed")
    revised = revise(plan, [step("fry", "mix")], "the oven is broken")
    assert [each.id for each in revised.steps] == ["mix", "fry"]
    assert revised.change == PlanChange("revised", ("fry",), "the oven is broken")
    with pytest.raises(PlanInvalid, match="Two steps are called mix"):
        revise(plan, [step("mix")])
    with pytest.raises(PlanInvalid, match="depends on bake, which is no step"):
        revise(plan, [step("fry", "bake")])


@given(any_steps())
def test_a_plan_is_refused_when_and_only_when_it_cannot_be(steps: Sequence[PlanStep]) -> None:
    """Circles are found wherever they are, and nothing else is called one."""
    ids = [each.id for each in steps]
    sound = (
        bool(steps)
        and len(set(ids)) == len(ids)
        and all(each.title.strip() for each in steps)
        and all(
            set(each.dependencies) <= set(ids)
            and len(set(each.dependencies)) == len(each.dependencies)
            for each in steps
        )
        and not runs_in_a_circle(steps)
    )
    problems = problems_of(Plan("goal", tuple(steps)))
    assert bool(problems) is not sound


edits = st.lists(
    st.tuples(
        st.sampled_from(("add", "change", "wait", "revise")),
        st.sampled_from(NAMES),
        st.lists(st.sampled_from(NAMES), max_size=2).map(tuple),
        st.sampled_from(STATUSES),
    ),
    max_size=20,
)


def edited(plan: Plan, kind: str, id: str, others: tuple[str, ...], status: Any) -> Plan:
    """Edit a plan in one of the ways there are."""
    match kind:
        case "add":
            return add_step(plan, PlanStep(id, id, status, others))
        case "change":
            return change_step(plan, id, status=status)
        case "wait":
            return change_step(plan, id, dependencies=others)
        case _:
            return revise(plan, [PlanStep(id, id, "pending", others)])


@given(edits)
def test_no_edits_break_a_plan(wanted: Sequence[tuple[str, str, tuple[str, ...], str]]) -> None:
    """It stays sound, it counts, it comes back from storage; and there is always a next step."""
    plan = new_plan("goal", [PlanStep("a", "a")])
    for kind, id, others, status in wanted:
        try:
            after = edited(plan, kind, id, others, status)
        except PlanInvalid:
            continue
        assert after.version == plan.version + 1
        assert not problems_of(after)
        assert from_plain(to_plain(after)) == after
        if all(each.status in (*OVER, "pending") for each in after.steps):
            assert after.done or after.ready
        plan = after


@pytest.mark.parametrize("plain", [None, 7, [], {}, {"goal": "g", "steps": [{"id": 1}]}])
def test_what_is_no_plan_is_none(plain: object) -> None:
    """Also what could be one by its form, and cannot by its dependencies."""
    with pytest.raises(PlanInvalid, match="This is no plan"):
        from_plain(plain)
    with pytest.raises(PlanInvalid, match="depends on itself"):
        from_plain({"goal": "g", "steps": [{"id": "1", "title": "t", "dependencies": ["1"]}]})
