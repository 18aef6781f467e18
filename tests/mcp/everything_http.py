"""Run server-everything over HTTP in this network namespace, and an agent that adds with it."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys

from tests.mcp.parts import ask
from tests.servers import free_port
from tools.conformance import raise_loopback
from treadle import MCPFailed
from treadle.mcp import MCP


async def add(url: str) -> None:
    """Wait for the server, and add two numbers."""
    for _ in range(200):
        try:
            async with MCP.http(url, name="every") as it:
                found = await ask(it, ("every_get-sum", {"a": 2, "b": 40}))
                print(found.tool_results[0].text)
                return
        except MCPFailed:
            await asyncio.sleep(0.1)
    sys.exit("the server never answered")


if __name__ == "__main__":
    raise_loopback()
    port = free_port()
    server = subprocess.Popen(sys.argv[1:], env={**os.environ, "PORT": str(port)})
    try:
        asyncio.run(add(f"http://127.0.0.1:{port}/mcp"))
    finally:
        server.kill()
        server.wait()
