"""Scripts of skills run in a sandbox, and nowhere else."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.sandboxes.conftest import available
from tests.skills.folders import skill_in
from treadle import Agent, ConfigError, load_skill, load_skills
from treadle.ports.command_runner import Command, CommandEnd
from treadle.sandboxes import Sandbox
from treadle.sandboxes.found import Backend
from treadle.testing import ScriptedModel, calls


class Noting:
    """Notes commands, and runs none."""

    def __init__(self) -> None:
        self.commands: list[Command] = []

    async def run(self, command: Command) -> CommandEnd:
        """Note it."""
        self.commands.append(command)
        return CommandEnd(ending="exited", exit_code=0, output="noted")


async def run_script(
    skills: Any, path: str, *arguments: str, model: ScriptedModel | None = None, name: str = "s"
) -> Any:
    """The result of a call that runs a script."""
    asked: dict[str, Any] = {"skill": name, "path": path, "arguments": list(arguments)}
    model = model or ScriptedModel([calls(("c1", "run_skill_script", asked)), "ok"])
    return (await Agent("a", model, skills=skills).run("Hi")).tool_results[0]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A skill with scripts."""
    folder = skill_in(tmp_path, "s")
    (folder / "scripts").mkdir()
    (folder / "scripts" / "it's.py").write_text("print(1)")
    (folder / "scripts" / "run.sh").write_text(
        'echo "$@"; cat data.txt; pwd\ntouch new 2>/dev/null || echo not written\n'
        "cat ../secret.txt 2>/dev/null || echo no secret\n"
    )
    (folder / "scripts" / "tool").write_text("x")
    (folder / "data.txt").write_text("data\n")
    (tmp_path / "secret.txt").write_text("SECRET")
    (folder / "out").symlink_to(tmp_path / "secret.txt")
    return folder


async def test_a_script_is_one_command(folder: Path) -> None:
    """It begins in the skill's folder, which is read-only, and its words stay words."""
    runner = Noting()
    skill = await asyncio.to_thread(load_skill, folder, sandbox=runner)

    result = await run_script([skill], "scripts/it's.py", "a b", "$(x); rm -rf .")
    await run_script([skill], "scripts/tool")

    assert result.text == "noted\n[exit code 0]"
    first, second = runner.commands
    assert first.text == """python3 './scripts/it'"'"'s.py' 'a b' '$(x); rm -rf .'"""
    assert second.text == "./scripts/tool"
    assert (first.workspace, first.folder) == (str(folder), str(folder))
    assert first.read_only


@pytest.mark.parametrize("path", ["../secret.txt", "out", "/bin/sh", "scripts", "none.py", "a\0"])
async def test_only_files_of_the_skill_are_scripts(folder: Path, path: str) -> None:
    """Nothing else is run."""
    runner = Noting()
    skill = await asyncio.to_thread(load_skill, folder, sandbox=runner)

    result = await run_script([skill], path)

    assert result.is_error
    assert not runner.commands


async def test_without_a_sandbox_there_is_no_such_tool(folder: Path) -> None:
    """Not for a folder of skills either, and not for a skill beside one that has one."""
    skills = await asyncio.to_thread(load_skills, folder.parent)
    for given in (skills, folder.parent):
        result = await run_script(given, "scripts/run.sh")
        assert result.text.startswith("There is no tool 'run_skill_script'.")
    runner = Noting()
    skill_in(folder.parent, "other")
    other = await asyncio.to_thread(load_skill, folder.parent / "other", sandbox=runner)
    result = await run_script([*skills, other], "scripts/run.sh")
    assert result.text == "Scripts of skill 's' are not run here."
    assert not runner.commands


@pytest.mark.parametrize("sandbox", [True, "bash", Sandbox, 1])
def test_what_is_no_sandbox(folder: Path, sandbox: Any) -> None:
    """It is refused when the skill is loaded."""
    with pytest.raises(ConfigError, match="sandbox="):
        load_skill(folder, sandbox=sandbox)


@pytest.mark.e2e
@pytest.mark.skipif(sys.platform != "linux", reason="sandboxes are for Linux")
@pytest.mark.parametrize("backend", ["bubblewrap", "landlock"])
async def test_in_a_real_sandbox(folder: Path, backend: Backend) -> None:
    """It reads its folder, changes nothing there, and sees nothing beside it."""
    sandbox = Sandbox(backend=available(backend))
    skill = await asyncio.to_thread(load_skill, folder, sandbox=sandbox)

    result = await run_script([skill], "scripts/run.sh", "one two")

    assert result.text.splitlines() == [
        "one two",
        "data",
        str(folder),
        "not written",
        "no secret",
        "[exit code 0]",
    ]
    assert not (folder / "new").exists()
