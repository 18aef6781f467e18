"""Every kind of store, and handles to its place that are as fresh as those of a new process."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.databases import KINDS, url_of
from treadle import Agent, Conversation, open_store
from treadle.ids import new_stamp
from treadle.journal import AnyEntry
from treadle.messages import Thread
from treadle.ports.store import Store
from treadle.testing import FakeClock

LOCAL = ("memory", "file", "sqlite")
SHARED = ("file", "sqlite", *KINDS)
ALL = (*LOCAL, *KINDS)


def marked(*kinds: str) -> list[Any]:
    """Return parameters for these kinds; those on a server of their own are e2e."""
    return [pytest.param(k, marks=[pytest.mark.e2e] if k in KINDS else []) for k in kinds]


@dataclass
class Kept:
    """One place where conversations are kept. `stamp` makes the IDs of a test its own."""

    kind: str
    folder: Path
    fresh: Callable[[], Store]
    stamp: str = field(default_factory=new_stamp)
    handles: list[Store] = field(default_factory=list[Store])

    def open(self) -> Store:
        """Return one more handle, as another process would have."""
        self.handles.append(self.fresh())
        return self.handles[-1]

    async def reopen(self) -> Store:
        """Close every handle and return a fresh one: a new process that knows nothing."""
        await self.close()
        return self.open()

    async def close(self) -> None:
        """Close every handle."""
        while self.handles:
            await self.handles.pop().close()

    def id(self, name: str = "c") -> str:
        """Return an ID that only this test uses."""
        return f"{name}-{self.stamp}"

    async def conversation(self, name: str = "c") -> Conversation:
        """Open a conversation through the newest handle."""
        store = self.handles[-1] if self.handles else self.open()
        return await Conversation.open(self.id(name), store=store)

    async def messages(self, name: str = "c") -> Thread:
        """Read the history as a new process would."""
        await self.reopen()
        return await (await self.conversation(name)).messages()

    @property
    def size(self) -> int:
        """How many bytes its files have; one under two names counts once."""
        files = [path.stat() for path in self.folder.rglob("*") if path.is_file()]
        return sum({file.st_ino: file.st_size for file in files}.values())


@asynccontextmanager
async def keeping(kind: str, folder: Path) -> AsyncGenerator[Kept]:
    """Give a place of this kind, and let go of it."""
    url = url_of(kind) if kind in KINDS else url_in(kind, folder)
    first = open_store(url)
    # Handles to memory are copies that share what they hold, and none of what is kept about them.
    kept = Kept(
        kind, folder, (lambda: copy.copy(first)) if kind == "memory" else lambda: open_store(url)
    )
    try:
        yield kept
    finally:
        await kept.close()


def url_in(kind: str, folder: Path) -> str:
    """Return the URL of a store in a folder of this machine."""
    return {"memory": "memory:", "file": f"file:{folder}/kept"}.get(
        kind, f"sqlite:///{folder}/kept.db"
    )


class Dying:
    """A store as a process sees it that dies: what it appends after its last append never comes.

    `last` is set when that is written, `dead` when the process is no more; tools may set it.
    """

    def __init__(self, store: Store, appends: int) -> None:
        self._store = store
        self._left = appends
        self._gone = asyncio.Event()
        self.last, self.dead = asyncio.Event(), asyncio.Event()

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
        """Append, or never return."""
        if self._left <= 0 or self.dead.is_set():
            self.dead.set()
            await self._gone.wait()
            raise OSError("this process is no more")
        self._left -= 1
        revision = await self._store.append(
            conversation_id, expected_revision, entries, fence=fence
        )
        if not self._left:
            self.last.set()
        return revision

    async def die(self) -> None:
        """Be no more, from within a tool or a model."""
        await self.last.wait()
        self.dead.set()
        await FakeClock.forever()

    def bury(self) -> None:
        """Let what still waits for this process fail: nothing of it is left behind."""
        self._gone.set()

    async def run(self, agent: Agent[Any, Any], input: Any, **options: Any) -> None:
        """Run in this process until it dies. Its lease ends at once, as that of the dead does."""
        task = asyncio.ensure_future(agent.run(input, store=self, **options))  # pyright: ignore[reportArgumentType] a wrapper
        dead = asyncio.ensure_future(self.dead.wait())
        await asyncio.wait([task, dead], return_when=asyncio.FIRST_COMPLETED)
        assert self.dead.is_set(), "it did not die"
        self.bury()
        task.cancel()
        await asyncio.wait([task, dead], timeout=5)
