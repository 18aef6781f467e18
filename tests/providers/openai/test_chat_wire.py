"""Our messages, tools and settings as Chat Completions JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.providers.openai.parts import OPENAI, PLAIN, TOOL, body_of, sent
from treadle.messages import (
    Image,
    Message,
    Reasoning,
    Text,
    Thread,
    ToolCall,
    ToolResult,
)
from treadle.ports.model import ModelRequest, ModelSettings, OutputSchema
from treadle.providers._json import arguments_json
from treadle.providers.openai.chat_body import ChatEncoder
from treadle.providers.openai.chat_wire import ChatTool, is_strict, wire_messages
from treadle.providers.openai.dialect import dialect_of
from treadle.testing.strict import assert_strict


def test_texts_are_plain_messages() -> None:
    """System, user and assistant; neighbouring users stay apart."""
    body = body_of(Message.user("a"), Message.user("b"), Message.assistant("c"), system="be nice")
    assert body == {
        "model": "gpt-5.2",
        "messages": [
            {"role": "system", "content": "be nice"},
            {"role": "user", "content": "a"},
            {"role": "user", "content": "b"},
            {"role": "assistant", "content": "c"},
        ],
    }


def test_calls_and_results_stay_together() -> None:
    """One assistant message with all calls, then one tool message for each result, in order."""
    first = ToolCall.of("ls", {"path": "."}, id="c1")
    second = ToolCall("c2", "cat", '{"n" :1}', "their-id")
    wires = sent(
        Message.user("go"),
        Message.assistant("wait", first, second),
        Message("tool", (ToolResult("c1", "ls", (Text("x"),)), ToolResult("c2", "cat"))),
    )
    assert wires[1] == {
        "role": "assistant",
        "content": "wait",
        "tool_calls": [
            {
                "id": "c1",
                "type": "function",
                "function": {"name": "ls", "arguments": '{"path":"."}'},
            },
            {"id": "c2", "type": "function", "function": {"name": "cat", "arguments": '{"n" :1}'}},
        ],
    }
    assert wires[2:] == [
        {"role": "tool", "tool_call_id": "c1", "content": "x"},
        {"role": "tool", "tool_call_id": "c2", "content": ""},
    ]


@pytest.mark.parametrize(
    ("raw", "arguments"),
    [
        ('{"a": 1}', '{"a": 1}'),
        ("", "{}"),
        ("  ", "{}"),
        ("null", "{}"),
        ('{"text": "say "hi" 你好"}', None),
        ('{"city": "San Fra', None),
        ("[1]", None),
        ('{"a": NaN}', '{"a":null}'),
        ('{"a": "\\ud800"}', '{"a": "\\ufffd"}'),
        ('{"a": "\ud800"}', '{"a":"\ufffd"}'),
    ],
)
def test_arguments_are_always_a_json_object(raw: str, arguments: str | None) -> None:
    """BS-01, BS-02: what did not parse goes back as an object that holds what was written."""
    text = arguments_json(raw)
    assert isinstance(json.loads(text), dict)
    assert text == arguments or (arguments is None and raw in json.loads(text).values())
    result = Message("tool", (ToolResult("c1", "ls"),))
    assert_strict(body_of(Message.user("go"), Message.assistant(ToolCall("c1", "ls", raw)), result))


def test_nothing_empty_is_sent() -> None:
    """BS-25: no empty block, no assistant message that says nothing, calls without blank text."""
    wires = sent(
        Message("user", (Text(""), Text("go"))),
        Message("assistant", (Text("   "), ToolCall("c1", "touch"))),
        Message("tool", (ToolResult("c1", "touch", (Text(""),)),)),
        Message.assistant("   "),
        Message("assistant", (Reasoning("hm"),)),
        Message("user", ()),
        Message.user("on"),
    )
    assert [wire["role"] for wire in wires] == ["user", "assistant", "tool", "user"]
    assert (wires[0]["content"], wires[1]["content"], wires[2]["content"]) == ("go", None, "")


def test_parts_in_the_wrong_place_are_not_sent() -> None:
    """Nobody calls a tool in the name of the user; results stand alone."""
    wires = sent(
        Message("user", (Text("a"), ToolCall("c0", "f"))),
        Message("assistant", (Image.from_url("https://x/y"), ToolCall("c1", "f"))),
        Message("tool", (Text("?"), ToolResult("c1", "f")), {"openai_chat": {"name": "f"}}),
    )
    assert wires[0]["content"][1] == {"type": "text", "text": "[ToolCall left out]"}
    assert wires[1]["content"] is None
    assert wires[2] == {"role": "tool", "tool_call_id": "c1", "content": "", "name": "f"}


def test_reasoning_goes_back_to_its_own_server_only() -> None:
    """BS-23: in the field it came in; other servers, and other protocols' reasoning, get none."""

    def thought(host: str) -> Message:
        fields = {"@host": host, "field": "reasoning_content", "reasoning_details": [{"a": 1}]}
        return Message.assistant(Reasoning("hm", provider={"openai_chat": fields}), "yes")

    foreign = Message.assistant(Reasoning("hm", "sig", provider={"anthropic": {"x": 1}}), "no")
    own, other, alien = sent(thought(PLAIN.host), thought("elsewhere"), foreign, dialect=PLAIN)
    assert own["reasoning_content"] == "hm"
    assert own["reasoning_details"] == [{"a": 1}]
    assert other == {"role": "assistant", "content": "yes"}
    assert alien == {"role": "assistant", "content": "no"}


