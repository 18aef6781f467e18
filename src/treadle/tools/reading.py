"""The tool that reads what was left out of long outputs. It comes by itself with the first one."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from treadle.errors import ToolError
from treadle.ports.context import RunContext
from treadle.tools.artefact import READER
from treadle.tools.pages import bytes_of, found_in, lines_of
from treadle.tools.threads import THREADS
from treadle.tools.tool import DEFAULT_OUTPUT, Tool

LARGE = 1_000_000
"""From so many bytes on a page is made in a thread."""

PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "id": {"type": "string", "description": "The output's ID, as its marker names it."},
        "start": {
            "type": "integer",
            "minimum": 1,
            "description": "First line (or byte) to read, counting from 1. Default 1.",
        },
        "count": {
            "type": "integer",
            "minimum": 1,
            "description": "How many lines (or bytes); as many as fit when left out.",
        },
        "by": {"type": "string", "enum": ["lines", "bytes"], "description": "Default lines."},
        "search": {
            "type": "string",
            "description": "Show only lines with this text in them, with their numbers.",
        },
    },
    "required": ["id"],
    "additionalProperties": False,
}


async def read_output(ctx: RunContext, arguments: dict[str, Any]) -> str:
    """Return a page of an output; it is never so long that it is cut itself."""
    content = await ctx.artefacts.read(arguments["id"])
    most = ctx.artefacts.most(DEFAULT_OUTPUT)
    if len(content) < LARGE:
        return _page(content, most, arguments)
    return await THREADS.run(lambda: _page(content, most, arguments))


def _page(content: bytes, most: int, arguments: dict[str, Any]) -> str:
    start, search = int(arguments.get("start", 1)), arguments.get("search")  # 2.0 is an integer
    count = int(arguments["count"]) if "count" in arguments else None
    by_bytes = arguments.get("by") == "bytes"
    if search is None:
        return (bytes_of if by_bytes else lines_of)(content, start, count, most)
    if by_bytes:
        raise ToolError("search goes by lines; leave by out.")
    if not search or "\n" in search:
        raise ToolError("search is a text without line breaks.")
    return found_in(content, search, start, count, most)


@lru_cache(maxsize=1)
def reading_tool() -> Tool:
    """Return the tool; it is made when it is first needed."""
    return Tool.from_schema(
        READER,
        "Read what was left out of a long tool output: some of its lines or bytes, or the lines "
        "with a text in them.",
        PARAMETERS,
        read_output,
    )
