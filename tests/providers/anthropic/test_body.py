"""The body of a request: prompt, tools, settings and the marks of the prompt cache."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.providers.anthropic.parts import (
    ANTHROPIC,
    MARK,
    MODEL,
    OTHER,
    TOOL,
    answered,
    asking,
    body_of,
    called,
)
from treadle.errors import ConfigError
from treadle.messages import Message, Text, Thread
from treadle.ports.model import Effort, ModelRequest, ModelSettings, OutputSchema, ToolSpec
from treadle.providers.anthropic.body import AnthropicTool, MessagesEncoder
from treadle.providers.anthropic.claude import claude
from treadle.testing.strict import assert_strict

HOUR = {"type": "ephemeral", "ttl": "1h"}
PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string", "minLength": 1}},
    "required": ["name"],
}


def with_settings(model: str = MODEL, tools: Any = (), **settings: Any) -> dict[str, Any]:
    """Return a request with these settings."""
    made = ModelSettings(**settings)
    return body_of(Message.user("q"), model=model, settings=made, tools=tools)


def marks(body: dict[str, Any]) -> list[tuple[str, Any]]:
    """Return where a request has marks, and which."""
    found = [("tools", tool.get("cache_control")) for tool in body.get("tools", [])]
    blocks: Any = body.get("system") if isinstance(body.get("system"), list) else []
    found += [("system", block.get("cache_control")) for block in blocks]
    for place, message in enumerate(body["messages"]):
        found += [(str(place), block.get("cache_control")) for block in message["content"]]
    return [(place, mark) for place, mark in found if mark]


def test_a_plain_request() -> None:
    """Nothing in it that nobody asked for; how long a reply may be has to be said."""
    assert body_of(Message.user("q"), system="be nice") == {
        "model": MODEL,
        "max_tokens": 32_000,
        "system": "be nice",
        "messages": [{"role": "user", "content": [{"type": "text", "text": "q"}]}],
    }


@pytest.mark.parametrize(
    ("model", "most"),
    [
        ("claude-3-5-haiku-latest", 8192),
        ("claude-3-haiku-20240307", 4096),
        ("claude-opus-4-1", 32_000),
        ("anthropic.claude-opus-4-6-v1:0", 32_000),
        ("claude-next", 8192),
    ],
)
def test_how_long_a_reply_may_be(model: str, most: int) -> None:
    """As long as the model allows, within reason."""
    assert with_settings(model)["max_tokens"] == most


def test_settings() -> None:
    """Under the server's names; what it has no field for is left out."""
    body = with_settings(
        max_output_tokens=9, temperature=0.5, stop=["x"], seed=1, frequency_penalty=1.0
    )
    assert {name: body[name] for name in body.keys() - {"model", "messages"}} == {
        "max_tokens": 9,
        "temperature": 0.5,
        "stop_sequences": ["x"],
    }
    with pytest.raises(ConfigError, match="white space"):
        with_settings(stop=" ")


def test_only_one_way_to_sample() -> None:
    """Newer models take one, the newest none."""
    both: dict[str, Any] = {"temperature": 0.5, "top_p": 0.5}
    assert with_settings("claude-3-haiku-20240307", **both).keys() >= both.keys()
    assert "top_p" not in with_settings(**both)
    assert not with_settings("claude-opus-4-7", **both).keys() & both.keys()


@pytest.mark.parametrize(
    ("model", "effort", "wanted"),
    [
        (MODEL, "low", {"thinking": {"type": "enabled", "budget_tokens": 2048}}),
        (MODEL, "none", {}),
        (
            "claude-opus-4-5",
            "xhigh",
            {
                "thinking": {"type": "enabled", "budget_tokens": 32_768},
                "output_config": {"effort": "high"},
            },
        ),
        (
            "claude-opus-4-6",
            "xhigh",
            {"thinking": {"type": "adaptive"}, "output_config": {"effort": "max"}},
        ),
        (
            "claude-opus-4-7",
            "minimal",
            {
                "thinking": {"type": "adaptive", "display": "summarized"},
                "output_config": {"effort": "low"},
            },
        ),
        ("claude-opus-5", "none", {"thinking": {"type": "disabled"}}),
        ("claude-sonnet-5-5", "none", {"thinking": {"type": "between_tools"}}),
        ("claude-fable-5", "none", {"output_config": {"effort": "low"}}),
        ("claude-3-5-sonnet-20241022", "high", {}),
        ("llama-3", "medium", {"thinking": {"type": "enabled", "budget_tokens": 6144}}),
    ],
)
def test_effort(model: str, effort: Effort, wanted: dict[str, Any]) -> None:
    """By a budget, by a level, or both, as the model wants it."""
    body = with_settings(model, reasoning_effort=effort)
    assert {k: v for k, v in body.items() if k in ("thinking", "output_config")} == wanted


