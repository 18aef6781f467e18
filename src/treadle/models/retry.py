"""When to ask a model again, and how long to wait before."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from treadle.errors import ConfigError, ModelError
from treadle.ports.clock import SYSTEM_CLOCK, Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """A policy: how often, and how long between.

    The wait doubles from `first_wait` up to `longest_wait` seconds, with up to `jitter` (a share)
    added, and is never shorter than what the provider asked for. Only errors that say
    `retryable` are tried again.
    """

    attempts: int = 3
    first_wait: float = 0.5
    longest_wait: float = 30.0
    jitter: float = 0.1
    clock: Clock = SYSTEM_CLOCK
    random: Callable[[], float] = random.random

    def __post_init__(self) -> None:
        if self.attempts < 1 or self.first_wait < 0 or self.longest_wait < 0 or self.jitter < 0:
            raise ConfigError(f"{self!r}: attempts is at least 1, the rest at least 0.")

    def again(self, attempt: int, error: ModelError) -> bool:
        """Return whether attempt number `attempt` (from 1) may be followed by another."""
        return error.retryable and attempt < self.attempts

    def wait_after(self, attempt: int, error: ModelError) -> float:
        """Return the seconds to wait after attempt number `attempt`."""
        doublings = min(attempt - 1, 30)  # 2.0**1024 would overflow
        wait = min(self.first_wait * 2.0**doublings, self.longest_wait)
        if error.retry_after is not None:
            wait = max(wait, error.retry_after)
        return wait * (1.0 + self.jitter * self.random())


NO_RETRY = Retry(attempts=1)
