"""Which arguments of a tool are secret: its schema says so."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

DEEPEST = 32


def secret_names(parameters: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of a tool's parameters that are secret, or hold something that is.

    That is what JSON Schema marks as `"writeOnly": true`, or as `"format": "password"`; Pydantic's
    `SecretStr` is written so.
    https://json-schema.org/draft/2020-12/json-schema-validation#section-9.4
    """
    properties = parameters.get("properties")
    if not isinstance(properties, dict):
        return ()
    named = cast("dict[str, object]", properties)
    return tuple(name for name, schema in named.items() if _Look(parameters).finds_mark(schema))


class _Look:
    """A search for marks; what is referred to is looked at once, wherever and however often."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._seen: set[str] = set()

    def finds_mark(self, schema: object, depth: int = 0) -> bool:
        """Whether a schema, or one inside it, is marked."""
        if isinstance(schema, list):
            return any(self.finds_mark(each, depth) for each in cast("list[object]", schema))
        if not isinstance(schema, dict) or depth > DEEPEST:
            return False
        found = cast("dict[str, object]", schema)
        if found.get("writeOnly") is True or found.get("format") == "password":
            return True
        return any(self.finds_mark(each, depth + 1) for each in self._inside(found))

    def _inside(self, found: dict[str, object]) -> Iterator[object]:
        """Return the schemas inside one, and the one that it refers to."""
        target = found.get("$ref")
        if isinstance(target, str) and target not in self._seen:
            self._seen.add(target)
            yield _referred(target, self._root)
        for key in ("properties", "patternProperties"):
            named = found.get(key)
            if isinstance(named, dict):
                yield list(cast("dict[str, object]", named).values())
        for key in ("items", "prefixItems", "additionalProperties", "anyOf", "oneOf", "allOf"):
            yield found.get(key)


def _referred(target: str, root: Mapping[str, Any]) -> object:
    """Return what a reference into the same schema points to."""
    found: object = root
    for part in target.removeprefix("#").strip("/").split("/"):
        if not isinstance(found, Mapping):
            return None
        found = cast("Mapping[str, object]", found).get(part)
    return found
