"""A conversation at one revision: what its journal's entries come to, one after another.

This is the only place that knows what entries mean. Stores keep them and compare revisions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar, Literal

from msgspec import UNSET, Struct
from msgspec.structs import replace

from treadle.errors import CorruptJournal
from treadle.journal import (
    AnyEntry,
    ApprovalAsked,
    ApprovalDecided,
    CallBegan,
    CallEnded,
    CancelAsked,
    ChildBegan,
    ChildEnded,
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
    ViewReset,
)
from treadle.messages import Artefact, Message, Thread
from treadle.open_calls import OpenCalls
from treadle.run_record import RunRecord
from treadle.values import Plain

ReceiptStatus = Literal["queued", "applied", "carried_over", "discarded"]

FROM_OUTSIDE = frozenset((MessageQueued, ApprovalDecided, CancelAsked))
"""Entries that anybody may append, also while a run is at work."""


class View:
    """A conversation at one revision, built entry by entry.

    `weighed` is for whoever keeps views: how many messages were weighed, and their weight.
    `messages` is valid at every revision: each call has exactly one result, in order. A call that
    was interrupted has a result marked `synthetic`, in the view only. `inbox` are the messages that
    wait, `receipts` what became of each that was queued, `open` the calls of the last reply, as
    long as nothing came after them: what they asked of the run may not have been obeyed yet. `held`
    is each yes that holds for the rest of the conversation, by what it is for, `artefacts` are the
    outputs that were too long for the model, by ID.

    `children` are the child runs of calls that are open, each a view of its own: its history is its
    own, while state, and each yes that holds, are those of the conversation. `entered` counts the
    child runs of the newest run, by name.
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
        self.children: dict[str, ChildRun] = {}
        self.entered: dict[str, int] = {}
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

    def add(self, entry: AnyEntry, *, own: bool = False) -> None:
        """Take in the next entry: one with a path is a child run's, unless it is this view's."""
        if entry.path and not own:
            _pass_on(self, entry)
            return
        self._how[type(entry)](self, entry)
        record = self.runs.get(entry.run_id)
        if record is not None and type(entry) not in FROM_OUTSIDE:
            record.last_at = entry.at

    def _began(self, entry: RunBegan) -> None:
        last = self.last_run
        if last is not None and last.status in ("running", "paused"):
            last.status = "superseded"
        self._close_calls()
        self.entered = {}
        self.runs[entry.run_id] = RunRecord.begun(entry, len(self._settled))
        self._settled.extend(entry.history)
        if entry.input is not None:
            self._settled.append(entry.input)

    def _resumed(self, entry: RunResumed) -> None:
        for record in _records(self, entry.run_id):
            record.go_on(entry.at)

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
            self.children.clear()
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
        if self.children:
            self.children = {k: v for k, v in self.children.items() if v.call_id != call_id}
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
            self.children.clear()

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
        self.children.clear()
        self.held.clear()
        self.artefacts.clear()
        self._settled = Thread(entry.messages)

    def _forked(self, entry: Forked) -> None:
        self.forked = entry
        self._close_calls()  # nobody decides on them here: the run belongs to the original

    def _suspended(self, entry: RunSuspended) -> None:
        record = self.runs[entry.run_id]
        record.status, record.reason = "paused", entry.reason
        record.turns = max(record.turns, entry.turns)
        for each in _records(self, entry.run_id):
            each.suspend(entry.at)

    def _ended(self, entry: RunEnded) -> None:
        self.runs[entry.run_id].end(entry, self.revision)

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
        ChildBegan: _nothing,
        ChildEnded: _nothing,
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


class ChildRun(Struct):
    """A child run of an open call, and how it ended where the call has no result yet."""

    call_id: str
    view: View
    ended: ChildEnded | None = None


_COSTS = (ModelReplied, CallEnded, ApprovalAsked)


def _pass_on(root: View, entry: AnyEntry) -> None:
    """Give an entry to its child run. What it uses, all runs above it have used, too."""
    above, _, name = entry.path.rpartition("/")
    views = [root]
    for step in above.split("/") if above else ():
        outer = views[-1].children.get(step)
        if outer is None:
            return  # the call that it worked for has its result
        views.append(outer.view)
    if isinstance(entry, ChildBegan):
        _enter(views[-1], name, entry)
        return
    child = views[-1].children.get(name)
    if child is None or child.ended is not None:
        return
    if isinstance(entry, ChildEnded):
        said = child.view.runs[entry.run_id].text
        child.ended = replace(entry, output=said) if entry.output is UNSET else entry
        child.view = View()  # nobody asks for what it has said any more
        return
    record = child.view.runs[entry.run_id]
    usage, calls = record.usage, record.tool_calls
    child.view.add(entry, own=True)
    if isinstance(entry, CallEnded):
        root.artefacts.update(child.view.artefacts)
    for view in views:
        upper = view.runs[entry.run_id]
        upper.tool_calls += record.tool_calls - calls
        if isinstance(entry, _COSTS) and record.usage is not usage:
            upper.usage = upper.usage + entry.usage
        if type(entry) not in FROM_OUTSIDE:
            upper.last_at = entry.at


def _enter(above: View, name: str, entry: ChildBegan) -> None:
    """Let a child run begin in this view."""
    kind = name.rpartition("#")[0]
    above.entered[kind] = above.entered.get(kind, 0) + 1
    record = above.runs[entry.run_id]
    record.last_at = entry.at
    if above.open is None or not above.open.nest(entry.call_id):
        return
    view = View()
    view.state, view.held = above.state, above.held
    view.settled.append(entry.input)
    view.runs[entry.run_id] = RunRecord(
        entry.run_id, entry.agent, entry.at, verdicts=record.verdicts, part_from=entry.at
    )
    above.children[name] = ChildRun(entry.call_id, view)


def _records(view: View, run_id: str) -> Iterator[RunRecord]:
    """Yield the record of a run, and those of the child runs in it."""
    yield view.runs[run_id]
    for child in view.children.values():
        if child.ended is None:
            yield from _records(child.view, run_id)


def paths_in(view: View, path: str = "") -> Iterator[str]:
    """Yield the path of each child run under way."""
    for name, child in view.children.items():
        own = f"{path}/{name}" if path else name
        yield own
        yield from paths_in(child.view, own)


def child_at(view: View, path: str) -> ChildRun | None:
    """Return the child run at this path, None when its call has ended, or never began."""
    found = None
    for name in path.split("/"):
        found = view.children.get(name)
        if found is None:
            return None
        view = found.view
    return found


def fold(batches: Iterable[tuple[int, Iterable[AnyEntry]]]) -> View:
    """Return the view after these batches, each the revision it made and its entries."""
    view = View()
    for revision, entries in batches:
        view.take_in(revision, entries)
    return view
