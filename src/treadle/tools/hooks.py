"""What middleware does around one call of a tool."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from treadle.control import AskApproval
from treadle.errors import ToolError
from treadle.messages import ToolCall, ToolResult
from treadle.ports.context import RunContext
from treadle.ports.middleware import Hooks
from treadle.tools.failure import CallFailed


async def before_tool(
    hooks: Hooks, ctx: RunContext, call: ToolCall, arguments: dict[str, Any]
) -> dict[str, Any] | ToolResult:
    """Return the arguments to run with, or the result to use instead; refused is `CallFailed`."""
    for hook in hooks.before_tool:
        try:
            answer = await hook(ctx, call, arguments)
        except ToolError as error:
            raise CallFailed(str(error), "execution") from None
        if isinstance(answer, ToolResult):
            return answer
        arguments = arguments if answer is None else answer
    return arguments


async def after_tool(
    hooks: Hooks, ctx: RunContext, call: ToolCall, result: ToolResult
) -> ToolResult:
    """Return the result as middleware rewrites it, still that of its call."""
    call_id, name = result.call_id, result.name
    for hook in hooks.after_tool:
        try:
            rewritten = await hook(ctx, call, result) or result
        except ToolError as error:
            raise CallFailed(str(error), "execution") from None
        except AskApproval:
            text = f"Tool {name!r} has run; middleware can ask for approval in before_tool only."
            raise CallFailed(text, "execution") from None
        result = replace(rewritten, call_id=call_id, name=name)
    return result
