"""The messages of a conversation that steer, and what became of each."""

from __future__ import annotations

from typing import Literal

from treadle.journal import InboxApplied, InboxCarried, InboxDiscarded, MessageQueued
from treadle.messages import Message

ReceiptStatus = Literal["queued", "applied", "carried_over", "discarded"]


class Mailbox:
    """`inbox` are the messages that wait, `receipts` what became of each that was queued.

    `heard` are those that were applied in the newest run that any were.
    """

    def __init__(self) -> None:
        self.inbox: dict[str, Message] = {}
        self.receipts: dict[str, ReceiptStatus] = {}
        self.heard: tuple[str, list[Message]] = ("", [])

    def queued(self, entry: MessageQueued) -> None:
        """Take in a message, unless it was sent twice."""
        if entry.id not in self.receipts:
            self.inbox[entry.id] = entry.message
            self.receipts[entry.id] = "queued"

    def taken(self, entry: InboxApplied) -> list[Message]:
        """Return the messages of the entry that wait: they are applied now."""
        found = {id: self.inbox.pop(id) for id in entry.ids if id in self.inbox}
        self.receipts.update(dict.fromkeys(found, "applied"))
        if entry.run_id != self.heard[0]:
            self.heard = (entry.run_id, [])
        self.heard[1].extend(found.values())
        return list(found.values())

    def heard_in(self, run_id: str) -> list[Message]:
        """Return the messages that were applied in the newest run, if that is this one."""
        return list(self.heard[1]) if self.heard[0] == run_id else []

    def carried(self, entry: InboxCarried) -> None:
        """They came too late for their run."""
        self.receipts.update(dict.fromkeys(entry.ids, "carried_over"))

    def discarded(self, entry: InboxDiscarded) -> None:
        """They are dropped."""
        for id in entry.ids:
            self.inbox.pop(id, None)
            self.receipts[id] = "discarded"
