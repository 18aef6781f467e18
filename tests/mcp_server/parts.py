"""Servers as processes, and clients of them."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

from mcp import Client, StdioServerParameters, types

from treadle.mcp import MCP

FOLDER = Path(__file__).parent
SECONDS = 30
Mode = Literal["legacy", "auto"]


def command(*words: str) -> list[str]:
    """Return the command that serves these."""
    return [sys.executable, "-m", "treadle", "mcp", *words]


@asynccontextmanager
async def started(*words: str, **options: Any) -> AsyncGenerator[Process]:
    """Start a server with pipes to it; it is gone at the end."""
    process = await asyncio.create_subprocess_exec(
        *command(*words), stdin=PIPE, stdout=PIPE, stderr=PIPE, cwd=FOLDER, **options
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


@asynccontextmanager
async def listening(*words: str, **options: Any) -> AsyncGenerator[tuple[str, Process]]:
    """Start a server over HTTP; yield its address and its process."""
    async with started(*words, "--http", "--port", "0", **options) as process:
        assert process.stderr is not None
        told = ""
        while not (found := re.search(r"http://\S+", told)):
            line = await asyncio.wait_for(process.stderr.readline(), SECONDS)
            assert line, told
            told += line.decode()
        yield found[0], process


@asynccontextmanager
async def reachable(
    transport: Literal["stdio", "http"], *words: str
) -> AsyncGenerator[str | StdioServerParameters]:
    """Yield what a client of the SDK is given to reach a server."""
    if transport == "stdio":
        program, *arguments = command(*words)
        yield StdioServerParameters(command=program, args=arguments, cwd=FOLDER)
    else:
        async with listening(*words) as (address, _):
            yield address


@asynccontextmanager
async def sdk(
    transport: Literal["stdio", "http"], mode: Mode, *words: str, **options: Any
) -> AsyncGenerator[Client]:
    """Yield a client of the SDK that has connected to a server of these."""
    async with (
        reachable(transport, *words) as target,
        Client(target, mode=mode, **options) as client,
    ):
        yield client


@asynccontextmanager
async def ours(
    transport: Literal["stdio", "http"], *words: str, **options: Any
) -> AsyncGenerator[MCP]:
    """Yield our own client that has connected to a server of these."""
    if transport == "stdio":
        program, *arguments = command(*words)
        async with MCP.stdio(program, *arguments, cwd=FOLDER, **options) as client:
            yield client
    else:
        async with listening(*words) as (address, _), MCP.http(address, **options) as client:
            yield client


def text_of(result: types.CallToolResult) -> str:
    """Return the texts of a result."""
    return "".join(each.text for each in result.content if isinstance(each, types.TextContent))


class Line:
    """The plain protocol, spoken line by line with a server's process."""

    def __init__(self, process: Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.process, self._in, self._out = process, process.stdin, process.stdout
        self._last = 0

    async def hello(self, **capabilities: Any) -> dict[str, Any]:
        """Shake hands; return what the server says of itself."""
        found = await self.ask(
            "initialize",
            protocolVersion="2025-11-25",
            capabilities=capabilities,
            clientInfo={"name": "line", "version": "1"},
        )
        await self.tell("notifications/initialized")
        return found["result"]

    async def send(self, raw: bytes) -> None:
        """Send bytes as they are."""
        self._in.write(raw)
        await self._in.drain()

    async def tell(self, method: str, **params: Any) -> None:
        """Send a notification."""
        await self.send(_line({"method": method, "params": params}))

    async def begin(self, method: str, **params: Any) -> int:
        """Send a request; return its ID."""
        self._last += 1
        await self.send(_line({"id": self._last, "method": method, "params": params}))
        return self._last

    async def heard(self) -> dict[str, Any]:
        """Return the next message; every line has to be one."""
        line = await asyncio.wait_for(self._out.readline(), SECONDS)
        assert line, "the server has closed its end"
        return json.loads(line)

    async def answer(self, number: int) -> dict[str, Any]:
        """Return the answer to a request, past what comes before it."""
        while True:
            found = await self.heard()
            if found.get("id") == number and "method" not in found:
                return found

    async def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a request and return its answer."""
        return await self.answer(await self.begin(method, **params))

    async def call(self, name: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool and return its result."""
        found = await self.ask("tools/call", name=name, arguments=arguments)
        return found["result"]

    async def leave(self) -> int:
        """Close our end; return the exit code."""
        self._in.close()
        return await asyncio.wait_for(self.process.wait(), SECONDS)


def _line(message: dict[str, Any]) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"


async def becomes(path: Path, seconds: float = SECONDS) -> bool:
    """Wait until a file is there."""
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    while not (there := os.path.exists(path)) and loop.time() < end:  # noqa: ASYNC110, ASYNC240 files tell nobody
        await asyncio.sleep(0.02)
    return there
