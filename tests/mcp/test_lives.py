"""A connection's life: closed by anybody, dropped, cancelled, and never anything left."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
from pathlib import Path

import pytest

from tests.mcp.parts import becomes, descriptors, gone, is_alive, result, rogue, server
from tests.tools.parts import Asked
from treadle import Agent, MCPFailed
from treadle.mcp import MCP
from treadle.testing import ScriptedModel, calls

pytestmark = pytest.mark.e2e


async def test_closing_in_any_order_from_any_task() -> None:
    """Each connection has a task of its own, so that nobody's order matters."""
    first, second = server("pid"), server("pid")
    await first.open()
    await second.open()
    pids = [int((await result(each, "pid")).text) for each in (first, second)]

    await asyncio.get_running_loop().create_task(first.close())
    assert (await result(second, "pid")).text == str(pids[1])
    async with asyncio.TaskGroup() as tasks:
        for client in (second, second, first):
            tasks.create_task(client.close())
    assert [is_alive(pid) for pid in pids] == [False, False]


async def test_a_server_that_never_answers() -> None:
    """Connecting ends in time, and so does the process."""
    client = server("echo", plan={"silent": True}, connect_timeout=0.2)
    with pytest.raises(MCPFailed, match=r"did not answer within 0\.2 s"):
        await client.open()
    await client.close()
    await client.close()


async def test_a_client_that_is_dropped(recwarn: pytest.WarningsRecorder) -> None:
    """Nobody closed it: its process ends all the same, without a word."""
    client: MCP | None = server("pid")
    await client.open()
    tools = client.tools
    pid = int((await result(client, "pid")).text)
    client = None
    gc.collect()
    assert is_alive(pid)  # its tools are still held
    del tools
    await asyncio.sleep(0.05)
    gc.collect()
    assert await gone(pid)
    assert not recwarn.list


async def test_a_cancelled_task_that_opened_it() -> None:
    """Cancelling whoever is connecting leaves no process."""
    client = server("echo", plan={"silent": True})
    opening = asyncio.ensure_future(client.open())
    await asyncio.sleep(0.3)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    assert "closed" in repr(client)


async def test_a_server_that_does_not_want_to_end(tmp_path: Path) -> None:
    """It goes on when its input ends and when it is asked; then it is killed, and its child."""
    plan = {"deaf": True, "child": str(tmp_path / "child")}
    async with server("pid", plan=plan) as client:
        pid = int((await result(client, "pid")).text)
        child = int((tmp_path / "child").read_text())
        assert is_alive(child)
    assert not is_alive(pid)
    assert await gone(child, 1)


async def test_what_a_dead_server_leaves_in_its_group(tmp_path: Path) -> None:
    """A server that crashed takes along what it started."""
    async with server("crash", plan={"child": str(tmp_path / "child")}) as client:
        await result(client, "crash")
        assert await gone(int((tmp_path / "child").read_text()), 1)


async def test_nothing_is_left() -> None:
    """Opening and closing many times leaves no descriptor, task or process."""
    async with server("pid") as client:
        await result(client, "pid")
    before, tasks = descriptors(), len(asyncio.all_tasks())
    for _ in range(20):
        async with server("pid") as client:
            await result(client, "pid")
    assert (descriptors(), len(asyncio.all_tasks())) == (before, tasks)


def test_a_loop_that_ends_around_an_open_client() -> None:
    """asyncio.run() cancels what is left; the process ends with it."""

    async def forget() -> tuple[int, MCP]:
        client = server("pid")
        await client.open()
        return int((await result(client, "pid")).text), client

    pid, client = asyncio.run(forget())
    assert not is_alive(pid)
    asyncio.run(client.close())


async def test_a_run_in_another_loop() -> None:
    """A call from another thread's loop goes to the loop that has the connection."""
    async with server("echo") as client:
        found = await asyncio.to_thread(lambda: asyncio.run(result(client, "echo", x=1)))
    assert found.text == '{"x": 1}'


async def test_use_when_it_is_closed() -> None:
    """The tools of a closed client say so; it may be opened again."""
    client = server("echo")
    async with client:
        tools = client.tools
    found = await Agent("a", ScriptedModel([calls(("a", "r_echo", {})), "x"]), tools=tools).run(
        "go"
    )
    assert "is not open" in found.tool_results[0].text
    async with client:
        assert (await result(client, "echo")).text == "{}"


