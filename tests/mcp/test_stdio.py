"""Servers as processes: they start, answer, misbehave, die, and are always gone at the end."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tests.mcp.parts import ask, becomes, is_alive, result, server
from tests.tools.parts import Asked
from treadle import Agent, MCPFailed, ToolProgress, ToolStarted
from treadle.mcp import MCP
from treadle.testing import ScriptedModel, calls

pytestmark = pytest.mark.e2e


async def test_a_call_and_its_answer() -> None:
    """A tool of a server is a tool like any other."""
    async with server("echo") as client:
        found = await result(client, "echo", a=[1, None, "ä"])

    assert (json.loads(found.text), found.is_error) == ({"a": [1, None, "ä"]}, False)


async def test_tools_of_two_servers_with_one_name() -> None:
    """Two servers with an equal tool name stand side by side."""
    async with server("pid", name="one") as one, server("pid", name="two") as two:
        model = ScriptedModel([calls(("a", "one_pid", {}), ("b", "two_pid", {})), "done"])
        found = await Agent("a", model, tools=[*one.tools, *two.tools]).run("go")

    first, second = (each.text for each in found.tool_results)
    assert first != second
    assert not is_alive(int(first))
    assert not is_alive(int(second))


async def test_a_server_that_dies_in_a_call() -> None:
    """The call has an error result within a second; the next one starts a new process."""
    async with server("crash", "echo", "pid") as client:
        began = time.monotonic()
        found = await ask(client, ("r_crash", {}), ("r_echo", {"x": 1}))
        seconds = time.monotonic() - began

    died, echoed = found.tool_results
    assert died.is_error
    assert "exit code 3" in died.text
    assert "boom" in died.text
    assert (echoed.text, echoed.is_error) == ('{"x": 1}', False)
    assert seconds < 2


async def test_three_deaths_in_a_row(caplog: pytest.LogCaptureFixture) -> None:
    """After three, the server is not started any more; other tools go on working."""
    async with server("crash") as bad, server("echo", name="good") as good:
        turns = [calls((f"c{index}", "r_crash", {})) for index in range(4)]
        model = ScriptedModel([*turns, calls(("g", "good_echo", {})), "done"])
        found = await Agent("a", model, tools=[*bad.tools, *good.tools]).run("go")

    *died, refused, fine = found.tool_results
    assert all("exit code 3" in each.text for each in died)
    assert "not started any more" in refused.text
    assert "boom" in refused.text
    assert fine.text == "{}"


async def test_a_signal_ends_the_server_in_a_call() -> None:
    """Killed from outside, it is told as such."""
    async with server("hang", "pid") as client:
        pid = int((await result(client, "pid")).text)
        run = asyncio.ensure_future(result(client, "hang"))
        await asyncio.sleep(0.3)
        os.kill(pid, signal.SIGKILL)
        found = await asyncio.wait_for(run, 2)

    assert "was ended by signal 9" in found.text


async def test_a_server_that_closes_its_output() -> None:
    """Nobody waits for a server that can say nothing more."""
    async with server("mute", "echo") as client:
        found = await ask(client, ("r_mute", {}), ("r_echo", {}))

    assert "closed its output" in found.tool_results[0].text
    assert found.tool_results[1].text == "{}"


async def test_many_calls_at_once_when_it_dies() -> None:
    """All open calls end, and they count as one death."""
    async with server("hang", "crash", "echo", max_crashes=2) as client:
        asked: list[Asked] = [(f"h{index}", "r_hang", {}) for index in range(5)]
        model = ScriptedModel([calls(*asked, ("c", "r_crash", {})), "done"])
        agent = Agent("a", model, tools=client.tools, max_parallel_tools=6)
        found = await asyncio.wait_for(agent.run("go"), 5)
        again = await result(client, "echo")

    assert all("exit code 3" in each.text for each in found.tool_results)
    assert again.text == "{}"


@pytest.mark.parametrize("junk", ["Loading...", '{"level": "info"}', "\xff\xfe", "[1, 2]", "{"])
async def test_noise_on_the_output(junk: str, caplog: pytest.LogCaptureFixture) -> None:
    """Lines that are no messages are skipped; one warning shows the first."""
    plan = {"banner": "Loading… ", "junk": junk}
    with caplog.at_level(logging.WARNING):
        async with server("echo", plan=plan) as client:
            found = await result(client, "echo", x=1)

    assert found.text == '{"x": 1}'
    warned = [each for each in caplog.records if "standard output" in each.getMessage()]
    assert len(warned) == 1
    assert "'r'" in warned[0].getMessage()


async def test_fifty_megabytes_on_standard_error() -> None:
    """What nobody asked for is read and forgotten, but for its end."""
    async with server("crash", plan={"flood": 50_000_000}) as client:
        found = await result(client, "crash")

    assert "boom" in found.text
    assert len(found.text) < 10_000


async def test_a_result_of_three_megabytes() -> None:
    """A message may be long."""
    async with server("big", max_output=4_000_000) as client:
        found = await result(client, "big", size=3_000_000)

    assert len(found.text) == 3_000_000


async def test_all_pages_of_tools() -> None:
    """Tools on later pages exist, too."""
    names = [f"t{index}" for index in range(6)]
    async with server(*names, plan={"pages": 2}, only=("t5", "t0")) as client:
        assert [tool.name for tool in client.tools] == ["r_t0", "r_t5"]
        assert (await result(client, "t5", x=1)).text == '{"x": 1}'


async def test_schemas_that_are_odd(caplog: pytest.LogCaptureFixture) -> None:
    """One tool with a nonsense schema is left out; the others work."""
    schemas: list[Any] = [
        {},
        {"type": "object"},
        {"properties": {"a": {}}},
        {"type": "object", "properties": {"x": {"type": ["string", "null"]}}},
        {"type": "banana"},
        None,
    ]
    tools = [{"name": f"t{index}", "inputSchema": each} for index, each in enumerate(schemas)]
    with caplog.at_level(logging.WARNING):
        async with server(*tools, {"inputSchema": {}}, {"name": "t0"}) as client:
            names = [tool.name for tool in client.tools]
            found = await ask(client, *[(name, dict[str, Any]()) for name in names])

    assert names == ["r_t0", "r_t1", "r_t2", "r_t3", "r_t5"]
    assert [each.text for each in found.tool_results] == ["{}"] * 5
    assert "'t4' is left out" in caplog.text
    assert "banana" in caplog.text


async def test_long_names(caplog: pytest.LogCaptureFixture) -> None:
    """A model sees a short name, the server its own; one warning has both."""
    name = "get_stock_levels_for_every_warehouse_by_region_current"
    options: Any = {"name": "northwind.inventory/reporting gateway"}
    with caplog.at_level(logging.WARNING):
        async with server({"name": name, "inputSchema": {}}, **options) as client:
            (tool,) = client.tools
            assert client.tools is client.tools
            found = (await ask(client, (tool.name, {"x": 1}))).tool_results[0]

    assert (found.text, len(tool.name)) == ('{"x": 1}', 64)
    assert tool.name.startswith("northwind_inventory_reporting_gateway_get_stock")
    assert tool.title == f"{options['name']}_{name}"
    assert caplog.text.count(name) == 1


async def test_cancelling_a_run(tmp_path: Path) -> None:
    """The server hears that nobody waits any more, and goes on with others."""
    noted = tmp_path / "cancelled"
    async with server("hang", "echo", env={"CANCELLED": str(noted)}) as client:
        model = ScriptedModel([calls(("h", "r_hang", {})), "done"])
        run = Agent("a", model, tools=client.tools).start("go")
        async for event in run:
            if isinstance(event, ToolStarted):
                await asyncio.sleep(0.1)
                await run.cancel("enough")
        assert (await run).stop_reason == "cancelled"
        assert (await result(client, "echo")).text == "{}"
        assert len(noted.read_text().split()) == 1


async def test_a_tool_that_takes_too_long(tmp_path: Path) -> None:
    """The tool's timeout ends the call, and the server hears of it."""
    noted = tmp_path / "cancelled"
    options: dict[str, Any] = {"env": {"CANCELLED": str(noted)}, "timeout": 0.2}
    async with server("hang", "echo", **options) as client:
        found = await result(client, "hang")
        assert (await result(client, "echo")).text == "{}"
        assert noted.read_text()

    assert "timed out after 0.2 s" in found.text


