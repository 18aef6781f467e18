"""What a conversation remembers: the entries of its journal, which are only ever added to."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType, field

from treadle.events import StopReason
from treadle.messages import Message, ToolResult
from treadle.state.scoped import StateWrite
from treadle.usage import NOTHING, Usage
from treadle.values import Plain


class Entry(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """What all entries have: the run, the path of the member or node, and the time (UTC)."""

    run_id: str
    at: datetime
    path: str = ""


class PromptSizes(Struct, frozen=True, omit_defaults=True, gc=False):
    """How many characters stand around a run's history, by what they are for."""

    instructions: int = 0
    tools: int = 0
    skills: int = 0
    output: int = 0


class RunBegan(Entry, frozen=True, tag="run.began"):
    """A run started with this input. `history` seeds a new conversation.

    `definition` has a short hash for each thing that the agent was made of, so that a resume can
    tell what has changed. `flow` is whether it is made of steps; `prompt` is what stands around
    the history.
    """

    agent: str
    input: Message | None = None
    history: tuple[Message, ...] = ()
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])
    definition: dict[str, str] = field(default_factory=dict[str, str])
    flow: bool = False
    prompt: PromptSizes | None = None


class RunResumed(Entry, frozen=True, tag="run.resumed"):
    """A run goes on: after a pause, or in place of a process that died."""


class ModelReplied(Entry, frozen=True, tag="model.replied"):
    """A model's reply, and the calls of it that begin at once."""

    message: Message
    usage: Usage = NOTHING
    model: str = ""
    finish_reason: str = "stop"


class MessageAdded(Entry, frozen=True, tag="message.added"):
    """Something that the loop itself said to the model, or that was seen of a broken reply."""

    message: Message


About = Literal["", "limits"]


class AdviceGiven(Entry, frozen=True, tag="advice.given"):
    """What the model is told beside the results of a turn: by middleware, or by the loop.

    While calls are open it stands after their results, never between; else it is said at once.
    `call_id` is the call that it is about, "" where it is about none. `about` is "limits" where it
    says what is left of them, which a run is told once.
    """

    texts: tuple[str, ...]
    call_id: str = ""
    about: About = ""


class CallBegan(Entry, frozen=True, tag="call.began"):
    """A tool call is about to run. Without a `CallEnded` its outcome is unknown."""

    call_id: str
    attempt: int = 1


class CallEnded(Entry, frozen=True, tag="call.ended"):
    """A tool call has its one result; `writes` is what it changed in the state.

    `links` are the results of a chain before the last, which the model does not see. `asks` is
    what the call asked of the loop, with what it gave along: the output of a "finish", the reason
    of an "interrupt", whom a "handoff" is to, the error of one that is "fatal".
    """

    result: ToolResult
    usage: Usage = NOTHING
    writes: tuple[StateWrite, ...] = ()
    links: tuple[ToolResult, ...] = ()
    asks: Literal["finish", "interrupt", "handoff", "fatal"] | None = None
    given: Plain = None


class StateChanged(Entry, frozen=True, tag="state.changed"):
    """The state changed outside a tool call."""

    writes: tuple[StateWrite, ...]


class ChildBegan(Entry, frozen=True, tag="child.began"):
    """A child run began, whose entries have this `path`: a name with a number.

    It works for the call `call_id`; where that is "" it is a step of a flow, or works in the
    `background`. `history` and `input` are all that it is told; one that `inherits` goes on with
    the history of the run above. A `branch` has a state of its own, until the step that it belongs
    to ends. `flow` is whether it is made of steps itself; `data` is what its flow has to know.
    What it is made of is part of the run's own definition.
    """

    agent: str
    call_id: str = ""
    input: Message | None = None
    history: tuple[Message, ...] = ()
    inherits: bool = False
    branch: bool = False
    background: bool = False
    flow: bool = False
    data: Plain = None


class ChildLinked(Entry, frozen=True, tag="child.linked"):
    """An agent was given work in a conversation of its own, which outlives this run.

    `child_run_id` is its run there; `link` is what this run knows it by, and `call_id` the call
    that asked for it.
    """

    link: str
    agent: str
    conversation_id: str
    child_run_id: str
    call_id: str


class StepBegan(Entry, frozen=True, tag="step.began"):
    """A function began that is a step of a flow, at this `path`; `node` is what it is called."""

    node: str
    attempt: int = 1


class StepEnded(Entry, frozen=True, tag="step.ended"):
    """A step of the flow at this `path` is over: a child run, a function, or branches with a join.

    `step` is the last part of its path. `writes` is what it changed in the state, `usage` what a
    function used itself. `to` is where the flow goes next, decided in the same moment; `data` is
    what the flow has to know. Where it `adopts`, the step's history is the flow's from now on.
    """

    step: str
    output: Plain | UnsetType = UNSET
    ok: bool = True
    error: str = ""
    usage: Usage = NOTHING
    writes: tuple[StateWrite, ...] = ()
    to: str = ""
    data: Plain = None
    adopts: bool = False


