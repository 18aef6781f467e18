"""Running from sync code: from any thread, inside other loops, and until Ctrl-C."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading

import pytest

from treadle import Agent, ModelRequest, tool
from treadle.testing import FunctionModel, ScriptedModel, calls


def test_run_sync_many_times_and_from_many_threads() -> None:
    """BS-67: one background loop serves them all."""
    loops: set[asyncio.AbstractEventLoop] = set()

    def answer(request: ModelRequest) -> str:
        loops.add(asyncio.get_running_loop())
        return "ok"

    agent = Agent("a", FunctionModel(answer))
    outputs: list[str] = [agent.run_sync("x").output for _ in range(3)]
    threads = [
        threading.Thread(target=lambda: outputs.append(agent.run_sync("x").output))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=10)

    assert outputs == ["ok"] * 11
    assert len(loops) == 1
    assert [asyncio.run(agent.run("x")).output for _ in range(3)] == ["ok"] * 3


async def test_run_sync_inside_a_running_loop() -> None:
    """As in a notebook: it works, on another thread's loop."""
    threads: list[threading.Thread] = []

    def answer(request: ModelRequest) -> str:
        threads.append(threading.current_thread())
        return "ok"

    agent = Agent("a", FunctionModel(answer))

    assert agent.run_sync("x").output == "ok"
    assert threads != [threading.current_thread()]


async def test_run_sync_inside_a_sync_tool() -> None:
    """A tool in a thread may run another agent."""
    inner = Agent("inner", FunctionModel(lambda request: "deep"))

    @tool
    def ask_inner() -> str:
        """Ask."""
        return inner.run_sync("x").output

    agent = Agent("a", ScriptedModel([calls(("1", "ask_inner", {})), "ok"]), tools=[ask_inner])
    result = await asyncio.to_thread(agent.run_sync, "x")

    assert result.tool_results[0].text == "deep"


def test_run_sync_on_its_own_loop_is_refused() -> None:
    """It would wait for itself for ever."""
    inner = Agent("inner", FunctionModel(lambda request: "deep"))

    @tool(isolation="inline")
    def ask_inner() -> str:
        """Ask."""
        return inner.run_sync("x").output

    agent = Agent("a", ScriptedModel([calls(("1", "ask_inner", {})), "ok"]), tools=[ask_inner])
    result = agent.run_sync("x")

    assert "make the tool async" in result.tool_results[0].text


INTERRUPTED = """
import asyncio
from treadle import Agent
from treadle.testing import FunctionModel

async def hang(request):
    print("asked", flush=True)
    try:
        await asyncio.get_running_loop().create_future()
    finally:
        {clean_up}
        print("stopped", flush=True)

try:
    Agent("a", FunctionModel(hang)).run_sync("x")
except KeyboardInterrupt:
    print("interrupted", flush=True)
print("went on", Agent("b", FunctionModel(lambda request: "ok")).run_sync("y").output, flush=True)
"""


def interrupted(clean_up: str) -> tuple[list[str], str, int]:
    """What a program prints that gets Ctrl-C while its model is asked, its errors and its code."""
    command = [sys.executable, "-X", "dev", "-W", "error", "-c"]
    with subprocess.Popen(
        [*command, INTERRUPTED.format(clean_up=clean_up)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as program:
        assert program.stdout is not None
        try:
            first = program.stdout.readline().strip()
            program.send_signal(signal.SIGINT)
            said, errors = program.communicate(timeout=20)
        finally:
            program.kill()
    return [first, *said.splitlines()], errors, program.returncode


@pytest.mark.skipif(sys.platform == "win32", reason="Ctrl-C cannot be sent to one process there")
def test_ctrl_c_cancels_the_run() -> None:
    """The model is stopped, KeyboardInterrupt is raised, and the program can go on."""
    said, errors, code = interrupted("pass")

    assert sorted(said) == ["asked", "interrupted", "stopped", "went on ok"]
    assert said[-1] == "went on ok"
    assert (errors, code) == ("", 0)


@pytest.mark.skipif(sys.platform == "win32", reason="Ctrl-C cannot be sent to one process there")
def test_ctrl_c_waits_for_the_runs_clean_up() -> None:
    """What the run has to put away is put away before KeyboardInterrupt is raised."""
    said, errors, code = interrupted("await asyncio.sleep(0.05)")

    assert said == ["asked", "stopped", "interrupted", "went on ok"]
    assert (errors, code) == ("", 0)
