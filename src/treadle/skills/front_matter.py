"""The text of a SKILL.md, taken apart: its front matter and its body."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from msgspec import Struct

from treadle.errors import MissingExtra

Value = str | Sequence["Value"] | Mapping[str, "Value"]
"""What stands behind a key. Every scalar is text: `1.0` is no number, `no` no truth value."""

KEY = re.compile(r"([A-Za-z][A-Za-z0-9_-]*)[ \t]*:(?:[ \t]+(.*))?")
ITEM = re.compile(r"-[ \t]+(.*)")
COMMENT = re.compile(r"(?:^|[ \t])#.*")
NOT_PLAIN = tuple("[]{}&*!|>%@`,?")
"""What a value that is more than its text begins with, in YAML."""
MOST_BYTES = 64_000
"""How large a front matter may be."""


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


class FrontMatter(Struct, frozen=True):
    """What a SKILL.md says, and what is wrong with how it says that."""

    fields: Mapping[str, Field]
    body: str
    problems: Sequence[Problem] = ()


def read_front_matter(content: bytes) -> FrontMatter:
    """Take a SKILL.md apart.

    A mark of the byte order, other ends of lines and blanks after `---` are no obstacle. What is no
    YAML, as a rule because of a colon in a value, is read as plain text, line by line.

    Raises:
        Broken: it cannot be read.
        MissingExtra: it can be read only with the package for YAML.
    """
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise Broken(line, "This is no UTF-8; save the file as UTF-8.") from error
    problems: list[Problem] = []
    if content.startswith(b"\xef\xbb\xbf"):
        text_of_mark = "A byte order mark comes first; other programs may refuse it."
        problems.append(Problem(1, text_of_mark, minor=True))
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    begin = next((at for at, line in enumerate(lines) if line.strip()), len(lines))
    if begin == len(lines) or lines[begin].rstrip() != "---":
        raise Broken(min(begin, len(lines) - 1) + 1, "It does not begin with a line of `---`.")
    if begin:
        problems.append(Problem(1, "Blank lines come before `---`.", minor=True))
    end = next((at for at in range(begin + 1, len(lines)) if lines[at].rstrip() == "---"), None)
    if end is None:
        raise Broken(begin + 1, "The front matter has no end: a second line of `---`.")
    head = lines[begin + 1 : end]
    if sum(map(len, head)) > MOST_BYTES:
        raise Broken(begin + 1, f"The front matter is longer than {MOST_BYTES} characters.")
    fields, more = _read(head, begin + 2)
    body = "\n".join(lines[end + 1 :]).strip("\n").rstrip()
    return FrontMatter(fields, body, [*problems, *more])


def _read(head: Sequence[str], first: int) -> tuple[dict[str, Field], list[Problem]]:
    try:
        from treadle.skills._yaml import read_yaml  # noqa: PLC0415 it may not be installed
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "yaml":
            raise
        return _without_yaml(head, first)
    try:
        return read_yaml("\n".join(head), first)
    except Broken as broken:
        if not _has_bare_colons(head):
            raise
        try:
            fields, _ = read_plain(head, first)
        except Broken:
            raise broken from None
        return fields, [_read_as_plain(broken.problem.line)]


def _without_yaml(head: Sequence[str], first: int) -> tuple[dict[str, Field], list[Problem]]:
    try:
        fields, colons = read_plain(head, first)
    except NotPlain as error:
        raise MissingExtra(
            f"Line {error.problem.line} of the front matter needs the package for YAML, which is "
            'not installed: pip install "treadle[skills]"'
        ) from error
    return fields, [_read_as_plain(line) for line in colons[:1]]


def _read_as_plain(line: int) -> Problem:
    text = "This is no YAML, and was read as plain text; put a value with a colon in quotes."
    return Problem(line, text)


def _has_bare_colons(head: Sequence[str]) -> bool:
    try:
        return bool(read_plain(head, 1)[1])
    except Broken:
        return False


def read_plain(head: Sequence[str], first: int) -> tuple[dict[str, Field], list[int]]:
    """Read lines of `key: rest of line`; return the lines whose values would need quotes in YAML.

    A key without a value may have indented lines below it, either `key: value` or `- value`.

    Raises:
        NotPlain: there is more to it.
        Broken: a key stands twice.
    """
    lines = _Lines()
    for number, line in enumerate(head, first):
        if not COMMENT.sub("", line).strip():
            continue
        if line[0] in " \t" or ITEM.fullmatch(line.rstrip()):
            lines.add_below(line.strip(), number)
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
        mapping, items = self._below.setdefault(self._open, ({}, []))
        item, pair = ITEM.fullmatch(line), KEY.fullmatch(line)
        if item and not mapping:
            items.append(_scalar(item[1], number, self.colons))
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
    if value.startswith(NOT_PLAIN):
        raise NotPlain(number, "A value is more than its text.")
    if ": " in value or ":\t" in value or value.endswith(":"):
        colons.append(number)
        return value
    return COMMENT.sub("", value).rstrip()
