"""The shell tool: its limits, its folder, and how it tells what came of a command."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.tools.builtin.conftest import Call
from treadle import Agent, ConfigError, ToolResult
from treadle.ports.command_runner import Command, CommandEnd
from treadle.testing import ScriptedModel, calls
from treadle.tools import bash_tool, code_tools, shell_tool
from treadle.tools.builtin.runner import LogsFirstFailure
from treadle.tools.registry import ToolRegistry

WALL = re.compile(r"\AWall time: \d+\.\d{4} seconds\n")


class Noting:
    """Runs nothing, and notes what was asked."""

    def __init__(self, end: CommandEnd) -> None:
        self.end = end
        self.asked: list[Command] = []

    async def run(self, command: Command) -> CommandEnd:
        """Note it."""
        self.asked.append(command)
        return self.end


@pytest.fixture
def noting() -> Noting:
    """A runner for commands that end well."""
    return Noting(CommandEnd(ending="exited", exit_code=0, output="out\n", seconds=0.12345))


@pytest.fixture
def shell(workspace: Path, noting: Noting) -> Call:
    """Call the tool as an agent does, without running anything."""
    return caller(shell_tool(workspace, sandbox=noting))


@pytest.fixture
def real(workspace: Path) -> Call:
    """Call the tool as an agent does, in a sandbox."""
    if sys.platform != "linux":
        pytest.skip("sandboxes are for Linux")
    return caller(shell_tool(workspace))


def caller(tool: Any) -> Call:
    """Return what calls a tool."""

    async def make(name: str, **arguments: object) -> ToolResult:
        model = ScriptedModel([calls(("c1", name, arguments)), "done"])
        (answer,) = (await Agent("coder", model, tools=[tool]).run("go")).tool_results
        return answer

    return make


async def test_the_reply_has_its_form(real: Call, workspace: Path) -> None:
    """Wall time, exit code, and the output under its heading (B87)."""
    answer = await real("shell_command", command="pwd; echo err >&2; exit 3")

    assert WALL.match(answer.text)
    assert WALL.sub("", answer.text) == f"Exit code: 3\nOutput:\n{workspace}\nerr\n"
    assert not answer.is_error


async def test_without_output_there_is_no_heading(real: Call) -> None:
    """A command that prints nothing has no output (B87)."""
    answer = await real("shell_command", command="true")

    assert WALL.sub("", answer.text) == "Exit code: 0"


async def test_out_of_time_is_told(real: Call) -> None:
    """With what was printed by then (B84, B87)."""
    answer = await real("shell_command", command="echo begun; sleep 60", timeout_ms=300)

    assert answer.is_error
    told = WALL.sub("", answer.text)
    assert told.startswith("Timed out after 300 ms; ")
    assert told.endswith("\nOutput:\nbegun\n")


async def test_output_is_cut_within_its_bytes(real: Call) -> None:
    """Head and tail are kept, and how much is missing is told (B88)."""
    answer = await real(
        "shell_command", command="echo head; yes | head -5000; echo tail", max_output_bytes=1000
    )

    output = answer.text.partition("\nOutput:\n")[2]
    assert output.startswith("head\ny\n")
    assert output.endswith("y\ntail\n")
    assert len(output.encode()) <= 1000
    assert "10010 bytes in all" in output


@pytest.mark.parametrize(
    ("end", "told"),
    [
        (
            CommandEnd(ending="not_started", reason="no sandbox works here"),
            "Wall time: 0.0000 seconds\nFailed to start: exit code -1, no sandbox works here",
        ),
        (
            CommandEnd(ending="stopped", seconds=2, output="x", reason="it had too many"),
            (
                "Wall time: 2.0000 seconds\nStopped: it had too many; "
                "all that it had started was ended.\nOutput:\nx"
            ),
        ),
    ],
)
async def test_other_ends_are_told(shell: Call, noting: Noting, end: CommandEnd, told: str) -> None:
    """A command that never ran, and one that took too much (B87, B89)."""
    noting.end = end

    answer = await shell("shell_command", command="true")

    assert answer.is_error
    assert answer.text == told


@pytest.mark.parametrize(
    ("arguments", "seconds", "output"),
    [
        ({}, 10, 40_000),
        ({"timeout_ms": 500.0, "max_output_bytes": 1000.0}, 0.5, 1000),
        ({"timeout_ms": 10**9, "max_output_bytes": 10**9}, 120, 400_000),
    ],
)
async def test_limits_have_defaults_and_caps(
    shell: Call, noting: Noting, arguments: dict[str, float], seconds: float, output: int
) -> None:
    """Whole numbers may be written with a point; too much is as much as there is (B84, B85)."""
    answer = await shell("shell_command", command="x", **arguments)

    assert not answer.is_error
    (asked,) = noting.asked
    assert (asked.seconds, asked.max_output) == (seconds, output)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"command": " \n"}, "The command is blank"),
        ({"timeout_ms": 0}, "timeout_ms=0: give at least 1."),
        ({"timeout_ms": -5}, "timeout_ms=-5: give at least 1."),
        ({"timeout_ms": 10.5}, "timeout_ms=10.5: give a whole number"),
        ({"timeout_ms": "soon"}, "timeout_ms"),
        ({"max_output_bytes": 999}, "max_output_bytes=999: give at least 1000."),
        ({"max_output_bytes": 1000.5}, "give a whole number"),
        ({"workdir": "/etc"}, "workdir='/etc' is outside the workspace"),
        ({"workdir": ".."}, "workdir='..' is outside the workspace"),
        ({"workdir": "../work-beside"}, "is outside the workspace"),
        ({"workdir": "way"}, "workdir='way' is outside the workspace"),
        ({"workdir": "a/../../outside"}, "is outside the workspace"),
        ({"workdir": "missing"}, "workdir='missing' is no folder of the workspace"),
        ({"workdir": "file"}, "workdir='file' is no folder of the workspace"),
        ({"workdir": "loop"}, "workdir='loop'"),
    ],
)
async def test_what_is_wrong_is_told(
    shell: Call, noting: Noting, workspace: Path, arguments: dict[str, object], told: str
) -> None:
    """Nothing runs, and the model is told what to write (B83, B84, B85, W33)."""
    (workspace / "a").mkdir()
    (workspace / "file").touch()
    (workspace / "way").symlink_to("../outside")
    (workspace / "loop").symlink_to("loop")

    answer = await shell("shell_command", **{"command": "true", **arguments})

    assert answer.is_error
    assert told in answer.text
    assert noting.asked == []


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
async def test_numbers_that_are_none_are_refused(workspace_shell: Any, number: float) -> None:
    """Also where a program calls the tool (B85)."""
    with pytest.raises(Exception, match="timeout_ms"):
        await workspace_shell(command="true", timeout_ms=number)


@pytest.fixture
def workspace_shell(workspace: Path, noting: Noting) -> Any:
    """The tool itself."""
    return shell_tool(workspace, sandbox=noting)


async def test_it_runs_in_a_folder_of_the_workspace(real: Call, workspace: Path) -> None:
    """By a relative path, an absolute one, and a link that stays inside."""
    (workspace / "src" / "deep").mkdir(parents=True)
    (workspace / "way").symlink_to(workspace / "src")

    for named in ("src/deep", str(workspace / "src" / "deep"), "way/deep", "./src//deep/."):
        answer = await real("shell_command", command="pwd; touch ../../$$", workdir=named)
        assert answer.text.endswith(f"Output:\n{workspace}/src/deep\n")
    assert len(os.listdir(workspace)) > 2


@pytest.fixture
def open_shell(workspace: Path) -> Call:
    """Call the tool without a sandbox."""
    return caller(shell_tool(workspace, sandbox=None))


async def test_without_a_sandbox_nothing_is_hidden(open_shell: Call) -> None:
    """`sandbox=None` is for those who want that."""
    answer = await open_shell("shell_command", command="cat ../outside/secret.txt")

    assert answer.text.endswith("Output:\nsecret")


@pytest.mark.parametrize("make", [bash_tool, shell_tool, code_tools])
@pytest.mark.parametrize("sandbox", ["bubblewrap", True, 7, Noting])
def test_a_sandbox_that_is_none_is_refused(workspace: Path, make: Any, sandbox: object) -> None:
    """A name or a class is not one."""
    with pytest.raises(ConfigError, match=r"give a Sandbox\(\)"):
        make(workspace, sandbox=sandbox)


async def test_a_default_that_does_not_work_is_logged_once(
    noting: Noting, caplog: pytest.LogCaptureFixture
) -> None:
    """So is whoever runs the program told what to do, not only the model."""
    noting.end = CommandEnd(ending="not_started", reason="there is no bubblewrap")
    runner = LogsFirstFailure(noting)
    asked = Command(text="true", workspace="/w", folder="/w", seconds=1, max_output=1000)

    ends = [await runner.run(asked) for _ in range(2)]

    assert [end.reason for end in ends] == ["there is no bubblewrap"] * 2
    (record,) = caplog.records
    assert "could not be set up: there is no bubblewrap. " in record.getMessage()
    assert "sandbox=None" in record.getMessage()


def test_the_tool_has_its_name(workspace: Path) -> None:
    """It is `shell_command`, with four inputs (B82, B83)."""
    tool = shell_tool(workspace)

    assert ToolRegistry([tool]).names() == ("shell_command",)
    assert list(tool.parameters["properties"]) == [
        *("command", "workdir", "timeout_ms", "max_output_bytes"),
    ]
