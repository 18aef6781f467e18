"""A store whose process dies at a chosen append, and that tells outside what was acknowledged."""

from __future__ import annotations

import os
import signal
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from treadle.journal import AnyEntry
from treadle.ports.store import Head, Lease

ACKNOWLEDGED = "acknowledged"
EFFECTS = "effects"
HELD = "held"
ANSWERS = "answers"


def die() -> NoReturn:
    """End this process as a power cut ends it."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("this process is dead")


def tell(path: Path, line: str) -> None:
    """Add a line to a file that outlives this process, as one write."""
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(handle, f"{line}\n".encode())
    finally:
        os.close(handle)


class Killing:
    """Hands everything on to a store; the process dies before, or after, its N-th append.

    Every append that ended is a line of a file: the revision that it made, or "-".
    """

    def __init__(
        self, store: Any, folder: Path, *, before: int | None = None, after: int | None = None
    ) -> None:
        self._store = store
        self._acknowledged = folder / ACKNOWLEDGED
        self._before = before
        self._after = after
        self._appends = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def append(
        self,
        conversation_id: str,
        expected_revision: int,
        entries: Sequence[AnyEntry],
        *,
        fence: int | None = None,
    ) -> int:
        """Append, unless this process dies first."""
        with self._appending() as told:
            revision: int = await self._store.append(
                conversation_id, expected_revision, entries, fence=fence
            )
            told.append(str(revision))
        return revision

    async def claim_and_append(self, *args: Any, **options: Any) -> tuple[Head, Lease]:
        """Claim and append, unless this process dies first."""
        with self._appending() as told:
            head, lease = await self._store.claim_and_append(*args, **options)
            told.append(str(head.revision))
        return head, lease

    @contextmanager
    def _appending(self) -> Generator[list[str]]:
        self._appends += 1
        number = self._appends
        if number == self._before:
            die()
        told: list[str] = []
        try:
            yield told
        finally:
            tell(self._acknowledged, told[0] if told else "-")
            if number == self._after:
                die()
