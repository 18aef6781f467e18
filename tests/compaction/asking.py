"""What stands in for the model that writes notes, and turns for it to write of."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from treadle.compaction.strategy import Gone
from treadle.compaction.turns import turns_of
from treadle.messages import Message, Text, ToolCall, ToolResult
from treadle.ports.model import FinishReason, ModelReply, ModelRequest


def weigh(text: str) -> int:
    """Say that four bytes are a token."""
    return len(text.encode()) // 4 + 1


class Writer:
    """Gives its replies one after another, the last one for ever; keeps what it was asked."""

    def __init__(self, *replies: object, finish_reason: FinishReason = "stop") -> None:
        self.requests: list[ModelRequest] = []
        self._replies = replies or ("{}",)
        self._finish_reason: FinishReason = finish_reason

    async def __call__(self, request: ModelRequest) -> ModelReply:
        reply = self._replies[min(len(self.requests), len(self._replies) - 1)]
        self.requests.append(request)
        text = reply if isinstance(reply, str) else json.dumps(reply)
        return ModelReply(message=Message.assistant(text), finish_reason=self._finish_reason)

    @property
    def texts(self) -> list[str]:
        """What it was asked, without the system prompt."""
        return [request.messages[0].text for request in self.requests]


def gone_of(
    messages: Sequence[Message],
    note: str | None = None,
    *,
    tokens: int = 4_000,
    window: int = 32_000,
) -> Gone:
    """Return messages as what leaves the view."""
    turns = turns_of(messages, lambda message: weigh(message.text))
    return Gone(tuple(turns), note, tokens, window, weigh)


def call(name: str, number: int, **arguments: Any) -> Message:
    """Return an answer with one call."""
    return Message.assistant(ToolCall.of(name, arguments, id=f"c{number}"))


def result(number: int, text: str, name: str = "") -> Message:
    """Return the result of a call."""
    return Message("tool", (ToolResult(f"c{number}", name, (Text(text),)),))
