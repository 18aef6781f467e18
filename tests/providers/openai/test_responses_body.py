"""The whole body of a request: settings, tools, output, and what is kept of a thread."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from tests.providers.openai.responses_parts import OPENAI, PLAIN, THOUGHT, body_of, read, said
from treadle.errors import ConfigError
from treadle.messages import Message, Text, Thread, ToolCall, ToolResult
from treadle.ports.model import ModelRequest, ModelSettings, OutputSchema, ToolSpec
from treadle.providers.openai.responses_body import ResponsesEncoder
from treadle.providers.openai.responses_dialect import PROTOCOL, responses_dialect_of
from treadle.providers.openai.responses_options import ResponsesTool
from treadle.testing.strict import assert_strict

USER = Message.user("hi")
SCHEMA: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": False}
LS = ToolSpec("ls", "List.", SCHEMA)
ENCRYPTED = ["reasoning.encrypted_content"]


def settings_of(**settings: Any) -> dict[str, Any]:
    """Return the fields that these settings make, without those of every request."""
    body = body_of(USER, settings=ModelSettings(**settings), tools=(LS,))
    assert_strict(body, "openai_responses")
    usual = ("model", "input", "tools", "include")
    return {name: value for name, value in body.items() if name not in usual}


def test_a_plain_request() -> None:
    """The system prompt is the instructions; reasoning is asked for so that it can go back."""
    assert body_of(USER, system="be", stream=True) == {
        "model": "gpt-5.2",
        "instructions": "be",
        "input": [{"role": "user", "content": "hi"}],
        "include": ENCRYPTED,
        "stream": True,
    }
    assert body_of(USER, dialect=PLAIN) == {
        "model": "gpt-5.2",
        "input": [{"role": "user", "content": "hi"}],
    }


@pytest.mark.parametrize(
    ("settings", "fields"),
    [
        ({"temperature": 0.0, "top_p": 1}, {"temperature": 0.0, "top_p": 1}),
        ({"max_output_tokens": 50}, {"max_output_tokens": 50}),
        ({"seed": 1, "frequency_penalty": 1}, {}),
        ({"reasoning_effort": "none"}, {"reasoning": {"effort": "none"}}),
        ({"tool_choice": "required"}, {"tool_choice": "required"}),
        ({"tool_choice": "ls"}, {"tool_choice": {"type": "function", "name": "ls"}}),
        ({"parallel_tool_calls": False}, {"parallel_tool_calls": False}),
        ({"prompt_cache": "long"}, {"prompt_cache_retention": "24h"}),
        ({"prompt_cache": "short"}, {}),
        ({"prompt_cache": "off"}, {}),
        (
            {"reasoning_effort": "low", "extra_body": {"reasoning": {"summary": "auto"}}},
            {"reasoning": {"effort": "low", "summary": "auto"}},
        ),
        (
            {"extra_body": {"previous_response_id": "resp_1", "truncation": "auto"}},
            {"previous_response_id": "resp_1", "truncation": "auto"},
        ),
    ],
)
def test_settings(settings: dict[str, Any], fields: dict[str, Any]) -> None:
    """Each under its name here; what there is no field for is left out."""
    assert settings_of(**settings) == fields


def test_stop_sequences_are_refused() -> None:
    """Left out, the model would say more than it may."""
    with pytest.raises(ConfigError, match="stop sequences"):
        body_of(USER, settings=ModelSettings(stop=("x",)))


def test_what_is_included_is_added_to() -> None:
    """Sources are asked for beside the reasoning."""
    extra = {"include": ["web_search_call.action.sources"]}
    body = body_of(USER, settings=ModelSettings(extra_body=extra))
    assert body["include"] == [*ENCRYPTED, "web_search_call.action.sources"]


@pytest.mark.parametrize(
    ("cache", "wanted"), [("long", {"ttl": "12h"}), ("off", {"mode": "explicit"})]
)
def test_newer_models_keep_prompts_in_their_own_way(cache: Any, wanted: dict[str, str]) -> None:
    """A minimum for how long, and none at all."""
    dialect = responses_dialect_of("https://api.openai.com/v1", "gpt-5.6")
    body = body_of(USER, dialect=dialect, settings=ModelSettings(prompt_cache=cache))
    assert body["prompt_cache_options"] == wanted


@pytest.mark.parametrize(
    ("url", "model", "encrypted"),
    [
        ("https://api.openai.com/v1", "gpt-5.2", True),
        ("https://api.openai.com/v1", "o4-mini", True),
        ("https://api.openai.com/v1", "gpt-5-chat-latest", False),
        ("https://api.openai.com/v1", "gpt-4o", False),
        ("https://openrouter.ai/api/v1", "openai/gpt-5.6-sol", True),
        ("https://openrouter.ai/api/v1", "z-ai/glm-5", False),
        ("https://bedrock-mantle.us-east-1.api.aws/openai/v1", "openai.gpt-5.5", True),
        ("http://localhost:8000/v1", "gpt-5.2", False),
    ],
)
def test_reasoning_is_asked_for_where_there_is_any(url: str, model: str, encrypted: bool) -> None:
    """Other models refuse the question."""
    assert responses_dialect_of(url, model).encrypted_reasoning is encrypted


def test_tools_are_offered_as_they_are() -> None:
    """Not strict, else the server would change their schemas; those of the server's own, too."""
    custom = ResponsesTool("sh", "", {}, {PROTOCOL: {"type": "custom", "name": "sh"}})
    strict = ResponsesTool("one", "", SCHEMA, {PROTOCOL: {"strict": True}})
    search = {"type": "web_search"}
    body = body_of(USER, tools=(LS, custom, strict), hosted_tools=(search,))
    assert body["tools"] == [
        {
            "type": "function",
            "name": "ls",
            "parameters": SCHEMA,
            "description": "List.",
            "strict": False,
        },
        {"type": "custom", "name": "sh"},
        {"type": "function", "name": "one", "parameters": SCHEMA, "strict": True},
        search,
    ]


