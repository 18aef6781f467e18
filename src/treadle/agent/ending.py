"""How a run ends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from treadle.control import Control, Finish, Handoff, Interrupt
from treadle.errors import NotStorable, ToolError, TreadleError
from treadle.events import StopReason
from treadle.journal import CallEnded
from treadle.messages import ToolCall
from treadle.tools.outcome import ToolOutcome
from treadle.values import Plain, json_text, pack, register, unpack
from treadle.values.secret import hidden

NO_OUTPUT: Any = object()
"""Stands for the output of a run that has no answer; None may be one."""
register(Handoff, name="treadle.Handoff")


@dataclass(slots=True, kw_only=True)
class Ending:
    """Why a run stops and with what.

    Without an answer `output` is `NO_OUTPUT`: the result then has the text so far. `error` is what
    a failed run raises. `stored` says that the journal already has the end, `raises` that the
    run's task was cancelled from outside and must say so. What a member of a swarm ends with is a
    `Handoff` when it hands the conversation over.
    """

    stop_reason: StopReason
    output: Any = NO_OUTPUT
    reason: str = ""
    error: TreadleError | None = None
    stored: bool = False
    raises: bool = False

    @property
    def failure(self) -> str | None:
        """The text of its error, as journals and events have it."""
        return None if self.error is None else hidden(str(self.error))

    @property
    def hands_over(self) -> bool:
        """Whether another member of a swarm is to answer."""
        return isinstance(self.output, Handoff)


def signal_of(
    outcome: ToolOutcome,
) -> tuple[Literal["finish", "interrupt", "handoff", "fatal"] | None, Plain]:
    """Return what a call asked of the loop, as journals keep it."""
    if outcome.fatal is not None:
        return "fatal", hidden(str(outcome.fatal)) or type(outcome.fatal).__name__
    if isinstance(outcome.control, Finish):
        return "finish", storable(outcome.control.output)
    if isinstance(outcome.control, Interrupt):
        return "interrupt", outcome.control.reason
    if isinstance(outcome.control, Handoff):
        return "handoff", pack(outcome.control)
    return None, None


def outcome_of(call: ToolCall, ended: CallEnded) -> ToolOutcome:
    """Return the outcome of a call that ended before this process took over."""
    given = unpack(ended.given)
    control: Control | None = None
    if ended.asks == "finish":
        control = Finish(given)
    elif ended.asks == "interrupt":
        control = Interrupt(str(given))
    elif isinstance(given, Handoff):
        control = given
    return ToolOutcome(
        call=call,
        result=ended.result,
        control=control,
        links=ended.links,
        fatal=ToolError(str(given)) if ended.asks == "fatal" else None,
    )


def storable(output: Any) -> Plain:
    """Return an output as journals keep it: lossless where its type allows, else as JSON text."""
    try:
        return pack(output, "output")
    except NotStorable:
        pass
    try:
        return json_text(output)
    except NotStorable:
        return f"<{type(output).__name__}>"
