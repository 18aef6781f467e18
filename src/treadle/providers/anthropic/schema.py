"""JSON Schemas in the subset that the server can guarantee, and what is left of the others."""

from __future__ import annotations

from typing import Any

from treadle.providers._json import encode
from treadle.values import is_array, is_object

Schema = dict[str, Any]

MOST_OPTIONAL = 24
MOST_UNIONS = 16
"""So many optional fields and unions the server compiles, of all objects of a schema together."""

_FORMATS = frozenset(
    {"date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"}
)
_TYPES = frozenset({"object", "array", "string", "integer", "number", "boolean", "null"})
_KEPT = frozenset({"title", "description", "enum", "const", "default"})
_UNIONS = ("anyOf", "oneOf", "allOf")
_SILENT = frozenset({"$schema", "$id", "$comment", "examples", "discriminator"})
_PRIMITIVE = (str, int, float, bool, type(None))


class NotNative(Exception):
    """The server cannot guarantee this schema; the text says why."""


def native_schema(schema: Schema) -> Schema:
    """Return a schema in the server's subset that allows no less than the given one.

    What it cannot hold is said in descriptions: the model reads those.

    Raises:
        NotNative: it allows what the subset cannot: recursion, objects with any keys, any value.
    """
    _refuse_recursion(schema)
    narrowed = _narrowed(schema)
    optional, unions = _counted(narrowed)
    if optional > MOST_OPTIONAL or unions > MOST_UNIONS:
        raise NotNative(f"{optional} optional fields and {unions} unions")
    return narrowed


def _narrowed(schema: object) -> Schema:
    if not is_object(schema):
        raise NotNative(f"a schema that is {schema!r}")
    wire: Schema = {name: schema[name] for name in _KEPT if name in schema}
    rest = {
        name: value for name, value in schema.items() if name not in _KEPT and name not in _SILENT
    }
    definitions = rest.pop("$defs", None)
    definitions = rest.pop("definitions", None) if definitions is None else definitions
    if is_object(definitions):
        name = "$defs" if "$defs" in schema else "definitions"
        wire[name] = {key: _narrowed(value) for key, value in definitions.items()}
    _take_shape(wire, rest)
    if not all(isinstance(value, _PRIMITIVE) for value in wire.get("enum", ())):
        raise NotNative("an enum of lists or objects")
    if rest:
        said = f"{{{', '.join(f'{name}: {_json(value)}' for name, value in rest.items())}}}"
        known = wire.get("description")
        wire["description"] = f"{known}\n\n{said}" if known else said
    return wire


def _take_shape(wire: Schema, rest: Schema) -> None:
    """Move what says of which type a value is from `rest` into `wire`, as far as it may go."""
    reference = rest.get("$ref")
    if isinstance(reference, str):
        if not reference.startswith("#"):
            raise NotNative(f"a reference to {reference!r}")
        for beside in _KEPT & wire.keys():
            del wire[beside]  # nothing but definitions may stand beside a reference
        wire["$ref"] = reference
        rest.clear()
        return
    _take_unions(wire, rest)
    kinds = _take_types(wire, rest)
    if "object" in kinds:
        _take_fields(wire, rest)
    if "array" in kinds:
        _take_items(wire, rest)
    if "string" in kinds and rest.get("format") in _FORMATS:
        wire["format"] = rest.pop("format")


def _take_unions(wire: Schema, rest: Schema) -> None:
    for name in _UNIONS:
        choices = rest.pop(name, None)
        if not is_array(choices) or not choices:
            continue
        if name == "allOf" and any("$ref" in each for each in choices):
            raise NotNative("a reference inside of allOf")
        wire["allOf" if name == "allOf" else "anyOf"] = [_narrowed(each) for each in choices]


def _take_types(wire: Schema, rest: Schema) -> list[Any]:
    kind = rest.pop("type", None)
    kinds: list[Any] = kind if is_array(kind) else [kind] if kind else []
    if not all(each in _TYPES for each in kinds):
        raise NotNative(f"type {kind!r}")
    if kinds:
        wire["type"] = kind
    elif wire.keys().isdisjoint({"anyOf", "allOf", "enum", "const"}):
        raise NotNative("a value of any type")
    return kinds


def _take_items(wire: Schema, rest: Schema) -> None:
    if "items" not in rest:
        raise NotNative("a list of anything")
    wire["items"] = _narrowed(rest.pop("items"))
    if rest.get("minItems") in (0, 1):
        wire["minItems"] = rest.pop("minItems")


def _take_fields(wire: Schema, rest: Schema) -> None:
    fields = rest.pop("properties", None)
    others = rest.pop("additionalProperties", None)
    if not is_object(fields) or not fields:
        if others is not False:
            raise NotNative("an object with any keys")
        fields = {}
    elif is_object(others):
        raise NotNative("an object with any keys")
    wire["properties"] = {name: _narrowed(each) for name, each in fields.items()}
    wire["additionalProperties"] = False
    required = rest.pop("required", None)
    if is_array(required):
        wire["required"] = required


def _refuse_recursion(schema: Schema) -> None:
    """Raise NotNative when a definition leads to itself."""
    leads: dict[str, set[str]] = {}
    for place in ("$defs", "definitions"):
        named = schema.get(place)
        for name, value in named.items() if is_object(named) else ():
            leads[f"#/{place}/{name}"] = _references(value)
    if "#" in _references(schema):
        raise NotNative("a schema that contains itself")
    for start in leads:
        seen: set[str] = set()
        ahead = list(leads[start])
        while ahead:
            name = ahead.pop()
            if name == start:
                raise NotNative(f"{start!r}, which contains itself")
            if name not in seen:
                seen.add(name)
                ahead += leads.get(name, ())


def _references(schema: object) -> set[str]:
    if is_array(schema):
        return {found for each in schema for found in _references(each)}
    if not is_object(schema):
        return set()
    own = schema.get("$ref")
    inner = {found for each in schema.values() for found in _references(each)}
    return inner | {own} if isinstance(own, str) else inner


def _counted(schema: object) -> tuple[int, int]:
    """Return how many optional fields and how many unions a schema has."""
    if is_array(schema):
        counts = [_counted(each) for each in schema]
    elif is_object(schema):
        counts = [_counted(each) for each in schema.values()]
        fields = schema.get("properties")
        if is_object(fields):
            counts.append((len(fields) - len(schema.get("required", ())), 0))
        counts.append((0, int("anyOf" in schema or is_array(schema.get("type")))))
    else:
        return 0, 0
    return sum(count[0] for count in counts), sum(count[1] for count in counts)


def _json(value: object) -> str:
    return encode(value).decode()