@pytest.mark.parametrize(
    ("trusted", "hints", "answer"),
    [
        (True, {"idempotentHint": True}, "done"),
        (True, {"readOnlyHint": True}, "done"),
        (True, {}, "exit code 5"),
        (False, {"idempotentHint": True}, "exit code 5"),
    ],
)
async def test_a_call_that_may_be_made_twice(
    trusted: bool, hints: dict[str, bool], answer: str, tmp_path: Path
) -> None:
    """A lost call is made again only where the server says so and is believed."""
    tool = {"name": "once", "inputSchema": {}, "annotations": hints}
    async with server(tool, trust_hints=trusted) as client:
        assert client.tools[0].idempotent == (answer == "done")
        found = await result(client, "once", file=str(tmp_path / "seen"))
    assert answer in found.text


async def test_more_than_anybody_takes_at_once() -> None:
    """Long results that come at once are all read, in bounded memory."""
    async with server("big", max_output=5_000_000) as client:
        asked: list[Asked] = [(f"b{index}", "r_big", {"size": 3_000_000}) for index in range(6)]
        model = ScriptedModel([calls(*asked), "done"])
        agent = Agent("a", model, tools=client.tools, max_parallel_tools=6)
        found = await agent.run("go")
    assert [len(each.text) for each in found.tool_results] == [3_000_000] * 6


def test_a_loop_that_was_closed_around_it() -> None:
    """Nobody cancelled what was left; closing still ends the process, from another loop."""
    loop = asyncio.new_event_loop()
    client = server("pid")

    async def begin() -> int:
        await client.open()
        return int((await result(client, "pid")).text)

    pid = loop.run_until_complete(begin())
    asyncio.run(client.close())
    assert asyncio.run(gone(pid, 5))
    left = asyncio.all_tasks(loop)
    for task in left:
        task.cancel()
    loop.run_until_complete(asyncio.wait(left))
    loop.close()


async def _restarted(client: MCP) -> list[str]:
    """Kill the process, and make calls that all wait for the next one."""
    async with client:
        pid = int((await result(client, "pid")).text)
        os.kill(pid, signal.SIGKILL)
        await asyncio.sleep(0.3)  # until the connection has noticed
        async with asyncio.TaskGroup() as tasks:
            found = [tasks.create_task(result(client, "echo")) for _ in range(5)]
    return [each.result().text for each in found]


def test_one_client_in_two_loops() -> None:
    """What waited in the first loop leaves nothing that the second trips over."""
    client = server("pid", "echo")
    for _ in range(2):
        assert not [each for each in asyncio.run(_restarted(client)) if "loop" in each]


def test_a_forked_process_that_ends() -> None:
    """It leaves the server alone, which is its parent's."""
    loop = asyncio.new_event_loop()
    client = server("pid", "echo")
    loop.run_until_complete(client.open())
    child = os.fork()
    if child == 0:
        del client
        gc.collect()
        os._exit(0)
    os.waitpid(child, 0)
    assert loop.run_until_complete(result(client, "echo", x=1)).text == '{"x": 1}'
    loop.run_until_complete(client.close())
    loop.close()


PARENT = """
import asyncio, os, sys
from treadle.mcp import MCP
async def main():
    client = MCP.stdio(*sys.argv[1:], name="r")
    await client.open()
    print(client._link.remote._connection._child.pid, flush=True)
    os.kill(os.getpid(), 9)
asyncio.run(main())
"""


async def test_when_this_process_is_killed() -> None:
    """A server goes then, too, even one that does not want to."""
    parent = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", PARENT, *rogue("echo", deaf=True)), stdout=asyncio.subprocess.PIPE
    )
    out, _ = await parent.communicate()
    pid = int(out)
    assert is_alive(pid)
    assert await gone(pid, 15)


async def test_cancelled_anywhere(recwarn: pytest.WarningsRecorder) -> None:
    """Whenever whoever opens it is cancelled, nothing is left, and nothing complains."""

    async def live() -> None:
        async with server("echo") as client:
            await result(client, "echo")

    before = descriptors()
    for step in range(30):
        task = asyncio.ensure_future(live())
        await asyncio.wait([task], timeout=step * 0.008)
        task.cancel()
        await asyncio.wait([task])
    gc.collect()
    assert await becomes(lambda: descriptors() == before)
    assert not recwarn.list
