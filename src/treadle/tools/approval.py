"""Whether a call has to wait until somebody has decided on it."""

from __future__ import annotations

import inspect
from datetime import UTC, datetime
from typing import Any

from treadle.control import AskApproval
from treadle.errors import InvalidTool, NotStorable
from treadle.journal import ApprovalAsked
from treadle.messages import ToolCall
from treadle.open_calls import waiting
from treadle.ports.context import RunContext
from treadle.tools.arguments import ArgumentsInvalid, parse_arguments
from treadle.tools.outcome import MOST_ERROR_BYTES, ToolOutcome, cut, describe, error_result
from treadle.tools.parameters import normalize_schema
from treadle.tools.registry import ToolRegistry, short_hash
from treadle.tools.tool import Tool
from treadle.values import clean, json_text

MOST_QUESTIONS = 10
"""How often one call may ask in the middle."""


def digest_of(call: ToolCall, registry: ToolRegistry, rounds: int = 0) -> str:
    """Return what tells this very question from any other, and after the point the definition.

    That is the tool, its arguments, and how often the call has asked in the middle.
    """
    again = f"\0{rounds}" if rounds else ""
    asked = short_hash(f"{call.name}\0{call.raw}{again}".encode(errors="surrogatepass"))
    return f"{asked}.{registry.definition.get(call.name, '')}"


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


def asked_midway(
    question: AskApproval,
    first: ToolCall,
    call: ToolCall,
    ctx: RunContext[Any],
    registry: ToolRegistry,
) -> ToolOutcome:
    """Return the outcome of a call that asks while it runs: it waits, where it may ask at all."""
    if call is not first:
        return refused_link(first, call)
    rounds = len(ctx.answers) + 1
    if rounds > MOST_QUESTIONS:
        return _unasked(call, f"has asked {MOST_QUESTIONS} times; it may not ask again.")
    try:
        schema = None if question.schema is None else normalize_schema(question.schema)
        json_text(schema)
    except (InvalidTool, NotStorable) as error:
        return _unasked(call, f"asked for an answer of a schema that is none: {error}")
    asked = ApprovalAsked(
        run_id=ctx.run_id,
        at=datetime.now(UTC),
        call_id=call.id,
        digest=digest_of(call, registry, rounds),
        reason=cut(clean(str(question.reason)), MOST_ERROR_BYTES),
        midway=True,
        schema=schema,
    )
    return ToolOutcome(call=call, result=waiting(call, midway=True), asked=asked)


def refused_link(first: ToolCall, link: ToolCall) -> ToolOutcome:
    """Return the outcome of a chain whose next link would have to wait."""
    text = f"Tool {link.name!r} needs somebody's approval: call it by itself."
    return ToolOutcome(call=first, result=error_result(first, text), stage="approval")


def _unasked(call: ToolCall, why: str) -> ToolOutcome:
    text = f"Tool {call.name!r} {why}"
    return ToolOutcome(call=call, result=error_result(call, text), stage="approval")
