"""A server made with the SDK, whichever version: `python sdk_server.py stdio|http|sse [PORT]`."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from typing import Any

IS_TWO = find_spec("mcp_types") is not None


def made(**settings: Any) -> Any:
    """Return the server."""
    home, name = ("mcp.server", "MCPServer") if IS_TWO else ("mcp.server.fastmcp", "FastMCP")
    kind: Any = getattr(import_module(home), name)
    server: Any = kind("weather", instructions="Ask for a city.", **settings)

    @server.tool()
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    @server.tool()
    def weather(city: str) -> dict[str, Any]:
        """Look up the weather."""
        return {"city": city, "celsius": 21, "wind": None}

    @server.tool()
    def fail() -> str:
        """Fail."""
        raise ValueError("no such thing")

    @server.resource("notes://today")
    def today() -> str:
        """What is to be done today."""
        return "weave"

    @server.prompt()
    def plan(topic: str) -> str:
        """Plan something."""
        return f"Plan {topic}."

    return server


def main() -> None:
    """Serve over the transport that is asked for."""
    transport = sys.argv[1]
    if transport == "stdio":
        made().run()
        return
    port = int(sys.argv[2])
    name = {"http": "streamable-http", "sse": "sse"}[transport]
    options = {"host": "127.0.0.1", "port": port}
    if IS_TWO:
        made().run(transport=name, **options)
    else:
        made(**options).run(transport=name)


if __name__ == "__main__":
    main()
