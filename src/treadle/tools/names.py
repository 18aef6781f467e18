"""The names that models know tools by: safe for every provider, stable, and each its own."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from types import MappingProxyType
from typing import Literal

from msgspec import Struct

from treadle.errors import DuplicateTool

MOST_CHARACTERS = 64

Source = Literal["agent", "skill", "remote"]
"""Where a tool comes from, in order of precedence."""

ClashPolicy = Literal["error", "shadow", "suffix"]
"""What becomes of a tool whose name is taken: refused, left out, or called `name_2`."""

DEFAULT_POLICIES: Mapping[Source, ClashPolicy] = MappingProxyType(
    {"agent": "error", "skill": "shadow", "remote": "suffix"}
)

LOAD_SKILL, READ_SKILL_FILE = "load_skill", "read_skill_file"
RUN_SKILL_SCRIPT = "run_skill_script"
SKILL_TOOLS = frozenset((LOAD_SKILL, READ_SKILL_FILE))
"""The tools that read skills: what they gave is kept when old calls are compacted."""

_SAFE = re.compile(r"[A-Za-z0-9_-]{1,64}")
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]+")
_PRECEDENCE: tuple[Source, ...] = ("agent", "skill", "remote")
_LIKELY = 0.6
"""How alike two names must be for one to be taken for a misspelling of the other."""


class NamedTool(Struct, frozen=True):
    """A tool's own name, and where the tool comes from."""

    name: str
    source: Source = "agent"


def safe_name(name: str) -> str:
    """Return a name that every provider takes: `[A-Za-z0-9_-]`, 1 to 64 characters.

    A name that is so already stays. Any other is spelled with safe characters and ends in a hash
    of the original, so that it is the same in every process and never that of another tool.
    The empty name becomes `tool`.
    """
    if _SAFE.fullmatch(name):
        return name
    if not name:
        return "tool"
    digest = sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    spelled = _UNSAFE.sub("_", name).strip("_") or "tool"
    return f"{spelled[: MOST_CHARACTERS - len(digest) - 1]}_{digest}"


def resolve_names(
    tools: Iterable[NamedTool], policies: Mapping[Source, ClashPolicy] = DEFAULT_POLICIES
) -> list[str | None]:
    """Return the name each tool is offered under, None for one that another tool shadows.

    An agent's tools come before those of skills, these before remote ones, and within one source
    the first comes first; the policy of the later tool's source decides. A suffix never takes
    the name of a tool that is called so by itself.

    Raises:
        DuplicateTool: a name is taken and the policy is "error".
    """
    items = list(tools)
    names = [safe_name(item.name) for item in items]
    own = set(names)
    owners: dict[str, NamedTool] = {}
    resolved: list[str | None] = [None] * len(items)
    for index in sorted(range(len(items)), key=lambda i: _PRECEDENCE.index(items[i].source)):
        item, name = items[index], names[index]
        if name in owners:
            policy = policies.get(item.source, DEFAULT_POLICIES[item.source])
            if policy == "shadow":
                continue
            if policy == "error":
                raise _duplicate(item, owners[name], name)
            name = _suffixed(name, own | owners.keys())
        owners[name] = item
        resolved[index] = name
    return resolved


def nearest(name: str, known: Iterable[str]) -> list[str]:
    """Return all known names, those most like `name` first."""
    return [candidate for _, candidate in _by_likeness(name, known)]


def likely(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that `name` is probably a misspelling of, or None."""
    ranked = _by_likeness(name, known)
    return ranked[0][1] if ranked and ranked[0][0] >= _LIKELY else None


def _by_likeness(name: str, known: Iterable[str]) -> list[tuple[float, str]]:
    wanted = name.casefold()
    scored = [(_likeness(wanted, candidate.casefold()), candidate) for candidate in known]
    return sorted(scored, key=lambda pair: -pair[0])


def _likeness(first: str, second: str) -> float:
    """Return 0 to 1; difflib loads at the first wrong name, which most runs never see."""
    from difflib import SequenceMatcher  # noqa: PLC0415

    return SequenceMatcher(None, first, second, autojunk=False).ratio()


def _suffixed(name: str, taken: set[str]) -> str:
    number = 2
    while True:
        suffix = f"_{number}"
        candidate = name[: MOST_CHARACTERS - len(suffix)] + suffix
        if candidate not in taken:
            return candidate
        number += 1


def _duplicate(item: NamedTool, owner: NamedTool, name: str) -> DuplicateTool:
    originals: Sequence[str] = sorted({item.name, owner.name})
    spelled = " and ".join(repr(original) for original in originals)
    return DuplicateTool(
        f"Two tools are called {name!r} (named {spelled}; from {owner.source} and {item.source}); "
        'rename one with @tool(name=...), or use the clash policy "suffix" or "shadow".'
    )
