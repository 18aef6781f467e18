"""The plan tools: a model makes a plan, and keeps it up to date."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec.json import encode
from msgspec.json import format as laid_out

from treadle.errors import PlanInvalid
from treadle.plan import STATUSES, Plan, PlanStep, add_step, change_step, new_plan
from treadle.ports.context import RunContext
from treadle.tools.builtin.plan_fields import Fields, steps_in
from treadle.tools.tool import Tool

_TEXT = {"type": "string"}
_TEXTS = {"type": "array", "items": _TEXT}
_STATUS = {"type": "string", "enum": list(STATUSES)}
_INDEX = {"type": "integer", "minimum": 1}
_INDEXES = {
    "type": "array",
    "items": _INDEX,
    "description": "The indexes of the steps that have to be done before this one.",
}
_STEP: dict[str, Any] = {
    "type": "object",
    "properties": {
        "index": {**_INDEX, "description": "1, 2, 3 ... in order."},
        "title": _TEXT,
        "status": _STATUS,
        "dependencies": _INDEXES,
        "detail": _TEXT,
        "notes": _TEXT,
    },
    "required": ["index", "title", "status"],
    "additionalProperties": False,
}
GENERATE: dict[str, Any] = {
    "type": "object",
    "properties": {
        "goal": {**_TEXT, "description": "What is to be reached."},
        "steps": {"type": "array", "items": _STEP, "minItems": 1},
        "constraints": _TEXTS,
        "assumptions": _TEXTS,
        "notes": _TEXTS,
    },
    "required": ["goal", "steps"],
    "additionalProperties": False,
}
UPDATE: dict[str, Any] = {
    "type": "object",
    "properties": {
        **_STEP["properties"],
        "index": {
            **_INDEX,
            "description": "Which step; one more than there are adds a step, with a title.",
        },
    },
    "required": ["index", "status"],
    "additionalProperties": False,
}
NO_PLAN = "There is no plan yet; make one with generate_plan."


class _AsGiven:
    """Leaves arguments as they are: the tools look at them, and answer what is wrong."""

    def decode(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments."""
        return arguments


def plan_tools() -> tuple[Tool, Tool]:
    """Return `generate_plan` and `update_plan`, which keep the plan of the agent that runs them.

    Their calls run beside others, but one after another. What is wrong with one is its answer, with
    `ok` false, and changes nothing.
    """
    return (
        _plan_tool(
            "generate_plan",
            "Make a plan for a task of several steps; it takes the place of an earlier one.",
            GENERATE,
            _generated,
        ),
        _plan_tool(
            "update_plan",
            "Change one step of the plan, or add one. What is not given stays as it is.",
            UPDATE,
            _updated,
        ),
    )


def _plan_tool(
    name: str,
    description: str,
    parameters: dict[str, Any],
    edit: Callable[[Plan | None, Mapping[str, Any]], Plan],
) -> Tool:
    async def run(ctx: RunContext[Any], arguments: dict[str, Any]) -> str:
        before = _standing(ctx)
        try:
            after = edit(before, arguments)
        except PlanInvalid as error:
            return _answer(f"Nothing was changed. {error}", before, ok=False)
        ctx.put_plan(after)
        return _answer(_told(after), after, ok=True)

    return Tool(
        name=name,
        description=description,
        parameters=parameters,
        function=run,
        decoder=_AsGiven(),
        takes_context=True,
        as_keywords=False,
        is_async=True,
        timeout=None,
        idempotent=True,
        lane="plan",
    )


def _standing(ctx: RunContext[Any]) -> Plan | None:
    try:
        return ctx.plan
    except PlanInvalid:  # somebody wrote something else there
        return None


def _generated(_: Plan | None, arguments: Mapping[str, Any]) -> Plan:
    fields = Fields(arguments, GENERATE["properties"])
    goal = fields.text("goal")
    steps = steps_in(fields, _STEP["properties"])
    listed = {name: fields.texts(name) for name in ("constraints", "assumptions", "notes")}
    fields.check()
    return new_plan(goal, steps, **listed)


def _updated(plan: Plan | None, arguments: Mapping[str, Any]) -> Plan:
    if plan is None:
        raise PlanInvalid([NO_PLAN])
    fields = Fields(arguments, UPDATE["properties"])
    index, ids = fields.index("index"), [step.id for step in plan.steps]
    changes: dict[str, Any] = {"status": fields.text("status")}
    changes |= {name: fields.text(name) for name in ("title", "detail", "notes") if name in fields}
    if "dependencies" in fields:
        numbers = fields.indexes("dependencies")
        changes["dependencies"] = tuple(_id_at(ids, number) for number in numbers)
    if index > len(ids) + 1:
        fields.problems.append(
            f"There is no step {index}: the plan has {len(ids)} steps, and index {len(ids) + 1} "
            "would add one."
        )
    if index == len(ids) + 1 and "title" not in fields:
        fields.problems.append(f"Step {index} is new and needs a title.")
    fields.check()
    if index > len(ids):
        return add_step(plan, PlanStep(_new_id(ids), **changes))
    return change_step(plan, ids[index - 1], **changes)


def _id_at(ids: list[str], index: int) -> str:
    """Return the ID of the step at an index; of the one after the last, that it will have."""
    if index == len(ids) + 1:
        return _new_id(ids)
    return ids[index - 1] if index <= len(ids) else str(index)


def _new_id(ids: list[str]) -> str:
    number = len(ids) + 1
    while str(number) in ids:
        number += 1
    return str(number)


def _told(plan: Plan) -> str:
    places = {step.id: index for index, step in enumerate(plan.steps, 1)}
    over = sum(step.status in ("completed", "skipped") for step in plan.steps)
    ready = ", ".join(str(places[step.id]) for step in plan.ready)
    told = [f"The plan has {len(plan.steps)} steps."]
    if plan.change.kind in ("added", "updated"):
        index = places[plan.change.steps[0]]
        told = [f"Step {index} was {plan.change.kind}: {plan.steps[index - 1].status}."]
    told.append(f"{over} of {len(plan.steps)} are done.")
    if ready:
        told.append(f"Ready to begin: {ready}.")
    return " ".join(told)


def _answer(message: str, plan: Plan | None, *, ok: bool) -> str:
    answer: dict[str, Any] = {"ok": ok, "message": message}
    answer["version"] = 0 if plan is None else plan.version
    answer["plan"] = None if plan is None else _shown(plan)
    return laid_out(encode(answer), indent=2).decode()


def _shown(plan: Plan) -> dict[str, Any]:
    """Return the plan as the model knows it: its steps have indexes in place of IDs."""
    places = {step.id: index for index, step in enumerate(plan.steps, 1)}
    shown: dict[str, Any] = {"goal": plan.goal, "steps": []}
    for step in plan.steps:
        row: dict[str, Any] = {"index": places[step.id], "title": step.title, "status": step.status}
        if step.dependencies:
            row["dependencies"] = [places[each] for each in step.dependencies]
        row |= {
            name: text for name in ("detail", "notes", "result") if (text := getattr(step, name))
        }
        shown["steps"].append(row)
    for name in ("constraints", "assumptions", "notes"):
        if texts := getattr(plan, name):
            shown[name] = list(texts)
    if plan.change.steps:
        indexes = [places[each] for each in plan.change.steps if each in places]
        shown["last_update"] = {"action": plan.change.kind, "indexes": indexes}
    return shown
