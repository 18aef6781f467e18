"""JSON Schemas in the subset that Gemini reads."""

from __future__ import annotations

from typing import Any

import pytest

from treadle.providers.gemini.schema import gemini_schema
from treadle.testing.strict_gemini import gemini_problems

ACCEPTED: dict[str, Any] = {
    "type": "object",
    "title": "T",
    "properties": {
        "const": {"type": ["string", "null"], "default": None, "pattern": "a+", "maxLength": 3},
        "ref": {"$ref": "#/$defs/X", "title": "X"},
        "list": {"type": "array", "prefixItems": [{"type": "string"}], "minItems": 1},
        "map": {"type": "object", "additionalProperties": {"type": "integer", "minimum": 0}},
    },
    "required": ["const"],
    "$defs": {"X": {"anyOf": [{"type": "string", "enum": ["a"]}, {"type": "null"}]}},
}


def test_what_is_read_stays_as_it_is() -> None:
    """The same object: nothing is copied."""
    assert gemini_schema(ACCEPTED) is ACCEPTED


@pytest.mark.parametrize(
    ("schema", "wanted"),
    [
        ({"const": "a"}, {"enum": ["a"]}),
        (
            {"$ref": "#/definitions/X", "description": "d", "definitions": {"X": {"const": 1}}},
            {"anyOf": [{"$ref": "#/$defs/X"}], "description": "d", "$defs": {"X": {"enum": [1]}}},
        ),
        (
            {"allOf": [{"type": "string"}], "description": "d"},
            {"type": "string", "description": "d"},
        ),
        (
            {"type": "integer", "exclusiveMinimum": 0, "multipleOf": 5, "examples": [5]},
            {"type": "integer", "description": "(exclusiveMinimum: 0, multipleOf: 5)"},
        ),
        (
            {"items": [{"not": {"type": "null"}, "description": "d"}], "$schema": "x"},
            {"items": [{"description": 'd (not: {"type":"null"})'}]},
        ),
        (
            {"anyOf": [{"type": "object", "properties": {"a": {"const": None}}}]},
            {"anyOf": [{"type": "object", "properties": {"a": {"enum": [None]}}}]},
        ),
    ],
)
def test_what_is_not_read_is_said_in_words(schema: dict[str, Any], wanted: dict[str, Any]) -> None:
    """Or in fields that mean the same."""
    read = gemini_schema(schema)
    assert read == wanted
    config = {"responseMimeType": "application/json", "responseJsonSchema": read}
    body = {"contents": [{"parts": [{"text": "a"}]}], "generationConfig": config}
    assert gemini_problems(body) == []