class ChildEnded(Entry, frozen=True, tag="child.ended"):
    """A child run is over; its call ends next. `output` is as that of `RunEnded`.

    `error` says why there is no answer. `usage` is its own and that of the runs in it, which the
    run above has counted, too.
    """

    stop_reason: StopReason
    output: Plain | UnsetType = UNSET
    usage: Usage = NOTHING
    turns: int = 0
    error: str | None = None


class MessageQueued(Entry, frozen=True, tag="inbox.queued"):
    """Somebody steers: a user's message that waits until the run can take it in."""

    id: str
    message: Message


class InboxApplied(Entry, frozen=True, tag="inbox.applied"):
    """Queued messages became part of the history, in this order."""

    ids: tuple[str, ...]


class InboxCarried(Entry, frozen=True, tag="inbox.carried"):
    """Queued messages came too late for a run; they wait for the next one."""

    ids: tuple[str, ...]


class InboxDiscarded(Entry, frozen=True, tag="inbox.discarded"):
    """Queued messages were dropped, as the run had been told to."""

    ids: tuple[str, ...]


class ApprovalAsked(Entry, frozen=True, tag="approval.requested"):
    """A call does not run before somebody decides. `digest` tells this very call from any other.

    `rule` names the rule that asks. Where a yes holds for the rest of the conversation, `holds` is
    what for. A call that runs and asks while it does so is `midway`, wants an answer of `schema`,
    where it has one, and has used `usage` so far. `question` counts what the call has asked.
    """

    call_id: str
    digest: str
    reason: str = ""
    rule: str = ""
    holds: str = ""
    midway: bool = False
    schema: dict[str, Any] | None = None
    usage: Usage = NOTHING
    question: int = 1

    @property
    def key(self) -> str:
        """What a decision names: the call, and which of its questions if it is not the first."""
        return self.call_id if self.question == 1 else f"{self.call_id}#{self.question}"


Verdict = Literal["approve", "edit", "deny"]


class ApprovalDecided(Entry, frozen=True, tag="approval.decided"):
    """Somebody, or a rule, decided on a call. `reason` is for the model, `note` for the record.

    `raw` are the arguments of an edit, `answer` is what a call that asked in the middle gets. `by`
    is who decided, as the caller said, `rule` the rule that did or that had asked. With `name`, the
    tool's, nobody was asked: the rule decided, or an earlier yes that is held to.
    """

    call_id: str
    digest: str
    verdict: Verdict
    raw: str | None = None
    reason: str = ""
    by: str = ""
    note: str = ""
    rule: str = ""
    answer: dict[str, Any] | None = None
    name: str = ""


class CancelAsked(Entry, frozen=True, tag="cancel.requested"):
    """Somebody wants the run to stop."""

    reason: str = ""


class ViewReset(Entry, frozen=True, tag="view.reset"):
    """From here on the history is these messages; the journal keeps what was."""

    messages: tuple[Message, ...] = ()


class Cut(Struct, frozen=True, omit_defaults=True, gc=False):
    """The messages of a history from `start` up to `stop` leave it; `message` stands in for them.

    The places are those in the history as it was before any of the cuts made with it.
    """

    start: int
    stop: int
    message: Message | None = None


class Compacted(Entry, frozen=True, tag="view.compacted"):
    """Old turns left the history, as it had grown too long; the journal keeps them.

    The cuts are in order, and do not overlap. `strategy` says how what stands in for them came to
    be, `usage` what that took, and `yielded` which protected kinds of turns had to go.
    """

    strategy: str
    cuts: tuple[Cut, ...]
    usage: Usage = NOTHING
    yielded: tuple[str, ...] = ()


class Forked(Entry, frozen=True, tag="conversation.forked"):
    """The conversation is a copy of another, up to here."""

    parent: str
    revision: int


class UnknownEntry(Entry, frozen=True, tag="unknown"):
    """An entry of a kind that this version does not know. It changes nothing."""

    kind: str


class RunSuspended(Entry, frozen=True, tag="run.paused"):
    """The run stopped on purpose and can go on."""

    reason: str
    turns: int = 0


class RunEnded(Entry, frozen=True, tag="run.ended"):
    """The run is over. Without an `output` it is the text of the run's last reply."""

    stop_reason: StopReason
    output: Plain | UnsetType = UNSET
    usage: Usage = NOTHING
    turns: int = 0
    error: str | None = None


AnyEntry = (
    RunBegan
    | RunResumed
    | ModelReplied
    | MessageAdded
    | AdviceGiven
    | CallBegan
    | CallEnded
    | StateChanged
    | ChildBegan
    | ChildEnded
    | ChildLinked
    | StepBegan
    | StepEnded
    | MessageQueued
    | InboxApplied
    | InboxCarried
    | InboxDiscarded
    | ApprovalAsked
    | ApprovalDecided
    | CancelAsked
    | ViewReset
    | Compacted
    | Forked
    | UnknownEntry
    | RunSuspended
    | RunEnded
)
