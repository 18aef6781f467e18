"""Any calls in any order: stores on servers give the answers that the memory store gives."""

from __future__ import annotations

import os
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import rule
from msgspec.structs import replace

from tests.databases import Kind, url_of
from tests.stores.served import OPENERS, apart
from tests.stores.test_machine import Machine, entries
from treadle import MemoryStore
from treadle.journal import AnyEntry
from treadle.ports.store import ConversationStatus, Head, Lease, Store
from treadle.testing.store_handles import AT

NAMES = ("a", "A", "a ")
STATUSES = st.sampled_from([None, "new", "running", "paused"])
PLACES: dict[Kind, str] = {}
"""Where the examples of each kind are: to make tables for each of them would take long."""


class ServedMachine(Machine):
    """A store by its server's clock, and the memory store by this machine's."""

    kind: Kind

    def __init__(self) -> None:
        super().__init__()
        self.known = MemoryStore()
        for name in NAMES:
            self.loop.run_until_complete(self.store.delete(name))

    def opened(self, folder: Path) -> Store:
        return OPENERS[self.kind](PLACES[self.kind])

    def answer(self, call: Callable[[Store], Awaitable[Any]], store: Store) -> Any:
        return untimed(super().answer(call, store))

    @rule(
        name=st.sampled_from(NAMES),
        off=st.sampled_from([0, 0, 0, 0, 0, 0, 1, -1]),
        lease=st.integers(0, 50),
        batch=st.lists(entries, min_size=1, max_size=3, unique_by=repr),
    )
    def append(self, name: str, off: int, lease: int, batch: list[AnyEntry]) -> None:
        """Write; no run begins twice in one batch."""
        super().append(name, off, lease, batch)

    @rule(status=STATUSES, limit=st.integers(0, 2))
    def listed(self, status: ConversationStatus | None, limit: int) -> None:
        """List page by page."""
        last: dict[int, Head] = {}

        async def page(store: Store) -> Any:
            found = await store.list(status=status, limit=limit)
            if found:
                last[id(store)] = found[-1]
            return found

        self.compare(page)
        if last:
            self.compare(lambda store: store.list(status=status, after=last[id(store)]))

    def pass_time(self, seconds: float) -> None:
        """Nobody moves the clock of a server."""


def untimed(found: Any) -> Any:
    """Return an answer without times."""
    if isinstance(found, Head):
        return replace(found, created_at=AT, updated_at=AT, lease=untimed(found.lease))
    if isinstance(found, Lease):
        return replace(found, expires_at=AT)
    if isinstance(found, str):
        return re.sub(r"another \d+\.\d s", "a while", found)
    if isinstance(found, list):
        return [untimed(each) for each in found]  # pyright: ignore[reportUnknownVariableType] any list
    if isinstance(found, tuple):
        return tuple(untimed(each) for each in found)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType] any tuple
    return found


class PostgresMachine(ServedMachine):
    kind = "postgresql"


class MySQLMachine(ServedMachine):
    kind = "mysql"


class RedisMachine(ServedMachine):
    kind = "redis"


@pytest.mark.e2e
@pytest.mark.parametrize("machine", [PostgresMachine, MySQLMachine, RedisMachine])
def test_any_calls(machine: type[ServedMachine]) -> None:
    """S51, S54: TREADLE_EXAMPLES=200 for more."""
    url_of(machine.kind)
    PLACES[machine.kind] = apart(machine.kind)
    case = machine.TestCase
    case.settings = settings(
        max_examples=int(os.environ.get("TREADLE_EXAMPLES", "12")),
        stateful_step_count=30,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
    case("runTest").runTest()
