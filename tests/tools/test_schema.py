"""Schemas as trees: references written out where that can be."""

from __future__ import annotations

from typing import Any

import pytest

from treadle.tools.schema import find_ref, inline_refs, inline_where_possible, without_titles

POINT = {"type": "object", "properties": {"x": {"type": "integer"}}}


def object_of(definitions: dict[str, Any], **properties: Any) -> dict[str, Any]:
    """Return an object schema with definitions."""
    return {"type": "object", "properties": properties, "$defs": definitions}


def test_references_are_written_out() -> None:
    """What stands beside a reference wins, and definitions are gone (BS-09)."""
    line = {
        "properties": {
            "from": {"$ref": "#/$defs/Point"},
            "via": {"items": {"$ref": "#/$defs/Point"}},
        }
    }
    schema = object_of(
        {"Point": POINT, "Line": line},
        line={"$ref": "#/$defs/Line", "description": "A line"},
        any={"anyOf": [{"$ref": "#/$defs/Point"}, {"type": "null"}]},
    )

    assert inline_refs(schema) == {
        "type": "object",
        "properties": {
            "line": {
                "properties": {"from": POINT, "via": {"items": POINT}},
                "description": "A line",
            },
            "any": {"anyOf": [POINT, {"type": "null"}]},
        },
    }


def test_references_lead_anywhere() -> None:
    """Into lists, and through names with the characters that pointers escape."""
    root = {"anyOf": [{"type": "null"}, POINT], "$defs": {"a/b~c": POINT}}

    assert find_ref(root, "#/anyOf/1") == find_ref(root, "#/$defs/a~1b~0c") == POINT
    assert find_ref(root, "#") is root
    for ref in ("#/anyOf/2", "#/anyOf/x", "#/$defs/a", "other.json#/x"):
        with pytest.raises(LookupError):
            find_ref(root, ref)


def test_what_cannot_be_written_out_is_none() -> None:
    """Recursion, references to nothing, and growth without use."""
    node = {"properties": {"next": {"$ref": "#/$defs/Node"}}}
    twice = {
        f"T{i}": {"properties": {k: {"$ref": f"#/$defs/T{i + 1}"} for k in "ab"}} for i in range(20)
    }

    assert inline_refs(object_of({"Node": node}, node={"$ref": "#/$defs/Node"})) is None
    assert inline_refs(object_of({}, a={"$ref": "#/$defs/Nope"})) is None
    assert inline_refs(object_of({**twice, "T20": POINT}, a={"$ref": "#/$defs/T0"})) is None


def test_recursive_definitions_are_kept_and_others_written_out() -> None:
    """Only what needs a name keeps one."""
    node = {"properties": {"next": {"$ref": "#/$defs/Node"}, "at": {"$ref": "#/$defs/Point"}}}
    schema = object_of(
        {"Point": POINT, "Node": node}, node={"$ref": "#/$defs/Node"}, at={"$ref": "#/$defs/Point"}
    )

    assert inline_where_possible(schema) == {
        "type": "object",
        "properties": {"node": {"$ref": "#/$defs/Node"}, "at": POINT},
        "$defs": {"Node": {"properties": {"next": {"$ref": "#/$defs/Node"}, "at": POINT}}},
    }


def test_a_schema_that_would_explode_keeps_its_definitions() -> None:
    """A small schema is not made a huge one."""
    twice = {
        f"T{i}": {"properties": {k: {"$ref": f"#/$defs/T{i + 1}"} for k in "ab"}} for i in range(20)
    }
    schema = object_of({**twice, "T20": POINT}, a={"$ref": "#/$defs/T0"})

    assert inline_where_possible(schema) == schema


def test_titles_go_and_properties_called_title_stay() -> None:
    """A title in a schema is noise; a property or a value of that name is not."""
    schema = {
        "title": "T",
        "properties": {"title": {"title": "Title", "type": "string", "default": {"title": 1}}},
        "anyOf": [
            {"title": "x", "oneOf": [{"title": "y"}], "discriminator": {"propertyName": "k"}}
        ],
    }

    assert without_titles(schema) == {
        "properties": {"title": {"type": "string", "default": {"title": 1}}},
        "anyOf": [{"oneOf": [{}]}],
    }
