"""Any input schema made into one that providers accept, or refused with a reason."""

from __future__ import annotations

from typing import Any

from msgspec.json import encode as encode_json

from treadle.errors import InvalidTool
from treadle.tools.names import likely
from treadle.tools.schema import (
    LISTED_CHILDREN,
    NAMED_CHILDREN,
    SINGLE_CHILDREN,
    JsonSchema,
    find_ref,
)
from treadle.values import is_array, is_object

TYPES = ("string", "integer", "number", "boolean", "array", "object", "null")

MOST_LAYERS = 100

_FREE_VALUES = ("const", "default", "enum", "examples", "example")
"""Keywords whose null is a value; elsewhere null is how some languages write "not set"."""
_DOCUMENT_KEYS = ("$schema", "$id", "$comment")
_CONDITIONS = ("not", "enum", "const", "if", "then", "else")
"""Keywords, with those of alternatives, that providers refuse at the top level."""


def normalize_schema(schema: JsonSchema | None) -> JsonSchema:
    """Return an object schema that providers accept and that means the same.

    None and `{}` become the schema of no parameters. Missing types are inferred, arrays get
    `items`, objects `properties`, `required` names each property once, and null where a keyword
    is not set is left out. Alternatives at the top level, which providers refuse, are merged
    into one object that allows what any of them allows.

    Raises:
        InvalidTool: it is not a JSON Schema of an object; the message has the path.
    """
    if schema is None:
        return {"type": "object", "properties": {}}
    root = _expect_object(schema, "")
    normalized = _Normalizer(root).parameters()
    try:
        encode_json(normalized)
    except (TypeError, ValueError) as error:
        raise InvalidTool(f"The schema cannot be written as JSON: {error}") from error
    return normalized


def checked_type(name: object, path: str) -> str:
    """Return the name of a JSON Schema type.

    Raises:
        InvalidTool: there is no such type.
    """
    if isinstance(name, str) and name in TYPES:
        return name
    meant = likely(name, TYPES) if isinstance(name, str) else None
    hint = f", did you mean {meant!r}?" if meant else ""
    raise _invalid(path, f"{name!r} is not a type{hint}; the types are {', '.join(TYPES)}")


