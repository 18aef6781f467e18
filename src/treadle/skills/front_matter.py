"""The text of a SKILL.md, taken apart: its front matter and its body."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from treadle.skills.plain import read_plain
from treadle.skills.problems import Broken, Field, NeedsYaml, NotPlain, Problem

MOST_BYTES = 64_000
"""How large a front matter may be."""


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
        NeedsYaml: the package for YAML is not installed, and there is no other way to read it.
        Broken: it cannot be read.
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
        raise NeedsYaml(
            error.problem.line,
            "This needs the package for YAML, which is not installed: "
            'pip install "treadle[skills]"',
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
