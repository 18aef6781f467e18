"""The seam to tools: anything with these four members can be given to an agent."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from treadle.ports.context import RunContext


@runtime_checkable
class ToolSource(Protocol):
    """Something that can be had as a tool, such as an agent."""

    def as_tool(self) -> Any:
        """Return the tool."""
        ...


@runtime_checkable
class ToolProtocol(Protocol):
    """A tool made by hand.

    `parameters` is a JSON Schema object; arguments are checked against it before `execute` runs.
    `execute` returns a value, a part, a list of parts, or a control value (`Next`, `Interrupt`,
    `Finish`), and raises `ToolError` with a text for the model.
    """

    name: str
    description: str
    parameters: dict[str, Any]

    async def execute(self, ctx: RunContext, arguments: dict[str, Any]) -> object:
        """Run one call."""
        ...
