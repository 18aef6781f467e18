"""Wake an event loop from another thread, at less cost than `call_soon_threadsafe`."""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from weakref import WeakKeyDictionary

_ONE = (1).to_bytes(8, "little")


class Bell:
    """Calls functions in the event loop that hears it; in one that is closed, nobody does.

    Its descriptors are open for as long as anybody may ring it.
    """

    __slots__ = ("_due", "_rope", "ear")

    def __init__(self) -> None:
        self._due: deque[Callable[[], object]] = deque()
        if hasattr(os, "eventfd"):
            self.ear = self._rope = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        else:  # macOS
            self.ear, self._rope = os.pipe()
            for descriptor in (self.ear, self._rope):
                os.set_blocking(descriptor, False)

    def ring(self, functions: Iterable[Callable[[], object]]) -> None:
        """Have these called soon, in this order. From any thread."""
        self._due.extend(functions)
        with suppress(BlockingIOError):  # it rings already
            os.write(self._rope, _ONE)

    def answer(self) -> None:
        """Call what is due. Only in the loop."""
        with suppress(BlockingIOError):
            os.read(self.ear, 4096)
        for _ in range(len(self._due)):
            self._due.popleft()()

    def __del__(self) -> None:
        for descriptor in {self.ear, self._rope}:
            os.close(descriptor)


def bell_of(loop: asyncio.AbstractEventLoop) -> Bell:
    """Return the bell that a loop hears. Only in that loop."""
    found = _bells.get(loop)
    if found is None:
        found = _bells[loop] = Bell()
        loop.add_reader(found.ear, found.answer)
    return found


_bells: WeakKeyDictionary[asyncio.AbstractEventLoop, Bell] = WeakKeyDictionary()
