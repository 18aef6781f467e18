"""The store of conversations that were named without one."""

from __future__ import annotations

from functools import lru_cache
from importlib.metadata import entry_points

from treadle.errors import MissingExtra
from treadle.ports.store import Store


@lru_cache(maxsize=1)
def conversation_store() -> Store:
    """Return this process's own memory store: what is in it lives as long as the process."""
    for entry in entry_points(group="treadle.stores", name="memory"):
        return entry.load()()
    raise MissingExtra("The memory store is not installed; install the package again.")
