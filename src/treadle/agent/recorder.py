"""Write a run into its conversation's journal."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from treadle.agent.lease import Ownership
from treadle.agent.setup import RunStart
from treadle.agent.unbroken import unbroken
from treadle.agent.views import views_of
from treadle.errors import InvalidInput, TreadleError
from treadle.journal import (
    AnyEntry,
    CallBegan,
    CallEnded,
    MessageAdded,
    ModelReplied,
    RunBegan,
    RunEnded,
    RunSuspended,
    StateChanged,
)
from treadle.view import View
from treadle.messages import Message
from treadle.ports.model import ModelReply
from treadle.ports.store import Head, Store
from treadle.state.scoped import StateWrite
from treadle.tools.outcome import ToolOutcome
from treadle.values import Plain, pack


class Recorder:
    """The one writer of a run: appends in order, each batch against the revision before it."""

    def __init__(
        self, store: Store, start: RunStart, *, lost: Callable[[TreadleError], None]
    ) -> None:
        self._store = store
        self._start = start
        self._head: Head | None = None
        self._view = View()
        self._lock = asyncio.Lock()
        self._ownership = Ownership(store, lost)
        # A store in memory says so of its method, and nothing can come in between.
        self._never_waits = getattr(store.append, "never_waits", False)

    @property
    def knows_run(self) -> bool:
        """Whether the journal tells of the run."""
        return self._start.run_id in self._view.runs

    @property
    def knows_end(self) -> bool:
        """Whether the journal tells that the run is over."""
        record = self._view.runs.get(self._start.run_id)
        return record is not None and record.stop_reason is not None

    async def open(self) -> View:
        """Create or read the conversation, own it, and return its view.

        Raises:
            ConversationBusy: another run owns it.
            InvalidInput: `history=` was given for a conversation that has begun.
        """
        store, conversation = self._store, self._start.conversation_id
        head = await store.create(conversation)
        if await self._ownership.claim(conversation, self._start.run_id):
            head = await store.head(conversation)
        if head.revision and self._start.history:
            raise InvalidInput(
                f"Conversation {conversation!r} has begun; history= only seeds a new one. "
                "Leave it out, or choose another conversation ID."
            )
        self._head = head
        self._view = views_of(store).take(head)
        if self._view.revision < head.revision:
            for batch in await store.read(conversation, self._view.revision):
                self._view.take_in(batch.revision, batch.entries)
        return self._view

    async def close(self) -> None:
        """Let the conversation go, and remember what is known of it."""
        head, self._head = self._head, None
        if head is not None:
            views_of(self._store).put(head, self._view)
        await self._ownership.release()

    async def began(self, agent: str, writes: Sequence[StateWrite]) -> None:
        """Write the start of the run, and the state that the caller gave."""
        start = self._start
        began = RunBegan(
            run_id=start.run_id,
            at=_now(),
            agent=agent,
            input=start.input,
            history=tuple(start.history),
            metadata=_packed(start.metadata),
        )
        await self._append(began, *self._state(writes))

    async def replied(self, reply: ModelReply, begun: Sequence[str] = (), *after: AnyEntry) -> None:
        """Write a reply with the calls that begin at once, and what follows in the same write."""
        at = _now()
        entry = ModelReplied(
            run_id=self._start.run_id,
            at=at,
            message=reply.message,
            usage=reply.usage,
            model=reply.model,
            finish_reason=reply.finish_reason,
        )
        await self._append(entry, *self._begun(begun, at), *after)

    async def said(self, message: Message) -> None:
        """Write something that the loop said, or what was seen of a broken reply."""
        await self._append(MessageAdded(run_id=self._start.run_id, at=_now(), message=message))

    async def call_ended(self, outcome: ToolOutcome, begun: Sequence[str]) -> None:
        """Write an outcome, with the calls that begin after it."""
        at = _now()
        entry = CallEnded(
            run_id=self._start.run_id,
            at=at,
            result=outcome.result,
            usage=outcome.usage,
            writes=outcome.writes,
            links=outcome.links,
        )
        await self._append(entry, *self._begun(begun, at))

    async def state_changed(self, writes: Sequence[StateWrite]) -> None:
        """Write state that changed outside a call."""
        await self._append(*self._state(writes))

    async def suspended(self, reason: str, turns: int) -> None:
        """Write that the run paused."""
        await self._append(
            RunSuspended(run_id=self._start.run_id, at=_now(), reason=reason, turns=turns)
        )

    async def ended(self, entry: RunEnded) -> None:
        """Write the end of the run."""
        await self._append(entry)

    def _state(self, writes: Sequence[StateWrite]) -> list[AnyEntry]:
        if not writes:
            return []
        return [StateChanged(run_id=self._start.run_id, at=_now(), writes=tuple(writes))]

    def _begun(self, call_ids: Sequence[str], at: datetime) -> list[AnyEntry]:
        return [
            CallBegan(run_id=self._start.run_id, at=at, call_id=call_id) for call_id in call_ids
        ]

    async def _append(self, *entries: AnyEntry) -> None:
        """Write one batch. Once begun it is written, and known, whoever is cancelled meanwhile."""
        if not entries:
            return
        if self._never_waits:
            await self._write(entries)
        else:
            await unbroken(self._write_in_turn(entries))

    async def _write_in_turn(self, entries: Sequence[AnyEntry]) -> None:
        async with self._lock:
            await self._write(entries)

    async def _write(self, entries: Sequence[AnyEntry]) -> None:
        revision = await self._store.append(
            self._start.conversation_id,
            self._view.revision,
            entries,
            fence=self._ownership.fence,
        )
        self._view.take_in(revision, entries)


def _packed(metadata: Mapping[str, Any]) -> dict[str, Plain]:
    packed = pack(dict(metadata), "metadata")
    return packed if isinstance(packed, dict) else {}


def _now() -> datetime:
    return datetime.now(UTC)
