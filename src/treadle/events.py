"""What happens in a run, as typed events: one hierarchy, one sequence for each run.

Every event has the run's ID, its place in the run's sequence, its own span and its parent's, the
agent's name, the path of the member or node it belongs to ("" for the run's own agent), and a
time. `type` is the dotted name used in JSON. Events only tell; middleware changes things.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar, Literal

from msgspec import Struct

from treadle.messages import ToolResult
from treadle.plan import Plan
from treadle.usage import Usage

StopReason = Literal[
    "answer", "limit", "budget", "deadline", "paused", "cancelled", "failed", "loop"
]
Stage = Literal["lookup", "arguments", "approval", "execution", "timeout", "cancelled", "limit"]


class Event(Struct, frozen=True, gc=False):
    """What all events have."""

    run_id: str
    seq: int
    span_id: str
    parent_id: str | None
    agent: str
    path: str
    at: datetime


class RunStarted(Event, frozen=True, tag_field="type", tag="run.started", gc=False):
    """A run has begun. `parent_id` is None for the outermost."""

    type: ClassVar[str] = "run.started"
    conversation_id: str


class ModelStarted(Event, frozen=True, tag_field="type", tag="model.started", gc=False):
    """A model is being asked. `attempt` counts from 1 in each turn."""

    type: ClassVar[str] = "model.started"
    turn: int
    attempt: int
    model: str


class TextDelta(Event, frozen=True, tag_field="type", tag="text.delta", gc=False):
    """More text. `ModelFinished` tells whether its turn was a preamble or the answer."""

    type: ClassVar[str] = "text.delta"
    text: str
    turn: int


class OutputDelta(Event, frozen=True, tag_field="type", tag="output.delta"):
    """More of a typed output, while its JSON streams: what has come of it so far, validated.

    Where the output type has fields, `value` is a dict of those that have come, each in its own
    type; a text at the end may go on. It follows the text that brought it; a `ModelRetried` takes
    it back. Only the answer itself is checked as a whole, when it is there.
    """

    type: ClassVar[str] = "output.delta"
    value: Any
    turn: int


class ReasoningDelta(Event, frozen=True, tag_field="type", tag="reasoning.delta", gc=False):
    """More of what the model thinks."""

    type: ClassVar[str] = "reasoning.delta"
    text: str
    turn: int


class ModelRetried(Event, frozen=True, tag_field="type", tag="model.retried", gc=False):
    """An attempt failed and is made again after `seconds`; what it streamed no longer counts."""

    type: ClassVar[str] = "model.retried"
    turn: int
    attempt: int
    error: str
    seconds: float


class ModelFinished(Event, frozen=True, tag_field="type", tag="model.finished"):
    """A model has replied. `final` is whether this reply is the answer; `error` when it failed."""

    type: ClassVar[str] = "model.finished"
    turn: int
    final: bool
    finish_reason: str
    usage: Usage
    seconds: float
    error: str | None = None


class ToolRequested(Event, frozen=True, tag_field="type", tag="tool.requested"):
    """The model asked for a call; it has not begun.

    `title` is the tool's own name, or its title, where that is not what the model calls it.
    """

    type: ClassVar[str] = "tool.requested"
    call_id: str
    name: str
    arguments: dict[str, Any]
    title: str = ""


class ToolStarted(Event, frozen=True, tag_field="type", tag="tool.started"):
    """A tool begins. `arguments` is a copy of what it got, as JSON values; `title` as before."""

    type: ClassVar[str] = "tool.started"
    call_id: str
    name: str
    arguments: dict[str, Any]
    attempt: int
    title: str = ""


class ToolProgress(Event, frozen=True, tag_field="type", tag="tool.progress"):
    """A running tool reported progress."""

    type: ClassVar[str] = "tool.progress"
    call_id: str
    name: str
    progress: Any


class ToolFinished(Event, frozen=True, tag_field="type", tag="tool.finished"):
    """A call has its result. `error` is its text when it is an error, `stage` where it arose."""

    type: ClassVar[str] = "tool.finished"
    call_id: str
    name: str
    result: ToolResult
    seconds: float
    stage: Stage | None = None

    @property
    def output(self) -> str:
        """The result's text, as the model reads it."""
        return self.result.text

    @property
    def error(self) -> str | None:
        """The error's text, or None when the call succeeded."""
        return self.result.text if self.result.is_error else None


class ApprovalRequested(Event, frozen=True, tag_field="type", tag="approval.requested"):
    """A call waits for somebody's decision; the run pauses when all else is done."""

    type: ClassVar[str] = "approval.requested"
    call_id: str
    name: str
    arguments: dict[str, Any]
    reason: str
    schema: dict[str, Any] | None = None


class ApprovalDecided(Event, frozen=True, tag_field="type", tag="approval.decided"):
    """Somebody decided on a call: "approve", "edit" (`arguments` are the new ones) or "deny"."""

    type: ClassVar[str] = "approval.decided"
    call_id: str
    name: str
    verdict: str
    arguments: dict[str, Any]
    reason: str
    by: str = ""
    rule: str = ""


class AgentEntered(Event, frozen=True, tag_field="type", tag="agent.entered"):
    """An agent begins to work inside a run, or goes on to: for the call `call_id`, on `input`.

    Its events have its `agent` and `path`, and spans of their own; its outermost span's parent is
    that of the call.
    """

    type: ClassVar[str] = "agent.entered"
    call_id: str
    input: str


