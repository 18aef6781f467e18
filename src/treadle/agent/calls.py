"""The calls of one reply: numbered so that no ID comes twice, and answered in order."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count

from msgspec.structs import replace

from treadle.ids import new_span_id
from treadle.journal import interrupted
from treadle.messages import Message, Part, ToolCall, ToolResult


class CallIds:
    """The call IDs that a conversation has used. Servers that reuse one ID for ever exist."""

    __slots__ = ("_messages", "_used")

    def __init__(self, messages: Iterable[Message]) -> None:
        self._messages = messages
        self._used: set[str] | None = None

    def number(self, message: Message) -> Message:
        """Return the message with each call's ID new to the conversation; the provider's is kept beside it."""
        if not message.tool_calls:
            return message
        if self._used is None:  # most conversations never call a tool: read them only when needed
            self._used = {call.id for said in self._messages for call in said.tool_calls}
        parts = tuple(self._numbered(part, self._used) for part in message.parts)
        return message if parts == message.parts else replace(message, parts=parts)

    def _numbered(self, part: Part, used: set[str]) -> Part:
        if not isinstance(part, ToolCall):
            return part
        fresh = part.id or f"call_{new_span_id()}"
        if fresh in used:
            fresh = next(new for n in count(2) if (new := f"{part.id[:50]}_{n}") not in used)
        used.add(fresh)
        if fresh == part.id:
            return part
        return replace(part, id=fresh, provider_id=part.provider_id or part.id or None)


class Answers:
    """The results of one reply's calls, as they come; `message` has them in the order of the calls."""

    __slots__ = ("calls", "results")

    def __init__(self, calls: tuple[ToolCall, ...]) -> None:
        self.calls = calls
        self.results: dict[str, ToolResult] = {}

    @property
    def missing(self) -> list[ToolCall]:
        """The calls without a result."""
        return [call for call in self.calls if call.id not in self.results]

    @property
    def message(self) -> Message:
        """All results, those that are missing marked as interrupted."""
        return Message("tool", tuple(self.results.get(call.id) or interrupted(call) for call in self.calls))
