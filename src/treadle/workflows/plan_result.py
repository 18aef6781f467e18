"""What a run of a plan came to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from msgspec import Struct

from treadle.agent.result import RunResult
from treadle.plan import Status
from treadle.usage import Usage


class StepResult(Struct, frozen=True, kw_only=True):
    """What came of one step: its `output`, or the `error` that it failed with.

    `status` is "completed", "blocked" for one that failed, after which another plan was made, or
    "skipped" for one that failed without that. `usage` and `turns` are all that it has used.
    """

    id: str
    description: str
    output: Any
    status: Status
    error: str
    usage: Usage
    turns: int


@dataclass(slots=True, kw_only=True)
class PlanResult(RunResult[str]):
    """What a run of a plan came to.

    `plan` is the plan as it was at the end, `steps` are those that were carried out, in the order
    in which they ended, and `replans` counts how often the plan was changed.
    """

    steps: list[StepResult] = field(default_factory=list[StepResult])
    replans: int = 0