@pytest.mark.parametrize(
    ("tool", "choice", "wanted"),
    [
        ({"type": "web_search"}, "web_search", {"type": "web_search"}),
        ({"type": "custom", "name": "sh"}, "sh", {"type": "custom", "name": "sh"}),
        (
            {"type": "mcp", "server_label": "wiki", "server_url": "https://x"},
            "wiki",
            {"type": "mcp", "server_label": "wiki"},
        ),
    ],
)
def test_other_tools_are_chosen_by_their_kind(
    tool: dict[str, Any], choice: str, wanted: dict[str, Any]
) -> None:
    """A hosted tool, one that takes any text, an MCP server."""
    body = body_of(USER, hosted_tools=(tool,), settings=ModelSettings(tool_choice=choice))
    assert body["tool_choice"] == wanted


def test_typed_output() -> None:
    """Strict where the schema allows it; what else the text is asked to be stays."""
    closed = {**SCHEMA, "properties": {"a": {"type": "string"}}, "required": ["a"]}
    settings = ModelSettings(extra_body={"text": {"verbosity": "low"}})
    for schema, strict in ((closed, True), ({**closed, "required": []}, False)):
        body = body_of(USER, output=OutputSchema("Out", schema), settings=settings)
        assert_strict(body, "openai_responses")
        wanted = {"type": "json_schema", "name": "Out", "schema": schema, "strict": strict}
        assert body["text"] == {"format": wanted, "verbosity": "low"}


def test_whole_fields_are_overridden() -> None:
    """The model, the input, the instructions, the tools."""
    extra: dict[str, Any] = {"input": [{"type": "item_reference", "id": "rs_1"}], "tools": []}
    body = body_of(USER, system="be", tools=(LS,), settings=ModelSettings(extra_body=extra))
    assert (body["input"], body["tools"], body["instructions"]) == (extra["input"], [], "be")


def test_the_conversation_is_the_cache_key() -> None:
    """At OpenAI, unless one is given; at most 64 characters of it."""
    assert body_of(USER, conversation_id="c1")["prompt_cache_key"] == "c1"
    assert len(body_of(USER, conversation_id="c" * 99)["prompt_cache_key"]) == 64
    assert "prompt_cache_key" not in body_of(USER, conversation_id="c1", dialect=PLAIN)


def test_reasoning_that_the_server_has_not_kept_is_left_out() -> None:
    """It could neither look it up nor read it."""
    thought = {name: value for name, value in THOUGHT.items() if name != "encrypted_content"}
    message = read(thought, said("so")).message
    kept = body_of(USER, message)["input"]
    lost = body_of(USER, message, dialect=replace(OPENAI, store=False))
    assert (len(kept), len(lost["input"]), lost["store"]) == (3, 2, False)


def test_a_turn_costs_what_is_new_in_it() -> None:
    """What was made of messages is kept in the thread, with calls that are not of functions."""
    encoder = ResponsesEncoder("gpt-5.2", OPENAI)
    custom = {"type": "custom_tool_call", "call_id": "c1", "name": "sh", "input": "ls"}
    answers = (ToolResult("c1", "sh", (Text("ok"),)),)
    messages = [USER, read(THOUGHT, custom).message, Message("tool", answers)]
    for number in range(100):
        call = ToolCall(f"n{number}", "ls")
        messages += [Message.assistant("so", call), Message("tool", (ToolResult(call.id, "ls"),))]
    thread, body = Thread(), b""
    for message in messages:
        thread.append(message)
        body = encoder.body(ModelRequest(messages=thread), stream=False)
    fresh = ResponsesEncoder("gpt-5.2", OPENAI).body(
        ModelRequest(messages=Thread(messages)), stream=False
    )
    assert body == fresh
    assert_strict(body, "openai_responses")
    assert json.loads(body)["input"][3]["type"] == "custom_tool_call_output"


def test_text_that_servers_refuse_is_cleaned() -> None:
    """NUL and half surrogate pairs."""
    request = ModelRequest(messages=Thread([Message("user", (Text("a\0b\ud83d"),))]))
    body = ResponsesEncoder("m", OPENAI).body(request, stream=False)
    assert_strict(body, "openai_responses")
