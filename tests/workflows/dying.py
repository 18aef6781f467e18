"""A store of any kind whose process dies at an append, and the process that takes over."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from treadle.agent.owner import owner_here
from treadle.agent.startable import Startable
from treadle.journal import AnyEntry


class DyingStore:
    """Another store, in a process that dies: after some appends none comes back, ever.

    Its runs own their conversations as a process that is no more, so that another takes them over.
    """

    def __init__(self, store: Any, appends: int) -> None:
        self._store = store
        self._left = appends
        self.dead, self.gone = asyncio.Event(), asyncio.Event()

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
        await self._live()
        return await self._store.append(conversation_id, expected_revision, entries, fence=fence)

    async def claim(self, conversation_id: str, owner: str, *args: Any, **options: Any) -> Any:
        """Claim, as a process that is no more."""
        return await self._store.claim(conversation_id, _dead(owner), *args, **options)

    async def claim_and_append(
        self, conversation_id: str, owner: str, *args: Any, **options: Any
    ) -> Any:
        """Claim and append, or never return."""
        await self._live()
        return await self._store.claim_and_append(conversation_id, _dead(owner), *args, **options)

    async def _live(self) -> None:
        if self._left <= 0:
            self.dead.set()
            await self.gone.wait()
            raise OSError("this process is no more")
        self._left -= 1

    async def release(self, lease: Any) -> None:
        """A process that is no more lets nothing go."""


def _dead(owner: str) -> str:
    place = owner_here("r").rpartition("@")[2].rpartition("/")[0]
    return f"{owner.rpartition('@')[0]}@{place}/999999999-1"


async def die_after(
    appends: int, runnable: Startable[Any, Any], store: Any, **options: Any
) -> bool:
    """Run in a process that dies at this append, and say whether it did; else it has answered."""
    dying: Any = DyingStore(store, appends)
    task = asyncio.ensure_future(runnable.run("Go.", store=dying, run_id="r", **options))
    return await _ends(task, dying)


async def resume_and_die(appends: int, runnable: Startable[Any, Any], store: Any) -> bool:
    """Go on in a process that dies, too."""
    dying: Any = DyingStore(store, appends)
    task = asyncio.ensure_future(runnable.resume("r", store=dying).result())
    return await _ends(task, dying)


async def _ends(task: asyncio.Task[Any], dying: DyingStore) -> bool:
    dead = asyncio.ensure_future(dying.dead.wait())
    await asyncio.wait([task, dead], return_when=asyncio.FIRST_COMPLETED)
    died = dead.done()
    dead.cancel()
    if died:
        task.cancel()
        dying.gone.set()  # it cannot write any more, whatever it still does
        await asyncio.wait([task], timeout=5)
        assert task.done()
    else:
        await task
    return died
