"""A line of callers: first come, first served, in all event loops and threads of a process."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from math import inf

from treadle.ports.clock import Clock
from treadle.ports.quota import Bounds, Permit

Look = Callable[[], Awaitable[Permit | float]]
"""Takes a permit, or says after how many seconds to look again; `inf` is when woken."""


class _Place:
    """One caller in the line."""

    __slots__ = ("loop", "tokens", "woken")

    def __init__(self, tokens: int) -> None:
        self.loop = asyncio.get_running_loop()
        self.tokens = tokens
        self.woken = asyncio.Event()

    def wake(self) -> None:
        """Let the caller look again, from any thread."""
        with suppress(RuntimeError):  # its loop is closed
            self.loop.call_soon_threadsafe(self.woken.set)


class Line:
    """Lets callers look for a place one after another: only the first one looks.

    It looks when its wait is over, when it is woken, and at least every `look_again` seconds.
    """

    __slots__ = ("_bounds", "_clock", "_lock", "_look_again", "_places")

    def __init__(self, bounds: Bounds, clock: Clock, *, look_again: float = inf) -> None:
        self._bounds = bounds
        self._clock = clock
        self._look_again = look_again
        self._lock = threading.Lock()
        self._places: deque[_Place] = deque()

    def waiting(self) -> list[int]:
        """Return the tokens of those who wait, in order."""
        with self._lock:
            return [place.tokens for place in self._places]

    async def through(self, look: Look, *, tokens: int, longest: float | None) -> Permit:
        """Wait for this caller's turn, and then until it finds a permit.

        Raises:
            RateLimited: that would take longer than `longest` seconds.
        """
        until = inf if longest is None else self._clock.seconds() + longest
        place = _Place(tokens)
        with self._lock:
            self._places.append(place)
        try:
            while True:
                place.woken.clear()  # before looking: who wakes it meanwhile is heard
                wait = inf
                if self._is_first(place):
                    found = await look()
                    if isinstance(found, Permit):
                        return found
                    wait = self._possible(found, until)
                await self._pause(place.woken, wait)
        finally:
            with self._lock:
                if place in self._places:
                    self._places.remove(place)
            self.wake()

    def wake(self) -> None:
        """Let the first one look again. Whose event loop is gone waits no more."""
        with self._lock:
            while self._places and self._places[0].loop.is_closed():
                self._places.popleft()
            first = self._places[0] if self._places else None
            if first is not None:
                first.wake()

    def _is_first(self, place: _Place) -> bool:
        with self._lock:
            return self._places[0] is place

    def _possible(self, wait: float, until: float) -> float:
        """Return how long to pause, when the wait ends in time."""
        left = until - self._clock.seconds()
        if left <= 0 or (wait < inf and wait > left):
            raise self._bounds.too_long(wait if wait < inf else 0.0, left)
        return min(wait, left, self._look_again)

    async def _pause(self, woken: asyncio.Event, seconds: float) -> None:
        if seconds == inf:
            await woken.wait()
            return
        async with asyncio.TaskGroup() as tasks:
            waits = {
                tasks.create_task(self._clock.sleep(seconds)),
                tasks.create_task(woken.wait()),
            }
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            for each in waits:
                each.cancel()
