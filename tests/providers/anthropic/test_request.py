"""Requests read, and sent again."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.providers.anthropic.parts import ANTHROPIC, MARK, PIXEL
from tools.recorded_anthropic import normal
from treadle.errors import InvalidInput
from treadle.messages import File, Hosted, Image, Reasoning, Text, ToolCall
from treadle.providers.anthropic.body import MessagesEncoder
from treadle.providers.anthropic.claude import claude
from treadle.providers.anthropic.request import MessagesRequest, decode_request

MODEL = "claude-sonnet-4-5"
PICTURE = Image.from_bytes(PIXEL, "image/png").base64


def read(wire: Any) -> MessagesRequest:
    """Return what a request says."""
    return decode_request(json.dumps(wire).encode(), ANTHROPIC)


def again(asked: MessagesRequest) -> dict[str, Any]:
    """Return the request as we would send it."""
    encoder = MessagesEncoder(asked.model, claude(asked.model), ANTHROPIC)
    return json.loads(encoder.body(asked.request, stream=asked.stream))


def request(*messages: Any, **fields: Any) -> dict[str, Any]:
    """Return a request."""
    said = list(messages) or [{"role": "user", "content": "q"}]
    return {"model": MODEL, "max_tokens": 4096, "messages": said, **fields}


def user(*blocks: Any) -> dict[str, Any]:
    """Return what a user says."""
    return {"role": "user", "content": list(blocks)}


@pytest.mark.parametrize(
    "wire",
    [
        request(),
        request(max_tokens=0),
        request(model="claude-opus-4-6", thinking={"type": "adaptive"}),
        request(thinking={"type": "enabled", "budget_tokens": 2048}, temperature=1),
        request(thinking={"type": "disabled"}, top_k=4, metadata={"user_id": "u"}),
        request(model="claude-opus-5", output_config={"effort": "max", "task_budget": {"t": 1}}),
        request(output_config={"format": {"type": "json_schema", "schema": {"type": "object"}}}),
        request(output_config={"format": {"type": "text"}}, output_format=None),
        request(stop_sequences=["x", "\n"], temperature=0.5, top_p=0.5, stream=True),
        request(stop_sequences=["x"], tools=[]),
        request(system="be nice"),
        request(system=[{"type": "text", "text": "a"}]),
        request(system=[{"type": "text", "text": "a", "cache_control": MARK}]),
        request(system=[{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]),
        request(tools=[{"name": "a", "input_schema": {"type": "object"}, "description": None}]),
        request(
            tools=[
                {"name": "a", "input_schema": {"type": "object"}, "strict": True, "type": "custom"},
                {"type": "web_search_20250305", "name": "web_search", "max_uses": None},
                {"type": "mcp_toolset", "mcp_server_name": "m"},
            ],
            tool_choice={"type": "any", "disable_parallel_tool_use": True},
        ),
        request(
            tools=[{"name": "a", "input_schema": {"type": "object"}, "cache_control": MARK}],
            tool_choice={"type": "auto", "disable_parallel_tool_use": False},
        ),
        request(
            model="claude-opus-5-5",
            tools=[{"name": "a", "input_schema": {"type": "object"}}],
            tool_choice={"type": "tool", "name": "a"},
        ),
        request(
            user({"type": "text", "text": "a", "cache_control": {**MARK, "ttl": "1h"}}),
            {"role": "user", "content": "b"},
        ),
        request(
            user(
                {"type": "image", "source": {"type": "url", "url": "https://a.b/c"}},
                {"type": "image", "source": {"type": "file", "file_id": "f"}},
                {
                    "type": "image",
                    "source": {"type": "base64", "media_type": "image/png", "data": PICTURE},
                    "cache_control": MARK,
                },
                {"type": "image", "source": {"type": "url", "url": "nothing"}},
                {"type": "document", "source": {"type": "file", "file_id": "f"}, "title": "t"},
                {"type": "document", "source": {"type": "url", "url": "https://a.b/c"}},
                {"type": "document", "source": {"type": "content", "content": []}},
                {
                    "type": "document",
                    "source": {"type": "text", "media_type": "text/plain", "data": "x"},
                    "citations": {"enabled": True},
                    "context": "c",
                },
                {"type": "search_result", "source": "s", "title": "t", "content": []},
                {"type": "container_upload", "file_id": "f"},
            )
        ),
        request(
            {"role": "user", "content": "q"},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "hm", "signature": "s"},
                    {"type": "redacted_thinking", "data": "d"},
                    {"type": "text", "text": "a", "citations": [{"type": "page_location"}]},
                    {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}},
                    {"type": "web_search_tool_result", "tool_use_id": "s", "content": []},
                    {"type": "tool_use", "id": "1", "name": "a", "input": {"b": [1]}},
                    {
                        "type": "tool_use",
                        "id": "2",
                        "name": "a",
                        "input": {},
                        "caller": {"type": "direct"},
                        "cache_control": MARK,
                    },
                ],
            },
            user(
                {"type": "tool_result", "tool_use_id": "1", "content": "x", "is_error": False},
                {
                    "type": "tool_result",
                    "tool_use_id": "2",
                    "is_error": True,
                    "content": [{"type": "text", "text": "y", "cache_control": MARK}],
                    "toolset_name": "t",
                },
                {"type": "text", "text": "and"},
            ),
            {"role": "system", "content": [{"type": "text", "text": "s"}], "clear_at": "never"},
            {"role": "assistant", "content": "begun"},
        ),
        request({"role": "user", "content": "q"}, {"role": "system", "output_config": {"e": 1}}),
        request(
            user({"type": "text", "text": "q"}),
            {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "a"}]},
            user({"type": "tool_result", "tool_use_id": "1"}),
            tools=None,
        ),
        request(cache_control=MARK, container="c", mcp_servers=[], context_management={"e": []}),
    ],
)
def test_there_and_back(wire: dict[str, Any]) -> None:
    """What was accepted is sent again: with the marks that it had, and no others."""
    sent, given = normal(again(read(wire))), normal(wire)
    for message in given["messages"]:
        for block in message["content"]:
            if block["type"] == "tool_use":
                block.setdefault("input", {})
    assert sent == given


def test_what_a_request_says() -> None:
    """In our values, so that another provider can be asked the same."""
    asked = read(
        request(
            user(
                {"type": "text", "text": "q"},
                {"type": "document", "source": {"type": "file", "file_id": "f"}},
            ),
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "hm", "signature": "s"},
                    {"type": "tool_use", "id": "1", "name": "a", "input": {"b": 1}},
                    {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}},
                ],
            },
            user({"type": "tool_result", "tool_use_id": "1", "content": "x"}),
            system="s",
            temperature=0.5,
            tools=[{"name": "a", "description": "A.", "input_schema": {"type": "object"}}],
            tool_choice={"type": "any"},
            stream=True,
        )
    )
    first, second, third = asked.request.messages
    assert [type(part) for part in first.parts] == [Text, File]
    assert [type(part) for part in second.parts] == [Reasoning, ToolCall, Hosted]
    assert (third.role, third.tool_results[0].name, third.tool_results[0].text) == (
        "tool",
        "a",
        "x",
    )
    settings = asked.request.settings
    assert (settings.temperature, settings.tool_choice, settings.max_output_tokens) == (
        0.5,
        "required",
        4096,
    )
    assert (asked.model, asked.stream, asked.request.system) == (MODEL, True, "s")
    assert asked.request.tools[0].description == "A."
    assert settings.extra_body is None


def test_effort_is_read() -> None:
    """Where a level of ours would be sent that way."""
    wire = request(
        model="claude-opus-4-7",
        thinking={"type": "adaptive", "display": "summarized"},
        output_config={"effort": "xhigh"},
    )
    assert read(wire).request.settings.reasoning_effort == "xhigh"
    assert read(request(model="claude-opus-4-7")).request.settings.reasoning_effort is None


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"[]",
        b'{"messages": 3}',
        b'{"messages": ["hi"]}',
        b'{"messages": [], "tools": 3}',
        b'{"messages": [], "tools": [3]}',
    ],
)
def test_no_request(body: bytes) -> None:
    """Is said so."""
    with pytest.raises(InvalidInput):
        decode_request(body, ANTHROPIC)
