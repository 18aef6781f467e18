"""Write a run into its conversation's journal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from treadle.agent.ending import signal_of
from treadle.agent.ledger import Ledger
from treadle.journal import (
    AnyEntry,
    CallBegan,
    CallEnded,
    InboxApplied,
    MessageAdded,
    MessageQueued,
    ModelReplied,
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
from treadle.values import Plain, pack


class Recorder(Ledger):
    """The entries of one run, each written as it happens."""

    async def began(
        self, agent: str, definition: dict[str, str], writes: Sequence[StateWrite]
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
        )
        found = tuple(self.inbox.waiting)
        before = [InboxApplied(run_id=start.run_id, at=began.at, ids=found)] if found else []
        await self.append([*before, began, *self._state(writes)])
        self.inbox.settle(found, "applied")

    async def resumed(self, *entries: AnyEntry) -> None:
        """Write that the run goes on, with what follows in the same write."""
        await self.append([RunResumed(run_id=self.start.run_id, at=_now()), *entries])

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
        return await self.append(
            [entry, *self._begun(begun, at), *after], unless_more_than=unless_more_than
        )

    async def said(self, message: Message) -> None:
        """Write something that the loop said, or what was seen of a broken reply."""
        await self.append([MessageAdded(run_id=self.start.run_id, at=_now(), message=message)])

    async def call_ended(self, outcome: ToolOutcome, begun: Sequence[str]) -> None:
        """Write an outcome, with the calls that begin after it."""
        at = _now()
        if outcome.asked is not None:
            state = self._state(outcome.writes)
            await self.append([*state, outcome.asked, *self._begun(begun, at)])
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
        await self.append([*outcome.audit, entry, *self._begun(begun, at)])

    async def calls_began(self, call_ids: Sequence[str], *before: AnyEntry) -> None:
        """Write that calls begin."""
        if call_ids or before:
            await self.append([*before, *self._begun(call_ids, _now())])

    async def state_changed(self, writes: Sequence[StateWrite]) -> None:
        """Write state that changed outside a call."""
        if writes:
            await self.append(self._state(writes))

    async def applied(self, ids: tuple[str, ...]) -> None:
        """Write that queued messages became part of the history."""
        await self.append([InboxApplied(run_id=self.start.run_id, at=_now(), ids=ids)])

    async def suspended(self, reason: str, turns: int) -> None:
        """Write that the run paused."""
        await self.append(
            [RunSuspended(run_id=self.start.run_id, at=_now(), reason=reason, turns=turns)]
        )

    async def ended(
        self, entry: RunEnded, *before: AnyEntry, unless_more_than: int | None = None
    ) -> bool:
        """Write the end of the run; like `replied` with `unless_more_than`."""
        return await self.append([*before, entry], unless_more_than=unless_more_than)

    async def queue(self, message: MessageQueued) -> None:
        """Write a message that steers this run, from its own process."""
        await self.append([message])
        self.inbox.put(message.id, message.message)

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
