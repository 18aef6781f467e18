"""Parallel branches: what their states come to, decided before anything is written."""

from __future__ import annotations

from collections.abc import Sequence
from reprlib import Repr
from typing import Any

from treadle.errors import BranchConflict, UnknownType
from treadle.state.compare import items_of, packed_dict, same
from treadle.state.flat import MISSING, Branch, State, StateWrite
from treadle.values import Plain, is_array, is_object, unpack
from treadle.values.plain import TAG, key_step
from treadle.values.secret import HIDDEN, masked, names_a_secret

OUTSIDE = "(outside)"
"""Stands for the name of a branch where the shared state itself changed in the meantime."""


def merge(base: State, branches: Sequence[tuple[str, Branch]]) -> tuple[StateWrite, ...]:
    """Return what parallel branches come to, for `base.apply`; nothing is written here.

    A value that is still, or again, what it was before is no write. What one branch wrote is taken,
    and so are equal values. Dicts are merged key by key. A key with a reducer gets what all
    branches wrote to it, in their order here, never in that of time:

        left, right = state.branch(), state.branch()
        state.apply(merge(state, [("left", left), ("right", right)]))

    Args:
        base: The state that the branches were made from.
        branches: The name of each branch and its state, in the order that counts.

    Raises:
        BranchConflict: two branches left different values in a key without a reducer.
        ToolError: a reducer cannot merge what was written.
    """
    authors: dict[str, list[tuple[str, Branch]]] = {}
    for name, branch in branches:
        for key in branch.written:
            if not same(branch.find(key), branch.before(key)):
                authors.setdefault(key, []).append((name, branch))
    outcomes = (_outcome(base, key, authors[key]) for key in sorted(authors))
    return tuple(write for write in outcomes if write is not None)


def _outcome(base: State, key: str, authors: list[tuple[str, Branch]]) -> StateWrite | None:
    if base.reduces(key):
        series = [raw for _, branch in authors if (raw := branch.raw(key)) is not None]
        if len(series) == len(authors):
            return _folded(base, key, [plain for raw in series for plain in raw])
    now = base.find(key)
    versions = [(OUTSIDE, now), *((name, branch.find(key)) for name, branch in authors)]
    settled = _settled(_Place(key), authors[0][1].before(key), versions)
    if same(settled, now):
        return None
    return StateWrite(key, deleted=True) if settled is MISSING else StateWrite(key, settled)


def _folded(base: State, key: str, written: list[Plain]) -> StateWrite:
    """Return what a key with a reducer comes to; a base that is a branch is told of what."""
    before = base.raw(key) if isinstance(base, Branch) else None
    raw = None if before is None else (*before, *written)
    return StateWrite(key, base.fold(key, written), raw=raw)


class _Place:
    """A state key, or a key of a dict in it."""

    __slots__ = ("key", "steps")

    def __init__(self, key: str, steps: tuple[Any, ...] = ()) -> None:
        self.key = key
        self.steps = steps

    def at(self, packed_key: Plain) -> _Place:
        return _Place(self.key, (*self.steps, packed_key))

    def __str__(self) -> str:
        if not self.steps:
            return repr(self.key)
        return self.key + "".join(key_step(_value(each)) for each in self.steps)

    def names_a_secret(self) -> bool:
        return any(names_a_secret(each) for each in (self.key, *self.steps) if type(each) is str)


def _settled(place: _Place, before: Any, versions: list[tuple[str, Any]]) -> Any:
    """Return the packed value, or `MISSING`, that the versions of one value come to."""
    changed = [(name, value) for name, value in versions if not same(value, before)]
    if not changed:
        return before
    first = changed[0]
    other = next((each for each in changed if not same(each[1], first[1])), None)
    if other is None:
        return first[1]
    dicts = [(name, items) for name, value in changed if (items := items_of(value)) is not None]
    if len(dicts) < len(changed):
        odd = next(each for each in changed if items_of(each[1]) is None)
        raise _conflict(place, first, other if odd is first else odd)
    old = items_of(before) or {}
    merged: list[tuple[Plain, Plain]] = []
    found = {
        key: item[0] for items in (old, *(each for _, each in dicts)) for key, item in items.items()
    }
    for key, packed_key in found.items():
        inner = [(name, items[key][1] if key in items else MISSING) for name, items in dicts]
        held = old[key][1] if key in old else MISSING
        value = _settled(place.at(packed_key), held, inner)
        if value is not MISSING:
            merged.append((packed_key, value))
    return packed_dict(merged)


def _conflict(place: _Place, first: tuple[str, Any], second: tuple[str, Any]) -> BranchConflict:
    secret = place.names_a_secret()
    shown = [
        "nothing (deleted)" if plain is MISSING else HIDDEN if secret else _shown(plain)
        for _, plain in (first, second)
    ]
    return BranchConflict(
        f"The parallel branches {first[0]!r} and {second[0]!r} left different values in state key "
        f"{place}: {shown[0]} and {shown[1]}. Write it in one of them only, or give the key a "
        f"reducer, such as State(reducers={{{place.key!r}: last_wins}}).",
        key=place.key,
        branches=(first[0], second[0]),
        values=(_value(first[1]), _value(second[1])),
    )


def _value(plain: Any) -> Any:
    """Return the value, or its packed form where its class is not known here."""
    if plain is MISSING:
        return None
    try:
        return unpack(plain)
    except UnknownType:
        return plain


def _shown(plain: Any) -> str:
    return masked(_SHORT.repr(_value(_veiled(plain))), ())


def _veiled(plain: Any) -> Any:
    """Return the packed value without what its dicts, by the names in them, keep secret."""
    if is_array(plain):
        return [_veiled(each) for each in plain]
    if not is_object(plain) or TAG in plain:
        return plain
    return {key: HIDDEN if names_a_secret(key) else _veiled(value) for key, value in plain.items()}


_SHORT = Repr()
_SHORT.maxstring = _SHORT.maxother = 80
