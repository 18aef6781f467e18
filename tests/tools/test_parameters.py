"""Parameters known at run time: the list builder, and the normalising of foreign schemas."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.errors import InvalidTool
from treadle.tools.normalize import TYPES
from treadle.tools.parameters import Parameter, normalize_schema, parameters_schema, with_parameters
from treadle.values import is_object

EMPTY: dict[str, Any] = {"type": "object", "properties": {}}


def test_a_list_becomes_a_schema() -> None:
    """Names, types, descriptions and required flags arrive, also nested ones (S14, S15)."""
    schema = parameters_schema(
        [
            Parameter(name="city", description="City name", required=True),
            Parameter(name="unit", enum=("C", "F")),
            Parameter(name="days", type="array", items="integer"),
            Parameter(name="tags", type="array"),
            Parameter(
                name="where",
                type="object",
                required=True,
                properties=(
                    Parameter(name="lat", type="number", required=True),
                    Parameter(name="note"),
                ),
            ),
            Parameter(name="extra", type="object"),
        ]
    )

    assert schema == {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "City name"},
            "unit": {"type": "string", "enum": ["C", "F"]},
            "days": {"type": "array", "items": {"type": "integer"}},
            "tags": {"type": "array", "items": {}},
            "where": {
                "type": "object",
                "properties": {"lat": {"type": "number"}, "note": {"type": "string"}},
                "required": ["lat"],
            },
            "extra": EMPTY,
        },
        "required": ["city", "where"],
    }


def test_no_parameters_are_an_empty_object() -> None:
    """A tool without parameters has a schema too."""
    assert parameters_schema([]) == EMPTY


def test_a_parameter_can_be_added_again_and_again() -> None:
    """It stands in `required` once, and the last one counts (S15)."""
    first = parameters_schema(
        [Parameter(name="a", required=True), Parameter(name="a", required=True)]
    )
    before = copy.deepcopy(first)
    second = with_parameters(
        first, Parameter(name="a", type="integer"), Parameter(name="b", required=True)
    )

    assert first == before == {**EMPTY, "properties": {"a": {"type": "string"}}, "required": ["a"]}
    assert second["properties"] == {"a": {"type": "integer"}, "b": {"type": "string"}}
    assert second["required"] == ["b"]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"name": ""}, "needs a name"),
        ({"name": "a", "type": "str"}, "did you mean 'string'"),
        ({"name": "a", "type": "banana"}, "not a type"),
        ({"name": "a", "items": "string"}, "only an array has items"),
        ({"name": "a", "properties": (Parameter(name="b"),)}, "only an object has properties"),
    ],
)
def test_a_wrong_parameter_is_refused(fields: dict[str, Any], words: str) -> None:
    """The message says which parameter and why."""
    with pytest.raises(InvalidTool, match=words):
        Parameter(**fields)


NORMALISED: list[tuple[Any, Any]] = [
    (None, EMPTY),
    ({}, EMPTY),
    ({"type": "object"}, EMPTY),
    ({"type": "object", "properties": None, "required": None}, EMPTY),
    ({"properties": {"a": {}}}, {"type": "object", "properties": {"a": {}}}),
    ({"type": ["object", "null"]}, EMPTY),
    ({"type": "object", "required": []}, EMPTY),
    ({"$schema": "http://json-schema.org/draft-07/schema#", "type": "object"}, EMPTY),
    (
        {"type": "object", "properties": {"x": {"type": ["string", "null"]}}},
        {"type": "object", "properties": {"x": {"type": ["string", "null"]}}},
    ),
    (
        {
            "properties": {
                "a": {"properties": {"b": {"items": {}}}},
                "c": {"enum": ["x"]},
                "d": True,
            }
        },
        {
            "type": "object",
            "properties": {
                "a": {"type": "object", "properties": {"b": {"type": "array", "items": {}}}},
                "c": {"type": "string", "enum": ["x"]},
                "d": {},
            },
        },
    ),
    (
        {"type": "object", "properties": {"a": {"type": "array"}}, "required": ["a", "b", "a"]},
        {
            "type": "object",
            "properties": {"a": {"type": "array", "items": {}}, "b": {}},
            "required": ["a", "b"],
        },
    ),
    (
        {"type": "object", "properties": {"a": {"anyOf": [{"items": {}}, {"type": "object"}]}}},
        {
            "type": "object",
            "properties": {"a": {"anyOf": [{"type": "array", "items": {}}, EMPTY]}},
        },
    ),
    (
        {"$ref": "#/$defs/A", "$defs": {"A": {"properties": {"x": {"type": "integer"}}}}},
        {
            "type": "object",
            "properties": {"x": {"type": "integer"}},
            "$defs": {"A": {"type": "object", "properties": {"x": {"type": "integer"}}}},
        },
    ),
    (
        {
            "properties": {"a": {"default": None, "enum": ["x", None]}},
            "additionalProperties": False,
        },
        {
            "type": "object",
            "properties": {"a": {"default": None, "enum": ["x", None]}},
            "additionalProperties": False,
        },
    ),
]


@pytest.mark.parametrize(("given", "expected"), NORMALISED)
def test_any_object_schema_is_normalised(
    given: dict[str, Any] | None, expected: dict[str, Any]
) -> None:
    """What is missing is filled in, null keywords go; the given schema stays as it is (BS-57)."""
    before = copy.deepcopy(given)

    assert normalize_schema(given) == expected
    assert given == before
    assert normalize_schema(expected) == expected


def test_alternatives_at_the_top_are_merged() -> None:
    """Providers refuse them there; one object allows what any of them does."""
    one = {
        "type": "object",
        "properties": {"kind": {"const": "a"}, "x": {"type": "integer"}},
        "required": ["kind", "x"],
    }
    two = {"properties": {"kind": {"const": "b"}}, "required": ["kind"]}

    schema = normalize_schema({"oneOf": [one, two], "properties": {"z": {}}, "required": ["z"]})

    assert schema["required"] == ["z", "kind"]
    assert schema["properties"]["x"] == {"type": "integer"}
    assert [choice["const"] for choice in schema["properties"]["kind"]["anyOf"]] == ["a", "b"]
    assert "oneOf" not in schema


def test_conditions_on_required_are_dropped_at_the_top() -> None:
    """The common "one of these two" keeps its properties and their types."""
    given = {
        "type": "object",
        "properties": {"id": {"type": "string"}, "name": {"type": "string"}},
        "anyOf": [{"required": ["id"]}, {"type": "object", "required": ["name"]}],
    }

    assert normalize_schema(given) == {"type": "object", "properties": given["properties"]}


def test_all_parts_at_the_top_count() -> None:
    """Under `allOf` every part's required properties are required."""
    given: dict[str, Any] = {
        "allOf": [{"properties": {"a": {}}, "required": ["a"]}, {"required": ["b"]}]
    }

    assert normalize_schema(given)["required"] == ["a", "b"]


