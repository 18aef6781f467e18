"""Wait for the next append: at once within this process, by looking now and then beyond it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress

from treadle.errors import CorruptJournal
from treadle.stores.refusals import not_found

Look = Callable[[Sequence[str]], Awaitable[Mapping[str, int]]]
"""Asks the store for the revisions of these conversations; one that is missing is not there."""


class _Waiter:
    """One call of `wait`: its future gets the revision, or None when the conversation is gone."""

    __slots__ = ("after", "conversation_id", "future", "loop")

    def __init__(self, conversation_id: str, after: int) -> None:
        self.conversation_id = conversation_id
        self.after = after
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[int | None] = self.loop.create_future()

    def tell(self, revision: int | None) -> None:
        """End the wait when that is news. Only in the waiter's own loop."""
        if not self.future.done() and (revision is None or revision > self.after):
            self.future.set_result(revision)

    def fail(self, error: Exception) -> None:
        """End the wait with an error. Only in the waiter's own loop."""
        if not self.future.done():
            self.future.set_exception(error)


class _Poller:
    """The task that looks for the waiters of one event loop, and how long it pauses next."""

    __slots__ = ("pause", "task", "users")

    def __init__(self) -> None:
        self.users = 0
        self.pause = 0.0
        self.task: asyncio.Task[None] | None = None


class Waiters:
    """All who wait for conversations of one handle, whatever event loops they are in.

    The handle tells of its own appends with `notify`. For those of others one task in each event
    loop looks for all of its waiters together, less often the longer nothing comes. It ends with
    the last of them.
    """

    def __init__(self, look: Look, *, first: float = 0.1, longest: float = 0.5) -> None:
        self._look = look
        self._first, self._longest = first, longest
        self._lock = threading.Lock()  # who notifies may be in any thread
        self._waiting: dict[str, list[_Waiter]] = {}
        self._pollers: dict[asyncio.AbstractEventLoop, _Poller] = {}

    async def wait(self, conversation_id: str, after_revision: int, seconds: float) -> int:
        """Return the revision as soon as it is beyond `after_revision`, or after `seconds`.

        The store is asked right away, so that the caller need not.

        Raises:
            ConversationNotFound: there is none, or none any more.
        """
        with self._joined(_Waiter(conversation_id, after_revision)) as waiter:
            revision = await self._revision(conversation_id)
            if revision > after_revision or seconds <= 0:
                return revision
            with self._polled(waiter.loop):
                await asyncio.wait([waiter.future], timeout=seconds)
        if not waiter.future.done():
            return await self._revision(conversation_id)
        found = waiter.future.result()
        if found is None:
            raise not_found(conversation_id)
        return found

    def notify(self, conversation_id: str, revision: int | None) -> None:
        """Tell of an append, or of a deletion by None. From any thread; costs next to nothing."""
        if conversation_id not in self._waiting:
            return
        with self._lock:
            waiting = list(self._waiting.get(conversation_id, ()))
        for waiter in waiting:
            with suppress(RuntimeError):  # its loop is closed: nobody waits there any more
                waiter.loop.call_soon_threadsafe(waiter.tell, revision)

    async def _revision(self, conversation_id: str) -> int:
        found = await self._look([conversation_id])
        if conversation_id not in found:
            raise not_found(conversation_id)
        return found[conversation_id]

    @contextmanager
    def _joined(self, waiter: _Waiter) -> Generator[_Waiter]:
        with self._lock:
            self._waiting.setdefault(waiter.conversation_id, []).append(waiter)
        try:
            yield waiter
        finally:
            with self._lock:
                left = self._waiting[waiter.conversation_id]
                left.remove(waiter)
                if not left:
                    del self._waiting[waiter.conversation_id]
            if waiter.future.done():
                waiter.future.exception()  # whoever was cancelled does not ask for it

    @contextmanager
    def _polled(self, loop: asyncio.AbstractEventLoop) -> Generator[None]:
        with self._lock:
            poller = self._pollers.setdefault(loop, _Poller())
            poller.users += 1
            poller.pause = self._first
            if poller.task is None:
                poller.task = loop.create_task(self._poll(poller, loop))
        try:
            yield
        finally:
            with self._lock:
                poller.users -= 1
                if not poller.users:
                    del self._pollers[loop]
                    poller.task.cancel()

    async def _poll(self, poller: _Poller, loop: asyncio.AbstractEventLoop) -> None:
        while True:
            await asyncio.sleep(poller.pause)
            poller.pause = min(poller.pause * 1.5, self._longest)
            await self._look_for(loop)

    async def _look_for(self, loop: asyncio.AbstractEventLoop) -> None:
        with self._lock:
            mine = [w for each in self._waiting.values() for w in each if w.loop is loop]
        await self._tell(mine)

    async def _tell(self, waiters: Sequence[_Waiter]) -> None:
        names = {waiter.conversation_id for waiter in waiters}
        try:
            found = await self._look(list(names))
        except Exception as error:  # noqa: BLE001 those who wait get it
            if isinstance(error, CorruptJournal) and len(names) > 1:  # that of one of them
                for name in names:
                    await self._tell([each for each in waiters if each.conversation_id == name])
                return
            for waiter in waiters:
                waiter.fail(error)
            return
        for waiter in waiters:
            waiter.tell(found.get(waiter.conversation_id))
