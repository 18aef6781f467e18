"""What planners and executors are told."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from treadle.agent.setup import AgentDelegate, RunSetup
from treadle.errors import NotStorable
from treadle.plan import OVER, Plan, PlanStep
from treadle.ports.children import Delegate
from treadle.prompts.lists import numbered_list
from treadle.values import json_text

MOST_SHOWN = 20_000
"""How many characters of one step's result others are shown."""
MOST_KEPT = 2_000
"""How many of them the plan itself keeps."""
MOST_TOOLS = 50
DEEPEST = 3
EARLY = "A limit was reached before the work was done."


def first_plan(tools: Sequence[str], most: int, requirements: Sequence[str]) -> str:
    """Return what a planner is told that makes a plan, after what was asked."""
    steps = "1 step" if most == 1 else f"1 to {most} steps"
    return "\n\n".join(
        [
            "Make a plan for the request above. Do not carry it out, and do not answer it.",
            (
                f"The plan has a goal and {steps}. Another agent carries out the steps, each in a "
                "run of its own that knows nothing but the goal, its step, and the results of the "
                "steps that it depends on. Steps that do not depend on each other are carried out "
                "at the same time. You write the answer from their results, when all are done."
            ),
            _tools_told(tools),
            *_required(requirements),
        ]
    )


def next_plan(
    plan: Plan,
    results: Mapping[str, str],
    reason: str,
    tools: Sequence[str],
    most: int,
    requirements: Sequence[str],
) -> str:
    """Return what a planner is told that changes a plan."""
    over = ", ".join(step.id for step in plan.steps if step.status in OVER)
    stays = (
        f"What is done stays as it is: new steps may depend on {over}, and need IDs of their own."
        if over
        else "Nothing is done yet."
    )
    none = ", or none where nothing is left to do" if over else ""
    return "\n\n".join(
        [
            f"The plan has to change: {reason}.",
            told_of(plan, results),
            (
                f"Make a new plan of what is still to be done for all that was asked above, with "
                f"{most} steps at the most{none}. {stays}"
            ),
            _tools_told(tools),
            *_required(requirements),
        ]
    )


def step_task(plan: Plan, step: PlanStep, results: Mapping[str, str]) -> str:
    """Return what an executor is told that carries out a step."""
    told = [f"Goal of the whole work: {plan.goal}", f"Your step, {step.id}: {step.title}"]
    needed = [_result_told(each, results) for each in needed_by(plan, step)]
    if needed:
        told.append("Results of the steps before it:\n\n" + "\n\n".join(needed))
    told.append(
        "Do this step only. Your answer is its result, and all that others will see of your work."
    )
    return "\n\n".join(told)


def last_words(plan: Plan, results: Mapping[str, str]) -> str:
    """Return what a planner is told that writes the answer."""
    return "\n\n".join(
        [
            "The work is over.",
            told_of(plan, results),
            (
                "Write the answer to all that was asked above, from these results. It is the only "
                "thing that the user sees: say what they want to know, not how the work was "
                "divided, and say so where something could not be done."
            ),
        ]
    )


def told_of(plan: Plan, results: Mapping[str, str]) -> str:
    """Return a plan in words, with what came of its steps."""
    steps = [_result_told(step, results) for step in plan.steps]
    return "\n\n".join([f"Goal: {plan.goal}", *steps])


def needed_by(plan: Plan, step: PlanStep) -> Iterable[PlanStep]:
    """Return the steps that a step depends on, also through others, in the plan's order."""
    needed: set[str] = set()
    waiting = list(step.dependencies)
    while waiting:
        found = plan.step(waiting.pop())
        if found is not None and found.id not in needed:
            needed.add(found.id)
            waiting += found.dependencies
    return [each for each in plan.steps if each.id in needed]


def text_of(output: Any) -> str:
    """Return an output as a model reads it."""
    try:
        return json_text(output)
    except NotStorable:
        return f"<{type(output).__name__}>"


def shortened(text: str, most: int) -> str:
    """Return a text, or its beginning and how much is missing."""
    return text if len(text) <= most else f"{text[:most]} [{len(text) - most} more characters]"


def tools_of(setup: RunSetup, depth: int = 0) -> list[str]:
    """Return a line for each tool that an executor has, or that those have which it is made of."""
    lines = [
        f"- {spec.name}: {spec.description.partition(chr(10))[0]}".rstrip(": ")
        for spec in setup.registry.specs
    ]
    made_of: Mapping[str, Delegate] = {} if setup.flow is None else setup.flow.delegates
    for delegate in made_of.values():
        if isinstance(delegate, AgentDelegate) and depth < DEEPEST:
            lines += tools_of(delegate.resolve({}), depth + 1)
    return list(dict.fromkeys(lines))


def _tools_told(tools: Sequence[str]) -> str:
    if not tools:
        return "Who carries the steps out has no tools, and can only think and write."
    more = [f"- and {len(tools) - MOST_TOOLS} more"] if len(tools) > MOST_TOOLS else []
    listed = "\n".join([*tools[:MOST_TOOLS], *more])
    return f"Who carries the steps out has these tools:\n{listed}"


def _required(requirements: Sequence[str]) -> Sequence[str]:
    listed = numbered_list(requirements)
    return [f"The answer has to meet these requirements:\n{listed}"] if listed else []


def _result_told(step: PlanStep, results: Mapping[str, str]) -> str:
    told = [f"[{step.id}] {step.title}", f"Status: {'failed' if _failed(step) else step.status}"]
    if step.notes:
        told.append(f"Note: {step.notes}")
    if step.id in results:
        told.append(f"Result: {shortened(results[step.id], MOST_SHOWN)}")
    return "\n".join(told)


def _failed(step: PlanStep) -> bool:
    return step.status in ("blocked", "skipped") and bool(step.notes)
