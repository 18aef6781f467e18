"""Cache marks and uploaded files are seen where they are, not where words look like them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from treadle.messages import File, Hosted, Message, Text, Thread, ToolCall, ToolResult
from treadle.ports.model import ModelRequest, ModelSettings, OutputSchema, ToolSpec
from treadle.providers.anthropic.body import AnthropicTool, MessagesEncoder
from treadle.providers.anthropic.claude import claude
from treadle.providers.anthropic.dialect import MessagesDialect

FIELD = {"type": "object", "properties": {"cache_control": {"type": "string"}}}
TOOL = ToolSpec("f", "", {"type": "object", "properties": {}})
MARK = {"cache_control": {"type": "ephemeral"}}


def encoder() -> MessagesEncoder:
    name = "claude-sonnet-4-6"
    return MessagesEncoder(name, claude(name), MessagesDialect())


def asked(raw: str = "{}", **fields: Any) -> ModelRequest:
    said = Message("assistant", (ToolCall("c1", "f", raw),))
    heard = Message("tool", (ToolResult("c1", "f", (Text('{"file_id":"a","cache_control":1}'),)),))
    fields = {"tools": (TOOL,), **fields}
    return ModelRequest(messages=Thread([Message.user("hi"), said, heard]), **fields)


@pytest.mark.parametrize(
    "request_of",
    [
        asked('{"cache_control":"no-store","file_id":"a"}'),
        asked(tools=(ToolSpec("f", "", FIELD),)),
        asked(output=OutputSchema("o", {**FIELD, "additionalProperties": False, "required": []})),
    ],
)
def test_names_of_others_are_no_marks(request_of: ModelRequest) -> None:
    """Arguments, results and schemas may have fields of these names."""
    body = encoder().body(request_of, stream=False)
    assert b'"ephemeral"' in body
    assert not encoder().needs_files(request_of)


@pytest.mark.parametrize(
    "request_of",
    [
        asked(tools=(AnthropicTool("f", "", TOOL.parameters, {"anthropic": MARK}),)),
        asked(settings=ModelSettings(extra_body=MARK)),
        ModelRequest(
            messages=Thread([Message("user", (Text("hi", {"anthropic": MARK}),))]), tools=(TOOL,)
        ),
        ModelRequest(
            messages=Thread(
                [Message("tool", (ToolResult("c", "f", (Text("x", {"anthropic": MARK}),)),))]
            ),
            tools=(TOOL,),
        ),
    ],
)
def test_marks_by_hand_are_the_only_ones(request_of: ModelRequest) -> None:
    """Wherever they are: on a tool, a block, a block in a result, the whole request."""
    assert encoder().body(request_of, stream=False).count(b'"ephemeral"') == 1


@pytest.mark.parametrize(
    "part",
    [
        File(file_id="file_1"),
        Hosted("container_upload", {"anthropic": {"type": "container_upload", "file_id": "f"}}),
    ],
)
def test_files_are_seen(part: File | Hosted) -> None:
    """Also those that a tool returned."""
    role = "user" if isinstance(part, File) else "assistant"
    request = ModelRequest(messages=Thread([Message(role, (part,))]))
    assert encoder().needs_files(request)
    if isinstance(part, File):
        shown = Message("tool", (ToolResult("c", "f", (part,)),))
        assert encoder().needs_files(ModelRequest(messages=Thread([shown])))


def test_a_schema_does_not_lose_the_container() -> None:
    """A field called `container` is not the container that the reply named."""
    opaque = {"anthropic": {"container": "box_1"}}
    said = Message("assistant", (ToolCall("c1", "f"),), opaque)
    heard = Message("tool", (ToolResult("c1", "f", (Text("ok"),)),))
    schema = {
        "type": "object",
        "properties": {"container": {"type": "string"}},
        "required": ["container"],
        "additionalProperties": False,
    }
    request = ModelRequest(
        messages=Thread([Message.user("hi"), said, heard]),
        tools=(TOOL,),
        output=OutputSchema("o", schema),
    )
    assert json.loads(encoder().body(request, stream=False))["container"] == "box_1"
