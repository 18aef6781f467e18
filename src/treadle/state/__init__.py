"""State: what agents, tools and workflows share, in scopes, stored without loss."""

from __future__ import annotations

from treadle.state.scope import Scope
from treadle.state.scoped import ScopedState, State, StateConflict, StateWrite, WriteGuard

__all__ = ["Scope", "ScopedState", "State", "StateConflict", "StateWrite", "WriteGuard"]
