"""What the fields of a front matter mean, and what the specification says of them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from unicodedata import normalize

from msgspec import Struct

from treadle.skills.front_matter import FrontMatter
from treadle.skills.problems import Field, Problem, Value
from treadle.values import clean

KNOWN = ("name", "description", "license", "compatibility", "metadata", "allowed-tools")
MOST_NAME = 64
MOST_DESCRIPTION = 1024
MOST_COMPATIBILITY = 500
TOOL = re.compile(r"(?:[^\s,()]|\([^()]*\))+")
"""A tool as `allowed-tools` names it: `Read`, `Bash(git add:*)`."""


class SkillFields(Struct, frozen=True):
    """The front matter of a skill, understood."""

    name: str = ""
    description: str = ""
    license: str = ""
    compatibility: str = ""
    metadata: Mapping[str, str] = {}
    allowed_tools: tuple[str, ...] = ()


def understood(found: FrontMatter, folder: str) -> tuple[SkillFields, list[Problem]]:
    """Return what a front matter says, and all that is wrong with it.

    `folder` is the name of the folder that it stands in.
    """
    fields, problems = _by_known_name(found.fields)
    values = {key: field.value for key, field in fields.items()}
    lines = {key: field.line for key, field in fields.items()}
    told = [*_required(fields), *_texts(fields)]
    name = normalize("NFKC", _text(values.get("name")).strip())
    if name:
        line = lines["name"]
        told += [replaced_line(each, line) for each in name_problems(name)]
        if normalize("NFKC", folder) != name:
            told.append(Problem(line, f"The folder {folder!r} is not called {name!r}."))
    tools: tuple[str, ...] = ()
    if "allowed-tools" in values:
        tools, wrong = _tools(fields["allowed-tools"])
        told += wrong
    metadata: Mapping[str, str] = {}
    if "metadata" in values:
        metadata, wrong = _metadata(fields["metadata"])
        told += wrong
    description = _text(values.get("description"))
    known = SkillFields(
        name=clean(name),
        description=clean(" ".join(description.split())),
        license=clean(_text(values.get("license")).strip()),
        compatibility=clean(" ".join(_text(values.get("compatibility")).split())),
        metadata=metadata,
        allowed_tools=tools,
    )
    return known, sorted([*found.problems, *problems, *told], key=lambda each: each.line)


def name_problems(name: str) -> Iterator[Problem]:
    """Yield what is wrong with the name of a skill, without a line."""
    if not name.strip():
        yield Problem(0, "The name is empty.", fatal=True)
        return
    if len(name) > MOST_NAME:
        text = f"The name has {len(name)} characters; it may have {MOST_NAME}."
        yield Problem(0, text, fatal=len(name) > 2 * MOST_NAME)
    if any(each in "/\\" or not each.isprintable() for each in name):
        yield Problem(0, "The name holds slashes or what cannot be printed.", fatal=True)
        return
    if name != name.lower():
        yield Problem(0, "The name is to be in lower case.")
    if not all(each.isalnum() or each == "-" for each in name):
        yield Problem(0, "The name may have letters, digits and hyphens, and nothing else.")
    if name.startswith("-") or name.endswith("-") or "--" in name:
        yield Problem(0, "Hyphens stand alone, between other characters of the name.")


def replaced_line(problem: Problem, line: int) -> Problem:
    """Return the same problem in this line."""
    return Problem(line, problem.text, problem.fatal)


def _by_known_name(fields: Mapping[str, Field]) -> tuple[dict[str, Field], list[Problem]]:
    """Return the fields by the names of the specification; another spelling loses nothing."""
    found = {key: field for key, field in fields.items() if key in KNOWN}
    problems: list[Problem] = []
    spelled = {_bare(key): key for key in KNOWN}
    for key, field in fields.items():
        if key in KNOWN:
            continue
        meant = spelled.get(_bare(key))
        if meant is None:
            names = ", ".join(KNOWN)
            text = f"`{key}` is no field; there are {names}."
            problems.append(Problem(field.line, text, minor=True))
        elif meant in found:
            text = f"`{key}` and `{meant}` are the same field."
            problems.append(Problem(field.line, text, fatal=True))
        else:
            problems.append(Problem(field.line, f"`{key}` is spelled `{meant}`."))
            found[meant] = field
    return found, problems


def _bare(key: str) -> str:
    return re.sub(r"[\s_-]", "", key).lower()


def _required(fields: Mapping[str, Field]) -> Iterator[Problem]:
    for key in ("name", "description"):
        field = fields.get(key)
        if field is None:
            yield Problem(1, f"`{key}` is missing.", fatal=True)
        elif not isinstance(field.value, str) or not field.value.strip():
            yield Problem(field.line, f"`{key}` is to be a text, and not empty.", fatal=True)


def _texts(fields: Mapping[str, Field]) -> Iterator[Problem]:
    for key in ("license", "compatibility"):
        field = fields.get(key)
        if field is not None and not isinstance(field.value, str):
            yield Problem(field.line, f"`{key}` is to be a text; it is left out.")
    for key, most in (("description", MOST_DESCRIPTION), ("compatibility", MOST_COMPATIBILITY)):
        field = fields.get(key)
        if field is not None and isinstance(field.value, str) and len(field.value) > most:
            size = len(field.value)
            yield Problem(field.line, f"`{key}` has {size} characters; it may have {most}.")


def _text(value: Value | None) -> str:
    return value if isinstance(value, str) else ""


def _tools(field: Field) -> tuple[tuple[str, ...], list[Problem]]:
    """Return the tools; a field that cannot be read is fatal, because it may be a restriction."""
    value = field.value
    named = [value] if isinstance(value, str) else value
    if isinstance(named, Mapping) or not all(isinstance(each, str) for each in named):
        text = "`allowed-tools` is to be names of tools with blanks between them, or a list."
        return (), [Problem(field.line, text, fatal=True)]
    texts = [_text(each) for each in named]
    rest = "".join(TOOL.sub("", each) for each in texts)
    if rest.strip(" \t\n,"):
        text = f"`allowed-tools` cannot be read: {rest.strip()[:40]!r} is left over."
        return (), [Problem(field.line, text, fatal=True)]
    return tuple(clean(tool) for each in texts for tool in TOOL.findall(each)), []


def _metadata(field: Field) -> tuple[dict[str, str], list[Problem]]:
    value = field.value
    if not isinstance(value, Mapping):
        if value == "":
            return {}, []
        return {}, [Problem(field.line, "`metadata` is to be keys with values; it is left out.")]
    kept = {clean(key): clean(each) for key, each in value.items() if isinstance(each, str)}
    lost = [key for key, each in value.items() if not isinstance(each, str)]
    told = [f"`metadata` has `{key}`, which is no text; it is left out." for key in lost]
    return kept, [Problem(field.line, text) for text in told]
