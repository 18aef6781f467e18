"""A conversation at one revision: what its journal's entries come to, one after another.

This is the only place that knows what entries mean. Stores keep them and compare revisions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar

from msgspec import UNSET, Struct
from msgspec.structs import replace

from treadle.dialogue import Dialogue, moved
from treadle.errors import CorruptJournal
from treadle.journal import (
    AdviceGiven,
    AnyEntry,
    ApprovalAsked,
    ApprovalDecided,
    CallBegan,
    CallEnded,
    CancelAsked,
    ChildBegan,
    ChildEnded,
    ChildLinked,
    Compacted,
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
    StepBegan,
    StepEnded,
    UnknownEntry,
    ViewReset,
)
from treadle.mailbox import Mailbox
from treadle.messages import Artefact, Message, Thread, ToolCall
from treadle.open_calls import OpenCalls
from treadle.run_record import RunRecord
from treadle.state.scoped import StateWrite
from treadle.values import Plain

FROM_OUTSIDE = frozenset((MessageQueued, ApprovalDecided, CancelAsked))
"""Entries that anybody may append, also while a run is at work."""


class View(Dialogue):
    """A conversation at one revision, built entry by entry.

    `weighed` is for whoever keeps views: how many messages were weighed, and their weight.
    `messages` is valid at every revision; a call that was interrupted has a result marked
    `synthetic`, in the view only. `mail` are the messages that steer. `held` is each yes that holds
    for the rest of the conversation, by what it is for, `artefacts` are the outputs that were too
    long for the model, by ID.

    `children` are the child runs of calls that are open, the steps under way of a flow, and what
    the newest run does in the background, each a view of its own: its history is its own, while
    inbox, state, and each yes that holds, are those of the conversation. A branch of a flow has a
    state of its own, and keeps what was `written` to it. `entered` counts the child runs of the
    newest run, by name; `steps` are a flow's steps that are over, `links` are runs elsewhere.
    """

    def __init__(self) -> None:
        super().__init__()
        self.revision = 0
        self.runs: dict[str, RunRecord] = {}
        self.state: dict[str, Plain] = {}
        self.mail = Mailbox()
        self.forked: Forked | None = None
        self.held: dict[str, ApprovalDecided] = {}
        self.artefacts: dict[str, Artefact] = {}
        self.children: dict[str, ChildRun] = {}
        self.entered: dict[str, int] = {}
        self.steps: list[StepEnded] = []
        self.links: dict[str, ChildLinked] = {}
        self.written: list[StateWrite] | None = None
        self.weighed: tuple[int, int] = (0, 0)

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
        self.close_calls()
        self.runs[entry.run_id] = RunRecord.begun(entry, len(self._settled), self.steps)
        self.entered, self.steps, self.children, self.links = {}, [], {}, {}
        self._settled.extend(entry.history)
        if entry.input is not None:
            self._settled.append(entry.input)

    def _resumed(self, entry: RunResumed) -> None:
        for record in _records(self, entry.run_id):
            record.go_on(entry.at)

    def _replied(self, entry: ModelReplied) -> None:
        self.say(entry.message, cut=entry.finish_reason == "length")
        record = self.runs[entry.run_id]
        record.usage = record.usage + entry.usage
        record.turns += 1
        record.text = entry.message.text

    def _advised(self, entry: AdviceGiven) -> None:
        self.advise(entry.texts, entry.call_id)
        self.runs[entry.run_id].told |= entry.about == "limits"

    def _call_began(self, entry: CallBegan) -> None:
        if self.open is not None and self.open.begin(entry) and entry.run_id in self.runs:
            self.runs[entry.run_id].tool_calls += 1

    def _call_ended(self, entry: CallEnded) -> None:
        opened, call_id = self.open, entry.result.call_id
        if opened is None or call_id in opened.ended or call_id not in {c.id for c in opened.calls}:
            return  # a second result of one call changes nothing
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

    def forget_calls(self) -> None:
        """No calls are open; what still runs are steps, and what is in the background."""
        super().forget_calls()
        if self.children:
            self.children = {k: v for k, v in self.children.items() if not v.call_id}

    def _stepped(self, entry: StepEnded) -> None:
        child = self.children.pop(entry.step, None)
        if child is not None and entry.adopts:
            self._settled = child.view.messages
        self._write(entry)
        self.steps.append(entry)
        record = self.runs[entry.run_id]
        record.usage = record.usage + entry.usage

    def _write(self, entry: StateChanged | CallEnded | StepEnded) -> None:
        if self.written is not None:
            self.written += entry.writes
        for write in entry.writes:
            if write.deleted:
                self.state.pop(write.key, None)
            else:
                self.state[write.key] = write.value

    def _applied(self, entry: InboxApplied) -> None:
        self.close_calls()
        self._settled.extend(self.mail.taken(entry))

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
        self.children, self.steps = {}, []
        self.held.clear()
        self.artefacts.clear()
        self._settled = Thread(entry.messages)

    def _compacted(self, entry: Compacted) -> None:
        self.cut(entry.cuts)
        for each in self.runs.values():
            each.place = moved(each.place, entry.cuts)
        self.runs[entry.run_id].shorten(entry)

    def _forked(self, entry: Forked) -> None:
        self.forked = entry
        self.close_calls()  # nobody decides on them here: the run belongs to the original
        self.children = {k: v for k, v in self.children.items() if not v.background}

    def _suspended(self, entry: RunSuspended) -> None:
        record = self.runs[entry.run_id]
        record.status, record.reason = "paused", entry.reason
        record.turns = max(record.turns, entry.turns)
        for each in _records(self, entry.run_id):
            each.suspend(entry.at)

    def _ended(self, entry: RunEnded) -> None:
        self.ended(entry.stop_reason)
        self.runs[entry.run_id].end(entry, self.revision)

    def _nothing(self, entry: AnyEntry) -> None:
        """Nothing follows from it."""

    _how: ClassVar[dict[type, Callable[[View, Any], None]]] = {
        RunBegan: _began,
        RunResumed: _resumed,
        ModelReplied: _replied,
        MessageAdded: lambda view, entry: view.say(entry.message),
        AdviceGiven: _advised,
        CallBegan: _call_began,
        CallEnded: _call_ended,
        StateChanged: _write,
        ChildLinked: lambda view, entry: view.links.update({entry.link: entry}),
        StepEnded: _stepped,
        MessageQueued: lambda view, entry: view.mail.queued(entry),
        InboxApplied: _applied,
        InboxCarried: lambda view, entry: view.mail.carried(entry),
        InboxDiscarded: lambda view, entry: view.mail.discarded(entry),
        ApprovalAsked: _asked,
        ApprovalDecided: _decided,
        CancelAsked: _cancel,
        ViewReset: _reset,
        Compacted: _compacted,
        Forked: _forked,
        RunSuspended: _suspended,
        RunEnded: _ended,
        **dict.fromkeys((ChildBegan, ChildEnded, StepBegan, UnknownEntry), _nothing),
    }


class ChildRun(Struct):
    """What runs in a run: for a call, as a step, in the background; `base` is a branch's state."""

    call_id: str
    view: View
    ended: ChildEnded | None = None
    agent: str = ""
    background: bool = False
    base: dict[str, Plain] | None = None
    data: Plain = None


