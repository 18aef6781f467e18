"""Where the calls of one reply stand: what is done, began, or waits for somebody."""

from __future__ import annotations

from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from treadle.agent.ending import outcome_of
from treadle.control import Interrupt
from treadle.journal import ApprovalAsked, ApprovalDecided
from treadle.messages import ToolCall
from treadle.open_calls import OpenCalls
from treadle.ports.children import Pause
from treadle.run_record import RunStatus
from treadle.tools.outcome import ToolOutcome


class Standing(Struct):
    """Where the calls of one reply stand.

    `began` are those that another process began. Of the `unknown` ones, where they are not `done`,
    nobody knows the outcome, and nobody has decided since whether they run again. `answers` are
    what calls that asked in the middle have been told. `cut` is whether the reply was cut off, so
    that its calls never run. `paused` are the calls whose child runs have. `advice` is
    what the model is told after the results, each with the call that it is about.
    """

    calls: tuple[ToolCall, ...]
    done: dict[str, ToolOutcome] = {}
    began: frozenset[str] = frozenset()
    unknown: frozenset[str] = frozenset()
    asked: dict[str, ApprovalAsked] = {}
    decided: dict[str, ApprovalDecided] = {}
    answers: dict[str, tuple[dict[str, Any], ...]] = {}
    cut: bool = False
    paused: dict[str, Pause] = {}
    advice: list[tuple[str, tuple[str, ...]]] = []

    @property
    def fresh(self) -> bool:
        """Whether nothing has become of any call yet."""
        return not (self.done or self.began or self.asked or self.cut)

    def rest(self, call_id: str, pause: Pause) -> None:
        """Take in that the child run of a call has paused."""
        self.began |= {call_id}
        self.unknown -= {call_id}
        self.paused[call_id] = pause

    def wait(self, asked: ApprovalAsked) -> None:
        """Take in that a call asked in the middle; what was decided before is used up."""
        call_id = asked.call_id
        self.began |= {call_id}
        self.unknown -= {call_id}
        self.asked[call_id] = asked
        self.decided.pop(call_id, None)


def standing_of(opened: OpenCalls, status: RunStatus) -> Standing:
    """Return where calls stand by the journal.

    What failed or paused the run has been told: it does not do so again.
    """
    done = {
        call.id: outcome_of(call, opened.ended[call.id])
        for call in opened.calls
        if call.id in opened.ended
    }
    if status == "failed":
        done = {name: replace(outcome, fatal=None) for name, outcome in done.items()}
    if status != "running":
        done = {
            name: replace(each, control=None) if isinstance(each.control, Interrupt) else each
            for name, each in done.items()
        }
    return Standing(
        opened.calls,
        done,
        frozenset(opened.began),
        frozenset(opened.unknown),
        dict(opened.asked),
        dict(opened.decided),
        dict(opened.answers),
        opened.cut,
        advice=[*opened.advice],
    )
