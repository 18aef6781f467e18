"""What a plugin brings, turned into tools."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeGuard

from treadle.errors import DuplicateTool, InvalidTool, PluginFailed
from treadle.plugins.modules import shown
from treadle.ports.tool import ToolProtocol
from treadle.tools.names import safe_name
from treadle.tools.outcome import describe
from treadle.tools.tool import Tool, tool


class Gathering:
    """Tools from several origins, each under a name of its own."""

    def __init__(self) -> None:
        self._tools: dict[str, tuple[Tool, str]] = {}

    @property
    def tools(self) -> tuple[Tool, ...]:
        """All tools, in the order in which they came."""
        return tuple(found for found, _ in self._tools.values())

    def add(self, value: object, origin: str) -> None:
        """Add what a plugin brings; `origin` names the plugin in errors.

        Raises:
            PluginFailed: it is no tool and gives none.
            DuplicateTool: another origin has a tool of the name.
        """
        for found in _made(lambda brought: list(_tools_of(brought, origin)), value, origin):
            known, owner = self._tools.setdefault(safe_name(found.name), (found, origin))
            if known is not found:
                raise DuplicateTool(
                    f"{origin} and {owner} both have a tool {found.name!r}; leave one out."
                )


def _tools_of(value: object, origin: str) -> Iterator[Tool]:
    if isinstance(value, Tool):
        yield value
    elif is_listed(value):
        for item in value:
            yield from _tools_of(item, origin)
    elif isinstance(value, ToolProtocol) and not isinstance(value, type):
        yield _made(Tool.from_protocol, value, origin)
    elif not callable(value):
        raise PluginFailed(f"{origin} is {shown(value)}, which is neither a tool nor gives one.")
    elif _needs_nothing(value):
        yield from _given(_made(_call, value, origin), origin)
    else:
        yield _made(tool, value, origin)


def _given(value: object, origin: str) -> Iterator[Tool]:
    """Give the tools that a factory returned."""
    for item in value if is_listed(value) else (value,):
        if not isinstance(item, Tool | ToolProtocol):
            raise PluginFailed(
                f"{origin} gives {shown(item)}, which is no tool; "
                "a function that is a tool itself needs @tool."
            )
        yield from _tools_of(item, origin)


def _call(factory: Callable[[], Any]) -> Any:
    made = factory()
    if inspect.iscoroutine(made):
        made.close()
        raise InvalidTool("it is async; make tools in a plain function")
    return made


def _made(make: Callable[[Any], Any], value: object, origin: str) -> Any:
    try:
        return make(value)
    except (PluginFailed, DuplicateTool):
        raise
    except (Exception, SystemExit) as error:
        raise PluginFailed(f"{origin} failed: {describe(error)}") from error


def is_listed(value: object) -> TypeGuard[Sequence[object]]:
    """Whether a value is a list or a tuple."""
    return isinstance(value, list | tuple)


def _needs_nothing(function: Callable[..., Any]) -> bool:
    """Whether it takes no arguments, and so is a factory rather than a tool's function."""
    if isinstance(function, type):
        return True
    try:
        return not inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False