def test_a_model_that_thinks_is_not_cooled() -> None:
    """Nor is one forced to call a tool made to think with a budget, nor one without room."""
    body = with_settings(reasoning_effort="low", temperature=0.1)
    assert "temperature" not in body
    forced = with_settings(tools=(TOOL,), reasoning_effort="low", tool_choice="required")
    assert "thinking" not in forced
    assert "thinking" not in with_settings(reasoning_effort="high", max_output_tokens=1200)


@pytest.mark.parametrize(
    ("settings", "wanted"),
    [
        ({}, None),
        ({"tool_choice": "auto"}, {"type": "auto"}),
        ({"tool_choice": "none", "parallel_tool_calls": False}, {"type": "none"}),
        ({"tool_choice": "required"}, {"type": "any"}),
        ({"tool_choice": "ls"}, {"type": "tool", "name": "ls"}),
        ({"parallel_tool_calls": False}, {"type": "auto", "disable_parallel_tool_use": True}),
        (
            {"tool_choice": "ls", "parallel_tool_calls": False},
            {"type": "tool", "name": "ls", "disable_parallel_tool_use": True},
        ),
    ],
)
def test_choice_of_tools(settings: dict[str, Any], wanted: object) -> None:
    """Only with tools."""
    assert with_settings(tools=(TOOL,), **settings).get("tool_choice") == wanted
    assert "tool_choice" not in with_settings(**settings)


def test_a_model_that_cannot_be_forced() -> None:
    """Says so before anything is sent."""
    with pytest.raises(ConfigError, match="cannot be made to call"):
        with_settings("claude-opus-5-5", tools=(TOOL,), tool_choice="required")


def test_tools() -> None:
    """Their schemas have an object at the top; hosted ones stand as they are."""
    odd = ToolSpec("odd", "Odd.", {"anyOf": [{"required": ["a"]}], "properties": {"a": {}}})
    search = {"type": "web_search_20250305", "name": "web_search", "max_uses": None}
    hosted = AnthropicTool("web_search", "", {}, {"anthropic": search})
    more = AnthropicTool("s", "", {"type": "object"}, {"anthropic": {"strict": True}})
    settings = ModelSettings(prompt_cache="off")
    body = body_of(Message.user("q"), tools=(TOOL, odd, hosted, more), settings=settings)
    assert body["tools"] == [
        {"name": "ls", "description": "List.", "input_schema": TOOL.parameters},
        {
            "name": "odd",
            "description": 'Odd.\n\nThe input also has to satisfy {"anyOf":[{"required":["a"]}]}',
            "input_schema": {"type": "object", "properties": {"a": {}}},
        },
        search,
        {"name": "s", "input_schema": {"type": "object"}, "strict": True},
    ]
    encoder = MessagesEncoder(MODEL, claude(MODEL), ANTHROPIC, hosted_tools=[search])
    sent = json.loads(encoder.body(asking(settings=settings), stream=True))
    assert (sent["tools"], sent["stream"]) == ([search], True)


def test_tools_that_are_gone_are_stood_in_for() -> None:
    """The server wants the tools of the conversation defined; none of them may be called."""
    body = body_of(Message.user("q"), called("1"), answered("1"))
    assert [tool["name"] for tool in body["tools"]] == ["ls"]
    assert body["tool_choice"] == {"type": "none"}


def test_typed_output() -> None:
    """By schema, where the server can hold it; in words, where it cannot."""
    output = OutputSchema("person", PERSON)
    body = body_of(Message.user("q"), output=output, settings=ModelSettings(reasoning_effort="low"))
    assert body["output_config"]["format"]["schema"] == {
        "type": "object",
        "properties": {"name": {"type": "string", "description": "{minLength: 1}"}},
        "required": ["name"],
        "additionalProperties": False,
    }
    both = body_of(
        Message.user("q"),
        model="claude-opus-4-6",
        output=output,
        settings=ModelSettings(reasoning_effort="low"),
    )
    assert both["output_config"].keys() == {"effort", "format"}
    openly = OutputSchema("any", {"type": "object"})
    for model, schema in ((MODEL, openly), ("claude-sonnet-4-0", output)):
        told = body_of(Message.user("q"), model=model, output=schema, system="s")
        assert told["system"].startswith("s\n\nAnswer with nothing but one JSON value")
        assert "output_config" not in told


