"""What a planner is asked for, and the plan that is made of it or refused in words."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Annotated, Any

from msgspec.structs import replace

from treadle.agent.output import OutputRejected, OutputType
from treadle.errors import PlanInvalid
from treadle.messages import ToolCall
from treadle.plan import OVER, Plan, PlanStep, new_plan, problems_of, revise
from treadle.values import clean

LONGEST_ID = 64
_NOT_SAID = "?"


@dataclass(frozen=True, slots=True)
class StepDraft:
    """A step as a planner gives it."""

    id: Annotated[str, "A short name that no other step has."]
    description: Annotated[str, "All that has to be known to carry the step out."]
    dependencies: Annotated[
        list[str], "The IDs of the steps whose results are needed; none to begin at once."
    ] = field(default_factory=list[str])


@dataclass(frozen=True, slots=True)
class PlanDraft:
    """A plan as a planner gives it."""

    goal: Annotated[str, "What is to be reached, with all that every step has to know of it."]
    steps: list[StepDraft]


class PlanOutput(OutputType):
    """The output of a planner: it is asked again for a plan that cannot be carried out.

    `most` is how many steps there may be, `before` is the plan that it takes the place of.
    `problems` are those of the last one that was refused.
    """

    __slots__ = ("_before", "_most", "problems")

    def __init__(self, most: int, before: Plan | None = None) -> None:
        asked = _asked()
        for name in OutputType.__slots__:
            setattr(self, name, getattr(asked, name))
        self._most, self._before = most, before
        self.problems: tuple[str, ...] = ()

    def from_text(self, text: str) -> Any:
        """Return the draft that a JSON text stands for, or raise `OutputRejected`."""
        return self._checked(super().from_text(text))

    def from_call(self, call: ToolCall) -> Any:
        """Return the draft that a call of the output tool carries, or raise `OutputRejected`."""
        return self._checked(super().from_call(call))

    def _checked(self, draft: PlanDraft) -> PlanDraft:
        try:
            plan_of(draft, self._most, self._before)
        except PlanInvalid as error:
            self.problems = error.problems
            raise OutputRejected("\n".join(error.problems)) from error
        return draft


@lru_cache(maxsize=1)
def _asked() -> OutputType:
    return OutputType(PlanDraft)


def plan_of(draft: PlanDraft, most: int, before: Plan | None = None, reason: str = "") -> Plan:
    """Return the plan that a draft comes to; what is over in the one `before` it stays.

    Raises:
        PlanInvalid: it cannot be carried out; the message names every problem.
    """
    kept = () if before is None else tuple(step for step in before.steps if step.status in OVER)
    over = {step.id for step in kept}
    problems: list[str] = []
    if len(draft.steps) > most:
        problems.append(f"The plan has {len(draft.steps)} steps; {most} is the most.")
    steps: list[PlanStep] = []
    for given in draft.steps:
        step = _step_of(given)
        if step.title == _NOT_SAID:
            problems.append(f"Step {step.id} has no description.")
        if len(step.id) > LONGEST_ID:
            problems.append(
                f"The ID {step.id[:20]}... is too long: {LONGEST_ID} characters are the most."
            )
        if step.id in over:
            problems.append(f"Step {step.id} is over already; give a new step an ID of its own.")
        else:
            steps.append(step)
    goal = clean(draft.goal).strip()
    problems += problems_of(Plan(goal, (*kept, *steps)))
    if problems:
        raise PlanInvalid(problems)
    if before is None:
        return new_plan(goal, steps)
    return revise(replace(before, goal=goal), steps, reason)


def _step_of(given: StepDraft) -> PlanStep:
    description = clean(given.description).strip()
    return PlanStep(
        clean(given.id).strip(),
        description or _NOT_SAID,
        dependencies=tuple(clean(each).strip() for each in given.dependencies),
    )
