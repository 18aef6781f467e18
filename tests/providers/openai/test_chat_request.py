"""Requests of others, read as our values and sent again."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.recorded_chat import first_difference, normal
from treadle.errors import InvalidInput, TreadleError
from treadle.messages import Audio, File, Image, Message, Reasoning, Text, ToolCall, ToolResult
from treadle.ports.model import OutputSchema, ToolSpec
from treadle.providers.openai.chat_body import ChatEncoder
from treadle.providers.openai.chat_request import ChatRequest, decode_request
from treadle.providers.openai.dialect import ChatDialect, dialect_of

OPENAI = dialect_of("https://api.openai.com/v1")
PIXEL = "data:image/png;base64,iVBORw0KGgo="
FUNCTION = {"name": "ls", "description": "List.", "parameters": {"type": "object"}}


def read(*messages: Any, dialect: ChatDialect = OPENAI, **fields: Any) -> ChatRequest:
    """Read a request, and see that it is sent again as it was."""
    body = {"model": "m", "messages": list(messages), **fields}
    chat = decode_request(json.dumps(body).encode(), dialect)
    again = ChatEncoder(chat.model, chat.dialect).body(chat.request, stream=chat.stream)
    there, back = normal(body), normal(json.loads(again))
    assert there == back, first_difference(there, back)
    return chat


def user(content: Any) -> dict[str, Any]:
    """Return a user message."""
    return {"role": "user", "content": content}


def test_messages_become_ours() -> None:
    """The system prompt apart, calls and results in one message each, with their names."""
    call = {"id": "c1", "type": "function", "function": {"name": "ls", "arguments": '{"a":1}'}}
    other = {"id": "c2", "type": "function", "function": {"name": "cat", "arguments": "{}"}}
    chat = read(
        {"role": "system", "content": "be nice"},
        user("go"),
        {"role": "assistant", "content": "wait", "tool_calls": [call, other]},
        {"role": "tool", "tool_call_id": "c1", "content": "x"},
        {"role": "tool", "tool_call_id": "c2", "content": ""},
        user("on"),
    )
    assert chat.request.system == "be nice"
    assert list(chat.request.messages) == [
        Message.user("go"),
        Message.assistant(
            "wait", ToolCall("c1", "ls", '{"a":1}', "c1"), ToolCall("c2", "cat", "{}", "c2")
        ),
        Message("tool", (ToolResult("c1", "ls", (Text("x"),)), ToolResult("c2", "cat"))),
        Message.user("on"),
    ]


def test_media_become_parts() -> None:
    """Pictures, sounds and documents as our own, not as opaque data."""
    chat = read(
        user(
            [
                {"type": "text", "text": "look"},
                {"type": "image_url", "image_url": {"url": PIXEL, "detail": "low"}},
                {"type": "image_url", "image_url": {"url": "https://x/y"}, "text": None},
                {"type": "input_audio", "input_audio": {"data": "c25k", "format": "mp3"}},
                {"type": "file", "file": {"file_id": "f-1"}},
                {
                    "type": "file",
                    "file": {
                        "filename": "a.pdf",
                        "file_data": "data:application/pdf;base64,JVBERi0=",
                    },
                },
            ]
        )
    )
    assert chat.request.messages[0].parts == (
        Text("look"),
        Image.from_url(PIXEL, detail="low"),
        Image.from_url("https://x/y"),
        Audio(content=b"snd", media_type="audio/mp3"),
        File(file_id="f-1"),
        File(content=b"%PDF-", media_type="application/pdf", name="a.pdf"),
    )


@pytest.mark.parametrize(
    "message",
    [
        user([{"type": "text", "text": "a"}]),
        user([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]),
        user([{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}]),
        user([{"type": "image_url", "image_url": {"url": PIXEL}, "cache_control": {"a": 1}}]),
        user([{"type": "image_url", "image_url": {"url": PIXEL, "mystery": 1}}]),
        user([{"type": "image_url", "image_url": "https://x/y"}]),
        user([{"type": "image_url", "image_url": {"url": "no address"}}]),
        user([{"type": "image_url", "image_url": {"url": "data:image/png;base64,%%"}}]),
        user([{"type": "input_audio", "input_audio": {"data": "%", "format": "wav"}}]),
        user([{"type": "document_url", "document_url": "https://x/y.pdf"}]),
        user([{"type": "video_url", "video_url": {"url": "https://x/y.webm"}}]),
        user(
            [
                {
                    "type": "file",
                    "file": {"file_data": "data:text/plain;base64,aGk=", "filename": "a"},
                }
            ]
        ),
        user([{"type": "file", "file": {"file_data": "https://x/y", "filename": "a"}}]),
        user([{"type": "mystery", "mystery": {"a": [1]}}]),
        user(["bare text", {"type": "text", "text": "b"}]),
        {"role": "user", "content": "a", "name": "Ann"},
        {"role": "developer", "content": "be nice"},
        {"role": "system", "content": [{"type": "text", "text": "a", "cache_control": {"a": 1}}]},
        {"role": "function", "name": "f", "content": "r"},
        {"role": "assistant", "content": "a", "prefix": True, "name": None, "tool_calls": None},
        {"role": "assistant", "content": "a", "annotations": [{"a": 1}], "refusal": None},
        {"role": "assistant", "content": None, "refusal": "No."},
        {"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]},
        {"role": "assistant", "content": None, "audio": {"id": "a1"}},
        {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}},
        {"role": "assistant", "content": "a", "reasoning_content": "hm"},
        {"role": "assistant", "content": "a", "reasoning": "hm", "reasoning_details": [{"a": 1}]},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": [{"type": "text", "text": "h"}]},
                {"type": "text", "text": "a"},
            ],
        },
        {
            "role": "assistant",
            "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
        },
    ],
)
def test_every_field_of_a_message_comes_back(message: dict[str, Any]) -> None:
    """What our parts have no field for rides along."""
    read(user("go"), message)


@pytest.mark.parametrize(
    "call",
    [
        {"id": "c1", "type": "function", "function": {"name": "f", "arguments": ""}},
        {"id": "c1", "function": {"name": "f", "arguments": "{}"}, "index": 0},
        {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{broken"}},
        {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}", "x": 1}},
        {"id": "c1", "type": "function", "function": {"name": "f", "arguments": {"a": 1}}},
        {
            "id": "c1",
            "type": "function",
            "function": {"name": "f", "arguments": "{}"},
            "extra_content": {"a": 1},
        },
        {"id": "c1", "type": "custom", "custom": {"name": "f", "input": "x"}},
    ],
)
def test_every_field_of_a_call_comes_back(call: dict[str, Any]) -> None:
    """Also of a kind or a shape that we would not send."""
    text = {"type": "text", "text": "r"}
    image = {"type": "image_url", "image_url": {"url": PIXEL}}
    contents: list[Any] = ["r", "", [text], [text, text], [{**text, "mark": {}}], [image]]
    for content in contents:
        read(
            user("go"),
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": content, "name": "f"},
            user("on"),
        )


@pytest.mark.parametrize(
    ("model", "fields", "kept"),
    [
        ("gpt-5.2", {"prompt_cache_retention": "24h"}, "long"),
        ("gpt-5.2", {"prompt_cache_retention": "in_memory"}, None),
        ("gpt-5.6", {"prompt_cache_options": {"mode": "explicit"}}, "off"),
        ("gpt-5.6", {"prompt_cache_options": {"mode": "explicit", "ttl": "30m"}}, None),
        ("gpt-5.6", {"prompt_cache_retention": "24h"}, None),
        ("gpt-5.6", {}, None),
    ],
)
def test_how_long_the_prompt_is_kept_becomes_ours(model: str, fields: Any, kept: Any) -> None:
    """Where we would say it in the same way; on a server that does not know it, it rides along."""
    named: dict[str, Any] = {"model": model, **fields}
    chat = read(user("go"), **named)
    assert chat.request.settings.prompt_cache == kept
    assert chat.request.settings.extra_body == (None if kept else fields or None)

    elsewhere = read(user("go"), dialect=ChatDialect(), **named)
    assert elsewhere.request.settings.extra_body == (fields or None)


def test_settings_become_ours() -> None:
    """The fields that we have names for, and the rest in `extra_body`."""
    chat = read(
        user("go"),
        temperature=1,
        top_p=0.5,
        max_completion_tokens=9,
        stop="x",
        seed=3,
        frequency_penalty=0.1,
        presence_penalty=0.2,
        reasoning_effort="low",
        tools=[{"type": "function", "function": FUNCTION}],
        tool_choice={"type": "function", "function": {"name": "ls"}},
        parallel_tool_calls=True,
        prompt_cache_key="c-1",
        stream=False,
        n=1,
        user="u",
        logit_bias=None,
    )
    settings = chat.request.settings
    assert chat.request.tools == (ToolSpec("ls", "List.", {"type": "object"}),)
    assert (settings.temperature, settings.max_output_tokens, settings.stop) == (1.0, 9, ("x",))
    assert (settings.tool_choice, settings.parallel_tool_calls) == ("ls", True)
    assert (settings.reasoning_effort, settings.seed) == ("low", 3)
    assert (chat.request.conversation_id, chat.stream) == ("c-1", False)
    assert settings.extra_body == {"n": 1, "user": "u"}


@pytest.mark.parametrize(
    "fields",
    [
        {"max_tokens": 5},
        {"max_tokens": 5, "max_completion_tokens": 6},
        {"stream": True},
        {"stream": True, "stream_options": {"include_usage": True}},
        {"stream": True, "stream_options": {"include_usage": True, "include_obfuscation": False}},
        {"tools": [], "tool_choice": None},
        {"tools": [{"function": FUNCTION}], "tool_choice": "any"},
        {"tools": [{"type": "function", "function": {**FUNCTION, "strict": True}, "mark": 1}]},
        {"tools": [{"type": "function", "function": {"name": "f"}}]},
        {"tools": [{"type": "function", "function": {"name": "f", "description": None}}]},
        {"tools": [{"type": "web_search", "max_uses": 1}], "tool_choice": "required"},
        {
            "tools": [{"type": "function", "function": FUNCTION}],
            "tool_choice": {"type": "function", "function": {"name": "auto"}},
        },
        {"tool_choice": "auto", "parallel_tool_calls": False},
        {"reasoning_effort": "max", "reasoning": {"effort": "high"}},
        {"response_format": {"type": "json_object"}},
        {
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "a", "schema": {"type": "object"}, "description": "d"},
            }
        },
        {
            "response_format": {
                "type": "json_schema",
                "json_schema": {
                    "name": "a",
                    "schema": {
                        "type": "object",
                        "properties": {},
                        "required": [],
                        "additionalProperties": False,
                    },
                },
            }
        },
        {"stop": ["a", "b"]},
        {"temperature": 0, "seed": None, "models": ["x"], "provider": {"only": ["y"]}},
    ],
)
def test_every_option_comes_back(fields: dict[str, Any]) -> None:
    """Whatever the server's habits are."""
    read(user("go"), **fields)
    read(user("go"), dialect=ChatDialect(host="localhost"), prompt_cache_key="k", **fields)


