"""From a typed function to one executed batch of calls."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from treadle.tools.builtin import (
        bash_tool,
        code_tools,
        edit_tool,
        list_tool,
        read_tool,
        think_tool,
        write_tool,
    )

__all__ = [
    "bash_tool",
    "code_tools",
    "edit_tool",
    "list_tool",
    "read_tool",
    "think_tool",
    "write_tool",
]


def __getattr__(name: str) -> Any:
    """Load a built-in tool when it is first used."""
    if name not in __all__:
        raise AttributeError(f"module 'treadle.tools' has no attribute {name!r}")
    return getattr(import_module("treadle.tools.builtin"), name)
