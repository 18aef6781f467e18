"""A clock that tests set."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta


class FakeClock:
    """Time that passes only when somebody sleeps. `sleeps` lists the seconds asked for."""

    def __init__(self, start: datetime = datetime(2026, 1, 1, tzinfo=UTC)) -> None:
        self._now = start
        self._seconds = 0.0
        self.sleeps: list[float] = []

    def now(self) -> datetime:
        """Return the time of day, in UTC."""
        return self._now

    def seconds(self) -> float:
        """Return seconds on a clock that never goes back."""
        return self._seconds

    async def sleep(self, seconds: float) -> None:
        """Let time pass at once."""
        self.sleeps.append(seconds)
        self.advance(seconds)
        await asyncio.sleep(0)

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self._seconds += seconds
        self._now += timedelta(seconds=seconds)

    @staticmethod
    async def forever() -> None:
        """Wait until cancelled."""
        await asyncio.get_running_loop().create_future()
