"""The calls of one reply: numbered so that no ID comes twice, and answered in order."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import count

from msgspec.json import encode as encode_json
from msgspec.structs import replace

from treadle.ids import new_span_id
from treadle.journal import interrupted
from treadle.messages import Message, Part, Text, ToolCall, ToolResult
from treadle.tools.arguments import ArgumentsInvalid, parse_arguments
from treadle.values import clean


def tidy(message: Message) -> Message:
    """Return a model's message without blank texts beside other parts, and with clean text."""
    kept = tuple(_cleaned(part) for part in message.parts if not _is_blank(part))
    return message if kept == message.parts else replace(message, parts=kept)


def _is_blank(part: Part) -> bool:
    return isinstance(part, Text) and not part.text.strip()


def _cleaned(part: Part) -> Part:
    if isinstance(part, Text):
        text = clean(part.text)
        return part if text is part.text else replace(part, text=text)
    if isinstance(part, ToolCall) and (clean(part.raw) is not part.raw or LONE_SURROGATE.search(part.raw)):
        try:
            return replace(part, raw=encode_json(parse_arguments(part.raw)).decode())
        except ArgumentsInvalid:
            return replace(part, raw=clean(part.raw))
    return part


LONE_SURROGATE = re.compile(r"\\u(?:[dD][89abAB]|0000)")
"""An escape in JSON text that may stand for half a character, or for NUL."""


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
