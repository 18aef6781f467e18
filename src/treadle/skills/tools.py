"""The tools by which a model reads skills."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from treadle.errors import ToolError
from treadle.skills.files import files_of, read_file
from treadle.skills.loader import read_again
from treadle.skills.skill import Skill
from treadle.tools.names import LOAD_SKILL, READ_SKILL_FILE, nearest
from treadle.tools.tool import Tool, as_tool

MOST_OUTPUT = 200_000
MOST_NAMED = 5


class Known(Protocol):
    """Whoever has the skills, by name."""

    @property
    def skills(self) -> Mapping[str, Skill]:
        """The skills."""
        ...


def loading_tool(known: Known) -> Tool:
    """Return the tool `load_skill`: a skill's instructions, and which files it has."""

    def load(arguments: dict[str, Any]) -> str:
        return _loaded(read_again(found_skill(known, arguments["name"])))

    return Tool.from_schema(
        LOAD_SKILL,
        "Read the instructions of a skill, and which files it has.",
        {
            "type": "object",
            "properties": {"name": {"type": "string"}},
            "required": ["name"],
            "additionalProperties": False,
        },
        load,
        parallel=True,
        idempotent=True,
        max_output=MOST_OUTPUT,
    )


def reading_tool(known: Known) -> Tool:
    """Return the tool `read_skill_file`: the text of one file of a skill."""

    def read(arguments: dict[str, Any]) -> str:
        skill = found_skill(known, arguments["skill"])
        if not skill.folder:
            raise ToolError(f"Skill {skill.name!r} has no files.")
        return read_file(skill, arguments["path"])

    return Tool.from_schema(
        READ_SKILL_FILE,
        "Read a file of a skill.",
        {
            "type": "object",
            "properties": {
                "skill": {"type": "string", "description": "The skill's name."},
                "path": {"type": "string", "description": "Relative to the skill's folder."},
            },
            "required": ["skill", "path"],
            "additionalProperties": False,
        },
        read,
        parallel=True,
        idempotent=True,
        max_output=MOST_OUTPUT,
    )


def found_skill(known: Known, name: str) -> Skill:
    """Return the skill of exactly this name; a name is never taken for a path."""
    found = known.skills.get(name)
    if found is None:
        there = ", ".join(nearest(name, list(known.skills))[:MOST_NAMED]) or "there is none"
        raise ToolError(f"There is no skill {name!r:.80}; nearest first: {there}.")
    return found


def _loaded(skill: Skill) -> str:
    parts = [f"# Skill: {skill.name}", skill.instructions or "[It has no instructions.]"]
    if skill.compatibility:
        parts.append(f"Compatibility: {skill.compatibility}")
    if skill.allowed_tools:
        parts.append(f"Carry it out with these tools: {', '.join(skill.allowed_tools)}")
    if skill.tools:
        names = ", ".join(as_tool(each).name for each in skill.tools)
        parts.append(f"You have these tools from now on: {names}")
    files = files_of(skill) if skill.folder else []
    if files:
        parts.append(f"Its files, for {READ_SKILL_FILE}:\n" + "\n".join(files))
    return "\n\n".join(parts)
