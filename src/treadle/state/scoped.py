"""The state as one agent or node sees it: through its scope; and what its calls write."""

from __future__ import annotations

from typing import Any

from treadle.errors import ToolError
from treadle.state.flat import MISSING, State, StateWrite, checked_key, text_of
from treadle.state.scope import Scope
from treadle.values import pack, unpack


class StateConflict(ToolError):
    """Two parallel calls of one batch wrote the same key: `first` kept it, `second` was refused."""

    def __init__(self, key: str, *, first: str, second: str) -> None:
        super().__init__(
            f"State key {key!r} was already written by the parallel call {first!r}, so call "
            f"{second!r} must not write it. Write it from one call only, or give it a reducer: "
            f"State(reducers={{{key!r}: ...}})."
        )
        self.key = key
        self.first = first
        self.second = second


class WriteGuard:
    """Who wrote which key in one batch of parallel calls; the views of its calls share it.

    In a child run a write is also one of the call `owner` above, which `outer` guards.
    """

    __slots__ = ("_outer", "_owner", "_owners")

    def __init__(self, outer: WriteGuard | None = None, owner: str = "") -> None:
        self._owners: dict[str, str] = {}
        self._outer = outer
        self._owner = owner

    def claim(self, key: str, owner: str) -> None:
        """Give the key to the first call that asks.

        Raises:
            StateConflict: another call has it.
        """
        first = self._owners.setdefault(key, owner)
        if first != owner:
            raise StateConflict(key, first=first, second=owner)
        if self._outer is not None:
            self._outer.claim(key, self._owner)


class WriteLog:
    """The keys that one call wrote, whichever view it wrote them through."""

    __slots__ = ("closed", "keys")

    def __init__(self) -> None:
        self.closed = False
        self.keys: dict[str, None] = {}


class ScopedState:
    """The state as the tools of one agent, or one node, see it.

    Reads look in the own scope, then in the session, then among the global keys. Writes go to the
    own scope, and are kept for the journal:

        ctx.state.get("token")
        ctx.state.set("invoice", "INV-1")
        ctx.state.session.set("customer", 7)

    Args:
        state: The map.
        scope: The own scope.
        guard: Keeps parallel calls from writing one key; `owner` is the ID of this call.
        owner: See `guard`.
        log: Where writes are noted; a view gives its own to the views that are had from it.
    """

    __slots__ = ("_guard", "_log", "_owner", "_state", "scope")

    def __init__(
        self,
        state: State,
        scope: Scope,
        *,
        guard: WriteGuard | None = None,
        owner: str = "",
        log: WriteLog | None = None,
    ) -> None:
        self.scope = scope
        self._state = state
        self._guard = guard
        self._owner = owner
        self._log = log

    @property
    def session(self) -> ScopedState:
        """The session's scope, which all agents share; writes there count as this call's."""
        return self._view(Scope.SESSION)

    @property
    def root(self) -> ScopedState:
        """The whole map, by whole keys; writes there count as this call's."""
        return self._view(Scope.GLOBAL)

    @property
    def plans(self) -> ScopedState:
        """The scope of plans; no guard is needed, because their writers come after each other."""
        return ScopedState(self._state, Scope.PLAN, owner=self._owner, log=self._noted())

    @property
    def writes(self) -> tuple[StateWrite, ...]:
        """What the keys that were written here have come to by now, each once.

        Writes of parallel calls to a reduced key may be journaled in any order this way: the last
        one that is asked for holds them all.
        """
        if self._log is None:
            return ()
        return tuple(self._state.write_of(key) for key in list(self._log.keys))

    def close(self) -> None:
        """Refuse writes from now on: a thread that outlives its call must not change anything."""
        self._noted().closed = True

    def get(self, key: str, default: Any = None) -> Any:
        """Return a copy of the value: the own one, else the session's, else the global one.

        Private keys of other agents are not to be had this way, even by their whole name.

        Raises:
            UnknownType: its class is not declared in this process, or has changed.
        """
        plain = self._find(key)
        return default if plain is MISSING else unpack(plain, key)

    def get_local(self, key: str, default: Any = None) -> Any:
        """Return a copy of the own value; other scopes are not asked."""
        plain = self._state.find(self.scope + key)
        return default if plain is MISSING else unpack(plain, key)

    def get_str(self, key: str) -> str:
        """Return the value that `get` finds if it is a string, else an empty one."""
        return text_of(self.get(key))

    def __contains__(self, key: object) -> bool:
        """Whether `get` finds a value, be it None."""
        return isinstance(key, str) and self._find(key) is not MISSING

    def set(self, key: str, value: object) -> None:
        """Store a copy of the value in the own scope.

        Raises:
            NotStorable: it cannot come back equal and of the same type; the message names its place
                and type.
            StateConflict: a parallel call of the same batch wrote the key.
        """
        full = self.scope + checked_key(key)
        plain = pack(value, full)
        log = self._claimed(full)
        self._state.put(full, plain)
        log.keys[full] = None

    def delete(self, key: str) -> None:
        """Remove the own value, if it is there; those of other scopes stay.

        Raises:
            StateConflict: a parallel call of the same batch wrote the key.
        """
        full = self.scope + checked_key(key)
        log = self._claimed(full)
        self._state.delete(full)
        log.keys[full] = None

    def keys(self, prefix: str = "") -> list[str]:
        """Return the own keys that begin with `prefix`, without that of the scope, oldest first."""
        return [key.removeprefix(self.scope) for key in self._state.keys(self.scope + prefix)]

    def snapshot(self) -> dict[str, Any]:
        """Return a copy of the own keys and values."""
        return {key: self.get_local(key) for key in self.keys()}

    def __repr__(self) -> str:
        """Show the scope: values may be secret."""
        return f"ScopedState({str(self.scope)!r})"

    def _find(self, key: str) -> Any:
        find = self._state.find
        plain = find(self.scope + key)
        if plain is MISSING and self.scope:
            plain = find(_SESSION + key)
            if plain is MISSING and not key.startswith(_PRIVATE):
                plain = find(key)
        return plain

    def _claimed(self, key: str) -> WriteLog:
        log = self._noted()
        if log.closed:
            raise ToolError(
                f"State key {key!r} was written after the call {self._owner!r} had ended."
            )
        if self._guard is not None and not self._state.reduces(key):
            self._guard.claim(key, self._owner)
        return log

    def _view(self, scope: Scope) -> ScopedState:
        return ScopedState(
            self._state, scope, guard=self._guard, owner=self._owner, log=self._noted()
        )

    def _noted(self) -> WriteLog:
        if self._log is None:
            self._log = WriteLog()
        return self._log


_SESSION = str(Scope.SESSION)
_PRIVATE = "agent::"
