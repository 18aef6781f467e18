"""Own a conversation that another run may own: refuse, wait, or have the other stop."""

from __future__ import annotations

from treadle.agent.lease import Ownership
from treadle.agent.outside import ask_to_stop
from treadle.agent.setup import RunStart
from treadle.errors import ConversationBusy
from treadle.ports.store import Head, Store


async def take_over(ownership: Ownership, store: Store, start: RunStart) -> Head:
    """Take the conversation as `if_busy` says, and return its head.

    Raises:
        ConversationBusy: another run owns it.
    """
    conversation, run_id = start.conversation_id, start.run_id
    if start.if_busy != "interrupt":
        return await ownership.claim(conversation, run_id, wait=start.if_busy == "wait")
    try:
        return await ownership.claim(conversation, run_id)
    except ConversationBusy:
        await ask_to_stop(store, conversation, f"Run {run_id!r} takes over.")
        return await ownership.claim(conversation, run_id, wait=True)
