"""Servers behind an address: headers, tokens, lost sessions, secrets kept."""

from __future__ import annotations

import asyncio
import gzip
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from tests.mcp.http_rogue import Rogue, rogue_http
from tests.mcp.parts import ask, becomes, result
from treadle import Agent, ConfigError, MCPFailed, RunContext
from treadle.mcp import MCP, Bearer
from treadle.mcp.lines import MOST_LINE
from treadle.testing import ScriptedModel, calls


@pytest.fixture
def rogue() -> Iterator[Rogue]:
    """A server that notes what it is sent."""
    with rogue_http() as server:
        yield server


async def test_a_call(rogue: Rogue) -> None:
    """A call goes out and its answer comes back."""
    async with MCP.http(rogue.url, name="r") as client:
        assert (await result(client, "echo", x=1)).text == '{"x": 1}'


async def test_headers_of_every_request(rogue: Rogue) -> None:
    """Fixed headers and the token go with all that is sent."""
    headers = {"X-Team": "blue"}
    async with MCP.http(rogue.url, name="r", headers=headers, auth=Bearer("tok-1234567")) as client:
        await result(client, "echo")

    assert {found["x-team"] for _, found in rogue.seen} == {"blue"}
    assert {found["authorization"] for _, found in rogue.seen} == {"Bearer tok-1234567"}


async def test_headers_of_each_run(rogue: Rogue) -> None:
    """What depends on the run goes with its own calls, also when several run at once."""

    async def tenant(ctx: RunContext[Any]) -> str:
        await asyncio.sleep(0)
        return f"tenant-{ctx.deps['user']}"

    def user_of(ctx: RunContext[Any]) -> str:
        return ctx.deps["user"]

    headers: Any = {"X-User": user_of, "X-Tenant": tenant, "X-Fixed": "yes"}
    client = MCP.http(rogue.url, name="r", headers=headers)
    async with client, asyncio.TaskGroup() as tasks:
        for user in ("ann", "bob", "eve"):
            tasks.create_task(ask(client, ("r_echo", {}), deps={"user": user}))

    called = rogue.of("tools/call")
    assert sorted(found["x-user"] for found in called) == ["ann", "bob", "eve"]
    assert all(found["x-tenant"] == f"tenant-{found['x-user']}" for found in called)
    others = [found for method, found in rogue.seen if method != "tools/call"]
    assert not any("x-user" in found for found in others)
    assert all(found["x-fixed"] == "yes" for _, found in rogue.seen)


async def test_a_function_of_all_headers(rogue: Rogue) -> None:
    """A function may give all headers of a call."""
    async with MCP.http(rogue.url, name="r", headers=lambda ctx: {"X-Run": ctx.run_id}) as client:
        found = await ask(client, ("r_echo", {}))
    assert rogue.of("tools/call")[0]["x-run"] == found.run_id


async def test_headers_that_cannot_be(rogue: Rogue) -> None:
    """A header that would change the request is refused, without its value."""
    with pytest.raises(ConfigError, match="'X-A' of an MCP server is not one line") as caught:
        MCP.http(rogue.url, headers={"X-A": "a\r\nX-B: secret"})
    assert "secret" not in str(caught.value)
    async with MCP.http(rogue.url, name="r", headers=lambda _: {"X-A": "a\nb"}) as client:
        found = await result(client, "echo")
    assert "its header 'X-A' is not one line" in found.text
    assert not rogue.of("tools/call")


async def test_a_token_that_changes(rogue: Rogue) -> None:
    """A function is asked for the token each time."""
    rogue.token = "first-token"  # noqa: S105 nobody's
    tokens = {"now": "first-token"}
    async with MCP.http(rogue.url, name="r", auth=Bearer(lambda: tokens["now"])) as client:
        await result(client, "echo")
        rogue.token = tokens["now"] = "second-token"  # noqa: S105 nobody's
        assert not (await result(client, "echo")).is_error


async def test_a_token_that_is_refused(rogue: Rogue, caplog: pytest.LogCaptureFixture) -> None:
    """The error says so, and shows neither the token nor what the address hides."""
    rogue.token = "right"  # noqa: S105 nobody's
    client = MCP.http(f"{rogue.url}?api_key=hidden-key-1", auth=Bearer("wrong-token-1"))
    with caplog.at_level(logging.DEBUG), pytest.raises(MCPFailed) as caught:
        await client.open()
    shown = f"{caught.value} {client!r} {caplog.text} {caught.value.__cause__}"
    assert "HTTP status 401; check its auth=" in shown
    assert "wrong-token-1" not in shown
    assert "hidden-key-1" not in shown


async def test_a_redirect_to_somebody_else(rogue: Rogue) -> None:
    """Nobody else is shown the headers and the token."""
    with rogue_http() as other:
        rogue.elsewhere = other.url
        client = MCP.http(rogue.url, headers={"X-Key": "k-123456"}, auth=Bearer("tok-123456"))
        with pytest.raises(MCPFailed):
            async with client:
                await client.refresh()
        assert not any({"x-key", "authorization"} & found.keys() for _, found in other.seen)


