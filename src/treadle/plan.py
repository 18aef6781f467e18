"""A plan: a goal and steps that wait for each other, edited by functions that return a new one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, get_args

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from treadle.errors import PlanInvalid

Status = Literal["pending", "in_progress", "completed", "blocked", "skipped"]
STATUSES: tuple[str, ...] = get_args(Status)
OVER = frozenset(("completed", "skipped"))
MOST_STEPS = 100


class PlanStep(Struct, frozen=True):
    """One step. Its `id` never changes; `dependencies` are the IDs of the steps that it waits for.

    `detail` says more than the title, `notes` is what was learned, `result` what came of it.
    """

    id: str
    title: str
    status: Status = "pending"
    dependencies: tuple[str, ...] = ()
    detail: str = ""
    notes: str = ""
    result: str = ""


class PlanChange(Struct, frozen=True):
    """What the last edit of a plan did, to the steps of these IDs, and why."""

    kind: Literal["created", "added", "updated", "revised"]
    steps: tuple[str, ...] = ()
    reason: str = ""


CREATED = PlanChange("created")


class Plan(Struct, frozen=True):
    """A goal, and the steps towards it. Dependencies never run in a circle.

    `version` counts its edits from 1, and `change` is the last of them.

    ```python
    from treadle.plan import PlanStep, change_step, new_plan

    plan = new_plan("Bake bread", [PlanStep("dough", "Knead the dough"),
                                   PlanStep("oven", "Bake it", dependencies=("dough",))])
    print([step.id for step in plan.ready])
    #> ['dough']
    plan = change_step(plan, "dough", status="completed")
    print([step.id for step in plan.ready], plan.version)
    #> ['oven'] 2
    ```
    """

    goal: str
    steps: tuple[PlanStep, ...]
    constraints: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    version: int = 1
    change: PlanChange = CREATED

    @property
    def ready(self) -> tuple[PlanStep, ...]:
        """The pending steps that wait for no other."""
        over = {step.id for step in self.steps if step.status in OVER}
        return tuple(
            step
            for step in self.steps
            if step.status == "pending" and over.issuperset(step.dependencies)
        )

    @property
    def done(self) -> bool:
        """Whether every step is completed or skipped."""
        return all(step.status in OVER for step in self.steps)

    def step(self, id: str) -> PlanStep | None:
        """Return the step of this ID."""
        return next((step for step in self.steps if step.id == id), None)


def new_plan(
    goal: str,
    steps: Iterable[PlanStep],
    *,
    constraints: Iterable[str] = (),
    assumptions: Iterable[str] = (),
    notes: Iterable[str] = (),
) -> Plan:
    """Return a plan of version 1.

    Raises:
        PlanInvalid: it cannot be; the message names every problem.
    """
    return checked(Plan(goal, tuple(steps), tuple(constraints), tuple(assumptions), tuple(notes)))


def add_step(plan: Plan, step: PlanStep) -> Plan:
    """Return the plan with one more step at its end.

    Raises:
        PlanInvalid: it cannot be; the message names every problem.
    """
    change = PlanChange("added", (step.id,))
    return _edited(plan, (*plan.steps, step), change)


def change_step(plan: Plan, id: str, **changes: Any) -> Plan:
    """Return the plan with these fields of a step changed.

    Raises:
        PlanInvalid: there is no such step, or the plan cannot be; the message names every problem.
    """
    if plan.step(id) is None:
        there = ", ".join(step.id for step in plan.steps)
        raise PlanInvalid([f"There is no step {id}; the plan has {there}."])
    steps = tuple(replace(step, **changes) if step.id == id else step for step in plan.steps)
    return _edited(plan, steps, PlanChange("updated", (id,)))


def revise(plan: Plan, steps: Iterable[PlanStep], reason: str = "") -> Plan:
    """Return the plan with what is over kept, and these steps in place of all others.

    Raises:
        PlanInvalid: it cannot be; the message names every problem.
    """
    kept = tuple(step for step in plan.steps if step.status in OVER)
    new = tuple(steps)
    change = PlanChange("revised", tuple(step.id for step in new), reason)
    return _edited(plan, (*kept, *new), change)


def checked(plan: Plan) -> Plan:
    """Return the plan itself.

    Raises:
        PlanInvalid: it cannot be; the message names every problem.
    """
    problems = problems_of(plan)
    if problems:
        raise PlanInvalid(problems)
    return plan


def problems_of(plan: Plan) -> Sequence[str]:
    """Return everything that is wrong with a plan, each as a sentence."""
    problems: list[str] = []
    if not plan.goal.strip():
        problems.append("The plan has no goal.")
    if not plan.steps:
        problems.append("The plan has no steps.")
    if len(plan.steps) > MOST_STEPS:
        problems.append(f"The plan has {len(plan.steps)} steps; {MOST_STEPS} is the most.")
    seen: set[str] = set()
    known = {step.id for step in plan.steps}
    for place, step in enumerate(plan.steps, 1):
        if not step.id.strip():
            problems.append(f"The step at place {place} has no ID.")
        elif step.id in seen:
            problems.append(f"Two steps are called {step.id}.")
        seen.add(step.id)
        problems += _problems_of_step(step, known)
    if not problems:
        problems += [f"Steps wait for each other: {' -> '.join(c)}." for c in _circles(plan)]
    return problems


def to_plain(plan: Plan) -> dict[str, Any]:
    """Return the plan as JSON values."""
    return msgspec.to_builtins(plan)


def from_plain(plain: object) -> Plan:
    """Return the plan that `to_plain` made these values of.

    Raises:
        PlanInvalid: they are no plan, or one that cannot be.
    """
    try:
        plan = msgspec.convert(plain, Plan)
    except msgspec.ValidationError as error:
        raise PlanInvalid([f"This is no plan: {error}."]) from error
    return checked(plan)


def _edited(plan: Plan, steps: tuple[PlanStep, ...], change: PlanChange) -> Plan:
    return checked(replace(plan, steps=steps, version=plan.version + 1, change=change))


def _problems_of_step(step: PlanStep, known: set[str]) -> Iterable[str]:
    if not step.title.strip():
        yield f"Step {step.id} has no title."
    if step.status not in STATUSES:
        yield f"Step {step.id} is {step.status!r}, which is none of {', '.join(STATUSES)}."
    for n, dependency in enumerate(step.dependencies):
        if dependency == step.id:
            yield f"Step {step.id} depends on itself."
        elif dependency not in known:
            yield f"Step {step.id} depends on {dependency}, which is no step of the plan."
        if dependency in step.dependencies[:n]:
            yield f"Step {step.id} depends on {dependency} twice."


def _circles(plan: Plan) -> Iterable[Sequence[str]]:
    """Yield circles of dependencies that have no step in common, until none is left."""
    waits = {step.id: set(step.dependencies) for step in plan.steps}
    while True:
        while free := {id for id, others in waits.items() if not others & waits.keys()}:
            for id in free:
                del waits[id]
        if not waits:
            return
        circle = _circle_in(waits)
        yield circle
        for id in circle[:-1]:
            del waits[id]


def _circle_in(waits: Mapping[str, set[str]]) -> Sequence[str]:
    """Return a circle where every step waits for another: its first step is its last, too."""
    path = [next(iter(waits))]
    while True:
        following = next(id for id in waits if id in waits[path[-1]])
        if following in path:
            return [*path[path.index(following) :], following]
        path.append(following)
