"""What a front matter holds, and what can be wrong with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

Value = str | Sequence["Value"] | Mapping[str, "Value"]
"""What stands behind a key. Every scalar is text: `1.0` is no number, `no` no truth value."""


class Problem(Struct, frozen=True):
    """What is wrong with a skill, in which line; a skill with a `fatal` one is not loaded.

    A `minor` one changes nothing here, but other programs may mind.
    """

    line: int
    text: str
    fatal: bool = False
    minor: bool = False


class Field(Struct, frozen=True):
    """The value of one key, and the line it stands in."""

    value: Value
    line: int


class Broken(Exception):
    """A text that cannot be read; `problem` says why."""

    def __init__(self, line: int, text: str) -> None:
        super().__init__(text)
        self.problem = Problem(line, text, fatal=True)


class NotPlain(Broken):
    """A front matter that needs a reader of YAML."""


class NeedsYaml(Broken):
    """A front matter that cannot be read, because the reader of YAML is not installed."""
