"""Answers that break the protocol: whoever waits hears at once, and nothing else is lost."""

from __future__ import annotations

from typing import Any

import pytest

from tests.mcp.parts import ask, becomes, result, server
from treadle import MCPFailed
from treadle.mcp import MCP

pytestmark = pytest.mark.e2e

START = '{"jsonrpc":"2.0","id":$ID'
FINE = '"content":[{"type":"text","text":"fine"}]'


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (START + ',"result":{"content":[{"type":"text","text":"half \\ud800"}]}}', "half ?"),
        (START + ',"result":{"content":[{"type":"text","text":"a\tb"}]}}', "a\tb"),
        (START + ',"result":{$FINE,"structuredContent":{"a":NaN}}}', '"a": null'),
        (START + ',"result":{$FINE,"structuredContent":{"a":-1e999}}}', '"a": null'),
        (START + ',"result":{$FINE}} and more', "fine"),
        ("\ufeff" + START + ',"result":{$FINE}}', "fine"),
    ],
)
async def test_what_only_some_call_json(line: str, text: str) -> None:
    """It is read as its writer meant it."""
    async with server("raw", timeout=5) as client:
        found = await result(client, "raw", line=line.replace("$FINE", FINE))
    assert (found.is_error, text in found.text) == (False, True)


@pytest.mark.parametrize(
    "rest",
    [
        "}",
        ',"result":null}',
        ',"result":[]}',
        ',"error":"bad"}',
        ',"error":{"message":"no code"}}',
        ',"result":{}}',
        ',"result":{"content":null}}',
        ',"result":{"content":[{"type":"text"}]}}',
        ',"result":{$FINE,"structuredContent":[1]}}',
        ',"result":{$FINE,"_meta":5}}',
    ],
)
async def test_answers_that_are_none(rest: str) -> None:
    """Each is an error result; the server is not taken for dead, however often that happens."""
    turns = [("r_raw", {"line": START + rest.replace("$FINE", FINE)})] * 4
    async with server("raw", "pid", timeout=5) as client:
        before = (await result(client, "pid")).text
        *bad, after = (await ask(client, *turns, ("r_pid", {}))).tool_results
    assert all(each.is_error and "answer" in each.text for each in bad)
    assert not any("pydantic" in each.text for each in bad)
    assert after.text == before


async def test_an_image_that_is_none() -> None:
    """What no provider would take as an image is told of in words."""
    block = {"type": "image", "data": "PGh0bWw+", "mimeType": "text/html"}
    async with server("result") as client:
        found = await result(client, "result", result={"content": [block]})
    assert found.text == "[image: text/html, which cannot be read]"


@pytest.mark.parametrize("schema", [{"properties": 5}, {"properties": {"a": 5}}, {"required": 1}])
async def test_one_schema_of_many_is_none(schema: Any) -> None:
    """The others are there."""
    async with server({"name": "odd", "inputSchema": schema}, "echo") as client:
        assert [each.name for each in client.tools] == ["r_echo"]


async def test_a_list_that_is_none() -> None:
    """It is said at once what is wrong."""
    with pytest.raises(MCPFailed, match="its answer is none that the protocol knows"):
        await server("echo", plan={"list": None}, connect_timeout=5).open()


async def test_a_server_that_ends_at_what_it_does_not_know() -> None:
    """One that wants the handshake first is started again, and greeted so from then on."""
    async with server("crash", "echo", plan={"strict": True}) as client:
        died, echoed = (await ask(client, ("r_crash", {}), ("r_echo", {"x": 1}))).tool_results
    assert "exit code 3" in died.text
    assert echoed.text == '{"x": 1}'


async def test_a_storm_of_changes() -> None:
    """The list is read anew once or twice, not each time that the server says so."""
    async with server("storm", "echo", "listings", timeout=20) as client:
        assert (await result(client, "storm", times=3000)).text == "calm"
        assert await becomes(lambda: client.tools[-1].name == "r_grown")
        assert int((await result(client, "listings")).text) <= 5


async def test_before_and_after_it_was_ready() -> None:
    """Only of a server that was asked something is it unknown what it did."""
    with pytest.raises(MCPFailed, match=r"exit code 4 before it was ready\.$"):
        await MCP.stdio("sh", "-c", "exit 4", name="s").open()
