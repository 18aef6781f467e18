"""The quick way to write messages for Responses gives what the thorough one gives."""

from __future__ import annotations

import pytest

from treadle.messages import Message, Text, ToolCall, ToolResult
from treadle.providers._json import encode
from treadle.providers.openai.responses_dialect import ResponsesDialect
from treadle.providers.openai.responses_quick import quick
from treadle.providers.openai.responses_wire import wire_items

LONG = "split#1/branch#12/the-expert-of-all-experts#1:call_12345678901234567890"


@pytest.mark.parametrize(
    "message",
    [
        Message.user("hi"),
        Message.assistant("hello"),
        Message("assistant", (Text("so"), ToolCall("c1", "t", '{"a": 1}'))),
        Message("assistant", (ToolCall(LONG, "t"),)),
        Message("tool", (ToolResult("c1", "t", (Text("a"), Text("b"))),)),
        Message("tool", (ToolResult(LONG, "t"),)),
    ],
)
def test_common_messages(message: Message) -> None:
    """Byte for byte; an ID of a call deep in a run is cut to what the server takes."""
    dialect = ResponsesDialect()
    thorough = b"".join(b"," + encode(item) for item in wire_items(message, dialect, {}))

    assert quick(message, {}) == thorough
