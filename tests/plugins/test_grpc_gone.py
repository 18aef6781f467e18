"""Plugin servers that die, freeze and come back."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.plugins.conftest import run_calls
from treadle.plugins import connect_grpc

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


async def answers(tools: Any, arguments: dict[str, Any]) -> tuple[bool, str]:
    (found,) = (await run_calls(tools, ("sum_up", arguments))).tool_results
    return found.is_error, found.text.splitlines()[0].partition("{")[0]
