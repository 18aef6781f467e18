"""Small parts that the tests of runs share."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

from treadle import MemoryStore, Message, ModelReply, ModelRequest, Retry, Run, TextDelta, tool
from treadle.journal import AnyEntry
from treadle.ports.store import Head, Lease
from treadle.testing import FakeClock


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


class Hanging:
    """A model that never answers. It says when it was asked, and when it was stopped."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.stopped = asyncio.Event()

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Wait until cancelled."""
        self.asked.set()
        try:
            await FakeClock.forever()
        finally:
            self.stopped.set()
        raise AssertionError("nothing ends this wait but a cancellation")


class Failing(MemoryStore):
    """A store that stops working after some appends."""

    def __init__(self, works: int, error: Exception) -> None:
        super().__init__()
        self.works = works
        self.error = error

    async def append(
        self,
        conversation_id: str,
        expected_revision: int,
        entries: Sequence[AnyEntry],
        *,
        fence: int | None = None,
    ) -> int:
        """Append, or fail."""
        self._work()
        return await super().append(conversation_id, expected_revision, entries, fence=fence)

    async def claim_and_append(self, *args: Any, **options: Any) -> tuple[Head, Lease]:
        """Claim and append, or fail."""
        self._work()
        return await super().claim_and_append(*args, **options)

    def _work(self) -> None:
        self.works -= 1
        if self.works < 0:
            raise self.error


def roles(messages: Iterable[Message]) -> list[str]:
    """The roles of a history, in order."""
    return [message.role for message in messages]


def quick(attempts: int = 3, clock: FakeClock | None = None) -> Retry:
    """A retry policy that waits on a fake clock."""
    return Retry(attempts=attempts, clock=clock or FakeClock(), jitter=0)


async def types_of(run: Run[Any]) -> list[str]:
    """The dotted types of a run's events."""
    return [event.type async for event in run]


def text_of(events: Iterable[object]) -> str:
    """All text that was streamed."""
    return "".join(event.text for event in events if isinstance(event, TextDelta))


def check_answered(messages: list[Message]) -> None:
    """Each call has exactly one result, in order, right after its message; there are no others."""
    for place, message in enumerate(messages):
        asked = [call.id for call in message.tool_calls]
        if asked:
            assert [found.call_id for found in messages[place + 1].tool_results] == asked
        if message.tool_results:
            assert place > 0
            assert messages[place - 1].tool_calls
