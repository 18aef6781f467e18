"""A thread that owns one SQLite connection and answers calls from event loops."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Iterable, Sequence
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar

from treadle.ports.store import Begun
from treadle.stores.bell import Bell, bell_of

WorkT = TypeVar("WorkT")
Opening = Callable[[], sqlite3.Connection]


class Call(Generic[WorkT]):
    """Work that somebody waits for. Whoever is cancelled does not stop it."""

    __slots__ = ("bell", "error", "future", "result", "work")

    def __init__(self, work: WorkT, future: asyncio.Future[Any]) -> None:
        self.work = work
        self.future = future
        self.bell = bell_of(future.get_loop())
        self.result: Any = None
        self.error: Exception | None = None

    def tell(self) -> None:
        """Hand on what came of it. Only in the caller's own loop."""
        if self.future.done():  # cancelled
            return
        if self.error is None:
            self.future.set_result(self.result)
        else:
            self.future.set_exception(self.error)


Serving = Callable[[sqlite3.Connection, Sequence[Call[WorkT]]], None]
"""Fills in result or error of each call. When it raises, that is the answer to all of them."""


class _End:
    """The last item of an inbox. Its call, if any, is told when the connection is closed."""

    __slots__ = ("call",)

    def __init__(self, call: Call[None] | None) -> None:
        self.call = call


_Inbox = SimpleQueue[Call[WorkT] | _End]


class SQLiteThread(Generic[WorkT]):
    """Begins with the first call, takes all that waits together, and ends when it is stopped.

    The connection is known to the running function only: a forked child, in which that function is
    gone, can neither use it nor close it.
    """

    def __init__(self, name: str, opening: Opening, serving: Serving[WorkT]) -> None:
        self._name = name
        self._opening = opening
        self._serving = serving
        self._lock = threading.Lock()
        self._inbox: _Inbox[WorkT] | None = None

    async def call(self, work: WorkT) -> Any:
        """Return what comes of the work."""
        call = Call(work, asyncio.get_running_loop().create_future())
        self._put(call)
        return await call.future

    def begin(self, work: WorkT) -> Begun[Any]:
        """Begin the work and return what will tell its result."""
        future: Begun[Any] = Begun(loop=asyncio.get_running_loop())
        self._put(Call(work, future))
        return future

    def _put(self, call: Call[WorkT]) -> None:
        with self._lock:
            if self._inbox is None:
                self._inbox = SimpleQueue()
                whole = (self._inbox, self._opening, self._serving)
                threading.Thread(target=_run, args=whole, name=self._name, daemon=True).start()
            self._inbox.put(call)

    async def stop(self) -> None:
        """Do what still waits, and close the connection. The next call begins anew."""
        end = Call(None, asyncio.get_running_loop().create_future())
        if self._ended(end):
            await asyncio.shield(end.future)

    def abandon(self) -> None:
        """Do what still waits and end, without anybody waiting for that."""
        self._ended(None)

    def _ended(self, call: Call[None] | None) -> bool:
        with self._lock:
            inbox, self._inbox = self._inbox, None
        if inbox is not None:
            inbox.put(_End(call))
        return inbox is not None


def _run(inbox: _Inbox[WorkT], opening: Opening, serving: Serving[WorkT]) -> None:
    connection: sqlite3.Connection | None = None
    end: _End | None = None
    while end is None:
        calls, end = _taken(inbox)
        if calls:
            try:
                connection = connection or opening()
                serving(connection, calls)
            except Exception as error:  # noqa: BLE001 those who wait get it
                for call in calls:
                    call.error = error
                if connection is not None:  # what is wrong with it may be right with the next
                    connection.close()
                    connection = None
            tell(calls)
            del calls
    if connection is not None:
        connection.close()
    if end.call is not None:
        tell([end.call])


def _taken(inbox: _Inbox[WorkT]) -> tuple[list[Call[WorkT]], _End | None]:
    """Wait for an item and return all there are."""
    calls: list[Call[WorkT]] = []
    item = inbox.get()
    while isinstance(item, Call):
        calls.append(item)
        try:
            item = inbox.get_nowait()
        except Empty:
            return calls, None
    return calls, item


def tell(calls: Iterable[Call[Any]]) -> None:
    """Hand on what came of calls, waking each event loop once."""
    by_bell: dict[Bell, list[Call[Any]]] = {}
    for call in calls:
        by_bell.setdefault(call.bell, []).append(call)
    for bell, those in by_bell.items():
        bell.ring([call.tell for call in those])
