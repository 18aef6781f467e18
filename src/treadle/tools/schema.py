"""JSON Schemas as trees: walk them, find what a reference means, write references out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from treadle.values import is_array, is_object

JsonSchema = dict[str, Any]

NAMED_CHILDREN = ("properties", "patternProperties", "dependentSchemas", "$defs", "definitions")
"""Keywords that hold schemas by name."""
LISTED_CHILDREN = ("anyOf", "oneOf", "allOf", "prefixItems")
"""Keywords that hold a list of schemas."""
SINGLE_CHILDREN = (
    "items",
    "additionalItems",
    "additionalProperties",
    "contains",
    "not",
    "if",
    "then",
    "else",
    "propertyNames",
    "unevaluatedItems",
    "unevaluatedProperties",
)
"""Keywords that hold one schema."""
DEFINITIONS = ("$defs", "definitions")

MOST_EXPANSIONS = 500
"""How many references are written out before the result would be larger than it is useful."""


def map_children(schema: JsonSchema, change: Callable[[Any], Any]) -> JsonSchema:
    """Return a copy of a schema with `change` applied to each schema directly inside it."""
    copy = dict(schema)
    for key, value in schema.items():
        if key in NAMED_CHILDREN and is_object(value):
            copy[key] = {name: change(child) for name, child in value.items()}
        elif (key in LISTED_CHILDREN or key == "items") and is_array(value):
            copy[key] = [change(child) for child in value]
        elif key in SINGLE_CHILDREN:
            copy[key] = change(value)
    return copy


def children_of(schema: JsonSchema) -> Iterator[Any]:
    """Yield the schemas directly inside one, without those in its definitions."""
    for key, value in schema.items():
        if key in NAMED_CHILDREN and key not in DEFINITIONS and is_object(value):
            yield from value.values()
        elif key in LISTED_CHILDREN or key == "items":
            yield from value if is_array(value) else [value]
        elif key in SINGLE_CHILDREN:
            yield value


def without_titles(schema: Any) -> Any:
    """Return a copy without titles, which repeat names, and without OpenAPI's discriminators."""
    if not is_object(schema):
        return schema
    kept = {key: value for key, value in schema.items() if key not in ("title", "discriminator")}
    return map_children(kept, without_titles)


def find_ref(root: JsonSchema, ref: str) -> Any:
    """Return what a local reference like `#/$defs/Point` points to.

    Raises:
        LookupError: it points to nothing in this schema.
    """
    if not ref.startswith("#"):
        raise LookupError(ref)
    found: Any = root
    for step in ref[1:].split("/")[1:]:
        key = step.replace("~1", "/").replace("~0", "~")
        if is_array(found) and key.isdecimal() and int(key) < len(found):
            found = found[int(key)]
        elif is_object(found) and key in found:
            found = found[key]
        else:
            raise LookupError(ref)
    return found


def inline_refs(schema: JsonSchema) -> JsonSchema | None:
    """Return the schema with every `$ref` written out, for servers that know no `$defs`.

    None where that cannot be: the schema is recursive, refers to nothing, or would grow beyond use.
    """
    inliner = _Inliner(schema)
    inlined = inliner.inline(schema)
    return None if inliner.kept or not is_object(inlined) else inlined


def inline_where_possible(schema: JsonSchema) -> JsonSchema:
    """Return the schema with its references written out, but for those to recursive definitions."""
    inliner = _Inliner(schema)
    inlined = inliner.inline(schema)
    if inliner.exhausted or not is_object(inlined):
        return schema
    kept = {key: dict(schema[key]) for key in DEFINITIONS if key in schema and inliner.kept}
    for definitions in kept.values():
        for name, definition in definitions.items():
            definitions[name] = inliner.inline(definition)
    return inlined | _reachable(inlined, kept)


class _Inliner:
    """Writes out the references of one schema; `kept` are those that cannot be."""

    def __init__(self, root: JsonSchema) -> None:
        self._root = root
        self._left = MOST_EXPANSIONS
        self._recursive: dict[str, bool] = {}
        self.kept: set[str] = set()

    @property
    def exhausted(self) -> bool:
        """Whether the schema grew too large."""
        return self._left <= 0

    def inline(self, schema: Any) -> Any:
        if not is_object(schema):
            return schema
        rest = {key: value for key, value in schema.items() if key not in (*DEFINITIONS, "$ref")}
        ref = schema.get("$ref")
        if ref is None:
            return map_children(rest, self.inline)
        target = self._target(ref)
        if target is None:
            self.kept.add(str(ref))
            return {"$ref": ref} | map_children(rest, self.inline)
        self._left -= 1
        return {**self.inline(target), **map_children(rest, self.inline)}

    def _target(self, ref: object) -> JsonSchema | None:
        """Return what may be written in the reference's place."""
        if not isinstance(ref, str) or self.exhausted or self._is_recursive(ref):
            return None
        target = look_up(self._root, ref)
        return target if is_object(target) else None

    def _is_recursive(self, ref: str) -> bool:
        if ref not in self._recursive:
            self._recursive[ref] = ref in _refs_from(self._root, ref)
        return self._recursive[ref]


def look_up(root: JsonSchema, ref: str) -> Any:
    """Return what a local reference points to, or None."""
    try:
        return find_ref(root, ref)
    except LookupError:
        return None


def _refs_in(schema: Any) -> Iterator[str]:
    """Yield the references in a schema, without those inside its definitions."""
    if not is_object(schema):
        return
    if isinstance(schema.get("$ref"), str):
        yield schema["$ref"]
    for child in children_of(schema):
        yield from _refs_in(child)


def _refs_from(root: JsonSchema, ref: str) -> set[str]:
    """Return every reference that can be met on the way from what `ref` points to."""
    met: set[str] = set()
    waiting = [ref]
    while waiting:
        for following in _refs_in(look_up(root, waiting.pop())):
            if following not in met:
                met.add(following)
                waiting.append(following)
    return met


def _reachable(schema: JsonSchema, definitions: dict[str, JsonSchema]) -> dict[str, JsonSchema]:
    """Return the definitions that the schema still refers to, directly or through others."""
    whole = schema | definitions
    met = set(_refs_in(schema))
    for ref in list(met):
        met |= _refs_from(whole, ref)
    reachable = {
        key: {name: child for name, child in children.items() if _leads_into(met, key, name)}
        for key, children in definitions.items()
    }
    return {key: children for key, children in reachable.items() if children}


def _leads_into(refs: set[str], key: str, name: str) -> bool:
    pointer = f"#/{key}/{name.replace('~', '~0').replace('/', '~1')}"
    return any(ref == pointer or ref.startswith(f"{pointer}/") for ref in refs)
