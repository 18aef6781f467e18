"""The state that agents, tools and workflows share: one flat map, seen through scopes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from threading import RLock
from typing import Any, Self

from msgspec import Struct

from treadle.errors import ConfigError, NotStorable, ToolError
from treadle.state.scope import Scope
from treadle.values import Plain, clean, pack, register_annotation, unpack

Reducer = Callable[[Any, Any], Any]
"""Makes one value of the stored one and the one that is being written."""


class StateWrite(Struct, frozen=True, omit_defaults=True):
    """What one key came to: its packed value, or that it was deleted. `key` has its scope's prefix."""

    key: str
    value: Plain = None
    deleted: bool = False


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
    """Who wrote which key in one batch of parallel calls; the views of its calls share it."""

    __slots__ = ("_owners",)

    def __init__(self) -> None:
        self._owners: dict[str, str] = {}

    def claim(self, key: str, owner: str) -> None:
        """Give the key to the first call that asks.

        Raises:
            StateConflict: another call has it.
        """
        first = self._owners.setdefault(key, owner)
        if first != owner:
            raise StateConflict(key, first=first, second=owner)


class State:
    """A flat, thread-safe map from keys to values that can be stored.

    Keys carry their scope as a prefix: ``session::token``, ``agent::billing::invoice``,
    ``node::classify::output``, ``graph::input``; without one they are global. Values are copied on
    the way in and out, and come back in their own types:

        state = State()
        state.set("session::token", "abc")
        state.get("session::token")

    Args:
        values: What it holds at first.
        reducers: For keys that several parallel calls may write: ``{"session::items": add}``.
            Every write of such a key stores ``reducer(stored, written)``, the first one excepted.
        types: Classes, or annotations, whose instances will be stored; others are declared with
            `treadle.register`.
    """

    __slots__ = ("__weakref__", "_lock", "_packed", "_reducers")

    def __init__(
        self,
        values: Mapping[str, object] | None = None,
        *,
        reducers: Mapping[str, Reducer] | None = None,
        types: Iterable[object] = (),
    ) -> None:
        self._lock = RLock()
        self._packed: dict[str, Plain] = {}
        self._reducers = dict(reducers or {})
        for key, reducer in self._reducers.items():
            if not callable(reducer):
                raise ConfigError(f"The reducer of state key {key!r} is not callable: {reducer!r}.")
        for declared in types:
            register_annotation(declared)
        for key, value in (values or {}).items():
            self.set(key, value)

    @classmethod
    def from_packed(
        cls, packed: Mapping[str, Plain], *, reducers: Mapping[str, Reducer] | None = None
    ) -> Self:
        """Build the state that `packed` returned, with values as they were stored."""
        state = cls(reducers=reducers)
        state._packed.update(packed)
        return state

    def packed(self) -> dict[str, Plain]:
        """Return every key with its value in plain form, which is not to be changed."""
        with self._lock:
            return dict(self._packed)

    def apply(self, writes: Iterable[StateWrite]) -> None:
        """Take over what was written elsewhere, such as by a journaled call; reducers stay out."""
        with self._lock:
            for write in writes:
                if write.deleted:
                    self._packed.pop(write.key, None)
                else:
                    self._packed[write.key] = write.value

    def get(self, key: str, default: Any = None) -> Any:
        """Return a copy of the value.

        Raises:
            UnknownType: its class is not declared in this process, or has changed.
        """
        plain = self._packed.get(key, _MISSING)
        return default if plain is _MISSING else unpack(plain, key)

    def get_str(self, key: str) -> str:
        """Return the value if it is a string, else ""."""
        plain = self._packed.get(key)
        ...

    def set(self, key: str, value: object) -> None:
        """Store a copy of the value.

        Raises:
            NotStorable: it cannot come back equal and of the same type; the message has its place
                and type.
        """
        self.put(key, pack(value, _checked(key)))
