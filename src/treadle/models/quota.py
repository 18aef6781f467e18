"""What the requests of one process may use together."""

from __future__ import annotations

import threading
from collections import OrderedDict
from functools import partial
from itertools import count
from math import inf

from treadle.models.line import Line
from treadle.ports.clock import SYSTEM_CLOCK, Clock
from treadle.ports.quota import Bounds, Permit


class Window:
    """What began in the last seconds, oldest first: for each request its time and its tokens."""

    __slots__ = ("_begun", "_bounds", "_tokens")

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._begun: OrderedDict[str, tuple[float, int]] = OrderedDict()
        self._tokens = 0

    def copy(self) -> Window:
        """Return one that can be tried out."""
        other = Window(self._bounds)
        other._begun = self._begun.copy()
        other._tokens = self._tokens
        return other

    def wait(self, tokens: int, now: float) -> float:
        """Return the seconds until a request of so many tokens may begin."""
        self._forget(now)
        rpm, tpm, free_at = self._bounds.rpm, self._bounds.tpm, now
        if rpm is not None and len(self._begun) >= rpm:
            free_at = self._begun[next(iter(self._begun))][0] + self._bounds.window
        if tpm is not None:
            excess = self._tokens + tokens - tpm
            for at, used in self._begun.values():
                if excess <= 0:
                    break
                excess -= used
                free_at = max(free_at, at + self._bounds.window)
        return free_at - now

    def begin(self, id: str, tokens: int, now: float) -> None:
        """Count a request that begins now."""
        self._begun[id] = now, tokens
        self._tokens += tokens

    def settle(self, id: str, tokens: int) -> None:
        """Count what a request really used instead of what was reserved, if it still counts."""
        if id in self._begun:
            at, reserved = self._begun[id]
            self._begun[id] = at, tokens
            self._tokens += tokens - reserved

    def _forget(self, now: float) -> None:
        while self._begun:
            id, (at, tokens) = next(iter(self._begun.items()))
            if at + self._bounds.window > now:
                return
            del self._begun[id]
            self._tokens -= tokens


class LocalQuota:
    """A quota for all event loops and threads of this process."""

    __slots__ = ("_clock", "_ids", "_line", "_lock", "_running", "_window", "bounds")

    def __init__(self, bounds: Bounds, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self.bounds = bounds
        self._clock = clock
        self._line = Line(bounds, clock)
        self._lock = threading.Lock()
        self._window = Window(bounds)
        self._running = 0
        self._ids = count(1)

    async def begin(self, tokens: int, *, longest: float | None = None) -> Permit:
        """Wait for a place, first come first served, and take it; see the port."""
        tokens = self.bounds.reserved(tokens)
        if longest is not None and (wait := self._expected(tokens)) > longest:
            raise self.bounds.too_long(wait, longest)
        look = partial(self._look, tokens)
        return await self._line.through(look, tokens=tokens, longest=longest)

    async def end(self, permit: Permit, tokens: int | None) -> None:
        """Say that a request is over; see the port."""
        with self._lock:
            self._running -= 1
            if tokens is not None:
                self._window.settle(permit.id, tokens)
        self._line.wake()

    async def _look(self, tokens: int) -> Permit | float:
        with self._lock:
            if self._running >= (self.bounds.concurrency or inf):
                return inf
            now = self._clock.seconds()
            wait = self._window.wait(tokens, now)
            if wait > 0:
                return wait
            permit = Permit(str(next(self._ids)), tokens, now)
            self._window.begin(permit.id, tokens, now)
            self._running += 1
            return permit

    def _expected(self, tokens: int) -> float:
        """Return the seconds until whoever waits and then this request could begin at best."""
        ahead, began = self._line.waiting(), self._clock.seconds()
        with self._lock:
            if not ahead:
                return self._window.wait(tokens, began)
            window = self._window.copy()
        now = began
        for number, each in enumerate((*ahead, tokens)):
            now += window.wait(each, now)
            window.begin(f"ahead {number}", each, now)
        return now - began
