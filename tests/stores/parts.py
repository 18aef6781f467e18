"""Small parts that the tests of stores share."""

from __future__ import annotations

from datetime import UTC, datetime

from treadle import Message
from treadle.journal import MessageAdded, RunBegan, RunEnded, RunSuspended

AT = datetime(2026, 1, 1, tzinfo=UTC)
BEGAN = RunBegan(run_id="r1", at=AT, agent="a", input=Message.user("hi"))
PAUSED = RunSuspended(run_id="r1", at=AT, reason="human")
ENDED = RunEnded(run_id="r1", at=AT, stop_reason="answer")


def said(text: str) -> MessageAdded:
    """An entry that tells itself from others."""
    return MessageAdded(run_id="r1", at=AT, message=Message.user(text))
