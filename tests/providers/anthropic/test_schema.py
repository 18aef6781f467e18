"""Which schemas the server can hold a reply to."""

from __future__ import annotations

from typing import Any

import pytest

from treadle.providers.anthropic.schema import NotNative, native_schema


def field(schema: dict[str, Any]) -> Any:
    """Return what becomes of one field."""
    made = native_schema({"type": "object", "properties": {"a": schema}})
    return made["properties"]["a"]


@pytest.mark.parametrize(
    ("given", "made"),
    [
        ({"type": "string", "format": "date"}, {"type": "string", "format": "date"}),
        (
            {"type": "string", "format": "byte", "pattern": "x"},
            {"type": "string", "description": '{format: "byte", pattern: "x"}'},
        ),
        (
            {"type": "integer", "minimum": 1, "description": "Count."},
            {"type": "integer", "description": "Count.\n\n{minimum: 1}"},
        ),
        (
            {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 3},
            {
                "type": "array",
                "items": {"type": "string"},
                "minItems": 1,
                "description": "{maxItems: 3}",
            },
        ),
        (
            {"oneOf": [{"type": "string"}, {"type": "null"}]},
            {"anyOf": [{"type": "string"}, {"type": "null"}]},
        ),
        ({"enum": ["a", 1, None]}, {"enum": ["a", 1, None]}),
        ({"$ref": "#/$defs/b", "description": "B."}, {"$ref": "#/$defs/b"}),
        (
            {"type": "object", "properties": {}, "additionalProperties": False},
            {"type": "object", "properties": {}, "additionalProperties": False},
        ),
    ],
)
def test_what_it_cannot_hold_is_said(given: dict[str, Any], made: dict[str, Any]) -> None:
    """In the description, which the model reads; and what comes out goes in unchanged."""
    assert field(given) == made
    assert field(made) == made


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"type": "object"},
        {"type": "object", "additionalProperties": {"type": "integer"}},
        {"type": "array"},
        {"type": "string", "enum": [["a"]]},
        {"$ref": "https://a.b/c"},
        {"allOf": [{"$ref": "#/$defs/b"}]},
        {"type": "strange"},
        {"$ref": "#"},
        {"anyOf": [True]},
        {
            "type": "object",
            "properties": {f"a{n}": {"type": "string"} for n in range(25)},
        },
        {
            "type": "object",
            "properties": {f"a{n}": {"type": ["string", "null"]} for n in range(17)},
            "required": [f"a{n}" for n in range(17)],
        },
    ],
)
def test_what_it_cannot_hold_at_all(given: dict[str, Any]) -> None:
    """Open objects, any values, recursion, too much of it."""
    with pytest.raises(NotNative):
        field(given)


def test_recursion_is_found_anywhere() -> None:
    """Through other definitions."""
    schema: dict[str, Any] = {
        "$defs": {
            "a": {"type": "object", "properties": {"b": {"$ref": "#/$defs/b"}}},
            "b": {"type": "object", "properties": {"a": {"$ref": "#/$defs/a"}}},
        },
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/a"}},
    }
    with pytest.raises(NotNative, match="contains itself"):
        native_schema(schema)
    schema["$defs"]["b"] = {"type": "string"}
    assert native_schema(schema)["$defs"]["b"] == {"type": "string"}
