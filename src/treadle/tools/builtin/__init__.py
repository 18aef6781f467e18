"""Tools that come with the package: files of a workspace, a shell, and a place to think."""

from treadle.tools.builtin.bash import bash_tool
from treadle.tools.builtin.code import code_tools
from treadle.tools.builtin.files import edit_tool, list_tool, read_tool, write_tool
from treadle.tools.builtin.shell import shell_tool
from treadle.tools.builtin.think import think_tool

__all__ = [
    "bash_tool",
    "code_tools",
    "edit_tool",
    "list_tool",
    "read_tool",
    "shell_tool",
    "think_tool",
    "write_tool",
]