def test_opaque_fields_go_back_unchanged() -> None:
    """Cache marks, names, prefixes and unknown blocks ride on what they belong to."""

    def own(**fields: Any) -> dict[str, Any]:
        return {"openai_chat": fields, "anthropic": {"never": "sent"}}

    mark = {"type": "ephemeral"}
    wires = body_of(
        Message("user", (Text("a", own(cache_control=mark)),), own(name="Ann")),
        Message("user", (Text("?", own(type="video_url", video_url={"url": "v"})),)),
        Message(
            "assistant",
            (Text("b"), ToolCall("c1", "f", provider=own(extra_content={"g": 1}))),
            own(prefix=True),
        ),
        Message("tool", (ToolResult("c1", "f", (Text("r", own(cache_control=mark)),)),)),
        Message("assistant", (ToolCall("c2", "f", provider=own(type="custom", custom={"i": 2})),)),
    )["messages"]
    assert wires[0]["name"] == "Ann"
    assert wires[0]["content"] == [{"type": "text", "text": "a", "cache_control": mark}]
    assert wires[1]["content"] == [{"type": "video_url", "video_url": {"url": "v"}}]
    assert wires[2]["prefix"] is True
    assert wires[2]["tool_calls"][0]["extra_content"] == {"g": 1}
    assert wires[3]["content"] == [{"type": "text", "text": "r", "cache_control": mark}]
    assert wires[4]["tool_calls"] == [{"id": "c2", "type": "custom", "custom": {"i": 2}}]


def test_call_ids_fit_the_server() -> None:
    """OpenAI takes 40 characters, Mistral nine; the call and its result change alike."""
    long = "call_" + "x" * 100
    thread = (
        Message.user("go"),
        Message.assistant(ToolCall(long, "f"), ToolCall("abcdefGH9", "f")),
        Message("tool", (ToolResult(long, "f"), ToolResult("abcdefGH9", "f"))),
    )
    for dialect, length in ((OPENAI, 37), (dialect_of("https://api.mistral.ai/v1"), 9)):
        wires = sent(*thread, dialect=dialect)
        ids = [call["id"] for call in wires[1]["tool_calls"]]
        assert [wire["tool_call_id"] for wire in wires[2:]] == ids
        assert len(ids[0]) == length
        assert ids[1] == "abcdefGH9"
    assert wire_messages(thread[1], PLAIN)[0]["tool_calls"][0]["id"] == long


def test_tools_and_settings_are_fields() -> None:
    """Every setting has its field; what is not set is not sent."""
    settings = ModelSettings(
        temperature=0.5,
        top_p=0.9,
        max_output_tokens=10,
        stop=("a", "b"),
        seed=7,
        frequency_penalty=0.1,
        presence_penalty=0.2,
        tool_choice="ls",
        parallel_tool_calls=False,
        reasoning_effort="low",
        extra_body={"user": "u", "seed": 8, "stream": True},
    )
    body = body_of(Message.user("go"), tools=(TOOL,), settings=settings)
    assert_strict(body)
    del body["messages"]
    assert body == {
        "model": "gpt-5.2",
        "tools": [
            {
                "type": "function",
                "function": {"name": "ls", "description": "List.", "parameters": TOOL.parameters},
            }
        ],
        "temperature": 0.5,
        "top_p": 0.9,
        "max_completion_tokens": 10,
        "stop": ["a", "b"],
        "seed": 8,
        "frequency_penalty": 0.1,
        "presence_penalty": 0.2,
        "reasoning_effort": "low",
        "tool_choice": {"type": "function", "function": {"name": "ls"}},
        "parallel_tool_calls": False,
        "user": "u",
    }
    plain = body_of(Message.user("go"), dialect=PLAIN, settings=settings)
    assert plain["max_tokens"] == 10
    assert plain.keys().isdisjoint({"tool_choice", "parallel_tool_calls", "stream"})


