"""The tool that runs scripts of skills: in a sandbox, and nowhere else."""

from __future__ import annotations

import os
from collections.abc import Sequence
from shlex import quote
from typing import Any

from treadle.errors import SkillInvalid, ToolError
from treadle.ports.command_runner import Command, CommandRunner
from treadle.skills.loader import place_of
from treadle.skills.skill import Skill
from treadle.skills.tools import Known, found_skill
from treadle.tools.builtin.bash import DEFAULT_SECONDS, check_command, told_end
from treadle.tools.builtin.runner import as_runner
from treadle.tools.names import RUN_SKILL_SCRIPT
from treadle.tools.threads import THREADS
from treadle.tools.tool import Tool

MOST_OUTPUT = 40_000
INTERPRETERS = {".py": "python3", ".sh": "sh", ".js": "node"}
"""What runs a script, by the end of its name; any other has to be a program itself."""


def script_tool(known: Known) -> Tool:
    """Return the tool `run_skill_script`: a script of a skill that has a sandbox.

    The skill's folder is where it begins, and cannot be changed by it.
    """

    async def run(arguments: dict[str, Any]) -> str:
        skill = found_skill(known, arguments["skill"])
        if skill.sandbox is None or not skill.folder:
            raise ToolError(f"Scripts of skill {skill.name!r} are not run here.")
        command = await THREADS.run(
            lambda: _command(skill, arguments["path"], arguments.get("arguments", ()))
        )
        runner: CommandRunner = as_runner(skill.sandbox)
        return told_end(await runner.run(command), command.seconds)

    return Tool.from_schema(
        RUN_SKILL_SCRIPT,
        "Run a script of a skill and return what it prints and its exit code.",
        {
            "type": "object",
            "properties": {
                "skill": {"type": "string", "description": "The skill's name."},
                "path": {"type": "string", "description": "Relative to the skill's folder."},
                "arguments": {"type": "array", "items": {"type": "string"}},
            },
            "required": ["skill", "path"],
            "additionalProperties": False,
        },
        run,
        timeout=None,
        parallel=False,
        max_output=MOST_OUTPUT + 1000,
    )


def _command(skill: Skill, path: str, arguments: Sequence[str]) -> Command:
    """Return the command that runs a script.

    Raises:
        ToolError: it is no regular file of the skill.
    """
    try:
        place = place_of(skill)
    except SkillInvalid as error:
        raise ToolError(f"The files of skill {skill.name!r} are gone.") from error
    with place.open(path):
        script = os.path.relpath(os.path.realpath(os.path.join(place.root, path)), place.root)
    words = [f"./{script}", *arguments]
    interpreter = INTERPRETERS.get(os.path.splitext(script)[1])
    if interpreter is not None:
        words.insert(0, interpreter)
    text = " ".join(map(quote, words))
    check_command(text)
    return Command(
        text=text,
        workspace=place.root,
        folder=place.root,
        seconds=DEFAULT_SECONDS,
        max_output=MOST_OUTPUT,
        read_only=True,
    )
