"""The messages of a conversation that steer, and what became of each."""

from __future__ import annotations

from typing import Literal

from treadle.journal import InboxCarried, InboxDiscarded, MessageQueued
from treadle.messages import Message

ReceiptStatus = Literal["queued", "applied", "carried_over", "discarded"]


class Mailbox:
    """`inbox` are the messages that wait, `receipts` what became of each that was queued."""

    def __init__(self) -> None:
        self.inbox: dict[str, Message] = {}
        self.receipts: dict[str, ReceiptStatus] = {}

    def queued(self, entry: MessageQueued) -> None:
        """Take in a message, unless it was sent twice."""
        if entry.id not in self.receipts:
            self.inbox[entry.id] = entry.message
            self.receipts[entry.id] = "queued"

    def taken(self, ids: tuple[str, ...]) -> list[Message]:
        """Return the messages of these IDs that wait: they are applied now."""
        found = {id: self.inbox.pop(id) for id in ids if id in self.inbox}
        self.receipts.update(dict.fromkeys(found, "applied"))
        return list(found.values())

    def carried(self, entry: InboxCarried) -> None:
        """They came too late for their run."""
        self.receipts.update(dict.fromkeys(entry.ids, "carried_over"))

    def discarded(self, entry: InboxDiscarded) -> None:
        """They are dropped."""
        for id in entry.ids:
            self.inbox.pop(id, None)
            self.receipts[id] = "discarded"
