"""What llama.cpp is asked for a Chat Completions request."""

from __future__ import annotations

from typing import Any

from treadle.providers.local.request import as_it_is, constrained

USER: list[dict[str, Any]] = [{"role": "user", "content": "Hi"}]


def tool(name: str) -> dict[str, Any]:
    """Return a tool without arguments."""
    return {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}


def test_every_request_streams_with_usage_and_progress() -> None:
    """Progress is what makes a long prompt stoppable."""
    for asked in (constrained({"messages": USER}), as_it_is({"messages": USER})):
        assert asked.body["stream"] is True
        assert asked.body["stream_options"] == {"include_usage": True}
        assert asked.body["return_progress"] is True


def test_settings_pass_through() -> None:
    """Sampling, limits and fields of llama.cpp's own arrive unchanged."""
    given = {"messages": USER, "temperature": 0.5, "max_tokens": 7, "stop": ["x"], "top_k": 3}

    body = constrained(given).body

    assert {name: body[name] for name in given} == given
    assert "grammar" not in body


def test_offered_tools_become_words_and_a_grammar() -> None:
    """llama.cpp itself hears of no tools."""
    asked = constrained({"messages": USER, "tools": [tool("a"), tool("b")], "tool_choice": "auto"})

    assert asked.functions == ("a", "b")
    assert not asked.body.keys() & {"tools", "tool_choice"}
    assert "start: call | TEXT" in asked.body["grammar"]
    assert '"name": "b"' in asked.body["messages"][0]["content"]


def test_a_tool_choice_narrows_the_grammar() -> None:
    """Required: no text. One tool: no other. None: no call, and no word of tools."""
    given = {"messages": USER, "tools": [tool("a"), tool("b")]}
    named = {"type": "function", "function": {"name": "b"}}

    required = constrained({**given, "tool_choice": "required"})
    one = constrained({**given, "tool_choice": named})
    none = constrained({**given, "tool_choice": "none"})

    assert "TEXT" not in required.body["grammar"]
    assert required.functions == ("a", "b")
    assert "TEXT" not in one.body["grammar"]
    assert one.functions == ("b",)
    assert none.functions == ()
    assert none.body["messages"] == USER
    assert "grammar" not in none.body


def test_several_calls_are_allowed_only_when_asked_for() -> None:
    """A small model repeats itself where it may; one call a turn is the rule."""
    given = {"messages": USER, "tools": [tool("a")]}

    assert "{0,3}" not in constrained(given).body["grammar"]
    assert "{0,3}" in constrained({**given, "parallel_tool_calls": True}).body["grammar"]


def test_an_output_schema_is_in_the_grammar_and_in_the_words() -> None:
    """The model is told what it will be held to."""
    wanted = {"type": "json_schema", "json_schema": {"schema": {"type": "object", "title": "T"}}}

    asked = constrained({"messages": USER, "response_format": wanted})
    any_object = constrained({"messages": USER, "response_format": {"type": "json_object"}})

    assert '%json {"type":"object","title":"T"' in asked.body["grammar"]
    assert asked.body["messages"][0]["content"].endswith('{"type": "object", "title": "T"}')
    assert '%json {"type":"object"' in any_object.body["grammar"]
    assert "response_format" not in asked.body


def test_with_a_schema_a_tool_is_called_once_for_what_the_user_says() -> None:
    """A small model would repeat the call for ever; after the next question it may call again."""
    call = {"id": "c", "type": "function", "function": {"name": "a", "arguments": "{}"}}
    called = [
        *USER,
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "1"},
    ]
    wanted = {"type": "json_schema", "json_schema": {"schema": {"type": "object"}}}
    given = {"tools": [tool("a"), tool("b")], "response_format": wanted}

    first = constrained({**given, "messages": USER})
    second = constrained({**given, "messages": called})
    later = constrained({**given, "messages": [*called, *USER]})
    without_schema = constrained({"tools": given["tools"], "messages": called})

    assert first.functions == later.functions == without_schema.functions == ("a", "b")
    assert second.functions == ("b",)
    assert '"name\\": \\"a\\"' not in second.body["grammar"]
    assert '"name": "a"' in second.body["messages"][0]["content"]


def test_a_last_answer_without_tools_is_no_call() -> None:
    """A model that has made calls all along would write one more as its answer."""
    result = {"role": "tool", "tool_call_id": "c", "content": "1"}

    asked = constrained({"messages": [*USER, result]})

    assert asked.body["grammar"].startswith("%llguidance {}\nstart: TEXT\nTEXT: /[^{]")
    assert asked.functions == ()


def test_natively_everything_is_left_to_llama_cpp() -> None:
    """Tools and schema go to the model's own template."""
    given = {"messages": USER, "tools": [tool("a")], "tool_choice": "auto"}

    asked = as_it_is(given)

    assert {name: asked.body[name] for name in given} == given
    assert asked.functions == ()
