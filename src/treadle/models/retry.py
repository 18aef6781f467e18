"""When to ask a model again, and how long to wait before."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from math import inf

from treadle.errors import ConfigError, ModelError
from treadle.ports.clock import SYSTEM_CLOCK, Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """A policy: how often, and how long between.

    The wait doubles from `first_wait` up to `longest_wait` seconds, with up to `jitter` (a share)
    added, and is never shorter than what the provider asked for. Only errors that say
    `retryable` are tried again, or those for which `on` is true. `total` is seconds from the
    first attempt: no wait begins that would end after them. None means no end.
    """

    attempts: int = 3
    first_wait: float = 0.5
    longest_wait: float = 30.0
    jitter: float = 0.1
    total: float | None = 900.0
    on: Callable[[ModelError], bool] | None = None
    clock: Clock = SYSTEM_CLOCK
    random: Callable[[], float] = random.random

    def __post_init__(self) -> None:
        if type(self.attempts) is not int or self.attempts < 1:
            raise ConfigError(f"Retry(attempts={self.attempts!r}): give a whole number, 1 or more.")
        for name in ("first_wait", "longest_wait", "jitter", "total"):
            value: object = getattr(self, name)
            if value is None and name == "total":
                continue
            if not isinstance(value, int | float) or not 0 <= value < inf:
                raise ConfigError(f"Retry({name}={value!r}): give a number, 0 or more.")
        on: object = self.on
        if on is not None and not callable(on):
            raise ConfigError(f"Retry(on={on!r:.60}): give a function of the error, or None.")

    def again(self, attempt: int, error: ModelError) -> bool:
        """Return whether attempt number `attempt` (from 1) may be followed by another."""
        wanted = error.retryable if self.on is None else self.on(error)
        return wanted and attempt < self.attempts

    def next_wait(self, attempt: int, error: ModelError, spent: float) -> float | None:
        """Return the seconds to wait after attempt number `attempt`, or None to give up.

        `spent` is the seconds since the first attempt began.
        """
        if not self.again(attempt, error):
            return None
        wait = self.wait_after(attempt, error)
        return None if self.total is not None and spent + wait > self.total else wait

    def wait_after(self, attempt: int, error: ModelError) -> float:
        """Return the seconds to wait after attempt number `attempt`."""
        doublings = min(attempt - 1, 30)  # 2.0**1024 would overflow
        wait = min(self.first_wait * 2.0**doublings, self.longest_wait)
        if error.retry_after is not None:
            wait = max(wait, error.retry_after)
        return wait * (1.0 + self.jitter * self.random())


NO_RETRY = Retry(attempts=1)
