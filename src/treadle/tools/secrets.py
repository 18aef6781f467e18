"""Which arguments of a tool are secret: its schema says so."""

from __future__ import annotations

from treadle.tools.schema import JsonSchema, children_of, look_up
from treadle.values import is_object


def secret_names(parameters: JsonSchema) -> tuple[str, ...]:
    """Return the names of a tool's parameters that are secret, or hold something that is.

    That is what JSON Schema marks as `"writeOnly": true`, or as `"format": "password"`; Pydantic's
    `SecretStr` is written so.
    https://json-schema.org/draft/2020-12/json-schema-validation#section-9.4
    """
    properties = parameters.get("properties")
    if not is_object(properties):
        return ()
    return tuple(name for name, schema in properties.items() if _is_secret(schema, parameters))


def _is_secret(schema: object, root: JsonSchema) -> bool:
    """Whether a schema, one inside it or one that it refers to is marked."""
    met: set[str] = set()
    waiting = [schema]
    while waiting:
        found = waiting.pop()
        if not is_object(found):
            continue
        if found.get("writeOnly") is True or found.get("format") == "password":
            return True
        ref = found.get("$ref")
        if isinstance(ref, str) and ref not in met:
            met.add(ref)
            waiting.append(look_up(root, ref))
        waiting.extend(children_of(found))
    return False
