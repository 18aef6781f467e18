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
        shell_tool,
        think_tool,
        write_tool,
    )
    from treadle.tools.conditions import Above, Below, Contains, Inside, Matches, Not, OneOf
    from treadle.tools.policy import Rule, Rules

__all__ = [
    "Above",
    "Below",
    "Contains",
    "Inside",
    "Matches",
    "Not",
    "OneOf",
    "Rule",
    "Rules",
    "bash_tool",
    "code_tools",
    "edit_tool",
    "list_tool",
    "read_tool",
    "shell_tool",
    "think_tool",
    "write_tool",
]


_ROOMS = {
    "treadle.tools.conditions": "Above Below Contains Inside Matches Not OneOf",
    "treadle.tools.policy": "Rule Rules",
}
_HOMES = {name: room for room, names in _ROOMS.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    """Load a built-in tool, or what rules are made of, when it is first used."""
    if name not in __all__:
        raise AttributeError(f"module 'treadle.tools' has no attribute {name!r}")
    return getattr(import_module(_HOMES.get(name, "treadle.tools.builtin")), name)
