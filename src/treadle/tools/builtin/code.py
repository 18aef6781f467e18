"""The tools of an agent that writes code."""

from __future__ import annotations

from treadle.tools.builtin.bash import bash_tool
from treadle.tools.builtin.files import Root, as_workspace, edit_tool, read_tool, write_tool
from treadle.tools.builtin.think import think_tool
from treadle.tools.tool import Tool


def code_tools(workspace: Root = ".") -> list[Tool]:
    """Return `read_file`, `write_file`, `edit_file`, `bash` and `think` for one workspace.

    The file tools cannot leave the folder, whatever path or link they are given. `bash` starts in
    it and is not confined: there is no sandbox around it, a command can do whatever this process
    may. Use it where that is fine: in a container, or with a `Middleware` that asks somebody first.

    A relative `workspace` means the folder that it names now. All five tell failures to the model
    as text.

    Raises:
        ConfigError: there is no such folder.
    """
    place = as_workspace(workspace)
    return [read_tool(place), write_tool(place), edit_tool(place), bash_tool(place), think_tool()]
