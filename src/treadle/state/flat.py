"""The one flat map that agents, tools and workflows share, and its branches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from threading import RLock
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from treadle.errors import ConfigError, NotStorable, ToolError, TreadleError
from treadle.values import Plain, clean, pack, register_annotation, unpack

Reducer = Callable[[Any, Any], Any]
"""Makes one value of the stored one and the one that is being written."""


class StateWrite(Struct, frozen=True, omit_defaults=True, gc=False):
    """What one whole key, with its scope's prefix, came to: its packed value, or gone.

    `raw` are the values that a parallel branch wrote to a key with a reducer, in order: a branch
    that is built again from its journal merges them as the first one would have.
    """

    key: str
    value: Plain = None
    deleted: bool = False
    raw: tuple[Plain, ...] | None = None


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
        self._reducers: dict[str, Reducer] = {}
        self.add_reducers(reducers or {})
        for declared in types:
            register_annotation(declared)
        for key, value in (values or {}).items():
            self.set(key, value)

    @staticmethod
    def from_packed(
        packed: Mapping[str, Plain], *, reducers: Mapping[str, Reducer] | None = None
    ) -> State:
        """Build the state that `packed` returned, with its values as they were stored."""
        state = State(reducers=reducers)
        state.apply(StateWrite(key, plain) for key, plain in packed.items())
        return state

    def add_reducers(self, reducers: Mapping[str, Reducer]) -> None:
        """Give keys their reducers, as a graph does whose type of state declares some.

        Raises:
            ConfigError: one is not callable or not for a key, or the key has another one already.
        """
        if not isinstance(reducers, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] untyped callers
            raise ConfigError(f"reducers={reducers!r:.60}: give a dict of functions by key.")
        for key, reducer in reducers.items():
            if not isinstance(key, str):  # pyright: ignore[reportUnnecessaryIsInstance] untyped callers
                raise ConfigError(f"reducers has the key {key!r:.60}; keys of the state are texts.")
            if not callable(reducer):
                raise ConfigError(f"The reducer of state key {key!r} is not callable: {reducer!r}.")
            if self._reducers.get(key, reducer) != reducer:
                raise ConfigError(
                    f"State key {key!r} has a reducer already, {self._reducers[key]!r}, so it "
                    f"cannot get {reducer!r}. Give it one of them only."
                )
        self._reducers |= reducers

    def branch(self, base: Mapping[str, Plain] | None = None) -> Branch:
        """Return a copy for one parallel branch: what is written there stays there.

        It sees what is here now, or the packed values that it began with when it is built again,
        and has the same reducers; `treadle.state.merge` brings the branches back together.
        """
        return Branch(self.packed() if base is None else dict(base), self._reducers)

    def packed(self) -> dict[str, Plain]:
        """Return every key with its value in plain form, which is not to be changed."""
        with self._lock:
            return dict(self._packed)

    def apply(self, writes: Iterable[StateWrite]) -> None:
        """Take over what was written elsewhere, as a journal tells it; reducers stay out."""
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
        plain = self._packed.get(key, MISSING)
        return default if plain is MISSING else unpack(plain, key)

    def get_str(self, key: str) -> str:
        """Return the value if it is a string, else an empty one."""
        return text_of(self.get(key))

    def __contains__(self, key: object) -> bool:
        """Whether the key has a value, be it None."""
        return key in self._packed

    def set(self, key: str, value: object) -> None:
        """Store a copy of the value.

        Raises:
            NotStorable: it cannot come back equal and of the same type; the message names its place
                and type.
        """
        key = checked_key(key)
        self.put(key, pack(value, key))

    def delete(self, key: str) -> None:
        """Remove the key, if it is there."""
        with self._lock:
            self._packed.pop(key, None)

    def keys(self, prefix: str = "") -> list[str]:
        """Return the keys that begin with `prefix`, such as a `Scope`, oldest first."""
        return [key for key in list(self._packed) if key.startswith(prefix)]

    def snapshot(self) -> dict[str, Any]:
        """Return a copy of everything: whole keys and their values."""
        return {key: unpack(plain, key) for key, plain in self.packed().items()}

    def find(self, key: str) -> Any:
        """Return the packed value, or `MISSING`."""
        return self._packed.get(key, MISSING)

    def put(self, key: str, plain: Plain) -> None:
        """Store a packed value, merged with the stored one if the key has a reducer."""
        if key not in self._reducers:
            self._packed[key] = plain
            return
        with self._lock:
            self._packed[key] = self.fold(key, (plain,))

    def reduces(self, key: str) -> bool:
        """Whether the key has a reducer."""
        return key in self._reducers

    def fold(self, key: str, raw: Iterable[Plain]) -> Plain:
        """Return what the stored value and these come to, one after another, by the reducer."""
        stored = self._packed.get(key, MISSING)
        first, *others = raw if stored is MISSING else (stored, *raw)
        if not others:
            return first
        reducer, value = self._reducers[key], unpack(first, key)
        for plain in others:
            value = _reduced(key, reducer, value, unpack(plain, key))
        return pack(value, key)

    def write_of(self, key: str) -> StateWrite:
        """Return what the key has come to, for a journal."""
        plain = self._packed.get(key, MISSING)
        return StateWrite(key, deleted=True) if plain is MISSING else StateWrite(key, plain)

    def __repr__(self) -> str:
        """Show the number of keys: values may be secret."""
        return f"State({len(self._packed)} keys)"


class Branch(State):
    """The state of one parallel branch: `State.branch` makes it, `treadle.state.merge` ends it.

    It knows which keys were written here, what they held before, and, for those with a reducer,
    which values were written. `apply` takes all of that from the `writes` of another one, so that
    a branch can be built again from its journal.
    """

    __slots__ = ("_before", "_raw")

    def __init__(self, packed: dict[str, Plain], reducers: Mapping[str, Reducer]) -> None:
        super().__init__(reducers=reducers)
        self._packed = packed
        self._before: dict[str, Any] = {}
        self._raw: dict[str, list[Plain] | None] = {}

    @property
    def written(self) -> list[str]:
        """The keys that were written here, each once."""
        return list(self._before)

    @property
    def writes(self) -> tuple[StateWrite, ...]:
        """What the keys that were written here have come to by now, for a journal."""
        return tuple(self.write_of(key) for key in self.written)

    def before(self, key: str) -> Any:
        """Return the packed value, or `MISSING`, from before the key was first written here."""
        return self._before.get(key, self.find(key))

    def raw(self, key: str) -> tuple[Plain, ...] | None:
        """Return the values that were written to a key with a reducer.

        None stands for a key that was deleted, or replaced by what was written elsewhere.
        """
        with self._lock:
            raw = self._raw.get(key, ())
            return None if raw is None else tuple(raw)

    def put(self, key: str, plain: Plain) -> None:
        """Store a packed value, merged with the stored one if the key has a reducer."""
        with self._lock:
            before = self.find(key)
            super().put(key, plain)
            self._before.setdefault(key, before)
            if self.reduces(key):
                raw = self._raw.setdefault(key, [])
                if raw is not None:
                    raw.append(plain)

    def delete(self, key: str) -> None:
        """Remove the key, if it is there."""
        with self._lock:
            if key in self:
                self.apply((StateWrite(key, deleted=True),))

    def forget(self, keys: Iterable[str]) -> None:
        """Let what was written to these keys count for nothing when branches are merged."""
        with self._lock:
            for key in keys:
                self._before.pop(key, None)
                self._raw.pop(key, None)

    def apply(self, writes: Iterable[StateWrite]) -> None:
        """Take over what was written to this branch before, or elsewhere; reducers stay out."""
        with self._lock:
            for write in writes:
                self._before.setdefault(write.key, self.find(write.key))
                self._raw[write.key] = None if write.raw is None else list(write.raw)
                super().apply((write,))

    def write_of(self, key: str) -> StateWrite:
        """Return what the key has come to, for a journal, with what was written to reduce it."""
        write = super().write_of(key)
        raw = self.raw(key) if self.reduces(key) else None
        return replace(write, raw=raw) if raw else write


def _reduced(key: str, reducer: Reducer, old: Any, new: Any) -> Any:
    try:
        return reducer(old, new)
    except TreadleError:
        raise
    except (Exception, SystemExit) as error:
        kinds = f"{type(old).__name__} and {type(new).__name__}"
        why = str(error) if isinstance(error, Exception) else ""
        raise ToolError(
            f"The reducer of state key {key!r} cannot merge {kinds}: {why or repr(error)}."
        ) from error


def checked_key(key: object) -> str:
    """Return the key as a plain string, or raise `NotStorable`."""
    if not isinstance(key, str) or not key or clean(key) is not key:
        raise NotStorable(
            "A state key is a non-empty text without NUL characters and lone surrogates, "
            f"not {key!r}."
        )
    return key if type(key) is str else str.__str__(key)


def text_of(value: object) -> str:
    """Return the value if it is a string, else an empty one."""
    return value if isinstance(value, str) else ""


MISSING: Any = object()
"""Stands for the value of a key that is not there; None is a value."""
