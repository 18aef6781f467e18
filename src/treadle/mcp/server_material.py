"""What a server offers beside tools: prompts for people, and resources to read."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from treadle.errors import ConfigError
from treadle.mcp.server_tools import CALL, run_apart
from treadle.mcp.server_wire import NOT_FOUND, Client, Refused, Wire, content_of, contents
from treadle.messages import Audio, File, Image, Text, ToolCall, ToolResult
from treadle.tools.names import nearest
from treadle.tools.registry import ToolRegistry
from treadle.tools.tool import Tool, as_tool

Readable = str | bytes | Path | Text | Image | Audio | File | Callable[..., Any]
"""What is at an address: what it is, a file that is read then, or a function that gives it."""

WHOLE = 64 * 1024 * 1024
"""Bytes of text that are not cut: it is read by programs."""
FIELD = re.compile(r"\{(\w+)\}")
SCHEMA = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


class Prompts:
    """Typed functions as prompts: what one returns is what a person says to their model."""

    def __init__(self, functions: Sequence[Callable[..., Any] | Tool], server: str) -> None:
        self._registry = ToolRegistry(
            [as_tool(each).replace(max_output=WHOLE) for each in functions]
        )
        self._server = server

    def __len__(self) -> int:
        return len(self._registry)

    def listed(self) -> list[Wire]:
        """Return what clients are told of them."""
        return [
            {
                "name": spec.name,
                "description": spec.description,
                "arguments": [
                    {
                        "name": name,
                        "description": str(schema.get("description", "")),
                        "required": name in spec.parameters.get("required", ()),
                    }
                    for name, schema in spec.parameters.get("properties", {}).items()
                ],
            }
            for spec in self._registry.specs
        ]

    def complete(self, name: str, argument: str, begun: str) -> Wire:
        """Return the values of an argument that begin so, where it is a choice of some."""
        found = self._registry.get(name)
        properties: Wire = {} if found is None else found.parameters.get("properties", {})
        choices = [str(each) for each in properties.get(argument, {}).get("enum", ())]
        fitting = [each for each in choices if each.startswith(begun)]
        return {"completion": {"values": fitting[:100], "total": len(fitting), "hasMore": False}}

    async def get(self, name: str, arguments: Wire, client: Client) -> Wire:
        """Return one prompt, filled in.

        Raises:
            Refused: there is none of that name, or the arguments are not its own.
        """
        found = self._registry.get(name)
        if found is None:
            known = ", ".join(nearest(name, self._registry.names()))
            raise Refused(f"There is no prompt {name!r}. Nearest first: {known}.")
        given = await _given(self._registry, name, arguments, self._server, client)
        return {
            "description": found.description,
            "messages": [{"role": "user", "content": content_of(part)} for part in given.parts],
        }


@dataclass(frozen=True, kw_only=True)
class _Place:
    """One address, or a pattern of addresses with `{names}` in it."""

    uri: str
    tool: Tool
    pattern: re.Pattern[str] | None

    def listed(self) -> Wire:
        """Return what clients are told of it."""
        told: Wire = {"name": self.tool.name}
        if self.tool.description:
            told["description"] = self.tool.description
        return told | {"uri" if self.pattern is None else "uriTemplate": self.uri}


class Resources:
    """What can be read, by its address. A function fills in the `{names}` of its address."""

    def __init__(self, readable: Mapping[str, Readable], server: str) -> None:
        self._places = [_place(uri, each) for uri, each in readable.items()]
        self._server = server

    def __len__(self) -> int:
        return len(self._places)

    def listed(self, *, patterns: bool) -> list[Wire]:
        """Return what clients are told of the addresses, or of the patterns of addresses."""
        return [each.listed() for each in self._places if (each.pattern is not None) is patterns]

    async def read(self, uri: str, client: Client) -> Wire:
        """Return what is at an address.

        Raises:
            Refused: there is nothing, or it cannot be read.
        """
        for place in self._places:
            arguments = _matched(place, uri)
            if arguments is not None:
                registry = ToolRegistry([place.tool])
                name = registry.names()[0]
                given = await _given(registry, name, arguments, self._server, client)
                return {"contents": [contents(uri, part) for part in given.parts]}
        raise Refused(f"There is nothing at {uri[:200]!r}.", NOT_FOUND)


async def _given(
    registry: ToolRegistry, name: str, arguments: Wire, server: str, client: Client
) -> ToolResult:
    """Return what a function gives for a request."""
    made = ToolCall(id=CALL, name=name, raw=json.dumps(arguments))
    outcome = await run_apart(registry, made, server, client)
    if outcome.result.is_error or outcome.asked is not None:
        raise Refused(outcome.result.text)
    return outcome.result


def _place(uri: str, readable: Readable) -> _Place:
    if SCHEMA.match(uri) is None:
        raise ConfigError(f"{uri!r} is no address of a resource; write for example docs:///guide.")
    fields = FIELD.findall(uri)
    if fields and not callable(readable):
        raise ConfigError(f"{uri!r} has {{names}}, so a function has to give what is there.")
    if callable(readable):
        tool = as_tool(readable)
    else:
        name = unquote(urlsplit(uri).path.rpartition("/")[2]) or uri
        tool = Tool.from_schema(name, "", None, partial(_value, readable))
    if sorted(fields) != sorted(tool.parameters.get("properties", {})):
        raise ConfigError(
            f"{uri!r} has {fields or 'no {names}'}, but {tool.name!r} takes "
            f"{list(tool.parameters.get('properties', {})) or 'nothing'}; they have to be the same."
        )
    return _Place(
        uri=uri, tool=tool.replace(max_output=WHOLE), pattern=_pattern(uri) if fields else None
    )


def _pattern(uri: str) -> re.Pattern[str]:
    pieces = FIELD.split(uri)  # text and names by turns
    return re.compile(
        "".join(
            f"(?P<{piece}>[^/]+)" if index % 2 else re.escape(piece)
            for index, piece in enumerate(pieces)
        )
    )


def _matched(place: _Place, uri: str) -> Wire | None:
    """Return the arguments that an address has for a place, None when it is another."""
    if place.pattern is None:
        return {} if uri == place.uri else None
    found = place.pattern.fullmatch(uri)
    return None if found is None else {name: unquote(it) for name, it in found.groupdict().items()}


def _value(readable: str | bytes | Path | Text | Image | Audio | File, _: dict[str, Any]) -> object:
    """Return what is there, as a part where it is more than text; files are read now."""
    if isinstance(readable, Path):
        return File.from_file(readable)
    if isinstance(readable, bytes):
        return File.from_bytes(readable, "application/octet-stream")
    return readable