async def test_a_session_that_the_server_forgot(rogue: Rogue) -> None:
    """The call that finds out fails; the next has a new session."""
    async with MCP.http(rogue.url, name="r") as client:
        rogue.sessions.clear()
        rogue.sessions.add("other")
        found = await ask(client, ("r_echo", {}), ("r_echo", {}))

    lost, fine = found.tool_results
    assert lost.is_error
    assert "has gone" in lost.text
    assert fine.text == "{}"


@pytest.mark.parametrize("status", [500, 503, 429, 403])
async def test_a_status_that_is_no_answer(rogue: Rogue, status: int) -> None:
    """Errors of HTTP are results that the model sees; afterwards all is well again."""
    async with MCP.http(rogue.url, name="r") as client:
        rogue.status = status
        failed = await asyncio.wait_for(result(client, "echo"), 5)
        rogue.status = 200
        fine = await asyncio.wait_for(result(client, "echo"), 5)

    assert failed.is_error
    assert fine.text == "{}"


async def test_a_server_that_goes_away() -> None:
    """It is an error result in no time, for as long as it is away."""
    with rogue_http() as rogue:
        client = MCP.http(rogue.url, name="r")
        await client.open()
    for _ in range(4):
        found = await asyncio.wait_for(result(client, "echo"), 5)
        assert found.is_error
    await client.close()


async def test_cancelling_a_run(rogue: Rogue) -> None:
    """The run ends at once, and the server is told which call nobody waits for."""
    async with MCP.http(rogue.url, name="r") as client:
        model = ScriptedModel([calls(("h", "r_hang", {})), "done"])
        run = Agent("a", model, tools=client.tools).start("go")
        assert await becomes(lambda: bool(rogue.of("tools/call")))
        await run.cancel("enough")
        assert (await asyncio.wait_for(run.result(), 3)).stop_reason == "cancelled"
        rogue.released.set()
        assert (await result(client, "echo")).text == "{}"
    assert rogue.of("notifications/cancelled")


@pytest.mark.parametrize("url", ["", "localhost:3000/mcp", "ftp://x/y", "http://"])
def test_addresses_that_are_none(url: str) -> None:
    """What is no address of HTTP is refused before anything is sent."""
    with pytest.raises(ConfigError, match="http"):
        MCP.http(url)


def test_options_that_are_unknown() -> None:
    """A misspelled option is told."""
    with pytest.raises(ConfigError, match="no option 'time_out'"):
        MCP.stdio("x", time_out=3)  # pyright: ignore[reportCallIssue] on purpose
    with pytest.raises(ConfigError, match="connect_timeout=0"):
        MCP.stdio("x", connect_timeout=0)
    with pytest.raises(ConfigError, match="protocol='2024'"):
        MCP.stdio("x", protocol="2024")  # pyright: ignore[reportArgumentType] on purpose
    with pytest.raises(ConfigError, match="are texts"):
        MCP.stdio("x", 3)  # pyright: ignore[reportArgumentType] on purpose
    with pytest.raises(ConfigError, match="token is empty"):
        Bearer(" ")


async def test_headers_that_a_server_repeats(rogue: Rogue) -> None:
    """What was sent with a call only, or came from a function, is not shown either."""

    def key(_: RunContext[Any]) -> str:
        return "of-this-call-999"

    headers = {"X-Api-Key": key}
    client = MCP.http(rogue.url, name="r", headers=headers, auth=Bearer(lambda: "of-now-123456"))
    rogue.repeats = True
    async with client:
        found = await result(client, "echo")
    assert "code 1" in found.text
    assert "of-this-call" not in found.text
    assert "of-now" not in found.text


@pytest.mark.parametrize(
    ("body", "packing", "said"),
    [
        (gzip.compress(b"a" * 1000), "gzip", "packs its answers with 'gzip'"),
        (b"a" * (MOST_LINE + 1), "", "more than 67108864 bytes"),
        (b"{nope", "", "Failed to parse JSON response"),
    ],
    ids=["packed", "endless", "broken"],
)
async def test_answers_of_any_size(rogue: Rogue, body: bytes, packing: str, said: str) -> None:
    """An answer cannot fill the memory, packed or not."""
    rogue.body, rogue.packing = body, packing
    async with MCP.http(rogue.url, name="r", timeout=20) as client:
        found = await result(client, "echo")
    assert said in found.text
    assert "\n" not in found.text


async def test_a_connection_that_is_cut_in_a_call(rogue: Rogue) -> None:
    """It is told why, not that somebody closed it."""
    rogue.cuts = True
    async with MCP.http(rogue.url, name="r", timeout=20) as client:
        found = await result(client, "echo")
        rogue.cuts = False
        again = await result(client, "echo")
    assert "without sending" in found.text
    assert again.text == "{}"
