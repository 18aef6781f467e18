"""A conversation at one revision: what its journal's entries come to, one after another.

This is the only place that knows what entries mean. Stores keep them and compare revisions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Any, ClassVar, Literal

from msgspec import UNSET, Struct, UnsetType

from treadle.errors import CorruptJournal
from treadle.events import StopReason
from treadle.journal import (
    AnyEntry,
    ApprovalAsked,
    ApprovalDecided,
    CallBegan,
    CallEnded,
    CancelAsked,
    Forked,
    InboxApplied,
    InboxCarried,
    InboxDiscarded,
    MessageAdded,
    MessageQueued,
    ModelReplied,
    RunBegan,
    RunEnded,
    RunResumed,
    RunSuspended,
    StateChanged,
    UnknownEntry,
    Verdict,
    ViewReset,
)
from treadle.messages import Artefact, Message, Thread, ToolResult
from treadle.open_calls import OpenCalls
from treadle.usage import NOTHING, Usage
from treadle.values import Plain

RunStatus = Literal["running", "paused", "answered", "stopped", "failed", "superseded"]
ReceiptStatus = Literal["queued", "applied", "carried_over", "discarded"]

FROM_OUTSIDE = frozenset((MessageQueued, ApprovalDecided, CancelAsked))
"""Entries that anybody may append, also while a run is at work."""
_OUTCOMES: dict[str, RunStatus] = {"answer": "answered", "limit": "answered", "failed": "failed"}


class RunRecord(Struct):
    """One run as the journal tells it.

    It ended with `output`, or where that is not set with `text`, that of its last reply; at
    `revision`. `place` is where in the history it began, `results` what its tools gave, `verdicts`
    what was decided on its calls. A run is superseded when another began before it had ended.
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


