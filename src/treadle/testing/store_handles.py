"""What the tests of stores have in common: handles to one place, and small entries."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

from treadle.ids import new_stamp
from treadle.journal import AnyEntry, MessageAdded, MessageQueued, RunBegan
from treadle.messages import Message
from treadle.ports.store import Lease, Store

AT = datetime(2026, 1, 1, 12, 30, 1, 250_000, tzinfo=UTC)
LONG = 15.0
SHORT = 0.15


def said(text: str, run_id: str = "r") -> MessageAdded:
    """Return an entry that tells itself from others, and that only an owner may write."""
    return MessageAdded(run_id=run_id, at=AT, message=Message.user(text))


def queued(text: str) -> MessageQueued:
    """Return an entry that anybody may write."""
    return MessageQueued(run_id="", at=AT, id=text, message=Message.user(text))


def began(run_id: str) -> RunBegan:
    """Return the beginning of a run."""
    return RunBegan(run_id=run_id, at=AT, agent="a", input=Message.user("hi"))


class StoreHandles:
    """Handles to the place that a test uses."""

    async def open_store(self) -> Store:
        """Return a new handle to the place that this test uses."""
        raise NotImplementedError

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[Store]:
        """Give a handle, and close it."""
        store = await self.open_store()
        try:
            yield store
        finally:
            await store.close()

    @staticmethod
    def new_id(kind: str = "c") -> str:
        """Return an ID that nobody else uses."""
        return f"{kind}_{new_stamp()}"

    async def owned(self, store: Store, *entries: AnyEntry) -> tuple[str, Lease]:
        """Begin a conversation, own it, and write these entries one by one."""
        name = self.new_id()
        head, lease = await store.claim(name, "owner", LONG)
        revision = head.revision
        for entry in entries:
            revision = await store.append(name, revision, [entry], fence=lease.fence)
        return name, lease