async def test_progress_reaches_the_watchers() -> None:
    """What a server tells of its progress is told as the call's."""
    async with server("count") as client:
        model = ScriptedModel([calls(("c", "r_count", {})), "done"])
        run = Agent("a", model, tools=client.tools).start("go")
        told = [event.progress async for event in run if isinstance(event, ToolProgress)]

    assert told == [{"progress": step, "total": 3, "message": "on"} for step in (1, 2, 3)]


async def test_a_list_that_changes() -> None:
    """The client has the new tool; an agent that is built now, too."""
    async with server("grow") as client:
        before = client.tools
        await result(client, "grow")
        assert await becomes(lambda: len(client.tools) > len(before))
        assert (await result(client, "grown", x=1)).text == '{"x": 1}'


async def test_the_environment_of_a_server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It gets what it is given and what it needs, and no key of ours unless it is named."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-" + "a" * 20)
    monkeypatch.setenv("MY_SETTING", "yes")
    async with server("environment", "folder", env={"OWN": "1"}, cwd=tmp_path) as client:
        passed = json.loads((await result(client, "environment")).text)
        assert (await result(client, "folder")).text == str(tmp_path)
    async with server("environment", inherit=("MY_SETTING",)) as client:
        named = json.loads((await result(client, "environment")).text)
    async with server("environment", inherit=True) as client:
        everything = json.loads((await result(client, "environment")).text)

    assert passed["OWN"] == "1"
    assert "PATH" in passed
    assert not {"OPENAI_API_KEY", "MY_SETTING"} & passed.keys()
    assert named["MY_SETTING"] == "yes"
    assert "OPENAI_API_KEY" in everything