class _Normalizer:
    """Normalises one schema; `root` is where its references lead."""

    def __init__(self, root: JsonSchema) -> None:
        self._root = root

    def parameters(self) -> JsonSchema:
        """Return the whole schema as that of a tool's parameters."""
        schema = {key: value for key, value in self._root.items() if key not in _DOCUMENT_KEYS}
        schema = self._dereferenced(schema, "")
        kind = schema.get("type") or "object"
        if kind != "object" and not (is_array(kind) and "object" in kind):
            checked_type(kind, "type")
            raise _invalid("type", f"the parameters of a tool are an object, not {kind!r}")
        self._root = self._schema({**schema, "type": "object"}, "", 0)
        return self._filled(self._merged(self._root, "", 0))

    def _schema(self, schema: Any, path: str, depth: int) -> JsonSchema:
        if isinstance(schema, bool):
            return {} if schema else {"not": {}}
        if depth > MOST_LAYERS:
            raise _invalid(path[:60], "it is nested too deeply, or contains itself")
        normalized: JsonSchema = {}
        for key, value in _expect_object(schema, path).items():
            if value is not None or key in _FREE_VALUES:
                normalized[key] = self._keyword(key, value, f"{path}.{key}", depth)
        self._dereferenced(normalized, path)  # refuses a reference that leads nowhere
        return self._filled(normalized)

    def _keyword(self, key: str, value: Any, path: str, depth: int) -> Any:
        if key in NAMED_CHILDREN:
            named = _expect_object(value, path).items()
            return {key: self._schema(child, f"{path}.{key}", depth + 1) for key, child in named}
        if key in LISTED_CHILDREN or (key == "items" and is_array(value)):
            listed = enumerate(_expect_list(value, path))
            return [self._schema(child, f"{path}[{i}]", depth + 1) for i, child in listed]
        if key in SINGLE_CHILDREN:
            stays = isinstance(value, bool) and key != "items"
            return value if stays else self._schema(value, path, depth + 1)
        if key == "type":
            return _checked_types(value, path)
        if key == "required":
            return _checked_names(value, path)
        return _expect_list(value, path) if key == "enum" else value

    def _filled(self, schema: JsonSchema) -> JsonSchema:
        """Return the schema with what it leaves out, as far as that is clear."""
        kind = schema.get("type") or _inferred_type(schema)
        kinds: list[Any] = kind if is_array(kind) else [kind]
        filled: JsonSchema = schema if kind is None else {"type": kind, **schema}
        if "array" in kinds and "prefixItems" not in filled:
            filled = {"items": {}, **filled}
        if "object" in kinds:
            properties: JsonSchema = {name: {} for name in filled.get("required", ())}
            filled = {**filled, "properties": properties | filled.get("properties", {})}
        return {key: value for key, value in filled.items() if key != "required" or value}

    def _dereferenced(self, schema: JsonSchema, path: str) -> JsonSchema:
        """Return the schema with what it refers to, if it refers to something, put in."""
        met: set[str] = set()
        while "$ref" in schema:
            ref = schema["$ref"]
            rest = {key: value for key, value in schema.items() if key != "$ref"}
            if not isinstance(ref, str) or ref in met:
                raise _invalid(f"{path}.$ref", f"{ref!r} refers to itself")
            met.add(ref)
            try:
                target = find_ref(self._root, ref)
            except LookupError as error:
                problem = f"{ref!r} leads nowhere; only references inside the schema work"
                raise _invalid(f"{path}.$ref", problem) from error
            schema = {**(target if is_object(target) else {}), **rest}
        return schema

    def _merged(self, schema: JsonSchema, path: str, depth: int) -> JsonSchema:
        """Return an object schema that allows what each of its alternatives allows."""
        if depth > MOST_LAYERS:
            raise _invalid(path, "its alternatives contain themselves")
        schema = self._dereferenced(schema, path)
        left_out = (*_CONDITIONS, *_BRANCHES)
        merged = {key: value for key, value in schema.items() if key not in left_out}
        for key in _BRANCHES:
            listed = schema.get(key, ())
            branches = [self._merged(branch, f"{path}.{key}", depth + 1) for branch in listed]
            if not branches:
                continue
            properties = dict(merged.get("properties", {}))
            for branch in branches:
                _merge_properties(properties, branch.get("properties", {}), key)
            needs = [branch.get("required", []) for branch in branches]
            shared = [name for name in needs[0] if all(name in need for need in needs)]
            added = [name for need in needs for name in need] if key == "allOf" else shared
            required = list(dict.fromkeys([*merged.get("required", []), *added]))
            merged |= {"properties": properties, "required": required}
        return merged


_BRANCHES = ("allOf", "anyOf", "oneOf")


def _merge_properties(into: JsonSchema, more: JsonSchema, key: str) -> None:
    """Add properties; one that is there already must fit both (`allOf`), or either."""
    for name, child in more.items():
        known = into.get(name, {})
        if not known or not child or known == child:
            into[name] = known or child
        else:
            into[name] = {"allOf" if key == "allOf" else "anyOf": [known, child]}


def _inferred_type(schema: JsonSchema) -> str | None:
    """Return the type that a schema without one means, None where it may be any."""
    if "properties" in schema:
        return "object"
    if "items" in schema or "prefixItems" in schema:
        return "array"
    choices = schema.get("enum", [schema["const"]] if "const" in schema else [])
    return "string" if choices and all(isinstance(choice, str) for choice in choices) else None


def _checked_types(value: object, path: str) -> Any:
    if is_array(value) and value:
        return list(dict.fromkeys(checked_type(each, path) for each in value))
    return checked_type(value, path)


def _checked_names(value: object, path: str) -> list[str]:
    names = _expect_list(value, path) if value else []
    if not all(isinstance(name, str) for name in names):
        raise _invalid(path, f"{value!r} is not a list of property names")
    return list(dict.fromkeys(names))


def _expect_object(value: object, path: str) -> dict[str, Any]:
    if is_object(value):
        return value
    raise _invalid(path, f"expected an object, got {str(value)[:80]!r}")


def _expect_list(value: object, path: str) -> list[Any]:
    if is_array(value) and value:
        return value
    raise _invalid(path, f"expected a list with something in it, got {str(value)[:80]!r}")


def _invalid(path: str, problem: str) -> InvalidTool:
    place = path.removeprefix(".")
    return InvalidTool(f"The schema is not valid at {place or 'its top'!r}: {problem}.")
