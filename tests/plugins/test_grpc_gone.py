"""Plugin servers that die, freeze and come back."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.plugins.conftest import run_calls
from treadle import Agent, Limits, ToolFinished
from treadle.plugins import connect_grpc
from treadle.testing import ScriptedModel, calls

ROOT = Path(__file__).parents[2]


@pytest.fixture
def served() -> Iterator[Callable[[int], tuple[int, subprocess.Popen[str]]]]:
    """Run a plugin server as a process of its own; gives its port and the process."""
    begun: list[subprocess.Popen[str]] = []

    def begin(port: int = 0) -> tuple[int, subprocess.Popen[str]]:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.plugins.wire", str(port)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
        )
        begun.append(process)
        assert process.stdout is not None
        return int(process.stdout.readline()), process

    yield begin
    for process in begun:
        process.kill()
        process.communicate()


Served = Callable[..., tuple[int, subprocess.Popen[str]]]


@pytest.mark.e2e
async def test_a_server_that_dies_and_comes_back(served: Served) -> None:
    """Calls under way and new ones are error results, no hangs; the first after a restart works."""
    port, process = await asyncio.to_thread(served)
    async with connect_grpc(f"127.0.0.1:{port}") as plugins:
        assert await answers(plugins.tools, {"numbers": [1, 2]}) == (False, "sum 3")

        dying = asyncio.ensure_future(answers(plugins.tools, {"numbers": [], "sleep": 60}))
        await asyncio.sleep(0.5)
        process.kill()
        failed, text = await asyncio.wait_for(dying, 10)
        assert failed
        assert "UNAVAILABLE" in text
        for _ in range(3):
            failed, text = await asyncio.wait_for(answers(plugins.tools, {"numbers": []}), 10)
            assert failed
            assert "UNAVAILABLE" in text

        await asyncio.to_thread(served, port)
        assert await answers(plugins.tools, {"numbers": [3, 4]}) == (False, "sum 7")


@pytest.mark.e2e
async def test_a_server_that_stops_answering(served: Served) -> None:
    """A frozen server costs the timeout and no more, and is used again once it goes on."""
    port, process = await asyncio.to_thread(served)
    async with connect_grpc(f"127.0.0.1:{port}", timeout=1) as plugins:
        process.send_signal(signal.SIGSTOP)
        failed, _ = await asyncio.wait_for(answers(plugins.tools, {"numbers": [1]}), 10)
        assert failed
        process.send_signal(signal.SIGCONT)
        assert await answers(plugins.tools, {"numbers": [1]}) == (False, "sum 1")


@pytest.mark.e2e
async def test_many_calls_while_a_server_dies(served: Served) -> None:
    """Each of 200 calls at once has its one result, right or an error, and none hangs."""
    port, process = await asyncio.to_thread(served)
    async with connect_grpc(f"127.0.0.1:{port}") as plugins:
        asked = [(f"c{number}", "sum_up", {"numbers": [number]}) for number in range(200)]
        model = ScriptedModel([calls(*asked), "done"])
        agent = Agent("tester", model=model, tools=plugins.tools, max_parallel_tools=50)
        run = agent.start("Go.", limits=Limits(max_tool_calls=300))
        ended = 0
        async for event in run:
            ended += isinstance(event, ToolFinished)
            if ended == 60:
                process.kill()
        result = await asyncio.wait_for(run, 60)

    assert [found.call_id for found in result.tool_results] == [call for call, _, _ in asked]
    right = [found for found in result.tool_results if not found.is_error]
    assert 40 <= len(right) < 200
    for found in right:
        assert found.text.startswith(f"sum {found.call_id[1:]}")
    for found in result.tool_results:
        assert not found.is_error or "UNAVAILABLE" in found.text


@pytest.mark.e2e
async def test_connections_leave_nothing_behind(served: Served) -> None:
    """After 50 times opening, calling and closing there are as many descriptors as before."""
    port, _ = await asyncio.to_thread(served)
    counts: list[int] = []
    for _ in range(50):
        async with connect_grpc(f"127.0.0.1:{port}") as plugins:
            assert await answers(plugins.tools, {"numbers": [1]}) == (False, "sum 1")
        counts.append(len(await asyncio.to_thread(os.listdir, "/proc/self/fd")))
    assert max(counts[25:]) <= max(counts[:25])


async def answers(tools: Any, arguments: dict[str, Any]) -> tuple[bool, str]:
    (found,) = (await run_calls(tools, ("sum_up", arguments))).tool_results
    return found.is_error, found.text.splitlines()[0].partition("{")[0]