async def test_refusals_and_nonsense() -> None:
    """Protocol errors and answers that are none are error results; the run goes on."""
    async with server("refuse", "invalid", "echo") as client:
        found = await ask(client, ("r_refuse", {}), ("r_invalid", {}), ("r_echo", {}))

    refused, invalid, fine = found.tool_results
    assert refused.is_error
    assert "code -32602" in refused.text
    assert "sk-secret" not in refused.text
    assert invalid.is_error
    assert fine.text == "{}"


async def test_secrets_of_the_environment(caplog: pytest.LogCaptureFixture) -> None:
    """What a server says on its standard error is shown without the keys that it was given."""
    with caplog.at_level(logging.DEBUG):
        secret = "hunter2hunter2"  # noqa: S105 nobody's
        command = ("sh", "-c", "echo key=$API_KEY; echo bad $API_KEY >&2; exit 4")
        client = MCP.stdio(*command, env={"API_KEY": secret}, name="s")
        with pytest.raises(MCPFailed, match="exit code 4") as caught:
            await client.open()

    assert "bad ***" in str(caught.value)
    assert secret not in str(caught.value) + caplog.text + repr(client) + caught.value.stderr


@pytest.mark.parametrize(
    ("command", "options", "said"),
    [
        ("no-such-command", {}, "no command 'no-such-command' on the PATH"),
        ("sh", {"cwd": "/no/such/folder"}, "no folder '/no/such/folder'"),
        ("/etc/passwd", {}, "Permission denied"),
        ("true", {}, "ended with exit code 0"),
    ],
)
async def test_a_process_that_cannot_be(command: str, options: Any, said: str) -> None:
    """What is wrong is said plainly, in no time."""
    client = MCP.stdio(command, name="x", **options)
    with pytest.raises(MCPFailed, match=said):
        await client.open()
