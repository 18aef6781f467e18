"""The bash tool: one shell command in a workspace."""

from __future__ import annotations

from treadle.errors import ToolError
from treadle.ports.command_runner import Command, CommandEnd
from treadle.tools.builtin.files import Root, as_workspace
from treadle.tools.builtin.runner import Where, as_runner
from treadle.tools.tool import Tool, tool

DEFAULT_SECONDS = 30.0
MOST_SECONDS = 600.0
MOST_OUTPUT = 65_536
MOST_COMMAND = 131_071
"""Bytes: how long Linux takes one argument of a program."""


def bash_tool(workspace: Root = ".", *, sandbox: Where = "auto") -> Tool:
    """Return the tool `bash`: it runs `sh -c` in the workspace, in a sandbox.

    A command gets no input and none of this process's keys or tokens. Whatever it has started
    ends with it. Where no sandbox works it does not run, and the model is told so; with
    `sandbox=None` there is none, and it can do whatever this process may.
    """
    place = as_workspace(workspace)
    runner = as_runner(sandbox)

    async def bash(command: str, timeout_seconds: float = DEFAULT_SECONDS) -> str:
        """Run a shell command in the workspace and return what it prints and its exit code.

        It gets no input, and processes that it leaves in the background are ended with it.

        Args:
            command: The command, for example "ls -l | head".
            timeout_seconds: When to stop it, at most 600.
        """
        check_command(command)
        if not timeout_seconds > 0:
            raise ToolError(f"timeout_seconds={timeout_seconds:g}: give more than 0, at most 600.")
        seconds = min(timeout_seconds, MOST_SECONDS)
        asked = Command(
            text=command,
            workspace=place.root,
            folder=place.root,
            seconds=seconds,
            max_output=MOST_OUTPUT,
        )
        return told_end(await runner.run(asked), seconds)

    return tool(timeout=None, parallel=False, max_output=MOST_OUTPUT + 1000)(bash)


def check_command(command: str) -> None:
    """Refuse a command that no shell could be given.

    Raises:
        ToolError: it is blank, too long, or holds a NUL character.
    """
    if not command.strip() or "\0" in command:
        raise ToolError("The command is blank or holds a NUL character; give a shell command.")
    size = len(command.encode(errors="replace"))
    if size > MOST_COMMAND:
        raise ToolError(
            f"The command has {size} bytes, and a shell takes {MOST_COMMAND} at most; "
            "write a script to a file, and run that."
        )


def told_end(end: CommandEnd, seconds: float) -> str:
    """Return what a model is told of a command that has run.

    Raises:
        ToolError: it did not run to its end.
    """
    gap = "\n" if end.output and not end.output.endswith("\n") else ""
    if end.ending == "not_started":
        raise ToolError(f"The command could not be started: {end.reason}.")
    if end.ending == "timed_out":
        raise ToolError(
            f"{end.output}{gap}[timed out after {seconds:g} s; all that it had started was ended]"
        )
    if end.ending == "stopped":
        raise ToolError(f"{end.output}{gap}[stopped with all that it had started: {end.reason}]")
    return f"{end.output}{gap}[exit code {exit_code(end)}]"


def exit_code(end: CommandEnd) -> str:
    """Return an exit code as text, and which signal it stands for."""
    signal = end.exit_code - 128
    return f"{end.exit_code}, signal {signal}" if 0 < signal <= 64 else str(end.exit_code)
