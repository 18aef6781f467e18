"""JSON Schemas in the subset that Gemini reads; what it does not read is said in words."""

from __future__ import annotations

from typing import Any

from treadle.providers._json import encode
from treadle.values import is_array, is_object

Schema = dict[str, Any]

_READ = frozenset(
    {"$anchor", "$defs", "$id", "$ref", "additionalProperties", "anyOf", "default", "description"}
    | {"enum", "format", "items", "maxItems", "maxLength", "maxProperties", "maximum", "minItems"}
    | {"minLength", "minProperties", "minimum", "nullable", "oneOf", "pattern", "prefixItems"}
    | {"properties", "propertyOrdering", "required", "title", "type", "uniqueItems"}
)
_MAPS = frozenset({"properties", "$defs"})
_SCHEMAS = frozenset({"items", "additionalProperties", "anyOf", "oneOf", "prefixItems"})
_SILENT = frozenset({"$schema", "$comment", "discriminator", "examples", "deprecated", "readOnly"})


def gemini_schema(schema: Schema) -> Schema:
    """Return a schema that Gemini takes; the same object when it is one already.

    `const` becomes an `enum` of one, what stands beside a `$ref` moves out of its reach, an
    `allOf` of one is that one, older `definitions` are `$defs`. Whatever else is not read becomes
    a sentence of the description.
    """
    return schema if _is_read(schema) else _read(schema)


def _is_read(schema: object) -> bool:
    if is_array(schema):
        return all(_is_read(item) for item in schema)
    if not is_object(schema):
        return True
    if not _READ.issuperset(schema):
        return False
    if "$ref" in schema and not _may_refer(schema):
        return False
    for name in _MAPS & schema.keys():
        inner = schema[name]
        if is_object(inner) and not all(_is_read(item) for item in inner.values()):
            return False
    return all(_is_read(schema[name]) for name in _SCHEMAS & schema.keys())


def _may_refer(schema: Schema) -> bool:
    """Whether nothing but other ``$`` fields, and a title, stands beside a reference."""
    return all(name.startswith("$") or name == "title" for name in schema)


def _read(schema: Any) -> Any:
    if is_array(schema):
        return [_read(item) for item in schema]
    if not is_object(schema):
        return schema
    wire: Schema = {}
    notes: list[str] = []
    for name, value in _flattened(schema).items():
        if name in _READ:
            wire[name] = _field(name, value)
        elif name not in _SILENT:
            notes.append(f"{name}: {encode(value).decode()}")
    if notes:
        words = f"({', '.join(notes)})"
        wire["description"] = f"{wire['description']} {words}" if "description" in wire else words
    if "$ref" in wire and not _may_refer(wire):
        reference = {"$ref": wire.pop("$ref")}
        wire = {"anyOf": [reference], **wire}
    return wire


def _field(name: str, value: Any) -> Any:
    """Return what a field holds: schemas of its own, by name or not, or a value."""
    if name in _MAPS and is_object(value):
        return {key: _read(item) for key, item in value.items()}
    if name == "$ref" and isinstance(value, str):
        return value.replace("#/definitions/", "#/$defs/")
    return _read(value) if name in _SCHEMAS else value


def _flattened(schema: Schema) -> Schema:
    """Return a schema in fields that are read, as far as there are any for what it says."""
    flat = dict(schema)
    every: Any = flat.get("allOf")
    lone = every[0] if is_array(every) and len(every) == 1 else None
    if is_object(lone) and lone.keys().isdisjoint(flat.keys()):
        del flat["allOf"]
        flat |= lone
    if "definitions" in flat and "$defs" not in flat:
        flat["$defs"] = flat.pop("definitions")
    if "const" in flat and "enum" not in flat:
        flat["enum"] = [flat.pop("const")]
    return flat