def test_extra_body() -> None:
    """Is laid over the rest; None takes a field away, and the prompt may be replaced."""
    extra = {"max_tokens": None, "top_k": 3, "stream": True, "output_config": {"effort": "low"}}
    output = OutputSchema("person", PERSON)
    request = ModelRequest(
        messages=Thread([Message.user("q")]),
        output=output,
        settings=ModelSettings(extra_body=extra),
    )
    body = json.loads(MessagesEncoder(MODEL, claude(MODEL), OTHER).body(request, stream=False))
    assert body.keys() == {"model", "messages", "top_k", "output_config"}
    assert body["output_config"].keys() == {"effort", "format"}
    system = [{"type": "text", "text": "s", "cache_control": MARK}]
    replaced = with_settings(extra_body={"system": system, "model": "m"}, tools=(TOOL,))
    assert (replaced["system"], replaced["model"]) == (system, "m")
    assert marks(replaced) == [("system", MARK)]


def test_marks_unset() -> None:
    """A request that is likely to be continued is marked; a single question is not."""
    assert marks(body_of(Message.user("q"), system="s")) == []
    assert marks(body_of(Message.user("q"), system="s", tools=(TOOL,))) == [
        ("tools", MARK),
        ("system", MARK),
        ("0", MARK),
    ]
    later = (Message.user("q"), called("1"), answered("1"), Message.user("r"))
    assert marks(body_of(*later, tools=(TOOL,), system="s")) == [
        ("tools", MARK),
        ("system", MARK),
        ("0", MARK),
        ("2", MARK),
    ]
    assert marks(body_of(*later, tools=(TOOL,), dialect=OTHER)) == []


def test_marks_asked_for() -> None:
    """For minutes, for an hour, or not at all."""
    for cache, mark in (("short", MARK), ("long", HOUR)):
        body = with_settings(prompt_cache=cache, tools=(TOOL,))
        assert marks(body) == [("tools", mark), ("0", mark)]
    assert marks(with_settings(prompt_cache="off", tools=(TOOL,))) == []


def test_marks_by_hand() -> None:
    """Nobody else marks then, also when asked to: their order and number are not free."""
    by_hand = Message("user", (Text("a", {"anthropic": {"cache_control": HOUR}}), Text("b")))
    rest = (Message.assistant("c"), Message.user("d"))
    assert marks(body_of(by_hand, *rest, tools=(TOOL,))) == [("0", HOUR)]
    asked = ModelSettings(prompt_cache="long")
    found = marks(body_of(by_hand, *rest, tools=(TOOL,), system="s", settings=asked))
    assert found == [("0", HOUR)]
    automatic = ModelSettings(extra_body={"cache_control": MARK})
    assert marks(body_of(by_hand, *rest, tools=(TOOL,), settings=automatic)) == [("0", HOUR)]


def test_marks_move_on() -> None:
    """Each request marks where the last one ended, so that its part is found again."""
    encoder = MessagesEncoder(MODEL, claude(MODEL), ANTHROPIC)
    thread, ends = Thread([Message.user("q")]), list[list[tuple[str, Any]]]()
    for number in range(3):
        body = encoder.body(ModelRequest(messages=thread, tools=(TOOL,)), stream=False)
        assert_strict(body, "anthropic")
        ends.append(marks(json.loads(body))[1:])
        thread += [called(f"{number}"), answered(f"{number}")]
    assert ends == [[("0", MARK)], [("0", MARK), ("2", MARK)], [("2", MARK), ("4", MARK)]]


def test_a_tool_that_is_loaded_later_has_no_mark() -> None:
    """The server refuses that."""
    late = AnthropicTool("s", "", {"type": "object"}, {"anthropic": {"defer_loading": True}})
    body = with_settings(tools=(TOOL, late))
    assert [("cache_control" in tool) for tool in body["tools"]] == [True, False]
