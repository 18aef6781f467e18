"""A conversation that changes provider: to Gemini, and away from it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.providers.gemini.parts import PIXEL, SECOND, SIGNED, THIRD, VERTEX, body_of, chunk, whole
from treadle.messages import Image, Message, Text, Thread, ToolCall, ToolResult
from treadle.ports.model import ModelRequest
from treadle.providers._failure import Asked
from treadle.providers.gemini.dialect import GeminiDialect
from treadle.providers.openai.chat_body import ChatEncoder
from treadle.providers.openai.chat_reply import decode_reply as chat_reply
from treadle.providers.openai.dialect import dialect_of
from treadle.testing.strict import assert_strict

SEARCHED: list[dict[str, Any]] = [
    {"text": "hm", "thought": True},
    {"executableCode": {"code": "1", "language": "PYTHON"}, "thoughtSignature": SIGNED},
    {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}},
    {"text": "Let me look.", "thoughtSignature": SIGNED},
    {"functionCall": {"name": "shot", "args": {"n": 1}}, "thoughtSignature": SIGNED},
    {"functionCall": {"name": "ls", "id": "srv-2"}},
    {"text": "", "thoughtSignature": SIGNED},
]
CHAT = {
    "id": "r",
    "choices": [
        {
            "message": {
                "role": "assistant",
                "content": "Let me look.",
                "reasoning_content": "hm",
                "annotations": [{"type": "url_citation"}],
                "tool_calls": [
                    {
                        "id": "call_abc",
                        "type": "function",
                        "function": {"name": "shot", "arguments": ""},
                    },
                    {
                        "id": "call_def",
                        "type": "function",
                        "function": {"name": "l s", "arguments": "{"},
                    },
                ],
            },
            "finish_reason": "tool_calls",
        }
    ],
}


def answered(reply: Message) -> list[Message]:
    """Return a conversation with this reply: one tool shows a picture, one fails."""
    first, second = reply.tool_calls
    shot = Image.from_bytes(PIXEL, "image/png")
    results = (
        ToolResult(first.id, first.name, (Text("here"), shot)),
        ToolResult(second.id, second.name, (Text("no such folder"),), is_error=True),
    )
    asked = Message.user("Look.", Image.from_url("https://x/y.png"))
    return [asked, reply, Message("tool", results), Message.assistant("  "), Message.user("And?")]


@pytest.mark.parametrize(
    "dialect", [SECOND, THIRD, VERTEX], ids=lambda one: f"{one.host} {one.generation}"
)
def test_from_chat_completions(dialect: GeminiDialect) -> None:
    """IDs, names, arguments and signatures fit; reasoning and annotations stay behind."""
    reply = chat_reply(json.dumps(CHAT).encode(), "api.openai.com", Asked("openai", "gpt-5.2"))
    body = body_of(*answered(reply.message), dialect=dialect)
    text = json.dumps(body)
    assert not [word for word in ("hm", "call_abc", "annotations") if word in text]
    calls = [
        part["functionCall"] for part in body["contents"][1]["parts"] if "functionCall" in part
    ]
    assert [call["name"] for call in calls] == ["shot", "l_s"]


def test_to_chat_completions() -> None:
    """What only Gemini reads stays behind."""
    message = whole(chunk(*SEARCHED, finish="STOP")).message
    request = ModelRequest(messages=Thread(answered(message)))
    body = ChatEncoder("m", dialect_of("https://api.openai.com/v1")).body(request, stream=False)
    assert_strict(body)
    assert SIGNED not in body.decode()
    assert json.loads(body)["messages"][1]["content"] == "Let me look."


def test_from_one_platform_to_the_other() -> None:
    """Signatures and hosted steps of the Gemini API are nothing to Vertex AI."""
    message = whole(chunk(*SEARCHED, finish="STOP")).message
    assert SIGNED in json.dumps(body_of(*answered(message)))
    body = body_of(*answered(message), dialect=VERTEX)
    assert SIGNED not in json.dumps(body)
    assert [next(iter(part)) for part in body["contents"][1]["parts"]] == [
        "text",
        "functionCall",
        "functionCall",
    ]


def test_calls_without_a_conversation_before_them() -> None:
    """A history that was cut at a reply begins with the user all the same."""
    call = Message.assistant(ToolCall("c1", "ls"))
    body_of(call, Message("tool", (ToolResult("c1", "ls"),)))
