"""Code tools in a fresh workspace, called as an agent calls them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from treadle import Agent, ToolResult
from treadle.testing import ScriptedModel, calls
from treadle.tools import code_tools, list_tool

Call = Callable[..., Awaitable[ToolResult]]


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A folder for the tools, beside which there is something else."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.txt").write_text("secret")
    place = tmp_path / "work"
    place.mkdir()
    return place


@pytest.fixture
def call(workspace: Path) -> Call:
    """Call one tool of an agent and return the result that its model is told."""
    tools = [*code_tools(workspace), list_tool(workspace)]

    async def make(name: str, **arguments: Any) -> ToolResult:
        model = ScriptedModel([calls(("c1", name, arguments)), "done"])
        result = await Agent("coder", model, tools=tools).run("go")
        assert result.output == "done"
        (answer,) = result.tool_results
        return answer

    return make
