"""How a call fails: with a text for the model, where it arose, and whether the run fails too."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from treadle.errors import ToolAbort, ToolError
from treadle.events import Stage
from treadle.tools.arguments import ArgumentsInvalid
from treadle.tools.outcome import ToolOutcome
from treadle.tools.tool import Tool


class CallFailed(Exception):
    """A call has no value; carries the text for the model and where it arose."""

    def __init__(self, text: str, stage: Stage, fatal: Exception | None = None) -> None:
        super().__init__(text)
        self.stage: Stage = stage
        self.fatal = fatal


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


def as_fatal(outcome: ToolOutcome, tool: Tool | None, error: BaseException) -> ToolOutcome:
    """Return the outcome of a call that failed, which fails the run where its tool says so."""
    if tool is None or tool.on_error != "fail":
        return outcome
    return replace(outcome, fatal=ToolError(f"{outcome.result.text} ({error!r})"))


def decoded(tool: Tool, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the values of a call's arguments, or raise `CallFailed`."""
    try:
        return tool.decoder.decode(arguments)
    except ArgumentsInvalid as error:
        raise CallFailed(str(error), "arguments") from None
