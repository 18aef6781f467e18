"""One run of a conversation, as its journal tells it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Literal, Self

from msgspec import UNSET, Struct, UnsetType

from treadle.events import StopReason
from treadle.journal import (
    CancelAsked,
    Compacted,
    PromptSizes,
    RunBegan,
    RunEnded,
    StepEnded,
    Verdict,
)
from treadle.messages import Message, ToolResult
from treadle.usage import NOTHING, Usage
from treadle.values import Plain

RunStatus = Literal["running", "paused", "answered", "stopped", "failed", "superseded"]
_OUTCOMES: dict[str, RunStatus] = {"answer": "answered", "limit": "answered", "failed": "failed"}


class RunRecord(Struct):
    """One run as the journal tells it.

    It ended with `output`, or where that is not set with `text`, that of its last reply; at
    `revision`. `place` is where in the history it began, `results` what its tools gave, `verdicts`
    what was decided on its calls. The turns of a `flow` are those of all its steps, and
    `input` is what it was asked; `told` is whether its model knows what is left of its limits.
    `compactions` is how often old turns have left the history in it, `compacted` how many messages.
    `before` is the last step of the run before it, if that was one. A
    run is superseded when another began before it had ended.
    """

    run_id: str
    agent: str
    started_at: datetime
    status: RunStatus = "running"
    stop_reason: StopReason | None = None
    usage: Usage = NOTHING
    error: str | None = None
    turns: int = 0
    tool_calls: int = 0
    reason: str = ""
    output: Plain | UnsetType = UNSET
    text: str = ""
    metadata: dict[str, Any] = {}
    definition: dict[str, str] = {}
    revision: int = 0
    place: int = 0
    cancel: CancelAsked | None = None
    results: list[ToolResult] = []
    verdicts: dict[str, Verdict] = {}
    flow: bool = False
    input: Message | None = None
    before: StepEnded | None = None
    prompt: PromptSizes | None = None
    told: bool = False
    compactions: int = 0
    compacted: int = 0
    last_at: datetime | None = None
    part_from: datetime | None = None
    parts: timedelta = timedelta()

    @property
    def seconds(self) -> float:
        """How long it has worked, pauses left out."""
        return self.worked.total_seconds()

    @property
    def worked(self) -> timedelta:
        """The same as a time: all `parts` that are over, and the one from `part_from` on."""
        if self.part_from is None or self.last_at is None:
            return self.parts
        return self.parts + max(timedelta(), self.last_at - self.part_from)

    def shorten(self, entry: Compacted) -> None:
        """Old turns have left the history in it."""
        self.usage = self.usage + entry.usage
        if entry.cuts:
            self.compactions += 1
            self.compacted += sum(cut.stop - cut.start for cut in entry.cuts)

    @classmethod
    def begun(cls, entry: RunBegan, place: int, steps: Sequence[StepEnded]) -> Self:
        """Return the record of a run that begins, after one with these steps."""
        return cls(
            entry.run_id,
            entry.agent,
            entry.at,
            metadata=entry.metadata,
            definition=entry.definition,
            place=place,
            flow=entry.flow,
            input=entry.input if entry.flow else None,
            before=steps[-1] if steps else None,
            prompt=entry.prompt,
            part_from=entry.at,
        )

    def suspend(self, at: datetime) -> None:
        """It rests from now on."""
        self.last_at = at
        self.parts, self.part_from = self.worked, None

    def go_on(self, at: datetime) -> None:
        """It goes on; what was between does not count."""
        self.status, self.reason, self.cancel = "running", "", None
        self.stop_reason, self.error, self.output, self.revision = None, None, UNSET, 0
        self.parts, self.part_from = self.worked, at

    def end(self, entry: RunEnded, revision: int) -> None:
        """It is over."""
        self.revision, self.stop_reason, self.error = revision, entry.stop_reason, entry.error
        self.usage, self.turns, self.output = entry.usage, entry.turns, entry.output
        self.status = _OUTCOMES.get(entry.stop_reason, "stopped")