_COSTS = (ModelReplied, CallEnded, ApprovalAsked, StepEnded, Compacted)


def _pass_on(root: View, entry: AnyEntry) -> None:
    """Give an entry to its child run, unless the call or step that it belonged to is over."""
    *above, name = entry.path.split("/")
    views = [root]
    for step in above:
        outer = views[-1].children.get(step)
        if outer is None:
            return
        views.append(outer.view)
    if isinstance(entry, ChildBegan):
        _enter(views[-1], name, entry)
    elif isinstance(entry, StepBegan):
        _begin_step(views[-1], name, entry)
    else:
        child = views[-1].children.get(name)
        if child is None or child.ended is not None:
            return
        if isinstance(entry, ChildEnded):
            _end(child, entry)
        else:
            _give(child.view, entry, views)


def _give(view: View, entry: AnyEntry, above: list[View]) -> None:
    """Let a child run take in an entry. What it uses, all runs `above` it have used, too."""
    record = view.runs[entry.run_id]
    usage, calls, turns, told = record.usage, record.tool_calls, record.turns, len(record.results)
    view.add(entry, own=True)
    if isinstance(entry, CallEnded):
        above[0].artefacts.update(view.artefacts)
    spent = entry.usage if isinstance(entry, _COSTS) and record.usage is not usage else None
    for each in above:
        upper = each.runs[entry.run_id]
        upper.tool_calls += record.tool_calls - calls
        if upper.flow:
            upper.turns += record.turns - turns
            upper.results += record.results[told:]
        if spent is not None:
            upper.usage = upper.usage + spent
        if type(entry) not in FROM_OUTSIDE:
            upper.last_at = entry.at


