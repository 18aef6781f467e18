"""Ways to make a tool, and tools that cannot be."""

from __future__ import annotations

from typing import Any

import pytest

from tests.tools.parts import asked, echo, results_of, run_calls
from treadle import RunContext, Tool, tool
from treadle.errors import DuplicateTool, InvalidTool
from treadle.tools.tool import as_tool


class ByHand:
    """A tool by protocol alone."""

    name = "by_hand"
    description = "Made by hand."

    def __init__(self) -> None:
        self.parameters: dict[str, Any] = {
            "type": "object",
            "properties": {"n": {"type": "integer"}},
            "required": ["n"],
        }

    async def execute(self, ctx: RunContext, arguments: dict[str, Any]) -> object:
        """Run."""
        return arguments["n"] * 2


async def test_other_ways_to_make_a_tool() -> None:
    """A plain function, an object with the protocol, a schema with a function."""

    def plain(n: int) -> int:
        """Be plain."""
        return n

    def following(arguments: dict[str, Any]) -> int:
        return arguments.get("n", 0) + 1

    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    dynamic = Tool.from_schema("dynamic", "Dynamic.", schema, following)
    result = await run_calls(
        [plain, ByHand(), dynamic],
        asked("1", "plain", n=1),
        asked("2", "by_hand", n=2),
        asked("3", "dynamic", n=3),
        asked("4", "by_hand", n="x"),
    )

    *good, bad = results_of(result)
    assert [found.value for found in good] == [1, 4, 4]
    assert bad.is_error
    assert "- n: " in bad.text


def test_tools_that_cannot_work() -> None:
    """Each is refused at definition, in words."""
    with pytest.raises(InvalidTool, match="isolation"):
        tool(name="t", isolation="nowhere")(lambda: 1)  # pyright: ignore[reportArgumentType, reportCallIssue] the mistake that is tested
    with pytest.raises(InvalidTool, match="timeout"):
        tool(name="t", timeout=0)(lambda: 1)
    for wrong in ({"name": 3}, {"name": "t", "description": 3}):
        given: Any = wrong
        with pytest.raises(InvalidTool, match="=3 is no text"):
            Tool.from_schema(**({"description": ""} | given), parameters=None, function=str)
    with pytest.raises(InvalidTool, match="needs a name"):
        tool(lambda: 1)
    with pytest.raises(InvalidTool, match="not a tool"):
        as_tool(3)  # pyright: ignore[reportArgumentType] the mistake that is tested
    with pytest.raises(InvalidTool, match="retries=-1"):
        tool(name="t", retries=-1)(lambda: 1)
    with pytest.raises(InvalidTool, match="max_output=10 "):
        tool(name="t", max_output=10)(lambda: 1)


async def test_two_tools_of_one_name() -> None:
    """The agent refuses them, with the name and what to do."""
    with pytest.raises(DuplicateTool, match=r"'echo' is defined twice.*@tool\(name=") as caught:
        await run_calls([echo, echo.replace(description="other")], asked("1", "echo", text="a"))

    assert "echo" in str(caught.value)


def test_a_tool_is_still_a_function() -> None:
    """Calling it runs the function."""

    @tool
    def double(n: int) -> int:
        """Double."""
        return 2 * n

    assert double(4) == 8
