"""The calls of a conversation's last reply: what its journal tells of each so far."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from treadle.journal import ApprovalAsked, ApprovalDecided, CallBegan, CallEnded
from treadle.messages import Message, Text, ToolCall, ToolResult


class OpenCalls(Struct):
    """The calls of the last reply, until each has its result.

    `began` are those whose work may have had an effect, by attempt, and `unknown` those of them
    that nobody has decided on since, nor asked about themselves: a decision from before they began
    is used up. `cut` is whether the reply was cut off, so that its calls never run. `answers` are
    what calls that asked in the middle have been told, `nested` those that have begun child runs.
    `advice` is what the model is told after the results, each with the call that it is about.
    """

    reply: Message
    calls: tuple[ToolCall, ...]
    cut: bool = False
    began: dict[str, int] = {}
    unknown: set[str] = set()
    ended: dict[str, CallEnded] = {}
    asked: dict[str, ApprovalAsked] = {}
    decided: dict[str, ApprovalDecided] = {}
    answers: dict[str, tuple[dict[str, Any], ...]] = {}
    nested: set[str] = set()
    advice: list[tuple[str, tuple[str, ...]]] = []

    @property
    def waiting(self) -> list[ToolCall]:
        """The calls that somebody has to decide on."""
        return [
            call
            for call in self.calls
            if call.id in self.asked and call.id not in self.decided and call.id not in self.ended
        ]

    @property
    def results(self) -> Message:
        """A result for each call, marked where it stands in for one that never came."""
        return Message("tool", tuple(self._result(call) for call in self.calls))

    @property
    def closing(self) -> tuple[Message, ...]:
        """What follows the reply: the results, and after them the advice where there is any."""
        return (self.results, *advised(self.calls, self.advice))

    def begin(self, entry: CallBegan) -> bool:
        """Take in that a call begins; return whether it does so for the first time."""
        if entry.call_id in self.ended:
            return False
        first = entry.call_id not in self.began
        self.began[entry.call_id] = entry.attempt
        self.unknown.add(entry.call_id)
        return first

    def nest(self, call_id: str) -> bool:
        """Take in that a call begins a child run; return whether there is such a call."""
        if call_id in self.ended or all(call.id != call_id for call in self.calls):
            return False
        self.nested.add(call_id)
        return True

    def ask(self, entry: ApprovalAsked) -> None:
        """Take in that a call waits. What was decided before is used up."""
        before = self.asked.get(entry.call_id)
        if before is not None and definition_of(before) != definition_of(entry):
            self.answers.pop(entry.call_id, None)  # they were given to another tool
        self.asked[entry.call_id] = entry
        self.decided.pop(entry.call_id, None)
        if entry.midway:
            self.unknown.discard(entry.call_id)

    def decide(self, entry: ApprovalDecided) -> bool:
        """Take in a decision; return whether it is one about what a call asks now."""
        call_id, asked = entry.call_id, self.asked.get(entry.call_id)
        if asked is None or asked.digest != entry.digest or entry.name:
            return False
        if call_id in self.decided or call_id in self.ended:
            return False
        self.decided[call_id] = entry
        self.unknown.discard(call_id)
        if entry.answer is not None:
            self.answers[call_id] = (*self.answers.get(call_id, ()), entry.answer)
        if entry.raw is not None:
            self._edit(call_id, entry.raw)
        return True

    def _edit(self, call_id: str, raw: str) -> None:
        """Put an edited call in place of what the model wrote: it is what runs."""
        parts = tuple(
            replace(part, raw=raw) if isinstance(part, ToolCall) and part.id == call_id else part
            for part in self.reply.parts
        )
        self.reply = replace(self.reply, parts=parts)
        self.calls = self.reply.tool_calls

    def _result(self, call: ToolCall) -> ToolResult:
        ended, asked = self.ended.get(call.id), self.asked.get(call.id)
        if ended is not None:
            return ended.result
        if asked is not None and call.id not in self.unknown:
            if asked.midway:
                return waiting(call, midway=True)
            if call.id not in self.began:
                return waiting(call)
        return unfinished(call) if call.id in self.nested else interrupted(call)


def advised(
    calls: Sequence[ToolCall], advice: Iterable[tuple[str, Sequence[str]]]
) -> tuple[Message, ...]:
    """Return the message that tells a turn's advice, none where there is none.

    It goes by the order of the calls, then comes what is about none; nothing is said twice.
    """
    places = {call.id: place for place, call in enumerate(calls)}
    ordered = sorted(advice, key=lambda given: places.get(given[0], len(places)))
    texts = dict.fromkeys(text for _, given in ordered for text in given)
    return (Message("user", tuple(map(Text, texts)), advice=True),) if texts else ()


def definition_of(asked: ApprovalAsked) -> str:
    """Return the hash of what the call's tool was when somebody was asked about it."""
    return asked.digest.partition(".")[2]


def interrupted(call: ToolCall) -> ToolResult:
    """Return the result that stands in for one that never came."""
    text = f"The call of {call.name!r} was interrupted; whether it took effect is unknown."
    return ToolResult(call.id, call.name, (Text(text),), is_error=True, synthetic=True)


def unfinished(call: ToolCall) -> ToolResult:
    """Return the result that stands in for one whose child run has not ended."""
    text = f"The call of {call.name!r} did not run to its end."
    return ToolResult(call.id, call.name, (Text(text),), is_error=True, synthetic=True)


def waiting(call: ToolCall, *, midway: bool = False) -> ToolResult:
    """Return the result that stands in for one that waits for somebody's decision."""
    how_far = " to its end" if midway else ""
    text = f"The call of {call.name!r} did not run{how_far}: it waits for somebody's approval."
    return ToolResult(call.id, call.name, (Text(text),), is_error=True, synthetic=True)