def _end(child: ChildRun, entry: ChildEnded) -> None:
    """Let a child run end; what it has said is kept where a step may hand it on."""
    said = child.view.runs[entry.run_id].text
    child.view.ended(entry.stop_reason)
    child.ended = replace(entry, output=said) if entry.output is UNSET else entry
    if child.call_id or child.background:
        runs = child.view.runs if child.background else {}  # for whoever asks how it went
        child.view = View()
        child.view.runs = runs


def _enter(above: View, name: str, entry: ChildBegan) -> None:
    """Let a child run begin in this view."""
    view = _nested(above, name, entry)
    if entry.call_id and (above.open is None or not above.open.nest(entry.call_id)):
        return
    base = view.state.copy() if entry.branch else None
    if base is not None:
        view.state, view.written = base.copy(), []
    view.mail = Mailbox() if entry.background else above.mail  # then it is spoken to by itself
    if entry.inherits:
        view.settled.extend(above.settled)
    view.settled.extend(entry.history)
    if entry.input is not None:
        view.settled.append(entry.input)
    record = view.runs[entry.run_id]
    record.agent, record.flow = entry.agent, entry.flow
    record.input = entry.input if entry.flow else None
    told = entry.agent, entry.background, base, entry.data
    above.children[name] = ChildRun(entry.call_id, view, None, *told)


def _begin_step(above: View, name: str, entry: StepBegan) -> None:
    """Let a function begin that is a step: a call without a reply; or begin once more."""
    call_id, child = entry.path, above.children.get(name)
    if child is None:
        view = _nested(above, name, entry)
        call = ToolCall(call_id, entry.node, "{}")
        reply = Message("assistant", (call,))
        view.settled.append(reply)
        view.open = OpenCalls(reply, (call,))
        child = above.children[name] = ChildRun("", view, agent=entry.node)
    if child.view.open is not None:
        began = CallBegan(run_id=entry.run_id, at=entry.at, call_id=call_id, attempt=entry.attempt)
        child.view.open.begin(began)


def _nested(above: View, name: str, entry: ChildBegan | StepBegan) -> View:
    """Return the view of what begins here, and count it."""
    kind = name.rpartition("#")[0]
    above.entered[kind] = above.entered.get(kind, 0) + 1
    record = above.runs[entry.run_id]
    record.last_at = entry.at
    view = View()
    view.mail, view.state = above.mail, above.state
    view.held, view.written = above.held, above.written
    view.runs[entry.run_id] = nested = RunRecord(entry.run_id, "", entry.at, part_from=entry.at)
    nested.verdicts = record.verdicts
    return view


def _records(view: View, run_id: str) -> Iterator[RunRecord]:
    """Yield the record of a run, and those of the child runs in it."""
    yield view.runs[run_id]
    for child in view.children.values():
        if child.ended is None:
            yield from _records(child.view, run_id)
