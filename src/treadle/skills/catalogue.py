"""The skills of one agent: what its prompt says of them, and which tools they bring."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct
from msgspec.json import encode as encode_json

from treadle.errors import ConfigError, DuplicateTool
from treadle.messages import Message, ToolCall, ToolResult
from treadle.skills.files import files_of
from treadle.skills.loader import load_skills, read_again
from treadle.skills.scripts import script_tool
from treadle.skills.skill import Skill, Skills
from treadle.skills.tools import loading_tool, reading_tool
from treadle.tools.names import LOAD_SKILL, READ_SKILL_FILE, safe_name
from treadle.tools.registry import ToolRegistry, short_hash
from treadle.tools.threads import THREADS
from treadle.tools.tool import Tool, as_tool
from treadle.values.logs import logger

log = logger(__name__)

RULES = """\
Skills: instructions for certain tasks. When the user names a skill, or a task fits its \
description, call load_skill first and follow what it says strictly; several may be combined. A \
skill holds for the task at hand: do not carry it on to later ones unless it is named again. What \
the user asks for goes before a skill, and a skill before your own habits."""
MOST_DESCRIPTION = 1024


class _Standing(Struct, frozen=True):
    """The skills as they were last read, and the files of those that are in the prompt."""

    skills: Mapping[str, Skill]
    files: Mapping[str, Sequence[str]] = {}


class Catalogue:
    """The skills that an agent has, by name.

    They are given, or stand in a folder that each run reads anew. `base` are the agent's own
    tools, `registry` all tools, those of the skills among them. `refresh` reads files; nothing
    else does.

    Raises:
        ConfigError: two skills have the same name.
        DuplicateTool: the agent has a tool that is called like one that reads skills.
    """

    def __init__(self, given: Skills, base: ToolRegistry) -> None:
        self.base = base
        self._root = os.fspath(given) if isinstance(given, str | os.PathLike) else ""
        self._given: tuple[Skill, ...] = ()
        if not isinstance(given, str | os.PathLike):
            self._given = tuple(given)
        names = [skill.name for skill in self._given]
        for name in names:
            if names.count(name) > 1:
                raise ConfigError(f"Two skills are called {name!r}; leave one out.")
        self._standing = _Standing({skill.name: skill for skill in self._given})
        self._withheld: dict[str, frozenset[str]] = {}
        self.registry = self._registered()

    @property
    def skills(self) -> Mapping[str, Skill]:
        """The skills as they were last read, by name."""
        return self._standing.skills

    async def read(self) -> None:
        """Read again what has changed on the disk, in a thread; see `refresh`."""
        if self._root or any(skill.folder for skill in self._given):
            await THREADS.run(self.refresh)

    def refresh(self) -> None:
        """Read again what has changed on the disk.

        Raises:
            SkillInvalid: the folder of skills cannot be read.
            MissingExtra: a front matter needs the package for YAML.
        """
        if self._root:
            found: Iterable[Skill] = load_skills(self._root)
        else:
            found = [read_again(skill) for skill in self._standing.skills.values()]
        skills: dict[str, Skill] = {}
        for skill in found:
            if skill.name in skills:
                log.warning("A skill is left out: a second one is called %r now.", skill.name)
            skills.setdefault(skill.name, skill)
        eager = [skill for skill in skills.values() if skill.load == "eager" and skill.folder]
        self._standing = _Standing(skills, {skill.name: files_of(skill) for skill in eager})

    @property
    def definition(self) -> dict[str, str]:
        """A short hash of each skill as it was last read."""
        return _hashes(self._standing.skills.values())

    @property
    def given_definition(self) -> dict[str, str]:
        """The same of the skills as they were given; of a folder, which it is."""
        return {f"skills in {self._root}": ""} if self._root else _hashes(self._given)

    def prompt(self) -> str:
        """Return what the model is told of the skills; "" where there is none."""
        skills = self._standing.skills.values()
        parts = [self._eager(skill) for skill in skills if skill.load == "eager"]
        lines = [_line(skill) for skill in skills if skill.load == "on_demand"]
        if lines:
            parts.append("\n".join([RULES, *lines]))
        return "\n\n".join(parts)

    def withheld(self, messages: Sequence[Message]) -> frozenset[str]:
        """Return the names of the tools that are not offered: of skills that were not loaded."""
        if not self._withheld:
            return frozenset()
        loaded = loaded_in(messages)
        return frozenset(
            name for name, owners in self._withheld.items() if owners.isdisjoint(loaded)
        )

    def _eager(self, skill: Skill) -> str:
        text = f"## Skill: {skill.name}\n\n{skill.instructions}".rstrip()
        files = self._standing.files.get(skill.name, ())
        if files:
            text += f"\n\nIts files, for {READ_SKILL_FILE}:\n" + "\n".join(files)
        return text

    def _registered(self) -> ToolRegistry:
        """Return the agent's tools with those of the skills; the agent's go before them."""
        found = self.base.tools()
        reading: list[Tool] = []
        if self._root or any(skill.load == "on_demand" for skill in self._given):
            reading.append(loading_tool(self))
        if self._root or any(skill.folder for skill in self._given):
            reading.append(reading_tool(self))
        if any(skill.folder and skill.sandbox is not None for skill in self._given):
            reading.append(script_tool(self))
        for each in reading:
            if each.name in self.base:
                raise DuplicateTool(
                    f"The agent has skills, and a tool of its own that is called {each.name!r}; "
                    "rename it with @tool(name=...)."
                )
        own = {each.name: each for each in [*found, *reading]}
        taken, brought = {safe_name(name) for name in own}, dict[str, Tool]()
        owners: dict[str, set[str]] = {}
        for skill in self._given:
            for each in map(as_tool, skill.tools):
                name = safe_name(each.name)
                if name in taken or (name in brought and brought[name] != each):
                    log.warning(
                        "Tool %r of skill %r is left out: another one is called so.",
                        each.name,
                        skill.name,
                    )
                    continue
                brought[name] = each
                owners.setdefault(name, set()).add("" if skill.load == "eager" else skill.name)
        self._withheld = {n: frozenset(who) for n, who in owners.items() if "" not in who}
        if not reading and not brought:
            return self.base
        return ToolRegistry([*found, *reading, *brought.values()])


def loaded_in(messages: Iterable[Message]) -> set[str]:
    """Return the names of the skills that were loaded in a history."""
    asked: dict[str, str] = {}
    loaded: set[str] = set()
    for message in messages:
        for part in message.parts:
            if isinstance(part, ToolCall) and part.name == LOAD_SKILL:
                asked[part.id] = str(part.arguments.get("name", ""))
            elif isinstance(part, ToolResult) and part.name == LOAD_SKILL and not part.is_error:
                loaded.add(asked.get(part.call_id, ""))
    return loaded - {""}


def _line(skill: Skill) -> str:
    about = " ".join(skill.description.split())
    if len(about) > MOST_DESCRIPTION:
        about = f"{about[: MOST_DESCRIPTION - 3]}..."
    return f"- {skill.name}: {about}"


def _hashes(skills: Iterable[Skill]) -> dict[str, str]:
    return {
        f"skill {skill.name}": short_hash(
            encode_json([skill.description, skill.instructions, skill.allowed_tools, skill.load])
        )
        for skill in skills
    }
