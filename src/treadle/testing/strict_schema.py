"""Where a JSON Schema leaves OpenAI's strict subset."""

from __future__ import annotations

from typing import Any

from treadle.values import is_array, is_object


def schema_problems(schema: Any, place: str) -> list[str]:
    """Return where a schema leaves the strict subset."""
    if is_array(schema):
        return [problem for item in schema for problem in schema_problems(item, place)]
    if not is_object(schema):
        return []
    problems: list[str] = []
    fields = schema.get("properties")
    if schema.get("type") == "object" or is_object(fields):
        names = set(fields) if is_object(fields) else set[str]()
        if schema.get("additionalProperties") is not False:
            problems.append(f"{place}: additionalProperties must be false in a strict schema")
        if set(schema.get("required", ())) != names:
            problems.append(f"{place}: all of {sorted(names)} must be required in a strict schema")
    for name, inner in schema.items():
        nested = list(inner.values()) if name in ("properties", "$defs") else inner
        if name not in ("enum", "const", "required", "examples", "default"):
            problems += schema_problems(nested, f"{place}.{name}")
    return problems
