"""Whether a call has to wait until somebody has decided on it."""

from __future__ import annotations

import inspect
from typing import Any

from treadle.messages import ToolCall
from treadle.ports.context import RunContext
from treadle.tools.arguments import ArgumentsInvalid, parse_arguments
from treadle.tools.outcome import describe
from treadle.tools.tool import Tool


async def needs_approval(tool: Tool, call: ToolCall, ctx: RunContext[Any]) -> str | None:
    """Return why the call has to wait ("" for always), or None when it may run at once.

    A call whose arguments are no good runs into its error; nobody needs to look at it.
    """
    if tool.approval is False:
        return None
    try:
        values = tool.decoder.decode(parse_arguments(call.raw))
    except ArgumentsInvalid:
        return None
    if tool.approval is True:
        return ""
    try:
        wanted = tool.approval(ctx, values)
        if inspect.isawaitable(wanted):
            wanted = await wanted
    except Exception as error:  # noqa: BLE001 a rule is the user's code; when in doubt, ask
        return f"The rule for its approval failed: {describe(error)}"
    return "" if wanted else None
