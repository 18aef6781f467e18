"""Arguments held against a JSON Schema."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.tools.arguments import ArgumentsInvalid
from treadle.tools.schema_check import SchemaDecoder


def decoder_of(**properties: Any) -> SchemaDecoder:
    """Return a decoder of an object with these properties, none required."""
    return SchemaDecoder({"type": "object", "properties": properties})


def fits(schema: Any, value: Any) -> bool:
    """Whether a value is accepted where the schema stands."""
    try:
        decoder_of(x=schema).decode({"x": value})
    except ArgumentsInvalid:
        return False
    return True


def message_of(decoder: SchemaDecoder, arguments: dict[str, Any]) -> str:
    """Return what a model is told about these arguments."""
    with pytest.raises(ArgumentsInvalid) as caught:
        decoder.decode(arguments)
    return str(caught.value)


KEYWORDS: list[tuple[Any, list[Any], list[Any]]] = [
    ({"type": "string"}, ["", "x"], [1, None, []]),
    ({"type": "integer"}, [1, -5, 10**30, 5.0], ["5", 5.5, True, None]),
    ({"type": "number"}, [1, 1.5, 10**30], ["5", True]),
    ({"type": "boolean"}, [True, False], [0, 1, "true"]),
    ({"type": "null"}, [None], [0, ""]),
    ({"type": "array"}, [[], [1]], ["", {}, None]),
    ({"type": "object"}, [{}, {"a": 1}], [[], "x"]),
    ({"type": ["string", "null"]}, ["", None], [1, []]),
    ({"enum": ["a", 1, None, [1]]}, ["a", 1, 1.0, None, [1]], ["b", True, 2, [1, 1]]),
    ({"const": {"a": 1}}, [{"a": 1}, {"a": 1.0}], [{"a": True}, {}]),
    ({"minimum": 3, "maximum": 5}, [3, 4.5, 5, "x"], [2, 5.1]),
    ({"exclusiveMinimum": 3, "exclusiveMaximum": 5}, [4], [3, 5]),
    (
        {"minimum": 3, "exclusiveMinimum": True, "maximum": 5, "exclusiveMaximum": True},
        [4],
        [3, 5],
    ),
    ({"multipleOf": 0.1}, [0.3, 1, 12345.6], [0.35]),
    ({"multipleOf": 3}, [0, 9, 9.0, -3], [10]),
    ({"minLength": 2, "maxLength": 3}, ["ab", "😀😀😀", 5], ["a", "abcd"]),
    ({"pattern": "^a+$"}, ["a", "aaa", 5], ["b", "ab"]),
    ({"minItems": 1, "maxItems": 2}, [[1], [1, 2], "x"], [[], [1, 2, 3]]),
    ({"uniqueItems": True}, [[1, 2, True], [], [[1], [2]]], [[1, 1.0], [{"a": 1}, {"a": 1}]]),
    ({"minProperties": 1, "maxProperties": 1}, [{"a": 1}], [{}, {"a": 1, "b": 2}]),
    ({"items": {"type": "integer"}}, [[], [1, 2], "x"], [[1, "2"]]),
    ({"prefixItems": [{"type": "integer"}], "items": False}, [[], [1]], [["x"], [1, 2]]),
    (
        {"items": [{"type": "integer"}], "additionalItems": {"type": "string"}},
        [[1, "x"]],
        [[1, 2]],
    ),
    ({"contains": {"type": "integer"}}, [["a", 1]], [["a"], []]),
    ({"contains": {"type": "integer"}, "minContains": 2}, [[1, 2]], [[1]]),
    ({"required": ["a"]}, [{"a": None}, "x"], [{}, {"b": 1}]),
    ({"properties": {"a": {"type": "integer"}}}, [{"a": 1}, {"b": "x"}], [{"a": "x"}]),
    ({"properties": {"a": {}}, "additionalProperties": False}, [{"a": 1}], [{"b": 1}]),
    ({"additionalProperties": {"type": "integer"}}, [{"a": 1}], [{"a": "x"}]),
    (
        {"patternProperties": {"^n_": {"type": "integer"}}, "additionalProperties": False},
        [{"n_a": 1}],
        [{"n_a": "x"}, {"m": 1}],
    ),
    (
        {"properties": {"n_a": {"minimum": 5}}, "patternProperties": {"^n_": {"maximum": 9}}},
        [{"n_a": 7}],
        [{"n_a": 3}, {"n_a": 10}],
    ),
    ({"propertyNames": {"pattern": "^[a-z]+$"}}, [{"ab": 1}], [{"A": 1}]),
    ({"dependentRequired": {"a": ["b"]}}, [{"a": 1, "b": 1}, {"c": 1}], [{"a": 1}]),
    ({"anyOf": [{"type": "integer"}, {"type": "string"}]}, [1, "x"], [None, []]),
    ({"oneOf": [{"type": "integer"}, {"minimum": 5}]}, [1, 5.5], [7, 1.5]),
    ({"allOf": [{"minimum": 1}, {"maximum": 3}]}, [2], [0, 4]),
    ({"not": {"type": "string"}}, [1], ["x"]),
    (
        {"if": {"type": "integer"}, "then": {"minimum": 5}, "else": {"minLength": 2}},
        [5, "ab", None],
        [4, "a"],
    ),
    (True, [1, None], []),
    (False, [], [1, None]),
    ({}, [1, None, "x", []], []),
    ({"type": "banana", "madeUp": 5, "format": "uuid"}, [1, "x"], []),
    ({"pattern": r"^\p{L}+$", "minimum": "3", "minLength": None, "enum": "x"}, [1, "1"], []),
    ({"$ref": "#/nowhere"}, [1], []),
    ({"$ref": "http://example.org/x"}, [1], []),
    (
        {"patternProperties": {r"\p{L}": {"type": "integer"}}, "additionalProperties": False},
        [{"a": "x"}],
        [],
    ),
]


@pytest.mark.parametrize(("schema", "good", "bad"), KEYWORDS)
def test_keywords(schema: Any, good: list[Any], bad: list[Any]) -> None:
    """Each keyword accepts and refuses what JSON Schema says; unknown ones refuse nothing."""
    assert [value for value in good if not fits(schema, value)] == []
    assert [value for value in bad if fits(schema, value)] == []


def test_every_problem_is_told_with_its_place() -> None:
    """One text names all fields, what was expected and what was there (S16)."""
    decoder = SchemaDecoder(
        {
            "type": "object",
            "properties": {
                "city": {"type": "string"},
                "unit": {"enum": ["C", "F"]},
                "days": {"type": "array", "items": {"type": "object", "required": ["from"]}},
            },
            "required": ["city", "unit"],
            "additionalProperties": False,
        }
    )

    message = message_of(decoder, {"unit": "K", "days": [{}, 5], "citty": "x"})

    assert message.splitlines() == [
        "The arguments are not valid (5 problems):",
        "- city: required, but missing",
        '- unit: expected "C" | "F", got "K"',
        "- days[0].from: required, but missing",
        "- days[1]: expected object, got 5",
        "- citty: unknown parameter, did you mean 'city'?, got \"x\"",
        'Parameters: city (string, required), unit ("C" | "F", required), days (array of object)',
    ]


def test_long_values_are_cut() -> None:
    """A huge wrong value is not sent back in full."""
    assert len(message_of(decoder_of(x={"type": "integer"}), {"x": "y" * 10_000})) < 300


def test_arguments_come_back_as_they_are() -> None:
    """Nothing is converted, filled in or copied."""
    arguments = {"n": 5.0, "more": [1]}

    assert decoder_of(n={"type": "integer"}, d={"default": 3}).decode(arguments) is arguments


def test_a_string_for_an_object_is_decoded() -> None:
    """Nested objects and arrays that come as JSON text are taken; real strings stay (BS-09)."""
    decoder = decoder_of(
        period={"type": "object", "properties": {"kind": {"enum": ["week"]}}, "required": ["kind"]},
        tags={"type": "array", "items": {"type": "string"}},
        note={"type": "string"},
        either={"type": ["string", "array"]},
    )
    given = {
        "period": '{"kind":"week"}',
        "tags": '["a","b"]',
        "note": '{"not":"parsed"}',
        "either": "[1]",
    }
    before = copy.deepcopy(given)

    assert decoder.decode(given) == {**given, "period": {"kind": "week"}, "tags": ["a", "b"]}
    assert given == before
    assert "period.kind" in message_of(decoder, {"period": '{"kind":"year"}'})
    assert "period: expected object" in message_of(decoder, {"period": "week"})
    assert "tags: expected array" in message_of(decoder, {"tags": '{"a": 1}'})


def test_strings_in_strings_and_in_alternatives_are_decoded() -> None:
    """Each layer once, and where a union wants an object too."""
    inner = {"type": "object", "properties": {"days": {"type": "array"}}, "required": ["days"]}
    decoder = decoder_of(
        a=inner, b={"anyOf": [inner, {"type": "null"}]}, c={"type": "array", "items": inner}
    )

    assert decoder.decode({"a": '{"days": "[1]"}'}) == {"a": {"days": [1]}}
    assert decoder.decode({"b": '{"days": "[1]"}'}) == {"b": {"days": [1]}}
    assert decoder.decode({"c": ['{"days": []}']}) == {"c": [{"days": []}]}


def test_the_near_alternative_is_told() -> None:
    """When one member of a union nearly fits, its problem is the message."""
    decoder = decoder_of(
        x={
            "anyOf": [
                {"type": "object", "properties": {"n": {"type": "integer"}}},
                {"type": "string"},
            ]
        }
    )

    assert "- x.n: expected integer" in message_of(decoder, {"x": {"n": "z"}})
    assert "- x: expected object | string, got 5" in message_of(decoder, {"x": 5})


def test_recursive_schemas() -> None:
    """A reference back to where it stands is followed as deep as the value goes."""
    node = {
        "type": "object",
        "properties": {"value": {"type": "integer"}, "next": {"$ref": "#/$defs/node"}},
        "required": ["value"],
    }
    decoder = SchemaDecoder({"$ref": "#/$defs/node", "$defs": {"node": node}})

    assert decoder.decode({"value": 1, "next": {"value": 2}})
    assert "- next.next.value: required" in message_of(
        decoder, {"value": 1, "next": {"value": 1, "next": {}}}
    )


def test_a_schema_that_only_means_itself_ends() -> None:
    """Checking cannot go on for ever."""
    decoder = SchemaDecoder({"anyOf": [{"$ref": "#"}]})

    assert "nested too deeply" in message_of(decoder, {})


@given(st.dictionaries(st.text(max_size=5), st.integers() | st.text() | st.none(), max_size=4))
def test_an_open_schema_takes_everything(arguments: dict[str, Any]) -> None:
    """Without rules nothing is refused."""
    assert SchemaDecoder({}).decode(arguments) is arguments