class View:
    """A conversation at one revision, built entry by entry.

    `weighed` is for whoever keeps views: how many messages were weighed, and their weight.
    `messages` is valid at every revision: each call has exactly one result, in order. A call that
    was interrupted has a result marked `synthetic`, in the view only. `inbox` are the messages that
    wait, `receipts` what became of each that was queued, `open` the calls of the last reply, as
    long as nothing came after them: what they asked of the run may not have been obeyed yet. `held`
    is each yes that holds for the rest of the conversation, by what it is for, `artefacts` are the
    outputs that were too long for the model, by ID.
    """

    def __init__(self) -> None:
        self.revision = 0
        self.runs: dict[str, RunRecord] = {}
        self.state: dict[str, Plain] = {}
        self.inbox: dict[str, Message] = {}
        self.receipts: dict[str, ReceiptStatus] = {}
        self.forked: Forked | None = None
        self.open: OpenCalls | None = None
        self.held: dict[str, ApprovalDecided] = {}
        self.artefacts: dict[str, Artefact] = {}
        self.weighed: tuple[int, int] = (0, 0)
        self._settled = Thread()

    @property
    def messages(self) -> Thread:
        """The history, ready for a provider."""
        if self.open is None:
            return self._settled
        return Thread([*self._settled, self.open.results])

    @property
    def settled(self) -> Thread:
        """The history without the results of calls that are still open."""
        return self._settled

    @property
    def last_run(self) -> RunRecord | None:
        """The newest run, or None in a new conversation."""
        return next(reversed(self.runs.values())) if self.runs else None

    def take_in(self, revision: int, entries: Iterable[AnyEntry]) -> None:
        """Take in the next batch, which made this revision."""
        self.revision = revision
        try:
            for entry in entries:
                self.add(entry)
        except KeyError as error:
            raise CorruptJournal(f"Revision {revision}: run {error} never began here.") from error

    def add(self, entry: AnyEntry) -> None:
        """Take in the next entry."""
        self._how[type(entry)](self, entry)
        record = self.runs.get(entry.run_id)
        if record is not None and type(entry) not in FROM_OUTSIDE:
            record.last_at = entry.at

    def _began(self, entry: RunBegan) -> None:
        last = self.last_run
        if last is not None and last.status in ("running", "paused"):
            last.status = "superseded"
        self._close_calls()
        self.runs[entry.run_id] = RunRecord(
            entry.run_id,
            entry.agent,
            entry.at,
            metadata=entry.metadata,
            definition=entry.definition,
            place=len(self._settled),
            part_from=entry.at,
        )
        self._settled.extend(entry.history)
        if entry.input is not None:
            self._settled.append(entry.input)

    def _resumed(self, entry: RunResumed) -> None:
        record = self.runs[entry.run_id]
        record.status, record.reason, record.cancel = "running", "", None
        record.stop_reason, record.error, record.output, record.revision = None, None, UNSET, 0
        record.parts, record.part_from = record.worked, entry.at  # what is between does not count

    def _replied(self, entry: ModelReplied) -> None:
        self._say(entry.message, cut=entry.finish_reason == "length")
        record = self.runs[entry.run_id]
        record.usage = record.usage + entry.usage
        record.turns += 1
        record.text = entry.message.text

    def _added(self, entry: MessageAdded) -> None:
        self._say(entry.message)

    def _say(self, message: Message, *, cut: bool = False) -> None:
        if message.role == "tool":
            self._answer(message)
            return
        self._close_calls()
        if not message.parts:
            return  # it says nothing, and no provider takes it back
        self._settled.append(message)
        if message.role == "assistant" and (calls := message.tool_calls):
            self.open = OpenCalls(message, calls, cut)

    def _answer(self, message: Message) -> None:
        """Take in results that somebody wrote as a message; without their calls they are none."""
        if self.open is not None:
            self.open = None
            self._settled.append(message)

    def _call_began(self, entry: CallBegan) -> None:
        record = self.runs.get(entry.run_id)
        first = self.open is not None and self.open.begin(entry)
        if record is not None and first:
            record.tool_calls += 1

    def _call_ended(self, entry: CallEnded) -> None:
        opened, call_id = self.open, entry.result.call_id
        if opened is None or call_id in opened.ended:
            return  # a second result of one call changes nothing
        if not any(call.id == call_id for call in opened.calls):
            return
        opened.ended[call_id] = entry
        if entry.links or entry.result.artefact is not None:
            for result in (*entry.links, entry.result):
                if result.artefact is not None:
                    self.artefacts[result.artefact.id] = result.artefact
        self._write(entry)
        record = self.runs[entry.run_id]
        record.usage = record.usage + entry.usage
        record.results += (*entry.links, entry.result)

    def _close_calls(self) -> None:
        if self.open is not None:
            self._settled.append(self.open.results)
            self.open = None

    def _write(self, entry: StateChanged | CallEnded) -> None:
        for write in entry.writes:
            if write.deleted:
                self.state.pop(write.key, None)
            else:
                self.state[write.key] = write.value

    def _queued(self, entry: MessageQueued) -> None:
        if entry.id in self.receipts:
            return  # it was sent twice
        self.inbox[entry.id] = entry.message
        self.receipts[entry.id] = "queued"

    def _applied(self, entry: InboxApplied) -> None:
        self._close_calls()
        for id in entry.ids:
            message = self.inbox.pop(id, None)
            if message is not None:
                self._settled.append(message)
                self.receipts[id] = "applied"

    def _carried(self, entry: InboxCarried) -> None:
        self.receipts.update(dict.fromkeys(entry.ids, "carried_over"))

    def _discarded(self, entry: InboxDiscarded) -> None:
        for id in entry.ids:
            self.inbox.pop(id, None)
            self.receipts[id] = "discarded"

    def _asked(self, entry: ApprovalAsked) -> None:
        if self.open is not None:
            self.open.ask(entry)
            record = self.runs.get(entry.run_id)
            if record is not None:
                record.usage = record.usage + entry.usage

    def _decided(self, entry: ApprovalDecided) -> None:
        opened = self.open
        before = opened.reply if opened is not None else None
        if opened is None or before is None or not opened.decide(entry):
            return  # it came too late, or is about another call
        record = self.runs.get(entry.run_id)
        if record is not None:
            record.verdicts[entry.call_id] = entry.verdict
        asked = opened.asked[entry.call_id]
        if asked.holds and entry.verdict == "approve":
            self.held[asked.holds] = entry
        if opened.reply is not before:
            place = max(n for n, message in enumerate(self._settled) if message is before)
            self._settled[place] = opened.reply

    def _cancel(self, entry: CancelAsked) -> None:
        record = self.runs.get(entry.run_id)
        if record is not None and record.status in ("running", "paused"):
            record.cancel = entry

    def _reset(self, entry: ViewReset) -> None:
        last = self.last_run
        if last is not None and last.status != "answered":
            last.status = "superseded"  # what it was about is gone
        self.open = None
        self.held.clear()
        self.artefacts.clear()
        self._settled = Thread(entry.messages)

    def _forked(self, entry: Forked) -> None:
        self.forked = entry
        self._close_calls()  # nobody decides on them here: the run belongs to the original

    def _suspended(self, entry: RunSuspended) -> None:
        record = self.runs[entry.run_id]
        record.status, record.reason = "paused", entry.reason
        record.last_at = entry.at
        record.parts, record.part_from = record.worked, None
        record.turns = max(record.turns, entry.turns)

    def _ended(self, entry: RunEnded) -> None:
        record = self.runs[entry.run_id]
        record.revision = self.revision
        record.stop_reason = entry.stop_reason
        record.error = entry.error
        record.usage, record.turns, record.output = entry.usage, entry.turns, entry.output
        record.status = _OUTCOMES.get(entry.stop_reason, "stopped")

    def _nothing(self, entry: AnyEntry) -> None:
        """Nothing follows from it."""

    _how: ClassVar[dict[type, Callable[[View, Any], None]]] = {
        RunBegan: _began,
        RunResumed: _resumed,
        ModelReplied: _replied,
        MessageAdded: _added,
        CallBegan: _call_began,
        CallEnded: _call_ended,
        StateChanged: _write,
        MessageQueued: _queued,
        InboxApplied: _applied,
        InboxCarried: _carried,
        InboxDiscarded: _discarded,
        ApprovalAsked: _asked,
        ApprovalDecided: _decided,
        CancelAsked: _cancel,
        ViewReset: _reset,
        Forked: _forked,
        UnknownEntry: _nothing,
        RunSuspended: _suspended,
        RunEnded: _ended,
    }


def fold(batches: Iterable[tuple[int, Iterable[AnyEntry]]]) -> View:
    """Return the view after these batches, each the revision it made and its entries."""
    view = View()
    for revision, entries in batches:
        view.take_in(revision, entries)
    return view
