"""A server over pipes in this process: its thread, its descriptors, and how it ends."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, cast

import pytest

from treadle import AskApproval, RunContext, tool
from treadle.mcp import MCPServer
from treadle.mcp.server_stdio import Wires


@tool
async def echo(ctx: RunContext, text: str) -> str:
    """Say it again."""
    ctx.report("echoing")
    return text


@tool
async def hold() -> str:
    """Hold on."""
    await asyncio.sleep(600)
    return "never"


@tool
async def ask(ctx: RunContext) -> str:
    """Ask for a number."""
    if ctx.answer is None:
        raise AskApproval("Which?", {"type": "object", "properties": {"n": {"type": "integer"}}})
    return str(ctx.answer)


class Pipes:
    """Two pipes in place of the standard streams."""

    def __init__(self) -> None:
        self.ended = threading.Event()
        self.input, self.writing = os.pipe()
        self.reading, self.output = os.pipe()

    def send(self, *messages: dict[str, Any]) -> None:
        """Write messages as the client."""
        for message in messages:
            os.write(self.writing, json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    async def heard(self) -> dict[str, Any]:
        """Read one message as the client."""
        with os.fdopen(os.dup(self.reading), "rb", buffering=0) as stream:
            return json.loads(await asyncio.to_thread(stream.readline))


@contextmanager
def piped() -> Generator[Pipes]:
    """Yield pipes, closed at the end with no thread left behind."""
    pipes, before = Pipes(), threading.active_count()
    try:
        yield pipes
        names = [each.name for each in threading.enumerate()]
        assert "treadle-mcp-stdio" not in names, before
    finally:
        for descriptor in (pipes.input, pipes.reading, pipes.output, pipes.writing):
            os.close(descriptor)


def hello(**capabilities: Any) -> list[dict[str, Any]]:
    """Return the messages with which a client begins."""
    params = {
        "protocolVersion": "2025-11-25",
        "capabilities": capabilities,
        "clientInfo": {"name": "x", "version": "1"},
    }
    return [
        {"id": 0, "method": "initialize", "params": params},
        {"method": "notifications/initialized", "params": {}},
    ]


def call(number: int, name: str, **arguments: Any) -> dict[str, Any]:
    """Return a call."""
    params = {"name": name, "arguments": arguments, "_meta": {"progressToken": number}}
    return {"id": number, "method": "tools/call", "params": params}


async def test_calls_and_the_end_of_the_line() -> None:
    """Calls are answered, noise is passed over, and the client's end is the server's."""
    with piped() as pipes:
        async with asyncio.TaskGroup() as group:
            wires = cast("Wires", pipes)
            group.create_task(MCPServer(echo, ask, hold).serve_stdio(wires))
            pipes.send(*hello(elicitation={}))
            greeting = await pipes.heard()
            os.write(pipes.writing, b"noise\n\n")
            pipes.send(call(1, "echo", text="x" * 200))
            progress, answer = await pipes.heard(), await pipes.heard()
            pipes.send(call(2, "ask"))
            question = await pipes.heard()
            content = {"action": "accept", "content": {"n": 3}}
            pipes.send({"id": question["id"], "result": content})
            asked = await pipes.heard()
            pipes.send(call(3, "hold"))
            os.close(pipes.writing)
            pipes.writing = os.dup(pipes.reading)

    assert greeting["result"]["serverInfo"]["name"] == "treadle"
    assert progress["params"]["message"] == "echoing"
    assert answer["result"]["content"] == [{"type": "text", "text": "x" * 200}]
    assert question["params"]["requestedSchema"]["properties"]["n"]["type"] == "integer"
    assert asked["result"]["content"][0]["text"] == "{'n': 3}"


async def test_cancelling_a_server() -> None:
    """Cancelled, a server ends its calls, its thread and nothing else."""
    with piped() as pipes:
        serving = asyncio.ensure_future(MCPServer(hold).serve_stdio(cast("Wires", pipes)))
        pipes.send(*hello())
        await pipes.heard()
        pipes.send(call(1, "hold"))
        serving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await serving


async def test_a_client_that_is_gone_takes_no_answer() -> None:
    """Answers to a client that has closed its end go nowhere."""
    with piped() as pipes:
        serving = asyncio.ensure_future(MCPServer(echo).serve_stdio(cast("Wires", pipes)))
        pipes.send(*hello())
        await pipes.heard()
        os.close(pipes.reading)
        pipes.send(call(1, "echo", text="x" * 100_000))
        os.close(pipes.writing)
        pipes.reading, pipes.writing = os.pipe()
        await asyncio.wait_for(serving, 10)


async def test_more_descriptors_than_select_knows() -> None:
    """A program that has many files open serves like any other."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 1_400), hard))
    held = [os.open(os.devnull, os.O_RDONLY) for _ in range(1_100)]
    try:
        with piped() as pipes:
            serving = asyncio.ensure_future(MCPServer(echo).serve_stdio(cast("Wires", pipes)))
            pipes.send(*hello())
            assert (await pipes.heard())["id"] == 0
            os.close(pipes.writing)
            pipes.writing = os.dup(pipes.reading)
            await asyncio.wait_for(serving, 10)
    finally:
        for descriptor in held:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_a_thread_that_fails_ends_the_server() -> None:
    """Nobody waits for lines that cannot come."""
    with piped() as pipes:
        os.close(pipes.input)
        pipes.input = os.open(os.devnull, os.O_WRONLY)  # it cannot be read
        await asyncio.wait_for(MCPServer(echo).serve_stdio(cast("Wires", pipes)), 10)
