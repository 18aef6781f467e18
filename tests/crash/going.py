"""How a process takes its part in a run: it starts it, or resumes it where the store knows it."""

from __future__ import annotations

from typing import Any

from treadle import RunResult
from treadle.agent.conversation import Conversation
from treadle.agent.startable import Startable
from treadle.agent.views import views_of
from treadle.errors import ConversationNotFound, RunNotFound
from treadle.ports.approval import Approve
from treadle.view import View


def conversation_of(run_id: str) -> str:
    """Return the ID of the conversation that the run is in."""
    return f"talk-{run_id}"


async def go_on(
    runnable: Startable[Any, Any], store: Any, run_id: str, *, approve: bool = False
) -> RunResult[Any]:
    """Start the run, or resume it from wherever it was left."""
    try:
        await store.find(run_id)
    except RunNotFound:
        conversation = conversation_of(run_id)
        known = await store.create(conversation)
        views_of(store).put(known, View())  # so that the first batch takes the conversation
        return await runnable.run("Begin.", conversation=conversation, run_id=run_id, store=store)
    decisions: dict[str, Approve] = {}
    if approve:
        conversation = await Conversation.open(conversation_of(run_id), store=store)
        decisions = {call.call_id: Approve() for call in await conversation.pending()}
    return await runnable.resume(run_id, store=store, decisions=decisions)


async def revision_of(store: Any, run_id: str) -> int:
    """Return how far the journal of the run is; 0 where there is none."""
    try:
        head = await store.head(conversation_of(run_id))
    except ConversationNotFound:
        return 0
    return head.revision
