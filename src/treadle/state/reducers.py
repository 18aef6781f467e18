"""Ready reducers: how a key that several branches or calls write comes to one value.

A reducer is any function of the stored value and the written one:

    state = State(reducers={"session::log": add, "session::tags": union})
"""

from __future__ import annotations

from operator import add
from typing import Any

__all__ = ["add", "last_wins", "union"]


def last_wins(_stored: Any, written: Any) -> Any:
    """Keep the value that was written last; of parallel branches, that of the last in order."""
    return written


def union(stored: Any, written: Any) -> Any:
    """Return what is in either: of two sets, or of two dicts, where the written value wins.

    Raises:
        TypeError: they are no two sets and no two dicts.
    """
    return stored | written
