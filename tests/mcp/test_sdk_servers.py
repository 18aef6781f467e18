"""Servers made with the SDK, over each transport, and clients that somebody else has opened."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests.mcp.parts import ask
from tests.mcp.sdk_server import IS_TWO, made
from tests.servers import free_port
from treadle import Agent, ConfigError, MCPFailed, Text
from treadle.mcp import MCP
from treadle.testing import ScriptedModel, calls

pytestmark = pytest.mark.e2e

SERVER = str(Path(__file__).with_name("sdk_server.py"))


async def answering(client: MCP, seconds: float = 30) -> MCP:
    """Open a client as soon as its server answers."""
    async with asyncio.timeout(seconds):
        while True:
            try:
                await client.open()
            except MCPFailed:
                await asyncio.sleep(0.05)
            else:
                return client


@asynccontextmanager
async def served(transport: str) -> AsyncGenerator[tuple[MCP, subprocess.Popen[bytes] | None]]:
    """Run a server in a process, and connect to it."""
    if transport == "stdio":
        async with MCP.stdio(sys.executable, SERVER, "stdio", name="w") as client:
            yield client, None
        return
    port = free_port()
    process = subprocess.Popen([sys.executable, SERVER, transport, str(port)])  # noqa: ASYNC220
    base = f"http://127.0.0.1:{port}"
    client = (
        MCP.http(f"{base}/mcp", name="w")
        if transport == "http"
        else MCP.sse(f"{base}/sse", name="w")
    )
    try:
        await answering(client)
        yield client, process
    finally:
        await client.close()
        process.kill()
        await asyncio.to_thread(process.wait)


@asynccontextmanager
async def opened() -> AsyncGenerator[Any]:
    """A client of the SDK, connected to a server in this process."""
    if IS_TWO:
        client: Any = import_module("mcp").Client(made())
        async with client:
            yield client
        return
    memory: Any = import_module("mcp.shared.memory")
    connected = memory.create_connected_server_and_client_session
    async with connected(made()._mcp_server) as session:
        yield session


async def use(client: MCP) -> None:
    """Let an agent use the server's tools, and read what else it has."""
    found = await ask(
        client, ("w_add", {"a": 2, "b": 40}), ("w_weather", {"city": "Rome"}), ("w_fail", {})
    )
    added, looked_up, failed = found.tool_results
    assert added.text == "42"
    assert json.loads(looked_up.text) == {"city": "Rome", "celsius": 21, "wind": None}
    assert looked_up.value["structuredContent"]["celsius"] == 21
    assert failed.is_error
    assert "no such thing" in failed.text or "rror" in failed.text

    (resource,) = await client.resources()
    assert resource["uri"] == "notes://today"
    assert await client.read_resource("notes://today") == (
        Text("[resource: notes://today, text/plain]\nweave"),
    )
    (prompt,) = await client.prompts()
    assert prompt["name"] == "plan"
    assert (await client.prompt("plan", topic="a loom"))[0].text == "Plan a loom."
    with pytest.raises(MCPFailed, match="refused"):
        await client.prompt("nowhere")


@pytest.mark.parametrize("transport", ["stdio", "http", "sse"])
async def test_every_transport(transport: str) -> None:
    """Tools, resources and prompts work over each."""
    async with served(transport) as (client, _):
        assert client.instructions == "Ask for a city."
        await use(client)


@pytest.mark.parametrize("transport", ["http", "sse"])
async def test_a_server_that_is_killed_and_comes_back(transport: str) -> None:
    """While it is away calls fail at once; when it is back they work, with no help."""
    async with served(transport) as (client, process):
        assert process is not None
        arguments = process.args
        assert isinstance(arguments, list)
        process.kill()
        await asyncio.to_thread(process.wait)
        gone = await asyncio.wait_for(ask(client, ("w_add", {"a": 1, "b": 2})), 10)
        assert gone.tool_results[0].is_error

        again = subprocess.Popen(arguments)  # noqa: ASYNC220 its death is awaited below
        try:
            async with asyncio.timeout(30):
                while True:
                    back = await ask(client, ("w_add", {"a": 1, "b": 2}))
                    if not back.tool_results[0].is_error:
                        break
                    await asyncio.sleep(0.1)
            assert back.tool_results[0].text == "3"
        finally:
            again.kill()
            await asyncio.to_thread(again.wait)


async def test_a_client_that_is_open_already() -> None:
    """It is used, and left open for its owner."""
    async with opened() as theirs:
        async with MCP.session(theirs, name="w") as client:
            await use(client)
            await asyncio.to_thread(lambda: asyncio.run(use(client)))
        async with MCP.session(theirs, name="w") as client:
            assert len(client.tools) == 3


async def test_resources_as_tools() -> None:
    """A model lists and reads what there is."""
    async with opened() as theirs, MCP.session(theirs, name="w") as client:
        turns = [
            calls(("a", "w_list_resources", {})),
            calls(("b", "w_read_resource", {"uri": "notes://today"})),
            calls(("c", "w_read_resource", {"uri": "notes://never"})),
        ]
        agent = Agent("a", ScriptedModel([*turns, "done"]), tools=client.resource_tools)
        found = await agent.run("go")

    listed, read, refused = found.tool_results
    assert "notes://today" in listed.text
    assert "weave" in read.text
    assert refused.is_error


@pytest.mark.parametrize("client", [None, "http://x", object()])
def test_what_is_no_client(client: Any) -> None:
    """What cannot be used is refused at once."""
    with pytest.raises(ConfigError, match=r"MCP\.session\(\) takes an open"):
        MCP.session(client)


async def test_a_client_that_is_not_open() -> None:
    """A client of version 2 that nobody has entered is refused at once."""
    if not IS_TWO:
        return
    with pytest.raises(ConfigError, match="is not open"):
        MCP.session(import_module("mcp").Client(made()))
