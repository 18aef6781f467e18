"""What a run came to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic

from treadle.agent.context_use import ContextUse
from treadle.events import StopReason
from treadle.messages import Thread, ToolResult
from treadle.plan import Plan
from treadle.ports.approval import PendingCall
from treadle.state.scoped import State
from treadle.usage import NOTHING, Usage

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    OutputT = TypeVar("OutputT", default=str)
else:
    from typing import TypeVar

    OutputT = TypeVar("OutputT")


@dataclass(slots=True, kw_only=True)
class RunResult(Generic[OutputT]):
    """What a run came to.

    `output` is the answer: text, or a value of the asked type. When the run stopped without one,
    it is the text so far, and `stop_reason` says why it stopped. `messages` is the whole history,
    without the system prompt; pass it back as `history=`. `turns` counts model replies, `seconds`
    is wall-clock time, `tool_results` has every result, also those inside chains. `reason` is the
    text of a pause or a cancel. `pending` are the calls of a paused run that wait for a decision.
    `artefacts` are the outputs that were too long for the model, whole, by ID, where the run had no
    store; else `Conversation.artefact` has them. `plan` is the agent's, as it stands at the end.
    Where old turns have left a history that had grown too long, `messages` is what is left of it.
    """

    output: OutputT
    messages: Thread
    stop_reason: StopReason
    run_id: str
    conversation_id: str
    usage: Usage = NOTHING
    turns: int = 0
    seconds: float = 0.0
    tool_results: list[ToolResult] = field(default_factory=list[ToolResult])
    state: State = field(default_factory=State)
    reason: str = ""
    pending: list[PendingCall] = field(default_factory=list[PendingCall])
    artefacts: dict[str, str] = field(default_factory=dict[str, str])
    plan: Plan | None = None
    _context: Callable[[], ContextUse] = field(default=ContextUse, repr=False, compare=False)

    @property
    def context(self) -> ContextUse:
        """What fills the model's window, counted when it is asked for."""
        return self._context()


AnyResult = RunResult[Any]

if TYPE_CHECKING:
    ResultT = TypeVar("ResultT", bound=RunResult[Any], default=RunResult[OutputT])
else:
    ResultT = TypeVar("ResultT")
"""The kind of the result: a flow's has more than an agent's."""
