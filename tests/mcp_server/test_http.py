"""Over HTTP: who is let in, several clients, clients that leave, and the end of a server."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from io import BytesIO
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from mcp import Client

from tests.mcp_server.parts import SECONDS, becomes, listening, started, text_of
from treadle.mcp import MCP

pytestmark = pytest.mark.e2e
TOKEN = "a-token-of-enough-characters"  # noqa: S105 of no use elsewhere
HELLO: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "x", "version": "1"},
    },
}
ACCEPT = {"Accept": "application/json, text/event-stream"}


async def post(url: str, **headers: str) -> tuple[int, str]:
    """Send a greeting; return the status and the text."""
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    async with (
        aiohttp.ClientSession() as session,
        session.post(url, json=HELLO, headers=ACCEPT | sent) as answer,
    ):
        return answer.status, await answer.text()


async def test_the_token_is_needed() -> None:
    """Only who knows the token is let in; nobody is told what it is."""
    environment = {**os.environ, "TREADLE_MCP_TOKEN": TOKEN}
    async with listening("offered:echo", env=environment) as (url, process):
        refused = [
            await post(url),
            await post(url, Authorization=f"Bearer {TOKEN}x"),
            await post(url, Authorization=f"Basic {TOKEN}"),
            await post(url, Authorization="Bearer ä"),
        ]
        let_in = await post(url, Authorization=f"Bearer {TOKEN}")
        async with MCP.http(url, headers={"Authorization": f"Bearer {TOKEN}"}) as client:
            names = [each.name for each in client.tools]
        process.terminate()
        _, err = await process.communicate()

    assert [status for status, _ in refused] == [401] * 4
    assert let_in[0] == 200
    assert names == ["treadle_echo"]
    assert TOKEN not in err.decode() + "".join(text for _, text in refused)


async def test_pages_of_other_sites_are_refused() -> None:
    """A browser on this machine can reach the address; pages of others cannot use that."""
    async with listening("offered:echo") as (url, _):
        host = url.split("/")[2]
        statuses = [
            (await post(url, **headers))[0]
            for headers in (
                {},
                {"Origin": f"http://{host}"},
                {"Host": "localhost:1"},
                {"Host": "evil.example"},
                {"Origin": "http://evil.example"},
                {"Origin": "null"},
                {"Host": f"{host}.evil.example"},
            )
        ]
        elsewhere = (await post(url.replace("/mcp", "/other")))[0]

    assert statuses == [200, 200, 200, 421, 403, 403, 421]
    assert elsewhere == 404


async def test_two_clients_at_once(tmp_path: Path) -> None:
    """One holds on in a call while the other is answered; each has its own conversation."""
    async with listening("offered:ALL", "offered:TOOLS") as (url, _):
        async with Client(url, mode="legacy") as one, Client(url) as two:
            holding = asyncio.ensure_future(one.call_tool("hold", {"folder": str(tmp_path)}))
            assert await becomes(tmp_path / "held")
            heard = await asyncio.gather(  # noqa: TID251 the calls are the point
                *(
                    client.call_tool("echo", {"input": f"{n}"})
                    for n in range(5)
                    for client in (one, two)
                )
            )
            holding.cancel()
            await asyncio.wait([holding])
        assert await becomes(tmp_path / "let-go")

    assert [text_of(each) for each in heard] == [f"Heard: {n}." for n in range(5) for _ in "ab"]


@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
async def test_a_client_that_dies_ends_its_calls(version: str, tmp_path: Path) -> None:
    """When the connection of a call breaks, the run is cancelled; the server goes on."""
    call: dict[str, Any] = {
        "jsonrpc": "2.0",
        "id": 2,
        "method": "tools/call",
        "params": {"name": "holder", "arguments": {"input": str(tmp_path)}},
    }
    headers = {**ACCEPT, "Mcp-Protocol-Version": version}
    if version == "2026-07-28":
        headers |= {"Mcp-Method": "tools/call", "Mcp-Name": "holder"}
        call["params"]["_meta"] = {
            "io.modelcontextprotocol/protocolVersion": version,
            "io.modelcontextprotocol/clientInfo": {"name": "x", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        }
    async with listening("offered:ALL") as (url, _):
        async with aiohttp.ClientSession() as session:
            if version == "2025-11-25":
                async with session.post(url, json=HELLO, headers=ACCEPT) as answer:
                    headers["Mcp-Session-Id"] = answer.headers["Mcp-Session-Id"]
                ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
                async with session.post(url, json=ready, headers=headers):
                    pass
            calling = asyncio.ensure_future(session.post(url, json=call, headers=headers))
            assert await becomes(tmp_path / "held")
            calling.cancel()
            await asyncio.wait([calling])
        assert await becomes(tmp_path / "let-go")
        async with Client(url) as client:
            after = await client.call_tool("echo", {"input": "still there"})

    assert text_of(after) == "Heard: still there."


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
async def test_the_end_of_a_server(number: signal.Signals, code: int, tmp_path: Path) -> None:
    """A signal ends calls in order, though clients are connected, and the server with them."""
    async with listening("offered:ALL") as (url, process):
        async with aiohttp.ClientSession() as session:
            async with session.post(url, json=HELLO, headers=ACCEPT) as answer:
                headers = {**ACCEPT, "Mcp-Session-Id": answer.headers["Mcp-Session-Id"]}
            ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
            async with session.post(url, json=ready, headers=headers):
                pass
            call = {"name": "holder", "arguments": {"input": str(tmp_path)}}
            sent = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call}
            calling = asyncio.ensure_future(session.post(url, json=sent, headers=headers))
            listened = asyncio.ensure_future(session.get(url, headers=headers))
            assert await becomes(tmp_path / "held")
            process.send_signal(number)
            ended = await asyncio.wait_for(process.wait(), SECONDS)
            for each in (calling, listened):
                each.cancel()
            await asyncio.wait([calling, listened])
        assert process.stderr is not None
        told = (await process.stderr.read()).decode()

    assert (tmp_path / "let-go").exists()
    assert ended == code
    assert "Traceback" not in told


async def test_bad_requests() -> None:
    """Bodies that are no message, and too large ones, are refused; the server goes on."""
    async with listening("offered:echo") as (url, _):
        async with aiohttp.ClientSession() as session:
            statuses: list[int] = []
            for body in (b"", b"no json", b"[]", b"x" * (5 * 1024 * 1024)):
                headers = {**ACCEPT, "Content-Type": "application/json"}
                async with session.post(url, data=BytesIO(body), headers=headers) as answer:
                    statuses.append(answer.status)
        after = await post(url)

    assert all(400 <= status < 500 for status in statuses), statuses
    assert statuses[-1] == 413
    assert after[0] == 200
    assert json.loads(after[1].partition("data: ")[2])["result"]["serverInfo"]["name"] == "treadle"


async def test_a_port_that_is_taken() -> None:
    """The command says so and ends."""
    async with listening("offered:echo") as (url, _):
        port = url.split(":")[2].partition("/")[0]
        async with started("offered:echo", "--http", "--port", port) as process:
            _, err = await asyncio.wait_for(process.communicate(), SECONDS)

    assert process.returncode == 2
    assert f"treadle: 127.0.0.1:{port} cannot be listened on" in err.decode()
