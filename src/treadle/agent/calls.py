"""The calls of one reply: numbered so that no ID comes twice, and answered in order."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import count

from msgspec.json import encode as encode_json
from msgspec.structs import replace

from treadle.ids import new_span_id
from treadle.messages import Message, Part, Text, ToolCall, ToolResult
from treadle.open_calls import advised, interrupted
from treadle.tools.arguments import ArgumentsInvalid, parse_arguments
from treadle.tools.names import safe_name
from treadle.tools.outcome import ToolOutcome
from treadle.values import clean


def tidy(part: Part) -> Part | None:
    """Return a part of a model's message with clean text, or None for a blank text."""
    if isinstance(part, Text):
        text = clean(part.text)
        if not text.strip():
            return None
        return part if text is part.text else replace(part, text=text)
    if isinstance(part, ToolCall) and not NAME.fullmatch(part.name):
        # Made up by the model: what a provider takes back, and no tool by accident.
        part = replace(part, name=safe_name(clean(part.name)) if part.name else "no_name")
    if isinstance(part, ToolCall) and (
        clean(part.raw) is not part.raw or ("\\u" in part.raw and LONE_SURROGATE.search(part.raw))
    ):
        try:
            return replace(part, raw=encode_json(parse_arguments(part.raw)).decode())
        except ArgumentsInvalid:
            return replace(part, raw=clean(part.raw))
    return part


NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
LONE_SURROGATE = re.compile(r"\\u(?:[dD][89abAB]|0000)")
"""An escape in JSON text that may stand for half a character, or for NUL."""


class CallIds:
    """The call IDs that a conversation has used. Servers that reuse one ID for ever exist.

    Those of a child run begin with its path, so that they are new to the whole run. `spent` are
    those of calls that are no longer in the history.
    """

    __slots__ = ("_messages", "_prefix", "_spent", "_used")

    def __init__(
        self, messages: Iterable[Message], path: str = "", spent: Iterable[str] = ()
    ) -> None:
        self._messages = messages
        self._spent = spent
        self._prefix = f"{path}:" if path else ""
        self._used: set[str] | None = None

    def take_in(
        self, message: Message, secrets: Mapping[str, tuple[str, ...]]
    ) -> tuple[Message, tuple[ToolCall, ...]]:
        """Return a model's message as the history keeps it, and its calls.

        Blank texts are left out. Each call's ID is new to the conversation; where the provider's
        was not, it is kept beside it. `secrets` are names of arguments by those of tools.
        """
        parts: list[Part] = []
        calls: list[ToolCall] = []
        same = True
        for part in message.parts:
            kept = tidy(part)
            if isinstance(kept, ToolCall):
                kept = self._numbered(kept)
                if kept.name in secrets:
                    kept = replace(kept, secret=secrets[kept.name])
                calls.append(kept)
            if kept is not None:
                parts.append(kept)
            same = same and kept is part
        return (message if same else replace(message, parts=tuple(parts))), tuple(calls)

    def _known(self) -> set[str]:
        if self._used is None:  # most conversations never call a tool: read them only when needed
            self._used = {call.id for said in self._messages for call in said.tool_calls}
            self._used.update(self._spent)
        return self._used

    def _numbered(self, call: ToolCall) -> ToolCall:
        used = self._known()
        fresh = self._prefix + (call.id or f"call_{new_span_id()}")
        if fresh in used:
            begin = self._prefix + call.id[:50]
            fresh = next(new for n in count(2) if (new := f"{begin}_{n}") not in used)
        used.add(fresh)
        if fresh == call.id:
            return call
        given = call.provider_id or call.id or None
        return ToolCall(fresh, call.name, call.raw, given, call.provider)


class Answers:
    """The results of one reply's calls, as they come; `message` has them in order.

    `begun` are the IDs of the calls that have begun. `advice` is what the model is told after the
    results, each with the call that it is about, "" for none.
    """

    __slots__ = ("advice", "begun", "calls", "results")

    def __init__(self, calls: tuple[ToolCall, ...], *, begun: Sequence[str] = ()) -> None:
        self.calls = calls
        self.begun = begun
        self.results: dict[str, ToolResult] = {}
        self.advice: list[tuple[str, tuple[str, ...]]] = []

    def take(self, outcome: ToolOutcome) -> None:
        """Take in what became of a call, and what is advised about it."""
        self.results[outcome.call.id] = outcome.result
        if outcome.advice:
            self.advice.append((outcome.call.id, outcome.advice))

    @property
    def missing(self) -> list[ToolCall]:
        """The calls without a result."""
        return [call for call in self.calls if call.id not in self.results]

    @property
    def message(self) -> Message:
        """All results, those that are missing marked as interrupted."""
        results = [self.results.get(call.id) or interrupted(call) for call in self.calls]
        return Message("tool", tuple(results))

    @property
    def closing(self) -> tuple[Message, ...]:
        """What follows the reply: the results, and after them the advice where there is any."""
        if not self.advice:
            return (self.message,)
        return (self.message, *advised(self.calls, self.advice))