def test_extra_body_may_replace_anything() -> None:
    """Also the model, the messages and the tools; whether it streams is the caller's choice."""
    extra = {"model": "other", "messages": [{"role": "user", "content": "x"}], "tools": []}
    body = body_of(
        Message.user("go"), tools=(TOOL,), settings=ModelSettings(extra_body={**extra, "a": 1})
    )
    assert body == {**extra, "a": 1}


def test_a_stream_asks_for_its_usage() -> None:
    """Unless the server refuses that field."""
    body = body_of(Message.user("go"), stream=True)
    assert (body["stream"], body["stream_options"]) == (True, {"include_usage": True})
    mistral = body_of(Message.user("go"), stream=True, dialect=dialect_of("https://api.mistral.ai"))
    assert mistral["stream"] is True
    assert "stream_options" not in mistral


def test_the_conversation_keeps_its_cache_at_openai() -> None:
    """A long ID is shortened; other servers are not sent the field; `extra_body` wins."""
    assert body_of(Message.user("a"), conversation_id="c-1")["prompt_cache_key"] == "c-1"
    assert len(body_of(Message.user("a"), conversation_id="c" * 99)["prompt_cache_key"]) == 64
    assert "prompt_cache_key" not in body_of(Message.user("a"), dialect=PLAIN, conversation_id="c")
    settings = ModelSettings(extra_body={"prompt_cache_key": "mine"})
    body = body_of(Message.user("a"), conversation_id="c-1", settings=settings)
    assert body["prompt_cache_key"] == "mine"


def test_tools_carry_their_own_fields() -> None:
    """`strict` and cache marks are added, a server's own tool is sent as it stands."""
    strict = ChatTool("a", "", {}, {"openai_chat": {"function": {"strict": True}, "mark": 1}})
    native = ChatTool("w", "", {}, {"openai_chat": {"type": "web_search", "max_uses": 1}})
    body = body_of(Message.user("go"), tools=(strict, native))
    function: dict[str, Any] = {"name": "a", "parameters": {"type": "object"}, "strict": True}
    assert body["tools"] == [
        {"type": "function", "function": function, "mark": 1},
        {"type": "web_search", "max_uses": 1},
    ]


CLOSED: dict[str, Any] = {
    "type": "object",
    "properties": {"a": {"type": ["string", "null"]}, "b": {"$ref": "#/$defs/B"}},
    "required": ["a", "b"],
    "additionalProperties": False,
    "$defs": {
        "B": {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
    },
}


@pytest.mark.parametrize(
    ("schema", "strict"),
    [
        (CLOSED, True),
        ({**CLOSED, "required": ["a"]}, False),
        ({**CLOSED, "additionalProperties": True}, False),
        ({**CLOSED, "$defs": {"B": {"type": "object"}}}, False),
        ({**CLOSED, "properties": {"a": {"items": {"type": "object"}}, "b": {}}}, False),
        ({**CLOSED, "properties": {"a": {"default": 1}, "b": {}}}, False),
        ({**CLOSED, "properties": []}, False),
        ({"type": "array", "items": CLOSED}, False),
    ],
)
def test_a_schema_is_strict_where_it_can_be(schema: dict[str, Any], strict: bool) -> None:
    """OpenAI refuses a strict schema outside its subset, so that says no."""
    body = body_of(Message.user("go"), output=OutputSchema("Out", schema))
    assert_strict(body)
    assert body["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "Out", "schema": schema, "strict": strict},
    }
    assert is_strict(schema) or not strict


def test_bad_text_never_leaves() -> None:
    """BS-14: a journal with half a surrogate pair or NUL still makes a request servers take."""
    thread = Thread([Message("user", (Text("ok \ud83d end\0"),))])
    request = ModelRequest(messages=thread, system="be \udcc1")
    encoded = ChatEncoder("m", OPENAI).body(request, stream=False)
    assert_strict(encoded)
    assert [wire["content"] for wire in json.loads(encoded)["messages"]] == [
        "be \ufffd",
        "ok \ufffd end\ufffd",
    ]
