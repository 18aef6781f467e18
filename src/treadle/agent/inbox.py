"""Messages that steer a run: queued, applied where the protocol allows it, never lost."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Literal

from treadle.mailbox import ReceiptStatus
from treadle.messages import Message

Look = Callable[[str], Awaitable[ReceiptStatus]]
OnSteer = Literal["continue", "carry_over", "discard"]


class Receipt:
    """What becomes of a message that was accepted.

    `status` is "queued", then "applied" (the model gets it), "carried_over" (the next run gets it)
    or "discarded" (only with `on_steer="discard"`). The run keeps it up to date in its own process;
    elsewhere `refresh` looks.
    """

    __slots__ = ("_look", "id", "status")

    def __init__(self, id: str, look: Look | None = None) -> None:
        self.id = id
        self.status: ReceiptStatus = "queued"
        self._look = look

    def __repr__(self) -> str:
        return f"Receipt({self.id!r}, {self.status!r})"

    async def refresh(self) -> ReceiptStatus:
        """Look into the journal and return the status."""
        if self._look is not None:
            self.status = await self._look(self.id)
        return self.status


class Inbox:
    """The messages of one run that wait, in order, and the receipts of those it was handed.

    `heard` are those that the run has taken in.
    """

    __slots__ = ("_receipts", "heard", "waiting")

    def __init__(self) -> None:
        self.waiting: dict[str, Message] = {}
        self.heard: list[Message] = []
        self._receipts: dict[str, Receipt] = {}

    def put(self, id: str, message: Message) -> None:
        """Queue a message."""
        self.waiting[id] = message

    def receipt(self, id: str, look: Look | None = None) -> Receipt:
        """Return the receipt for a message; `look` asks the journal about it."""
        return self._receipts.setdefault(id, Receipt(id, look))

    def settle(self, ids: Iterable[str], status: ReceiptStatus) -> list[Message]:
        """Note what became of messages, and return them; those carried over wait on."""
        found: list[Message] = []
        for id in ids:
            message = self.waiting.get(id)
            if message is not None:
                found.append(message)
                if status != "carried_over":
                    del self.waiting[id]
            if id in self._receipts:
                self._receipts[id].status = status
        if status == "applied":
            self.heard += found
        return found
