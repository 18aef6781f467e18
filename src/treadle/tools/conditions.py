"""What a rule may say of an argument: conditions that need no code of their own."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import PurePath
from typing import Any, Protocol, runtime_checkable

from msgspec import Struct
from msgspec.structs import force_setattr

from treadle.errors import ConfigError, NotStorable
from treadle.values import json_text

MOST_MATCHED = 100_000  # characters


@runtime_checkable
class Condition(Protocol):
    """Something that holds for an argument, or does not."""

    def holds(self, value: Any) -> bool:
        """Whether it holds; what it raises makes the call wait for somebody."""
        ...


class Equals(Struct, frozen=True):
    """The argument is this value, in its own type or as JSON. A plain value in a rule means this.

    true is not 1, as in JSON.
    """

    value: Any

    def holds(self, value: Any) -> bool:
        """Whether both are the same."""
        if _same(value, self.value):
            return True
        return _same(_as_json(value), _as_json(self.value))


class OneOf(Struct, frozen=True):
    """The argument is one of these values, or one of these conditions holds."""

    values: Iterable[Any]

    def __post_init__(self) -> None:
        """Keep a copy: what can be read once must hold twice."""
        if isinstance(self.values, str) or not isinstance(self.values, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigError(f"OneOf({self.values!r:.60}): give a list of values.")
        force_setattr(self, "values", tuple(self.values))
        for each in self.values:
            check_condition(each)

    def holds(self, value: Any) -> bool:
        """Whether one is the same, or holds."""
        return any(as_condition(each).holds(value) for each in self.values)


class Contains(Struct, frozen=True):
    """The argument is a text with this text in it, or a list with this item."""

    text: Any
    ignore_case: bool = False

    def __post_init__(self) -> None:
        _check_plain(self.text)

    def holds(self, value: Any) -> bool:
        """Whether it is in there."""
        if isinstance(value, str | PurePath):
            inside, text = str(value), str(self.text)
            if self.ignore_case:
                inside, text = inside.casefold(), text.casefold()
            return text in inside
        if isinstance(value, list | tuple | set | frozenset):
            return any(Equals(self.text).holds(item) for item in value)  # pyright: ignore[reportUnknownVariableType]
        raise TypeError(f"{type(value).__name__} contains nothing")


class Matches(Struct, frozen=True):
    """The argument is a text that is, from its beginning to its end, what the pattern says.

    The pattern is one of Python's `re`; "." is no line break. To refuse what has a text anywhere in
    it, `Contains` is safer: a pattern is easily evaded.
    """

    pattern: str

    def __post_init__(self) -> None:
        try:
            re.compile(self.pattern)
        except (re.error, TypeError) as error:
            raise ConfigError(f"Matches({self.pattern!r:.60}) is no pattern: {error}.") from error

    def holds(self, value: Any) -> bool:
        """Whether the whole text matches."""
        if not isinstance(value, str | PurePath):
            raise TypeError(f"{type(value).__name__} is no text")
        text = str(value)
        if len(text) > MOST_MATCHED:
            raise ValueError(f"a text of {len(text)} characters is not matched")
        return re.fullmatch(self.pattern, text) is not None


class Above(Struct, frozen=True):
    """The argument is more than this."""

    limit: Any

    def holds(self, value: Any) -> bool:
        """Whether it is more; raises for what cannot be compared."""
        return bool(_comparable(value) > self.limit)


class Below(Struct, frozen=True):
    """The argument is less than this."""

    limit: Any

    def holds(self, value: Any) -> bool:
        """Whether it is less; raises for what cannot be compared."""
        return bool(_comparable(value) < self.limit)


class Inside(Struct, frozen=True):
    """The argument is a path in this folder, or a list of such paths, symbolic links followed.

    Relative paths begin at `start`, by default the current folder of this process; give it where
    the tool has another. A rule looks before the call: what must not be left belongs in a sandbox.
    """

    folder: str
    start: str = ""

    def __post_init__(self) -> None:
        for path in (self.folder, self.start):
            if not isinstance(path, str | PurePath):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise ConfigError(f"Inside({path!r:.60}): give a path.")

    def holds(self, value: Any) -> bool:
        """Whether all paths lead into the folder, or are it."""
        if isinstance(value, list | tuple):
            return all(self.holds(each) for each in value)  # pyright: ignore[reportUnknownVariableType]
        if not isinstance(value, str | PurePath):
            raise TypeError(f"{type(value).__name__} is no path")
        path = str(value)
        if path.startswith("~") or "://" in path:
            raise ValueError(f"where {path!r:.80} leads depends on the tool")
        folder = os.path.realpath(os.path.join(self.start, os.path.expanduser(self.folder)))
        real = os.path.realpath(os.path.join(self.start, path))
        return os.path.commonpath((folder, real)) == folder


class Not(Struct, frozen=True):
    """The condition does not hold."""

    condition: Any

    def __post_init__(self) -> None:
        check_condition(self.condition)

    def holds(self, value: Any) -> bool:
        """Whether it does not."""
        return not as_condition(self.condition).holds(value)


CONDITIONS = (Above, Below, Contains, Equals, Inside, Matches, Not, OneOf)


def looks(given: Any) -> bool:
    """Whether a condition looks at files, which may take long."""
    if isinstance(given, OneOf):
        return any(map(looks, given.values))
    return isinstance(given, Inside) or (isinstance(given, Not) and looks(given.condition))


def check_condition(given: Any) -> None:
    """Refuse what could never hold for any argument.

    Raises:
        ConfigError: it is a class, a function, has no JSON form, or has a condition inside a value.
    """
    if isinstance(given, type) or not isinstance(given, Condition):
        _check_plain(given)


def _check_plain(given: Any) -> None:
    """Refuse a value that no argument can be the same as."""
    value, inside = given, ()
    if isinstance(given, Mapping):
        inside = value.values()
    elif isinstance(given, list | tuple | set | frozenset):
        inside = value
    for each in inside:
        _check_plain(each)
    if isinstance(given, Condition):  # a class of conditions, too
        raise ConfigError(f"A rule has {given!r:.60} where it needs a value.")
    try:
        json_text([value])
    except NotStorable as error:
        raise ConfigError(f"A rule has {given!r:.60}, which no argument can be: {error}") from error


def as_condition(given: Any) -> Condition:
    """Return a condition as it is, and any other value as `Equals`."""
    return given if isinstance(given, Condition) else Equals(given)


def _as_json(value: Any) -> Any:
    return json.loads(json_text([value]))[0]  # which keeps all digits of an integer


def _same(one: Any, other: Any) -> bool:
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


def _comparable(value: Any) -> Any:
    if isinstance(value, bool) or value != value:
        raise TypeError(f"{value!r} is neither more nor less than anything")
    return value
