"""Requests read back as our values, and sent again."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.providers.openai.responses_parts import CALL, OPENAI, THOUGHT, said
from tools.normal_responses import normal
from treadle.errors import InvalidInput
from treadle.messages import Hosted, Image, Message, Reasoning, Text, ToolCall, ToolResult
from treadle.ports.model import OutputSchema
from treadle.providers.openai.responses_body import ResponsesEncoder
from treadle.providers.openai.responses_request import ResponsesRequest, decode_request

OUTPUT = {"type": "function_call_output", "call_id": "call_1", "output": "ok"}
FUNCTION: dict[str, Any] = {
    "type": "function",
    "name": "ls",
    "description": "List.",
    "parameters": {"type": "object", "properties": {}},
    "strict": False,
}


def there(*items: Any, **fields: Any) -> ResponsesRequest:
    """Return the request, which comes back equivalent when it is encoded again."""
    wire = {"model": "m", "input": list(items), **fields}
    found = decode_request(json.dumps(wire).encode(), OPENAI)
    encoder = ResponsesEncoder(found.model, found.dialect)
    back = json.loads(encoder.body(found.request, stream=found.stream))
    assert normal(back) == normal(wire)
    return found


def test_messages() -> None:
    """A turn of the model is one message, whatever its items; results on end are one, too."""
    second = {**CALL, "id": "fc_2", "call_id": "call_2"}
    found = there(
        {"role": "developer", "content": "be"},
        {"role": "user", "content": "hi"},
        THOUGHT,
        said("so"),
        CALL,
        second,
        OUTPUT,
        {**OUTPUT, "call_id": "call_2", "output": [{"type": "input_text", "text": "no"}]},
        {"role": "assistant", "content": "done"},
        instructions="be nice",
        stream=True,
    )
    messages = found.request.messages
    assert [message.role for message in messages] == [
        "system",
        "user",
        "assistant",
        "tool",
        "assistant",
    ]
    kinds = [type(part).__name__ for part in messages[2].parts]
    assert kinds == ["Reasoning", "Text", "ToolCall", "ToolCall"]
    assert messages[3].tool_results == (
        ToolResult("call_1", "ls", (Text("ok"),)),
        ToolResult("call_2", "ls", (Text("no"),)),
    )
    assert (found.request.system, found.stream) == ("be nice", True)


@pytest.mark.parametrize(
    "item",
    [
        {"role": "user", "content": [{"type": "input_image", "image_url": "https://x/a.png"}]},
        {
            "role": "user",
            "content": [
                {"type": "input_image", "image_url": "data:image/png;base64,aGk=", "detail": "low"}
            ],
        },
        {"role": "user", "content": [{"type": "input_image", "file_id": "file_1"}]},
        {
            "role": "user",
            "content": [
                {"type": "input_file", "filename": "a", "file_data": "data:a/b;base64,aGk="}
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "input_file", "filename": "a.txt", "file_data": "data:text/plain,hi"}
            ],
        },
        {"role": "user", "content": [{"type": "input_file", "file_url": "https://x", "x": 1}]},
        {"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": "aGk="}}]},
        {"type": "message", "role": "user", "status": "completed", "content": "hi"},
        said("so", {"type": "refusal", "refusal": "No."}),
        said({"type": "output_text", "text": "so", "annotations": [{"type": "x"}]}),
        {"role": "assistant", "content": "so", "phase": "commentary"},
        {"type": "item_reference", "id": "rs_1"},
        {"type": "additional_tools", "role": "developer", "tools": [FUNCTION]},
        {"type": "mcp_approval_response", "approval_request_id": "a", "approve": True},
        {"type": "computer_call_output", "call_id": "c1", "output": {"image_url": "https://x"}},
        {**OUTPUT, "output": [{"type": "input_image", "image_url": "https://x/a.png"}]},
        {**OUTPUT, "id": "fco_1", "status": "completed"},
        {**CALL, "namespace": "tools"},
        {**CALL, "arguments": "{broken"},
        {"type": "custom_tool_call", "call_id": "c1", "name": "sh", "input": "ls"},
        {"type": "dance"},
    ],
)
def test_anything_survives(item: dict[str, Any]) -> None:
    """Also what our values have no field for."""
    there({"role": "user", "content": "hi"}, item, {"role": "user", "content": "so"})


def test_parts_that_we_have() -> None:
    """A call, a picture, a step of the server."""
    block = {"type": "input_image", "image_url": "data:image/png;base64,aGk="}
    search = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
    found = there({"role": "user", "content": [block]}, search, CALL, OUTPUT).request.messages
    assert found[0].parts == (Image(content=b"hi", media_type="image/png"),)
    step, call = found[1].parts
    assert isinstance(step, Hosted)
    assert isinstance(call, ToolCall)


def test_settings_tools_and_output() -> None:
    """Under our names; the rest rides along."""
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {},
        "required": [],
        "additionalProperties": False,
    }
    wanted = {"type": "json_schema", "name": "Out", "schema": schema, "strict": True}
    found = there(
        {"role": "user", "content": "hi"},
        tools=[FUNCTION, {**FUNCTION, "name": "b", "strict": True}, {"type": "web_search"}],
        tool_choice={"type": "function", "name": "ls"},
        parallel_tool_calls=False,
        temperature=0.5,
        max_output_tokens=50,
        reasoning={"effort": "low", "summary": "auto"},
        text={"format": wanted, "verbosity": "low"},
        include=["reasoning.encrypted_content"],
        prompt_cache_key="c1",
        store=False,
        metadata={"a": "b"},
    )
    request, settings = found.request, found.request.settings
    assert (settings.temperature, settings.max_output_tokens) == (0.5, 50)
    assert (settings.reasoning_effort, settings.tool_choice) == ("low", "ls")
    assert request.output == OutputSchema("Out", schema)
    assert (request.conversation_id, found.dialect.encrypted_reasoning) == ("c1", True)
    assert settings.extra_body == {
        "reasoning": {"summary": "auto"},
        "text": {"verbosity": "low"},
        "store": False,
        "metadata": {"a": "b"},
    }
    assert [tool.name for tool in request.tools] == ["ls", "b", "web_search"]


def test_values_out_of_range_ride_along() -> None:
    """A server has to refuse them, not we when reading."""
    found = there({"role": "user", "content": "hi"}, temperature=-1, max_output_tokens=0)
    assert found.request.settings.extra_body == {"temperature": -1, "max_output_tokens": 0}


def test_a_text_is_a_message() -> None:
    """The short form of the input."""
    found = decode_request(b'{"model": "m", "input": "hi"}', OPENAI)
    assert list(found.request.messages) == [Message.user("hi")]


def test_reasoning_is_ours_again() -> None:
    """With its text to read."""
    thought = there(THOUGHT, said("so")).request.messages[0].parts[0]
    assert isinstance(thought, Reasoning)
    assert thought.text == "Hm."


@pytest.mark.parametrize(
    "body",
    [b"<html>", b"[]", b"{}", b'{"input": 1}', b'{"input": [1]}', b'{"input": [], "tools": 1}'],
)
def test_what_is_no_request_is_refused(body: bytes) -> None:
    """With what was found."""
    with pytest.raises(InvalidInput):
        decode_request(body, OPENAI)
