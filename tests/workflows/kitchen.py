"""A planner with a plan of six steps, and a cook who carries them out with a tool."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from msgspec.json import encode
from msgspec.structs import replace

from treadle import Agent, ModelReply, ModelRequest, PlanExecute, RunContext, Usage, tool
from treadle.testing import FunctionModel, calls, reply

USAGE = Usage(input_tokens=10, output_tokens=1, requests=1)
SIX: dict[str, list[str]] = {
    "bake": ["knead", "heat"],
    "knead": ["weigh"],
    "heat": [],
    "weigh": [],
    "slice": ["bake"],
    "serve": ["slice", "heat"],
}
"""Six steps in an order that they cannot be carried out in."""
THREE: dict[str, list[str]] = {"a": [], "b": ["a"], "c": ["b"]}
Say = Callable[[str, ModelRequest], Any]


def draft(steps: Mapping[str, Sequence[str]], goal: str = "Bread") -> str:
    """Return a plan as a planner gives it."""
    listed = [
        {"id": id, "description": f"Do {id}.", "dependencies": list(waits)}
        for id, waits in steps.items()
    ]
    return encode({"goal": goal, "steps": listed}).decode()


def asked(request: ModelRequest) -> str:
    """Return the last thing that a user said."""
    return next(m.text for m in reversed(request.messages) if m.role == "user")


def step_in(request: ModelRequest) -> str:
    """Return the ID of the step that an executor is told to do."""
    return re.findall(r"Your step, ([^:]+):", str([m.text for m in request.messages]))[0]


class Kitchen:
    """Who plans and who cooks; `told` is each question to a model, `did` each effect of the tool.

    The planner gives `plans`, one after another, or what functions make of the request; `cooks` may
    say something else than the cook.
    """

    def __init__(
        self,
        *plans: Any,
        cooks: Say | None = None,
        tools: Sequence[Any] = (),
        cook: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        self.told: list[str] = []
        self.did: list[str] = []
        self.answers = 0
        self.requests: list[ModelRequest] = []
        self._plans: list[Any] = []
        for plan in plans or (SIX,):
            is_steps = isinstance(plan, Mapping)
            self._plans.append(draft(cast("Mapping[str, Any]", plan)) if is_steps else plan)
        self._cooks = cooks

        @tool
        async def mark(ctx: RunContext, step: str) -> str:
            """Mark a step.

            Args:
                step: Which.
            """
            self.did.append(ctx.idempotency_key)
            ctx.state.session.set(f"done {step}", len(step))
            return f"{step} is marked"

        self.cook = Agent(
            "cook", FunctionModel(self._cook), tools=[mark, *tools], **dict(cook or {})
        )
        self.planner = Agent("chef", FunctionModel(self._chef))
        self.kitchen = PlanExecute("kitchen", planner=self.planner, executor=self.cook, **options)

    async def _chef(self, request: ModelRequest) -> Any:
        said = asked(request)
        self.requests.append(replace(request, messages=list(request.messages)))
        if said.startswith("The work is over."):
            self.told.append("answer")
            self.answers += 1
            return await _made("It is done: " + ", ".join(results_in(said)), request)
        plan = self._plans[min(self.told.count("plan"), len(self._plans) - 1)]
        self.told.append("plan")
        return await _made(plan, request)

    async def _cook(self, request: ModelRequest) -> Any:
        step = step_in(request)
        turn = sum(m.role == "assistant" for m in request.messages)
        self.told.append(f"{step} {turn}")
        self.requests.append(replace(request, messages=list(request.messages)))
        if self._cooks is not None:
            said = self._cooks(step, request)
            if hasattr(said, "__await__"):
                said = await said
            if said is not None:
                return await _made(said, request)
        if turn == 0:
            return calls(("m", "mark", {"step": step}), usage=USAGE)
        return reply(f"{step} done", usage=USAGE)


def results_in(said: str) -> list[str]:
    """Return the results that a planner is told."""
    return re.findall(r"^Result: (.*)$", said, re.MULTILINE)


async def _made(said: Any, request: ModelRequest) -> ModelReply:
    if callable(said):
        said = said(request)
    if hasattr(said, "__await__"):
        said = await said
    if isinstance(said, Exception):
        raise said
    return said if isinstance(said, ModelReply) else reply(said, usage=USAGE)
