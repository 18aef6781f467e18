"""Write into a conversation without owning it: steering, decisions, and asking a run to stop."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from treadle.agent.history import own_parts
from treadle.agent.inbox import Look, Receipt
from treadle.agent.lease import WRITER
from treadle.agent.views import views_of
from treadle.errors import ConversationFinalized, InvalidInput, RevisionConflict
from treadle.fold import fold
from treadle.ids import new_stamp
from treadle.journal import AnyEntry, CancelAsked, MessageQueued
from treadle.mailbox import ReceiptStatus
from treadle.messages import Message, UserPart
from treadle.ports.store import Store
from treadle.view import View

MOST_TRIES = 64


def steering(inputs: Sequence[str | UserPart]) -> MessageQueued:
    """Return the entry for a message that steers.

    Raises:
        InvalidInput: there is nothing to say.
    """
    parts = own_parts(inputs)
    if not parts:
        raise InvalidInput("There is nothing to say: give a text or a part.")
    return MessageQueued(
        run_id="", at=datetime.now(UTC), id=f"msg_{new_stamp()}", message=Message("user", parts)
    )


async def read_view(store: Store, conversation_id: str, revision: int | None = None) -> View:
    """Return a conversation's view, the newest or that at an earlier revision.

    Raises:
        ConversationNotFound: there is none.
        InvalidInput: it has no such revision.
    """
    head = await store.head(conversation_id)
    if revision is None:
        view = views_of(store).take(head)
        for batch in await store.read(conversation_id, view.revision):
            view.take_in(batch.revision, batch.entries)
        views_of(store).put(head, view)
        return view
    if type(revision) is not int or not 0 <= revision <= head.revision:
        raise InvalidInput(
            f"Conversation {conversation_id!r} has revisions 0 to {head.revision}, "
            f"not {revision!r}."
        )
    batches = await store.read(conversation_id)
    return fold((b.revision, b.entries) for b in batches if b.revision <= revision)


async def append_from_outside(
    store: Store, conversation_id: str, entries: Callable[[View], Sequence[AnyEntry]]
) -> View:
    """Append what `entries` makes of the view, again whenever somebody was quicker."""
    attempt = 0
    while True:
        view = await read_view(store, conversation_id)
        made = entries(view)
        if not made:
            return view
        attempt += 1
        try:
            await store.append(conversation_id, view.revision, made)
        except RevisionConflict:
            if attempt == MOST_TRIES:
                raise
            await asyncio.sleep(random.uniform(0, 0.002 * min(attempt, 20)))  # noqa: S311
        else:
            return view


async def queue(store: Store, conversation_id: str, message: MessageQueued) -> Receipt:
    """Queue a message for the run under way, or for the next one.

    Raises:
        ConversationFinalized: the last run has answered.
        ConversationNotFound: there is no such conversation.
    """

    def entries(view: View) -> Sequence[AnyEntry]:
        last = view.last_run
        if last is not None and last.status == "answered":
            raise ConversationFinalized(
                f"Conversation {conversation_id!r} has its answer; start another run with this."
            )
        return [message]

    await append_from_outside(store, conversation_id, entries)
    return Receipt(message.id, looking_into(store, conversation_id))


def looking_into(store: Store, conversation_id: str) -> Look:
    """Return what asks the journal of a conversation about a message."""

    async def look(id: str) -> ReceiptStatus:
        return (await read_view(store, conversation_id)).mail.receipts[id]

    return look


async def ask_to_stop(store: Store, conversation_id: str, reason: str) -> None:
    """Ask the run under way, or about to begin, to stop; nothing when there is none."""
    lease = (await store.head(conversation_id)).lease
    opening = "" if lease is None else lease.run_id

    def entries(view: View) -> Sequence[AnyEntry]:
        last = view.last_run
        if last is not None and last.status == "running":
            run_id = last.run_id
            if last.cancel is not None:
                return []
        else:
            run_id = opening
        if run_id in ("", WRITER):
            return []
        return [CancelAsked(run_id=run_id, at=datetime.now(UTC), reason=reason)]

    await append_from_outside(store, conversation_id, entries)
