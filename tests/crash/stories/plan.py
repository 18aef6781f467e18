"""A plan of six steps, some of which wait for others."""

from __future__ import annotations

from typing import Any

from tests.crash.agent import Tell
from tests.crash.stories.parts import Cast, does, summed
from treadle import ModelRequest, PlanExecute
from treadle.agent.output import OUTPUT_TOOL

STEPS: list[dict[str, Any]] = [
    {"id": "a", "description": "Do a.", "dependencies": []},
    {"id": "b", "description": "Do b.", "dependencies": []},
    {"id": "c", "description": "Do c.", "dependencies": ["a"]},
    {"id": "d", "description": "Do d.", "dependencies": ["a", "b"]},
    {"id": "e", "description": "Do e.", "dependencies": ["c"]},
    {"id": "f", "description": "Do f.", "dependencies": ["d", "e"]},
]


def build(store: Any, tell: Tell) -> PlanExecute:
    """Return the plan."""
    cast = Cast(tell)

    def planner(request: ModelRequest) -> Any:
        if any(spec.name == OUTPUT_TOOL for spec in request.tools):
            return [("plan", OUTPUT_TOOL, {"goal": "Do it.", "steps": STEPS})]
        return summed(request)

    executor = cast.agent("worker", does("look", "pay"), summed)
    return PlanExecute("plan", planner=cast.agent("planner", planner), executor=executor)
