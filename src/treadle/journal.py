"""What a conversation remembers: the entries of its journal, and `fold`, which reads them.

`fold` is the only place that knows what entries mean. Stores keep entries and compare revisions.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Literal

from msgspec import Struct, field

from treadle.events import StopReason
from treadle.messages import Message, Text, Thread, ToolCall, ToolResult
from treadle.state.scoped import StateWrite
from treadle.usage import NOTHING, Usage
from treadle.values import Plain


class Entry(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """What all entries have: the run, the path of the member or node, and the time (UTC)."""

    run_id: str
    at: datetime
    path: str = ""


class RunBegan(Entry, frozen=True, tag="run.began"):
    """A run started with this input. `history` seeds a new conversation."""

    agent: str
    input: Message | None = None
    history: tuple[Message, ...] = ()
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])


class ModelReplied(Entry, frozen=True, tag="model.replied"):
    """A model's reply, and the calls of it that begin at once."""

    message: Message
    usage: Usage = NOTHING
    model: str = ""
    finish_reason: str = "stop"


class MessageAdded(Entry, frozen=True, tag="message.added"):
    """Something that the loop itself said to the model, or that was seen of a broken reply."""

    message: Message


class CallBegan(Entry, frozen=True, tag="call.began"):
    """A tool call is about to run. Without a `CallEnded` its outcome is unknown."""

    call_id: str
    attempt: int = 1


class CallEnded(Entry, frozen=True, tag="call.ended"):
    """A tool call has its one result; `writes` is what it changed in the state.

    `links` are the results of a chain before the last, which the model does not see.
    """

    result: ToolResult
    usage: Usage = NOTHING
    writes: tuple[StateWrite, ...] = ()
    links: tuple[ToolResult, ...] = ()


class StateChanged(Entry, frozen=True, tag="state.changed"):
    """The state changed outside a tool call."""

    writes: tuple[StateWrite, ...]


class RunSuspended(Entry, frozen=True, tag="run.paused"):
    """The run stopped on purpose and can go on."""

    reason: str
    turns: int = 0


class RunEnded(Entry, frozen=True, tag="run.ended"):
    """The run is over."""

    stop_reason: StopReason
    output: Plain = None
    usage: Usage = NOTHING
    turns: int = 0
    error: str | None = None


AnyEntry = (
    RunBegan
    | ModelReplied
    | MessageAdded
    | CallBegan
    | CallEnded
    | StateChanged
    | RunSuspended
    | RunEnded
)

RunStatus = Literal["running", "paused", "answered", "stopped", "failed"]


class RunRecord(Struct):
    """One run as the journal tells it."""

    run_id: str
    agent: str
    started_at: datetime
    status: RunStatus = "running"
    stop_reason: StopReason | None = None
    usage: Usage = NOTHING
    error: str | None = None


class View:
    """A conversation at one revision, built entry by entry.

    `messages` is valid at every revision: each call has exactly one result, in order. A call that
    was interrupted has a result marked `synthetic`, in the view only.
    """

    def __init__(self) -> None:
        self.revision = 0
        self.runs: dict[str, RunRecord] = {}
        self.state: dict[str, Plain] = {}
        self._settled = Thread()
        self._open: dict[str, ToolResult | None] = {}
        self._calls: tuple[ToolCall, ...] = ()

    @property
    def messages(self) -> Thread:
        """The history, ready for a provider."""
        if not self._open:
            return self._settled
        return Thread([*self._settled, self._results()])

    @property
    def last_run(self) -> RunRecord | None:
        """The newest run, or None in a new conversation."""
        return next(reversed(self.runs.values())) if self.runs else None

    def take_in(self, revision: int, entries: Iterable[AnyEntry]) -> None:
        """Take in the next batch, which made this revision."""
        for entry in entries:
            self.add(entry)
        self.revision = revision

    def add(self, entry: AnyEntry) -> None:
        """Take in the next entry."""
        match entry:
            case RunBegan():
                self._close_calls()
                self.runs[entry.run_id] = RunRecord(entry.run_id, entry.agent, entry.at)
                self._settled.extend(entry.history)
                if entry.input is not None:
                    self._settled.append(entry.input)
            case ModelReplied():
                self._say(entry.message)
                self._count(entry.run_id, entry.usage)
            case MessageAdded():
                self._say(entry.message)
            case CallEnded():
                self._answer(entry.result)
                self._write(entry.writes)
                self._count(entry.run_id, entry.usage)
            case StateChanged():
                self._write(entry.writes)
            case RunSuspended():
                self.runs[entry.run_id].status = "paused"
            case RunEnded():
                self._close_calls()
                self._end(entry)
            case CallBegan():
                pass  # only tells, on resume, that the outcome may be unknown

    def _say(self, message: Message) -> None:
        self._close_calls()
        if not message.parts:
            return  # it says nothing, and no provider takes it back
        self._settled.append(message)
        self._calls = message.tool_calls
        self._open = {call.id: None for call in self._calls}

    def _answer(self, result: ToolResult) -> None:
        if self._open.get(result.call_id, result) is not None:
            return  # a second result of one call changes nothing
        self._open[result.call_id] = result
        if None not in self._open.values():
            self._close_calls()

    def _close_calls(self) -> None:
        if self._open:
            self._settled.append(self._results())
            self._open = {}

    def _results(self) -> Message:
        return Message(
            "tool", tuple(self._open[call.id] or interrupted(call) for call in self._calls)
        )

    def _write(self, writes: Iterable[StateWrite]) -> None:
        for write in writes:
            if write.deleted:
                self.state.pop(write.key, None)
            else:
                self.state[write.key] = write.value

    def _count(self, run_id: str, usage: Usage) -> None:
        record = self.runs[run_id]
        record.usage = record.usage + usage

    def _end(self, entry: RunEnded) -> None:
        record = self.runs[entry.run_id]
        record.stop_reason = entry.stop_reason
        record.error = entry.error
        record.usage = entry.usage
        outcomes: dict[str, RunStatus] = {
            "answer": "answered",
            "limit": "answered",
            "failed": "failed",
        }
        record.status = outcomes.get(entry.stop_reason, "stopped")


def fold(batches: Iterable[tuple[int, Iterable[AnyEntry]]]) -> View:
    """Return the view after these batches, each the revision it made and its entries."""
    view = View()
    for revision, entries in batches:
        view.take_in(revision, entries)
    return view


def interrupted(call: ToolCall) -> ToolResult:
    """Return the result that stands in for one that never came."""
    text = f"The call of {call.name!r} was interrupted; whether it took effect is unknown."
    return ToolResult(call.id, call.name, (Text(text),), is_error=True, synthetic=True)
