"""What a model may write, as a grammar."""

from __future__ import annotations

from typing import Any

from treadle.providers.local.grammar import grammar_of

ADD: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "add",
        "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}},
    },
}
NOW: dict[str, Any] = {"type": "function", "function": {"name": "now"}}


def test_nothing_to_follow_is_no_grammar() -> None:
    """Without tools and schema anything may be said."""
    assert grammar_of([]) is None


def test_a_schema_alone_is_followed() -> None:
    """The answer is JSON from its first character on."""
    grammar = grammar_of([], schema={"type": "object"})

    assert grammar is not None
    assert '\nstart: %json {"type":"object",' in grammar


def test_a_reply_is_a_call_or_text_that_begins_otherwise() -> None:
    """The first character tells which; arguments are those of the schema and no others."""
    grammar = grammar_of([ADD, NOW])

    assert grammar is not None
    assert grammar.startswith("%llguidance {}\nstart: call | TEXT\nTEXT: /[^{]")
    assert r'"{\"name\": \"add\", \"arguments\": " %json {"type":"object","properties"' in grammar
    assert r'| "{\"name\": \"now\", \"arguments\": " %json {"type":"object","additional' in grammar
    assert grammar.count('"additionalProperties":false') == 2


def test_arguments_that_are_open_stay_open() -> None:
    """A schema that says which further arguments it takes is left as it is."""
    anything = {"name": "f", "parameters": {"type": "object", "additionalProperties": True}}

    grammar = grammar_of([{"type": "function", "function": anything}])

    assert grammar is not None
    assert '"additionalProperties":false' not in grammar


def test_a_call_that_must_be_leaves_no_way_to_answer() -> None:
    """There is no text in the grammar, with a schema or without."""
    forced = grammar_of([ADD], must_call=True)
    with_schema = grammar_of([ADD], must_call=True, schema={"type": "object"})

    assert forced == with_schema
    assert forced is not None
    assert "start: call\ncall: " in forced


def test_several_calls_are_bounded() -> None:
    """A small model that may go on repeats itself."""
    grammar = grammar_of([ADD], several=True)

    assert grammar is not None
    assert r'start: call ("\n" call){0,3} | TEXT' in grammar


def test_a_schema_stands_beside_calls() -> None:
    """With both, the answer is JSON and so is a call."""
    grammar = grammar_of([ADD], schema={"type": "object", "properties": {}})

    assert grammar is not None
    assert 'start: call | %json {"type":"object","properties":{},' in grammar
    assert "TEXT" not in grammar