def test_a_schema_that_we_would_send_is_an_output() -> None:
    """Left out, `strict` is false."""
    schema = {"type": "object"}
    chat = read(
        user("go"),
        response_format={"type": "json_schema", "json_schema": {"name": "Out", "schema": schema}},
    )
    assert chat.request.output == OutputSchema("Out", schema)


def test_reasoning_of_a_request_has_no_server() -> None:
    """Whoever sent it wants it sent: the next server gets it, too."""
    chat = read(user("go"), {"role": "assistant", "content": "a", "reasoning_content": "hm"})
    [thought, _] = chat.request.messages[1].parts
    assert isinstance(thought, Reasoning)
    assert thought.text == "hm"


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"messages": 3}', b'{"messages": [3]}'])
def test_what_is_no_request_is_said(body: bytes) -> None:
    """The message says what a request is."""
    with pytest.raises(InvalidInput, match="JSON"):
        decode_request(body, OPENAI)


ROLES = st.sampled_from(["system", "user", "assistant", "tool", "developer", "whim"])
SCALARS = st.none() | st.booleans() | st.integers(-5, 5) | st.text('ab{}"', max_size=3)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(["type", "text", "id", "function", "name"]), inner, max_size=3
        )
    ),
    max_leaves=5,
)
MESSAGES = st.fixed_dictionaries(
    {"role": ROLES},
    optional={"content": VALUES, "tool_calls": VALUES, "name": VALUES, "reasoning": VALUES},
)


@given(
    messages=st.lists(MESSAGES, min_size=1, max_size=4),
    fields=st.dictionaries(
        st.sampled_from(["stop", "tools", "tool_choice", "response_format", "stream"]),
        VALUES,
        max_size=2,
    ),
)
def test_no_request_raises_anything_but_our_errors(messages: Any, fields: Any) -> None:
    """A door that takes requests from outside answers with words, never with a traceback."""
    body = {"model": "m", "messages": messages, **fields}
    try:
        chat = decode_request(json.dumps(body).encode(), OPENAI)
    except TreadleError:
        return
    ChatEncoder("m", chat.dialect).body(chat.request, stream=chat.stream)


@pytest.mark.parametrize("role", ["system", "user", "assistant", "tool"])
@pytest.mark.parametrize("block", [{"type": "", "text": False}, {"type": "x", "text": 1}])
def test_a_block_whose_text_is_none_is_refused(role: str, block: dict[str, Any]) -> None:
    """A block of an unknown type may have no text, but not one that is something else."""
    body = {"model": "m", "messages": [{"role": role, "content": [block]}]}
    with pytest.raises(InvalidInput, match="A content block has a type"):
        decode_request(json.dumps(body).encode(), OPENAI)
