"""A conversation in a store: read at any revision, steered, forked, and kept in order."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Self, get_args

from msgspec import UNSET
from msgspec.structs import replace

from treadle.agent.approval import pending
from treadle.agent.history import own_history
from treadle.agent.inbox import Receipt
from treadle.agent.lease import WRITER, Ownership
from treadle.agent.outside import ask_to_stop, queue, read_view, steering
from treadle.errors import ConfigError, InvalidId, InvalidInput, RevisionConflict, RunNotFound
from treadle.ids import check_id, new_stamp
from treadle.journal import (
    AnyEntry,
    Forked,
    InboxDiscarded,
    MessageAdded,
    RunEnded,
    ViewReset,
)
from treadle.messages import Artefact, Message, Thread, UserPart
from treadle.plan import Plan
from treadle.ports.approval import PendingCall
from treadle.ports.plans import read_plan
from treadle.ports.store import ConversationStatus, Head, Store
from treadle.run_record import RunRecord
from treadle.state.scoped import State
from treadle.values import unpack
from treadle.values.logs import logger
from treadle.view import View

STATUSES: tuple[str, ...] = get_args(ConversationStatus)
log = logger(__name__)


class Conversation:
    """One conversation in a store. It reads the store anew with every call.

    `head` is how things stood at the last look: status, revision, newest run, waiting messages.
    """

    def __init__(self, store: Store, head: Head) -> None:
        self._store = store
        self.head = head

    @property
    def id(self) -> str:
        """The conversation's ID."""
        return self.head.conversation_id

    def __repr__(self) -> str:
        return f"Conversation({self.id!r}, {self.head.status}, revision {self.head.revision})"

    @classmethod
    async def open(cls, conversation_id: str, *, store: Store) -> Self:
        """Open one that exists.

        Raises:
            ConversationNotFound: there is none of this ID.
            InvalidId: the ID cannot be one.
        """
        return cls(store, await store.head(check_id(conversation_id, "conversation")))

    @classmethod
    async def create(
        cls, conversation_id: str | None = None, *, store: Store, history: Sequence[Message] = ()
    ) -> Self:
        """Begin one, under a given ID or a new one; `history` are its first messages.

        Raises:
            InvalidId: the ID cannot be one, or there is such a conversation already.
            InvalidInput: the history has a result without a call.
        """
        name = f"conv_{new_stamp()}" if conversation_id is None else conversation_id
        head = await store.create(check_id(name, "conversation"))
        conversation = cls(store, head)
        if head.revision:
            raise InvalidId(
                f"There is a conversation {name!r} already; open it, or choose another ID."
            )
        if history:
            await conversation.append(history)
        return conversation

    @classmethod
    async def list(
        cls,
        *,
        store: Store,
        status: ConversationStatus | None = None,
        limit: int = 100,
        after: Conversation | None = None,
    ) -> list[Self]:
        """Return conversations, the last changed first; `after` the last one of the page before."""
        if status is not None and status not in STATUSES:
            raise ConfigError(f"status={status!r} is none of {', '.join(STATUSES)}.")
        if not isinstance(limit, int) or limit < 1:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigError(f"limit={limit!r}: give a number of conversations, at least 1.")
        last = after.head if after is not None else None
        return [cls(store, h) for h in await store.list(status=status, limit=limit, after=last)]

    async def refresh(self) -> Head:
        """Look again, and return how things stand."""
        self.head = await self._store.head(self.id)
        return self.head

    async def view(self, revision: int | None = None) -> View:
        """Return everything that follows from the journal, at a revision or now: yours to keep."""
        last = (await self.refresh()).revision
        return await read_view(self._store, self.id, last if revision is None else revision)

    async def messages(self, revision: int | None = None) -> Thread:
        """Return the history, valid for any provider at every revision."""
        return Thread((await read_view(self._store, self.id, revision)).messages)

    async def runs(self) -> Sequence[RunRecord]:
        """Return the runs, oldest first, with their outputs and metadata as they were given.

        Raises:
            UnknownType: an output is of a class that is not registered in this process.
        """
        return [
            replace(
                record,
                output=record.text if record.output is UNSET else unpack(record.output),
                metadata={name: unpack(value) for name, value in record.metadata.items()},
            )
            for record in (await self.view()).runs.values()
        ]

    async def entries(self, from_revision: int = 0) -> Sequence[tuple[str, AnyEntry]]:
        """Return the journal: every entry after a revision with its ID, `revision.n`."""
        batches = await self._store.read(self.id, from_revision)
        return [
            (f"{batch.revision}.{place}", entry)
            for batch in batches
            for place, entry in enumerate(batch.entries)
        ]

    async def state(self, revision: int | None = None) -> State:
        """Return the state."""
        return State.from_packed((await read_view(self._store, self.id, revision)).state)

    async def plan(self, agent: str | None = None, *, path: str = "") -> Plan | None:
        """Return the plan of an agent, by default the newest run's, None where it has none.

        `path` is that of a child run, such as "writer#1".
        """
        view = await read_view(self._store, self.id)
        name = view.last_run.agent if agent is None and view.last_run is not None else agent or ""
        return read_plan(State.from_packed(view.state), name, path)

    async def pending(self) -> Sequence[PendingCall]:
        """Return the calls that wait for a decision; `agent.resume` takes the decisions."""
        return pending(await read_view(self._store, self.id))

    async def artefacts(self) -> Sequence[Artefact]:
        """Return what is known of outputs that were too long for the model, the oldest first."""
        return list((await read_view(self._store, self.id)).artefacts.values())

    async def artefact(self, artefact: Artefact | str) -> str:
        """Return an output that was too long for the model, whole; by its ID or as it was told.

        Raises:
            InvalidInput: there is no such artefact in this conversation.
        """
        known = (await read_view(self._store, self.id)).artefacts
        found = known.get(artefact if isinstance(artefact, str) else artefact.id)
        if found is None:
            there = ", ".join(known) or "it has none"
            raise InvalidInput(f"Conversation {self.id!r} has no {artefact!r:.80}: {there}.")
        return (await self._store.get(self.id, found.digest)).decode()

    async def steer(self, *inputs: str | UserPart) -> Receipt:
        """Say something to the run under way, wherever it is, or to the next one.

        Raises:
            ConversationFinalized: the last run has answered; start another.
            InvalidInput: there is nothing to say.
        """
        receipt = await queue(self._store, self.id, steering(inputs))
        await self.refresh()
        return receipt

    async def cancel(self, reason: str = "cancelled") -> None:
        """Ask the run under way, wherever it is, to stop; nothing when there is none."""
        await ask_to_stop(self._store, self.id, reason)
        await self.refresh()

    async def append(self, messages: Iterable[Message]) -> None:
        """Add messages to the history without a run.

        Raises:
            ConversationBusy: a run is at work.
            InvalidInput: a result without a call.
        """
        thread, system = own_history(list(messages))
        if system is not None:
            raise InvalidInput("The system prompt is no part of a history; give instructions=.")
        added = [MessageAdded(run_id="", at=_now(), message=message) for message in thread]
        if added:
            await self._write(added)

    async def reset(self, messages: Iterable[Message] = ()) -> None:
        """Let the history be these messages from now on; the journal keeps what was.

        Raises:
            ConversationBusy: a run is at work.
            InvalidInput: a result without a call.
        """
        thread, _ = own_history(list(messages))
        async with self._owned() as (head, ownership):
            at = _now()
            entries: list[AnyEntry] = list(_cut_short(await self.view(), at))
            entries.append(ViewReset(run_id="", at=at, messages=tuple(thread)))
            await self._append(entries, head.revision, ownership)

    async def fork(
        self, run_id: str | None = None, *, revision: int | None = None, new_id: str | None = None
    ) -> Conversation:
        """Return a copy through the end of a run, or through a revision; by default as it is now.

        The copy shares nothing with this one. Messages that wait do not come along, and a run
        that had not ended there is over in the copy.

        Raises:
            RunNotFound: there is no such run here.
            InvalidInput: the run has not ended, or there is no such revision.
            InvalidId: `new_id` cannot be one or is taken.
        """
        view = await read_view(self._store, self.id)
        if run_id is not None:
            revision = _end_of(view, run_id)
        revision = view.revision if revision is None else revision
        if not 0 <= revision <= view.revision:
            raise InvalidInput(
                f"Conversation {self.id!r} has revisions 0 to {view.revision}, not {revision}."
            )
        name = f"conv_{new_stamp()}" if new_id is None else check_id(new_id, "conversation")
        branch = Conversation(self._store, await self._store.fork(self.id, revision, name))
        await branch._begin_as_fork(self.id, revision)
        return branch

    async def _begin_as_fork(self, parent: str, revision: int) -> None:
        """Write where a copy comes from, and leave behind what belongs to its parent."""
        view, at = await self.view(), _now()
        entries: list[AnyEntry] = [Forked(run_id="", at=at, parent=parent, revision=revision)]
        if view.mail.inbox:
            entries.append(InboxDiscarded(run_id="", at=at, ids=tuple(view.mail.inbox)))
        entries.extend(_cut_short(view, at))
        await self._write(entries)

    async def delete(self) -> None:
        """Forget the conversation with all that belongs to it.

        Raises:
            ConversationBusy: a run is at work.
        """
        async with self._owned():
            await self._store.delete(self.id)

    async def _write(self, entries: Sequence[AnyEntry]) -> None:
        async with self._owned() as (head, ownership):
            await self._append(entries, head.revision, ownership)

    async def _append(
        self, entries: Sequence[AnyEntry], revision: int, ownership: Ownership
    ) -> None:
        while True:
            try:
                await self._store.append(self.id, revision, entries, fence=ownership.fence)
                break
            except RevisionConflict:  # somebody steered, which changes nothing of the history
                before, revision = revision, (await self._store.head(self.id)).revision
                if revision == before:
                    raise
        await self.refresh()

    @asynccontextmanager
    async def _owned(self) -> AsyncGenerator[tuple[Head, Ownership]]:
        ownership = Ownership(self._store, lost=log.debug)
        try:
            yield await ownership.claim(self.id, WRITER), ownership
        finally:
            await ownership.release()


def _cut_short(view: View, at: datetime) -> Sequence[RunEnded]:
    """Return the end of the run under way, which will not go on; nothing when there is none."""
    last = view.last_run
    if last is None or last.status not in ("running", "paused"):
        return ()
    return (
        RunEnded(
            run_id=last.run_id,
            at=at,
            stop_reason="cancelled",
            usage=last.usage,
            turns=last.turns,
        ),
    )


def _end_of(view: View, run_id: str) -> int:
    record = view.runs.get(run_id)
    if record is None:
        raise RunNotFound(f"There is no run {run_id!r} in this conversation.")
    if not record.revision:
        raise InvalidInput(f"Run {run_id!r} has not ended; fork a revision of it instead.")
    return record.revision


def _now() -> datetime:
    return datetime.now(UTC)
