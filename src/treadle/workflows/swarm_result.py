"""What a run of a swarm came to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Generic

from msgspec import Struct

from treadle.agent.result import OutputT, RunResult
from treadle.usage import Usage


class SwarmStep(Struct, frozen=True, kw_only=True):
    """What one member did, from when it took over until it answered or handed over.

    `output` is its answer, or what it said when it handed over; `handed_to` is to whom, None where
    it answered, and `reason` with what message. `usage` is its own with that of the members it
    asked, `turns` counts its model replies, `seconds` is how long it worked.
    """

    agent: str
    input: str
    output: Any
    handed_to: str | None
    reason: str
    usage: Usage
    turns: int
    tool_calls: int
    seconds: float


@dataclass(slots=True, kw_only=True)
class SwarmResult(RunResult[OutputT], Generic[OutputT]):
    """What a run of a swarm came to.

    `agent` is the member that answered, or that was at work when the run stopped; `messages` is its
    history. `handoff_chain` has all that were at work, in order, `steps` what each of them did.
    """

    agent: str = ""
    handoff_chain: list[str] = field(default_factory=list[str])
    steps: list[SwarmStep] = field(default_factory=list[SwarmStep])
