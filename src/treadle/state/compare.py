"""Packed values, compared as the values they stand for, and taken apart where they are maps."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any, TypeAlias

from treadle.values import Plain, is_array, is_object
from treadle.values.plain import TAG

Items: TypeAlias = dict[Hashable, tuple[Plain, Plain]]
"""A packed dict, taken apart: its packed keys and values, found by what the key stands for."""

_SETS = ("set", "frozenset")


def same(one: Any, other: Any) -> bool:
    """Whether two packed values stand for equal values of the same type.

    The order of sets and dicts is no difference; that of 1, 1.0 and True is one.
    """
    if one is other or type(one) is not type(other):
        return one is other
    if is_array(one):
        return len(one) == len(other) and all(map(same, one, other))
    if not is_object(one):
        return one == other
    if TAG in one or TAG in other:
        return _identity(one) == _identity(other)
    return len(one) == len(other) and all(
        key in other and same(value, other[key]) for key, value in one.items()
    )


def items_of(plain: Any) -> Items | None:
    """Return what a packed dict holds, or None when the value is something else."""
    if not is_object(plain):
        return None
    if TAG not in plain:
        return {key: (key, value) for key, value in plain.items()}
    if plain[TAG] != "dict":
        return None
    return {_identity(key): (key, value) for key, value in plain["v"]}


def packed_dict(items: Iterable[tuple[Plain, Plain]]) -> Plain:
    """Return the packed dict of these packed keys and values."""
    pairs = list(items)
    if all(type(key) is str and key != TAG for key, _ in pairs):
        return {str(key): value for key, value in pairs}
    return {TAG: "dict", "v": [[key, value] for key, value in pairs]}


def _identity(plain: Any) -> Hashable:
    """Return what two packed values have in common exactly when they are the same."""
    if type(plain) is str:
        return plain
    if is_array(plain):
        return "list", *map(_identity, plain)
    if not is_object(plain):
        return type(plain).__name__, plain
    items = items_of(plain)
    if items is not None:
        return frozenset((key, _identity(value)) for key, (_, value) in items.items())
    if plain[TAG] in _SETS:
        return "set", plain[TAG], frozenset(map(_identity, plain["v"]))
    return "tagged", frozenset((key, _identity(value)) for key, value in plain.items())
