"""The shell tool: one command with limits of its own, in a folder of the workspace."""

from __future__ import annotations

import os

from treadle.errors import ToolError
from treadle.ports.command_runner import Command, CommandEnd
from treadle.tools.builtin.bash import check_command, exit_code
from treadle.tools.builtin.files import Root, as_workspace
from treadle.tools.builtin.runner import Where, as_runner
from treadle.tools.builtin.workspace import Workspace
from treadle.tools.threads import THREADS
from treadle.tools.tool import Tool, tool

DEFAULT_MS = 10_000
MOST_MS = 120_000
DEFAULT_OUTPUT = 40_000
MOST_OUTPUT = 400_000
LEAST_OUTPUT = 1000


def shell_tool(workspace: Root = ".", *, sandbox: Where = "auto") -> Tool:
    """Return the tool `shell_command`: it runs `sh -c` in the workspace, in a sandbox.

    The model says in which folder, for how long (120 s at most) and how much output it wants
    (400,000 bytes at most), and is told how long the command took. All else is as with `bash`:
    where no sandbox works nothing runs, and with `sandbox=None` there is none.
    """
    place = as_workspace(workspace)
    runner = as_runner(sandbox)

    async def shell_command(
        command: str,
        workdir: str = ".",
        timeout_ms: float = DEFAULT_MS,
        max_output_bytes: float = DEFAULT_OUTPUT,
    ) -> str:
        """Run a shell command and return its exit code and what it prints, both outputs together.

        It gets no input, and processes that it leaves in the background are ended with it.

        Args:
            command: The command, for example "ls -l | head".
            workdir: The folder to run it in, in the workspace.
            timeout_ms: When to stop it, in milliseconds: a whole number, at most 120000.
            max_output_bytes: How much of its output to return: a whole number, 1000 to 400000.
        """
        check_command(command)
        milliseconds = min(_whole("timeout_ms", timeout_ms, 1), MOST_MS)
        asked = Command(
            text=command,
            workspace=place.root,
            folder=await THREADS.run(lambda: folder_in(place, workdir)),
            seconds=milliseconds / 1000,
            max_output=min(_whole("max_output_bytes", max_output_bytes, LEAST_OUTPUT), MOST_OUTPUT),
        )
        return _told(await runner.run(asked), milliseconds)

    return tool(timeout=None, parallel=False, max_output=MOST_OUTPUT + 2000)(shell_command)


def folder_in(place: Workspace, path: str) -> str:
    """Return the folder that a path in the workspace leads to, through whatever links.

    Raises:
        ToolError: it leads outside, or to no folder.
    """
    if "\0" in path:
        raise ToolError(f"workdir={path!r} holds a NUL character.")
    try:
        found = os.path.realpath(os.path.join(place.root, path))
    except ValueError as error:
        raise ToolError(f"workdir={path!r}: {error}.") from error
    if os.path.commonpath([found, place.root]) != place.root:
        raise ToolError(
            f"workdir={path!r} is outside the workspace; use a folder inside it, like 'src'."
        )
    if not os.path.isdir(found):
        raise ToolError(f"workdir={path!r} is no folder of the workspace.")
    return found


def _whole(name: str, value: float, least: int) -> int:
    """Return a whole number, also one that is written as 1000.0."""
    if value != value or value in (float("inf"), float("-inf")) or value != int(value):
        raise ToolError(f"{name}={value}: give a whole number, at least {least}.")
    if value < least:
        raise ToolError(f"{name}={value:g}: give at least {least}.")
    return int(value)


def _told(end: CommandEnd, milliseconds: int) -> str:
    told = {
        "exited": f"Exit code: {exit_code(end)}",
        "timed_out": f"Timed out after {milliseconds} ms; all that it had started was ended.",
        "stopped": f"Stopped: {end.reason}; all that it had started was ended.",
        "not_started": f"Failed to start: exit code -1, {end.reason}",
    }
    lines = [f"Wall time: {end.seconds:.4f} seconds", told[end.ending]]
    text = "\n".join([*lines, "Output:", end.output] if end.output else lines)
    if end.ending != "exited":
        raise ToolError(text)
    return text
