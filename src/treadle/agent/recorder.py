"""Write a run into its conversation's journal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from treadle.agent.ending import signal_of, storable
from treadle.agent.ledger import Ledger
from treadle.events import StopReason
from treadle.fold import child_at
from treadle.journal import (
    About,
    AdviceGiven,
    AnyEntry,
    CallBegan,
    CallEnded,
    ChildBegan,
    ChildEnded,
    Compacted,
    Cut,
    InboxApplied,
    MessageAdded,
    MessageQueued,
    ModelReplied,
    PromptSizes,
    RunBegan,
    RunEnded,
    RunResumed,
    RunSuspended,
    StateChanged,
)
from treadle.messages import Message
from treadle.ports.model import ModelReply
from treadle.state.scoped import StateWrite
from treadle.tools.outcome import ToolOutcome
from treadle.usage import Usage
from treadle.values import Plain, pack
from treadle.view import View


class Recorder:
    """Writes the entries of one run, or of the child run at a path in it, as they happen.

    All of them go through one ledger, so that they stand in one order.
    """

    def __init__(self, ledger: Ledger, path: str = "", *, hears: bool = False) -> None:
        self.ledger = ledger
        self.path = path
        self._hears = hears
        self.start = ledger.start
        self._append = self._append_nested if path else ledger.append

    @property
    def view(self) -> View:
        """The conversation, or what the child run at the path has said and done in it."""
        if not self.path:
            return self.ledger.view
        found = child_at(self.ledger.view, self.path)
        return View() if found is None else found.view

    @property
    def at_rest(self) -> bool:
        """Whether the journal tells that it has ended or paused."""
        if not self.path:
            record = self.ledger.record
            return record is not None and record.status != "running"
        found = child_at(self.ledger.view, self.path)
        return found is None or found.ended is not None

    @property
    def knows_end(self) -> bool:
        """Whether the journal tells that it is over."""
        record = self.ledger.record
        return self.at_rest if self.path else record is not None and record.stop_reason is not None

    async def _append_nested(
        self, entries: Sequence[AnyEntry], *, unless_more_than: int | None = None
    ) -> bool:
        """Write entries of the child run, which may not hear of messages that wait."""
        entries = [replace(entry, path=self.path) for entry in entries]
        return await self.ledger.append(
            entries, unless_more_than=unless_more_than if self._hears else None
        )

    async def child_began(self, began: ChildBegan, writes: Sequence[StateWrite]) -> None:
        """Write that the child run at this path begins."""
        await self._append([began, *self._state(writes)])

    async def write(self, *entries: AnyEntry) -> None:
        """Write entries of a flow."""
        await self._append(entries)

    def hold(self, entry: AnyEntry) -> None:
        """Write an entry of a flow with whatever is written next, by any part of the run."""
        self.ledger.held.append(replace(entry, path=self.path) if self.path else entry)

    def end(
        self,
        stop_reason: StopReason,
        output: Any,
        usage: Usage,
        turns: int,
        *,
        error: str | None = None,
        text: str = "",
    ) -> RunEnded | ChildEnded:
        """Build the entry that ends it; an output that is the reply's `text` is not repeated."""
        kind = ChildEnded if self.path else RunEnded
        return kind(
            run_id=self.start.run_id,
            at=_now(),
            stop_reason=stop_reason,
            output=UNSET
            if text and isinstance(output, str) and output == text
            else storable(output),
            usage=usage,
            turns=turns,
            error=error,
        )

    async def began(
        self,
        agent: str,
        definition: dict[str, str],
        writes: Sequence[StateWrite],
        *,
        flow: bool = False,
        prompt: PromptSizes | None = None,
    ) -> None:
        """Write the start of the run, what it finds in the inbox, and the state it was given."""
        start = self.start
        began = RunBegan(
            run_id=start.run_id,
            at=_now(),
            agent=agent,
            input=start.input,
            history=tuple(start.history),
            metadata=_packed(start.metadata) if start.metadata else {},
            definition=definition,
            flow=flow,
            prompt=prompt,
        )
        inbox = self.ledger.inbox
        found = () if flow else tuple(inbox.waiting)  # a flow's steps take them in
        before = [InboxApplied(run_id=start.run_id, at=began.at, ids=found)] if found else []
        await self._append([*before, began, *self._state(writes)])
        inbox.settle(found, "applied")

    async def resumed(self, *entries: AnyEntry) -> None:
        """Write that the run goes on, with what follows in the same write."""
        await self._append([RunResumed(run_id=self.start.run_id, at=_now()), *entries])

    async def replied(
        self,
        reply: ModelReply,
        begun: Sequence[str] = (),
        *after: AnyEntry,
        unless_more_than: int | None = None,
    ) -> bool:
        """Write a reply with the calls that begin at once, and what follows in the same write.

        Nothing is written, and the answer is False, when more messages than that wait.
        """
        at = _now()
        entry = ModelReplied(
            run_id=self.start.run_id,
            at=at,
            message=reply.message,
            usage=reply.usage,
            model=reply.model,
            finish_reason=reply.finish_reason,
        )
        return await self._append(
            [entry, *self._begun(begun, at), *after], unless_more_than=unless_more_than
        )

    async def said(self, message: Message) -> None:
        """Write something that the loop said, or what was seen of a broken reply."""
        await self._append([MessageAdded(run_id=self.start.run_id, at=_now(), message=message)])

    async def call_ended(self, outcome: ToolOutcome, begun: Sequence[str]) -> None:
        """Write an outcome, with the calls that begin after it."""
        at = _now()
        if outcome.asked is not None:
            state = self._state(outcome.writes)
            await self._append([*state, outcome.asked, *self._begun(begun, at)])
            return
        if outcome.paused is not None:
            entries = [*self._state(outcome.writes), *self._begun(begun, at)]
            if entries:
                await self._append(entries)
            return
        asks, given = signal_of(outcome)
        entry = CallEnded(
            run_id=self.start.run_id,
            at=at,
            result=outcome.result,
            usage=outcome.usage,
            writes=outcome.writes,
            links=outcome.links,
            asks=asks,
            given=given,
        )
        advice = self.advice(outcome.advice, outcome.call.id) if outcome.advice else ()
        await self._append([*outcome.audit, entry, *advice, *self._begun(begun, at)])

    async def calls_began(self, call_ids: Sequence[str], *before: AnyEntry) -> None:
        """Write that calls begin."""
        if call_ids or before:
            await self._append([*before, *self._begun(call_ids, _now())])

    async def state_changed(self, writes: Sequence[StateWrite]) -> None:
        """Write state that changed outside a call."""
        if writes:
            await self._append(self._state(writes))

    async def compacted(
        self, strategy: str, cuts: Sequence[Cut], usage: Usage, yielded: tuple[str, ...]
    ) -> None:
        """Write that old turns have left the history, or what it took to find that they cannot."""
        entry = Compacted(
            run_id=self.start.run_id,
            at=_now(),
            strategy=strategy,
            cuts=tuple(cuts),
            usage=usage,
            yielded=yielded,
        )
        await self._append([entry])

    async def applied(self, ids: tuple[str, ...]) -> None:
        """Write that queued messages became part of the history."""
        await self._append([InboxApplied(run_id=self.start.run_id, at=_now(), ids=ids)])

    async def suspended(self, reason: str, turns: int) -> None:
        """Write that the run paused."""
        await self._append(
            [RunSuspended(run_id=self.start.run_id, at=_now(), reason=reason, turns=turns)]
        )

    async def ended(
        self, entry: RunEnded | ChildEnded, *before: AnyEntry, unless_more_than: int | None = None
    ) -> bool:
        """Write the end of the run; like `replied` with `unless_more_than`."""
        return await self._append([*before, entry], unless_more_than=unless_more_than)

    async def queue(self, message: MessageQueued) -> None:
        """Write a message that steers this run, from its own process."""
        await self._append([message])
        self.ledger.inbox.put(message.id, message.message)

    def advice(
        self, texts: tuple[str, ...], call_id: str = "", *, about: About = ""
    ) -> list[AnyEntry]:
        """Build the entry that tells the model something beside the results of its calls."""
        at, run_id = _now(), self.start.run_id
        return [AdviceGiven(run_id=run_id, at=at, texts=texts, call_id=call_id, about=about)]

    def _state(self, writes: Sequence[StateWrite]) -> list[AnyEntry]:
        if not writes:
            return []
        return [StateChanged(run_id=self.start.run_id, at=_now(), writes=tuple(writes))]

    def _begun(self, call_ids: Sequence[str], at: datetime) -> list[AnyEntry]:
        return [CallBegan(run_id=self.start.run_id, at=at, call_id=call_id) for call_id in call_ids]


def _packed(metadata: Mapping[str, Any]) -> dict[str, Plain]:
    packed = pack(dict(metadata), "metadata")
    return packed if isinstance(packed, dict) else {}


def _now() -> datetime:
    return datetime.now(UTC)
