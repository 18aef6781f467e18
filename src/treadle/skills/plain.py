"""Front matter without a reader of YAML: lines of `key: rest of line`."""

from __future__ import annotations

import re
from collections.abc import Sequence

from treadle.skills.problems import Broken, Field, NotPlain

KEY = re.compile(r"([A-Za-z][A-Za-z0-9_-]*)[ \t]*:(?:[ \t]+(.*))?")
ITEM = re.compile(r"-[ \t]+(.*)")
COMMENT = re.compile(r"(?:^|[ \t])#.*")
MARK = re.compile(r"[-?:](?:[ \t]|$)")
NOT_PLAIN = tuple("[]{}&*!|>%@`,")
"""What a value that is more than its text begins with, in YAML."""


def read_plain(head: Sequence[str], first: int) -> tuple[dict[str, Field], list[int]]:
    """Read lines of `key: rest of line`; return the lines whose values would need quotes in YAML.

    A key without a value may have indented lines below it, either `key: value` or `- value`.

    Raises:
        NotPlain: there is more to it.
        Broken: a key stands twice.
    """
    lines = _Lines()
    for number, line in enumerate(head, first):
        if not line.isprintable():
            raise NotPlain(number, "A line has tabs, or what cannot be printed.")
        if not COMMENT.sub("", line).strip():
            continue
        if line[0] in " \t" or ITEM.fullmatch(line.rstrip()):
            lines.add_below(line.rstrip(), number)
        else:
            lines.add(line.rstrip(), number)
    return lines.fields(), lines.colons


class _Lines:
    """The lines of a plain front matter, as they come."""

    def __init__(self) -> None:
        self.colons: list[int] = []
        self._texts: dict[str, Field] = {}
        self._below: dict[str, tuple[dict[str, str], list[str]]] = {}
        self._open = ""
        self._indent = ""

    def add(self, line: str, number: int) -> None:
        """Take a line with a key."""
        found = KEY.fullmatch(line)
        if found is None:
            raise NotPlain(number, "A line is no `key: value`.")
        key = found[1]
        if key in self._texts:
            raise Broken(number, f"`{key}` stands twice.")
        self._texts[key] = Field(_scalar(found[2] or "", number, self.colons), number)
        self._open = "" if self._texts[key].value else key

    def add_below(self, line: str, number: int) -> None:
        """Take a line that belongs to the key before it."""
        if not self._open:
            raise NotPlain(number, "A line does not belong to a key.")
        text = line.strip()
        indent = line[: -len(text)]
        if self._open not in self._below:
            self._indent = indent
        mapping, items = self._below.setdefault(self._open, ({}, []))
        item, pair = ITEM.fullmatch(text), KEY.fullmatch(text)
        if indent != self._indent:
            raise NotPlain(number, "A line is not below the one before it.")
        if item and not mapping:
            colons: list[int] = []
            items.append(_scalar(item[1], number, colons))
            if colons:
                raise NotPlain(number, "An item is more than its text.")
        elif pair and pair[2] and pair[1] not in mapping and not items:
            mapping[pair[1]] = _scalar(pair[2], number, self.colons)
        else:
            raise NotPlain(number, "A line is neither `key: value` nor `- value`.")

    def fields(self) -> dict[str, Field]:
        """Return what all lines said."""
        lists = {
            key: Field(mapping or items, self._texts[key].line)
            for key, (mapping, items) in self._below.items()
        }
        return self._texts | lists


def _scalar(text: str, number: int, colons: list[int]) -> str:
    """Return the text of a value, without quotes around it and a comment after it."""
    value = text.strip()
    quote = value[:1]
    if quote in ("'", '"'):
        closed = COMMENT.sub("", value).rstrip()
        inner = closed[1:-1]
        if len(closed) < 2 or closed[-1] != quote or quote in inner or "\\" in inner:
            raise NotPlain(number, "A value in quotes is not a simple one.")
        return inner
    if value.startswith(NOT_PLAIN) or MARK.match(value):
        raise NotPlain(number, "A value is more than its text.")
    if ": " in value or ":\t" in value or value.endswith(":"):
        colons.append(number)
        return value
    return COMMENT.sub("", value).rstrip()
