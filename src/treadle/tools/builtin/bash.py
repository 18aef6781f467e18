"""The bash tool: one shell command in a workspace."""

from __future__ import annotations

from treadle.errors import ToolError
from treadle.tools.builtin.command import MOST_OUTPUT, CommandEnd, run_command
from treadle.tools.builtin.files import Root, as_workspace
from treadle.tools.tool import Tool, tool

DEFAULT_SECONDS = 30.0
MOST_SECONDS = 600.0


def bash_tool(workspace: Root = ".") -> Tool:
    """Return the tool `bash`: it runs `sh -c` in the workspace.

    There is no sandbox: the command can do whatever this process may, outside the workspace too.
    It gets no input, and of the environment only what every program needs, no keys or tokens.
    Whatever it has started and left in its process group ends with it.
    """
    place = as_workspace(workspace)

    async def bash(command: str, timeout_seconds: float = DEFAULT_SECONDS) -> str:
        """Run a shell command in the workspace and return what it prints and its exit code.

        It gets no input, and processes that it leaves in the background are ended with it.

        Args:
            command: The command, for example "ls -l | head".
            timeout_seconds: When to stop it, at most 600.
        """
        if not command.strip() or "\0" in command:
            raise ToolError("The command is blank or holds a NUL character; give a shell command.")
        if not timeout_seconds > 0:
            raise ToolError(f"timeout_seconds={timeout_seconds:g}: give more than 0, at most 600.")
        seconds = min(timeout_seconds, MOST_SECONDS)
        return _told(await run_command(command, place.root, seconds), seconds)

    return tool(timeout=None, parallel=False, max_output=MOST_OUTPUT + 1000)(bash)


def _told(ended: CommandEnd, seconds: float) -> str:
    output = ended.output
    gap = "\n" if output and not output.endswith("\n") else ""
    if ended.exit_code is None:
        raise ToolError(
            f"{output}{gap}[timed out after {seconds:g} s; the command and its children were ended]"
        )
    if ended.exit_code < 0:
        return f"{output}{gap}[ended by signal {-ended.exit_code}]"
    return f"{output}{gap}[exit code {ended.exit_code}]"
