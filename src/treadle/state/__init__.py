"""State: what agents, tools and workflows share, in scopes, stored without loss."""

from __future__ import annotations

from treadle.state.branches import merge
from treadle.state.flat import Branch, Reducer, State, StateWrite
from treadle.state.scope import Scope
from treadle.state.scoped import ScopedState, StateConflict, WriteGuard
from treadle.state.typed import TypedView

__all__ = [
    "Branch",
    "Reducer",
    "Scope",
    "ScopedState",
    "State",
    "StateConflict",
    "StateWrite",
    "TypedView",
    "WriteGuard",
    "merge",
]
