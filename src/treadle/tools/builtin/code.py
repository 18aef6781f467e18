"""The tools of an agent that writes code."""

from __future__ import annotations

from treadle.tools.builtin.bash import bash_tool
from treadle.tools.builtin.files import Root, as_workspace, edit_tool, read_tool, write_tool
from treadle.tools.builtin.runner import Where
from treadle.tools.builtin.think import think_tool
from treadle.tools.tool import Tool


def code_tools(workspace: Root = ".", *, sandbox: Where = "auto") -> list[Tool]:
    """Return `read_file`, `write_file`, `edit_file`, `bash` and `think` for one workspace.

    The file tools cannot leave the folder, whatever path or link they are given, and `bash` runs
    its commands in a sandbox. Where none works (not on Linux, or closed there), commands do not
    run, which the model and the log are told. `sandbox=None` runs them without: they can do
    whatever this process may. Use that where it is fine, in a container for example.

    A relative `workspace` means the folder that it names now. All five tell failures to the model
    as text.

    Raises:
        ConfigError: there is no such folder, or `sandbox` is no sandbox.
    """
    place = as_workspace(workspace)
    return [
        read_tool(place),
        write_tool(place),
        edit_tool(place),
        bash_tool(place, sandbox=sandbox),
        think_tool(),
    ]
