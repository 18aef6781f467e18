"""One agent and one server that keeps connections, from every kind of loop and thread."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Generator

import pytest

from tests.loopback import Loopback, serve
from treadle import Agent, tool
from treadle.providers import OpenAI

PLENTY = 40


@pytest.fixture
def server() -> Generator[Loopback]:
    """A server that keeps its connections open and always answers ok."""
    with serve(["ok"] * PLENTY, __file__) as found:
        yield found


@pytest.fixture
def agent(server: Loopback) -> Agent:
    """An agent whose model is that server."""
    return Agent("a", OpenAI("m", base_url=server.url))


def test_the_sync_way_again_and_again(agent: Agent, server: Loopback) -> None:
    """BS-67: one loop in the background serves every call."""
    assert [agent.run_sync("x").output for _ in range(3)] == ["ok"] * 3
    assert server.left == PLENTY - 3


def test_a_loop_for_every_call(agent: Agent) -> None:
    """BS-67: connections of a loop that ended are not used again; streams too."""

    async def stream() -> list[str]:
        return [event.type async for event in agent.stream("x")]

    assert [asyncio.run(agent.run("x")).output for _ in range(3)] == ["ok"] * 3
    assert [asyncio.run(stream())[-1] for _ in range(3)] == ["run.finished"] * 3


async def test_the_sync_way_inside_a_loop(agent: Agent) -> None:
    """BS-67: as in a notebook; the loop that runs here goes on with the same client."""
    outputs = [agent.run_sync("x").output, (await agent.run("x")).output]
    outputs.append(agent.run_sync("x").output)

    assert outputs == ["ok"] * 3


@pytest.mark.parametrize("way", ["run_sync", "asyncio.run"])
def test_many_threads(agent: Agent, way: str) -> None:
    """BS-67: eight at once, each twice."""
    outputs: list[str] = []

    def work() -> None:
        for _ in range(2):
            if way == "run_sync":
                outputs.append(agent.run_sync("x").output)
            else:
                outputs.append(asyncio.run(agent.run("x")).output)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=10)

    assert outputs == ["ok"] * 16


def test_an_agent_in_a_sync_tool_of_another(agent: Agent) -> None:
    """BS-67: the worker thread of the tool is one more place to call from."""

    @tool
    def ask_expert(question: str) -> str:
        """Ask."""
        return agent.run_sync(question).output

    with serve([{"call": "ask_expert", "arguments": {"question": "?"}}, "done"], __file__) as outer:
        boss = Agent("boss", OpenAI("m", base_url=outer.url), tools=[ask_expert])
        result = boss.run_sync("x")

    assert (result.output, result.tool_results[0].text) == ("done", "ok")


PROGRAM = """
import asyncio, sys, threading
from treadle import Agent
from treadle.providers import OpenAI

agent = Agent("a", OpenAI("m", base_url=sys.argv[1]))
said = [agent.run_sync("x").output for _ in range(3)]
said += [asyncio.run(agent.run("x")).output for _ in range(3)]

async def inside():
    said.append(agent.run_sync("x").output)
    async for event in agent.stream("x"):
        if event.type == "text.delta":
            break  # left early, and never closed by hand

def work():
    said.append(agent.run_sync("x").output)

asyncio.run(inside())
threads = [threading.Thread(target=work) for _ in range(8)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(len(said), set(said))
"""


def test_a_program_that_does_all_of_it_ends_cleanly(server: Loopback) -> None:
    """BS-67: every warning is an error there, an unclosed connection too."""
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM, server.url],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )

    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout == "15 {'ok'}\n"
