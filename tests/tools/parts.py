"""Small parts that the tests of executed calls share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from treadle import Agent, RunResult, ToolResult, tool
from treadle.agent.agent import AnyTool
from treadle.testing import ScriptedModel, calls

Asked = tuple[str, str, dict[str, Any]]
"""One call of a model: its ID, the tool and the arguments."""


def asked(call_id: str, name: str, **arguments: Any) -> Asked:
    """One call of a model."""
    return call_id, name, arguments


async def run_calls(tools: Iterable[AnyTool], *requests: Asked, **options: Any) -> RunResult[Any]:
    """Run an agent whose model makes these calls at once and then says done."""
    model = ScriptedModel([calls(*requests), "done"])
    return await Agent("a", model, tools=list(tools)).run("x", **options)


def results_of(result: RunResult[Any]) -> list[ToolResult]:
    """The results that the model saw."""
    return [found for message in result.messages for found in message.tool_results]


@tool
async def echo(text: str) -> str:
    """Echo."""
    return text
