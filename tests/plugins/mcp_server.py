"""A small MCP server on the SDK, for the run in which every kind of tool meets."""

from __future__ import annotations

from mcp.server import MCPServer

server = MCPServer("small")


@server.tool()
def shout(text: str) -> str:
    """Say it in capitals."""
    return text.upper()


if __name__ == "__main__":
    server.run("stdio")