class AgentLeft(Event, frozen=True, tag_field="type", tag="agent.left"):
    """An agent inside a run is done, or has paused with it. `usage` and `turns` are its own."""

    type: ClassVar[str] = "agent.left"
    call_id: str
    stop_reason: StopReason
    usage: Usage
    turns: int
    seconds: float
    error: str | None = None


class PlanChanged(Event, frozen=True, tag_field="type", tag="plan.changed"):
    """An agent has a plan, or another version of it; `plan.change` is what was changed."""

    type: ClassVar[str] = "plan.changed"
    plan: Plan


class HandedOff(Event, frozen=True, tag_field="type", tag="agent.handed_off", gc=False):
    """A member of a swarm gave the conversation over to another, with these words."""

    type: ClassVar[str] = "agent.handed_off"
    source: str
    target: str
    text: str


class NodeStarted(Event, frozen=True, tag_field="type", tag="node.started", gc=False):
    """A node of a graph begins, or goes on to; what happens in it has this span for its parent."""

    type: ClassVar[str] = "node.started"
    node: str
    attempt: int


class NodeFinished(Event, frozen=True, tag_field="type", tag="node.finished", gc=False):
    """A node is done; `error` says why it failed, None when it did not."""

    type: ClassVar[str] = "node.finished"
    node: str
    seconds: float
    error: str | None = None


class EdgeTaken(Event, frozen=True, tag_field="type", tag="edge.taken", gc=False):
    """A graph goes from one node on to another."""

    type: ClassVar[str] = "edge.taken"
    source: str
    target: str


class DelegateStarted(Event, frozen=True, tag_field="type", tag="delegate.started", gc=False):
    """An agent begins to work in the background, known as `delegate_id`."""

    type: ClassVar[str] = "delegate.started"
    delegate_id: str
    name: str
    task: str


class DelegateFinished(Event, frozen=True, tag_field="type", tag="delegate.finished", gc=False):
    """An agent in the background is done; `error` says why it has no answer."""

    type: ClassVar[str] = "delegate.finished"
    delegate_id: str
    name: str
    stop_reason: StopReason
    error: str | None = None


class CompactionStarted(Event, frozen=True, tag_field="type", tag="compaction.started", gc=False):
    """A request would be too long: old turns are about to leave the history.

    `tokens` is about how many it has, `window` how many it may have.
    """

    type: ClassVar[str] = "compaction.started"
    strategy: str
    messages: int
    tokens: int
    window: int


class ContextCompacted(Event, frozen=True, tag_field="type", tag="context.compacted", gc=False):
    """Old turns have left the history, or could not: `error` says why it stayed as it was.

    `messages` and `tokens` are those of the request after it, the others those before it. `yielded`
    are the protected kinds of turns that had to go, as nothing else was left. `usage` is what it
    took.
    """

    type: ClassVar[str] = "context.compacted"
    strategy: str
    messages: int
    tokens: int
    messages_before: int
    tokens_before: int
    yielded: tuple[str, ...]
    usage: Usage
    seconds: float
    error: str | None


class SteerApplied(Event, frozen=True, tag_field="type", tag="steer.applied"):
    """A message that steers is part of the history now: the next model call sees it."""

    type: ClassVar[str] = "steer.applied"
    message_id: str
    text: str


class SteerCarriedOver(Event, frozen=True, tag_field="type", tag="steer.carried_over"):
    """A message that steers came too late for this run; the next one begins with it."""

    type: ClassVar[str] = "steer.carried_over"
    message_id: str
    text: str


class SteerDiscarded(Event, frozen=True, tag_field="type", tag="steer.discarded"):
    """A message that steers was dropped, as the run had been told to."""

    type: ClassVar[str] = "steer.discarded"
    message_id: str
    text: str


class AnswerStored(Event, frozen=True, tag_field="type", tag="answer.stored"):
    """The answer is final and part of the history."""

    type: ClassVar[str] = "answer.stored"
    text: str


class RunPaused(Event, frozen=True, tag_field="type", tag="run.paused"):
    """The run stopped on purpose and can go on later. The last event of the run."""

    type: ClassVar[str] = "run.paused"
    reason: str
    usage: Usage
    seconds: float


class RunFinished(Event, frozen=True, tag_field="type", tag="run.finished"):
    """The run is over. The last event of the run. `error` says why it failed."""

    type: ClassVar[str] = "run.finished"
    stop_reason: StopReason
    usage: Usage
    turns: int
    seconds: float
    error: str | None = None


AnyEvent = (
    RunStarted
    | ModelStarted
    | TextDelta
    | OutputDelta
    | ReasoningDelta
    | ModelRetried
    | ModelFinished
    | ToolRequested
    | ToolStarted
    | ToolProgress
    | ToolFinished
    | ApprovalRequested
    | ApprovalDecided
    | AgentEntered
    | AgentLeft
    | PlanChanged
    | HandedOff
    | NodeStarted
    | NodeFinished
    | EdgeTaken
    | DelegateStarted
    | DelegateFinished
    | CompactionStarted
    | ContextCompacted
    | SteerApplied
    | SteerCarriedOver
    | SteerDiscarded
    | AnswerStored
    | RunPaused
    | RunFinished
)
TERMINAL = (RunFinished, RunPaused)
