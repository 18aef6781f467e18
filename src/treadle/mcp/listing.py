"""What servers list, made into something that can be used: each tool on its own merits."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from treadle.values import clean, is_array, is_object
from treadle.values.logs import logger

log = logger(__name__)

OWN_SCHEMA = "treadle/inputSchema"
"""Where a mended tool keeps the schema that the server wrote."""
MOST_PAGES = 1_000
_HINTS = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")


class Listed(Struct, frozen=True, kw_only=True):
    """A tool as its server lists it. `hints` are the server's own claims: believe them or not."""

    name: str
    description: str
    schema: Any
    hints: dict[str, bool]


def mend_tools(result: dict[str, Any]) -> None:
    """Change a list of tools so that one bad entry does not spoil the others.

    The SDK refuses the whole list for one schema that is not written as it should be. Output
    schemas are left out: what a server answers is handed on as it is.
    """
    tools: Any = result.get("tools")
    if not is_array(tools):
        return
    mended: list[dict[str, Any]] = []
    for tool in tools:
        if not is_object(tool) or not isinstance(tool.get("name"), str) or not tool["name"]:
            log.warning("An MCP server lists a tool without a name; it is left out: %.80r", tool)
            continue
        mended.append(_mended(tool))
    result["tools"] = mended


def _mended(tool: dict[str, Any]) -> dict[str, Any]:
    schema = tool.get("inputSchema")
    found: dict[str, Any] = {
        "name": tool["name"],
        "inputSchema": _as_object(schema),
        "_meta": {OWN_SCHEMA: schema},
    }
    if isinstance(tool.get("description"), str):
        found["description"] = tool["description"]
    hints: Any = tool.get("annotations")
    if is_object(hints):
        kept = {name: hints[name] for name in _HINTS if isinstance(hints.get(name), bool)}
        found["annotations"] = kept
    return found


def _as_object(schema: Any) -> dict[str, Any]:
    """Return what of a schema the SDK takes."""
    if not is_object(schema):
        return {"type": "object"}
    found: dict[str, Any] = {**schema, "type": "object"}
    properties, required = found.pop("properties", None), found.pop("required", None)
    if is_object(properties):
        found["properties"] = {name: each for name, each in properties.items() if is_object(each)}
    if is_array(required):
        found["required"] = [each for each in required if isinstance(each, str)]
    return found


def listed_tools(entries: Iterable[dict[str, Any]]) -> list[Listed]:
    """Return the tools of a list; the first of several with one name counts."""
    found: dict[str, Listed] = {}
    for entry in entries:
        meta: Any = entry.get("_meta")
        own = is_object(meta) and OWN_SCHEMA in meta
        hints: Any = entry.get("annotations") or {}
        tool = Listed(
            name=entry["name"],
            description=clean(entry.get("description") or ""),
            schema=meta[OWN_SCHEMA] if own else entry.get("inputSchema"),
            hints={name: bool(hints.get(name)) for name in _HINTS if name in hints},
        )
        if tool.name in found:
            log.warning("An MCP server lists two tools named %r; the first counts.", tool.name)
        else:
            found[tool.name] = tool
    return list(found.values())
