"""How a call fails: with a text for the model, where it arose, and whether the run fails too."""

from __future__ import annotations

from typing import Any

from msgspec.json import encode as encode_json
from msgspec.structs import replace

from treadle.errors import ToolAbort, ToolError
from treadle.events import Stage
from treadle.messages import ToolCall
from treadle.state.flat import StateWrite
from treadle.tools.arguments import ArgumentsInvalid, parse_arguments
from treadle.tools.outcome import ToolOutcome, cut, error_result
from treadle.tools.tool import Tool
from treadle.usage import Usage

SHOWN_SCHEMA = 2_000  # bytes


class CallFailed(Exception):
    """A call has no value; carries the text for the model and where it arose."""

    def __init__(self, text: str, stage: Stage, fatal: Exception | None = None) -> None:
        super().__init__(text)
        self.stage: Stage = stage
        self.fatal = fatal


def cut_off(call: ToolCall, text: str, usage: Usage, writes: tuple[StateWrite, ...]) -> ToolOutcome:
    """Return the outcome of a call that was cancelled while it ran."""
    result = error_result(call, text)
    return ToolOutcome(call=call, result=result, usage=usage, writes=writes, stage="cancelled")


def meant(tool: Tool, error: BaseException) -> CallFailed:
    """Return the failure of a call that stopped on purpose, and is not tried again."""
    if isinstance(error, ToolAbort):
        return CallFailed(str(error), "execution", error)
    if isinstance(error, ToolError):
        return CallFailed(str(error), "execution", fatal_of(tool, error))
    # a tool must not end the process
    return CallFailed(f"Tool {tool.name!r} tried to exit: {error!r}", "execution")


def fatal_of(tool: Tool, error: Exception) -> Exception | None:
    """Return the error where it fails the run."""
    return error if tool.on_error == "fail" else None


def let_down(
    first: ToolCall, call: ToolCall, tool: Tool | None, error: BaseException
) -> ToolOutcome:
    """Return the outcome of a call whose tool waited for something that was cancelled."""
    text = f"Tool {call.name!r} failed: something that it waited for was cancelled."
    outcome = ToolOutcome(call=first, result=error_result(first, text), stage="execution")
    if tool is None or tool.on_error != "fail":
        return outcome
    return replace(outcome, fatal=ToolError(f"{text} ({error!r})"))


def parsed(tool: Tool, call: ToolCall) -> dict[str, Any]:
    """Return the arguments of a call as JSON values, or raise `CallFailed`."""
    try:
        return parse_arguments(call.raw)
    except ArgumentsInvalid as error:
        schema = cut(encode_json(tool.parameters).decode(), SHOWN_SCHEMA)
        raise CallFailed(
            f"Tool {call.name!r} did not run: {error} Its parameters: {schema}", "arguments"
        ) from None


def decoded(tool: Tool, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the values of a call's arguments, or raise `CallFailed`."""
    try:
        return tool.decoder.decode(arguments)
    except ArgumentsInvalid as error:
        raise CallFailed(str(error), "arguments") from None
