"""The quick way of encoding gives the very bytes of the thorough one."""

from __future__ import annotations

import pytest

from treadle import Image, Message, Reasoning, Text, ToolCall, ToolResult
from treadle.providers._json import encode
from treadle.providers.openai.chat_quick import quick
from treadle.providers.openai.chat_wire import wire_messages
from treadle.providers.openai.dialect import dialect_of

DIALECT = dialect_of("https://api.openai.com/v1")
CALL = ToolCall.of("add", {"a": 1}, id="c1")
RESULT = ToolResult("c1", "add", (Text("3"),))
COMMON = [
    Message.user("hi"),
    Message.user("nul \ufffd é 東京"),
    Message.system("be kind"),
    Message("user", (Text("half \ud83d and nul \0"),)),
    Message("tool", (ToolResult("c1", "t", (Text("half \ud83d"),)),)),
    Message.assistant("hello"),
    Message("assistant", (Text("one "), Text("two"))),
    Message("assistant", (Text("so"), CALL, ToolCall("c2", "t", ""))),
    Message("assistant", (CALL,)),
    Message("assistant", (Text("  "), CALL)),
    Message("assistant", (ToolCall("c1", "t", "{broken"), ToolCall("c2", "t", "null"))),
    Message("assistant", (ToolCall("c" * 41, "t"),)),
    Message("tool", (ToolResult("split#1/branch#12/expert#1:call_1234567890", "t"),)),
    Message("tool", (RESULT,)),
    Message("tool", (RESULT, ToolResult("c2", "t", (Text("a"), Text("b"))), ToolResult("c3", "t"))),
]
UNCOMMON = [
    Message("user", (Text("a"), Text("b"))),
    Message("user", (Image.from_url("https://example.test/a.png"),)),
    Message("assistant", (Reasoning("hm"), CALL)),
    Message("assistant", ()),
    Message("user", (Text(""),)),
    Message("assistant", (Text("a", {"openai_chat": {"x": 1}}),)),
    Message("assistant", (Text("a"),), {"openai_chat": {"name": "n"}}),
    Message("tool", (ToolResult("c1", "t", (Image.from_bytes(b"1", "image/png"),)),)),
]


@pytest.mark.parametrize("message", COMMON)
def test_common_messages(message: Message) -> None:
    """Byte for byte."""
    thorough = b"".join(b"," + encode(wire) for wire in wire_messages(message, DIALECT))

    assert quick(message, DIALECT) == thorough


@pytest.mark.parametrize("message", UNCOMMON)
def test_uncommon_messages(message: Message) -> None:
    """They are left to the thorough way."""
    assert quick(message, DIALECT) is None
