"""Small parts that the tests of MCP share."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from treadle import Agent, RunResult, ToolResult
from treadle.mcp import MCP
from treadle.testing import ScriptedModel, calls

ROGUE = str(Path(__file__).with_name("rogue.py"))


def rogue(*tools: str | dict[str, Any], name: str | None = "r", **plan: Any) -> tuple[str, ...]:
    """Return the command of a server with these tools."""
    listed = [
        tool if isinstance(tool, dict) else {"name": tool, "inputSchema": {"type": "object"}}
        for tool in tools
    ]
    return sys.executable, ROGUE, json.dumps({"tools": listed, "name": name, **plan})


def server(*tools: str | dict[str, Any], plan: dict[str, Any] | None = None, **options: Any) -> MCP:
    """Return a client of a server with these tools, called "r"."""
    command, *arguments = rogue(*tools, **(plan or {}))
    options.setdefault("name", "r")
    return MCP.stdio(command, *arguments, **options)


async def ask(client: MCP, *asked: tuple[str, dict[str, Any]], **options: Any) -> RunResult[Any]:
    """Run an agent whose model calls these tools, one in each turn, and then says done."""
    turns = [calls((f"c{index}", name, given)) for index, (name, given) in enumerate(asked)]
    agent = Agent("a", ScriptedModel([*turns, "done"]), tools=client.tools)
    return await agent.run("go", **options)


async def result(client: MCP, name: str, **given: Any) -> ToolResult:
    """Return the result of one call that a model makes."""
    return (await ask(client, (f"r_{name}", given))).tool_results[0]


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and is not yet waited for does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


async def becomes(claim: Callable[[], bool], seconds: float = 10) -> bool:
    """Wait until something is so."""
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    while not claim() and loop.time() < end:  # noqa: ASYNC110 what it looks at tells nobody
        await asyncio.sleep(0.01)
    return claim()


async def gone(pid: int, seconds: float = 10) -> bool:
    """Wait until a process has gone."""
    return await becomes(lambda: not is_alive(pid), seconds)


def descriptors() -> int:
    """How many descriptors this process has open."""
    return len(os.listdir("/proc/self/fd"))