@pytest.mark.parametrize(
    ("given", "place"),
    [
        ({"type": "banana"}, "'type': 'banana' is not a type"),
        ({"type": "string"}, "'type': the parameters of a tool are an object"),
        ({"properties": {"a": {"type": "banana"}}}, "properties.a.type"),
        ({"properties": {"a": {"items": {"type": "int"}}}}, "properties.a.items.type"),
        ({"properties": {"a": 5}}, "properties.a"),
        ({"properties": []}, "'properties'"),
        (
            {"properties": {"a": {"anyOf": [{"type": "bool"}]}}},
            r"anyOf\[0\].type.*did you mean 'boolean'",
        ),
        ({"properties": {"a": {"enum": []}}}, "properties.a.enum"),
        ({"required": ["a", 5]}, "'required'"),
        ({"required": True}, "'required'"),
        ({"properties": {"a": {"$ref": "#/$defs/Nope"}}}, r"properties.a.\$ref"),
        ({"properties": {"a": {"$ref": "http://x/y"}}}, "only references inside"),
        ({"$ref": "#"}, "refers to itself"),
        ({"properties": {"a": {"type": []}}}, "properties.a.type"),
        ({"anyOf": [{"$ref": "#"}]}, "themselves"),
        ({"properties": {"a": {"default": object()}}}, "cannot be written as JSON"),
        ("text", "its top"),
        ([], "its top"),
    ],
)
def test_nonsense_is_refused_with_its_place(given: Any, place: str) -> None:
    """The message says where in the schema the trouble is (BS-57)."""
    with pytest.raises(InvalidTool, match=place):
        normalize_schema(given)


def test_a_schema_that_contains_itself_is_refused() -> None:
    """A Python cycle cannot be sent to anybody."""
    inner: dict[str, Any] = {"type": "object"}
    inner["properties"] = {"again": inner}

    with pytest.raises(InvalidTool, match="contains itself"):
        normalize_schema(inner)


def nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Return schemas that hold other schemas."""
    optional: dict[str, st.SearchStrategy[Any]] = {
        "properties": st.dictionaries(st.text(max_size=3), inner, max_size=3) | st.none(),
        "required": st.lists(st.text(max_size=3), max_size=3),
        "items": inner | st.booleans(),
        "anyOf": st.lists(inner, min_size=1, max_size=2),
        "additionalProperties": inner | st.booleans(),
    }
    return st.fixed_dictionaries({}, optional=optional)


schemas: st.SearchStrategy[dict[str, Any]] = st.recursive(
    st.fixed_dictionaries({}, optional={"type": st.sampled_from(TYPES), "description": st.text()}),
    nested,
    max_leaves=8,
)


def problems_of(schema: Any) -> list[str]:
    """Return what a strict provider would refuse in a schema."""
    if not is_object(schema):
        return []
    found: list[str] = []
    properties = schema.get("properties", {})
    if schema.get("type") == "object":
        found += [] if "properties" in schema else ["object without properties"]
        found += [name for name in schema.get("required", ()) if name not in properties]
    if schema.get("type") == "array" and "items" not in schema:
        found.append("array without items")
    children = [*properties.values(), *schema.get("anyOf", ())]
    children += [schema.get("items"), schema.get("additionalProperties")]
    return found + [problem for child in children for problem in problems_of(child)]


@given(schemas)
def test_normalised_schemas_are_acceptable(schema: dict[str, Any]) -> None:
    """Every object schema comes out complete, and normalising it again changes nothing."""
    normalized = normalize_schema({**schema, "type": "object"})

    assert normalized["type"] == "object"
    assert problems_of(normalized) == []
    assert normalize_schema(normalized) == normalized
