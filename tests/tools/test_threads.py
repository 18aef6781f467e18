"""Threads of sync tools: reused, and begun anew in a forked child."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest

from treadle.tools.threads import ToolThreads

FORKED = """
import os
import signal
from treadle import Agent, tool
from treadle.testing import ScriptedModel, calls

@tool(timeout=20)
def add(a: int, b: int) -> int:
    "Add."
    return a + b

def ask():
    both = calls(("1", "add", {"a": 1, "b": 2}), ("2", "add", {"a": 3, "b": 4}))
    model = ScriptedModel([both, "ok"])
    found = Agent("a", model, tools=[add]).run_sync("x").tool_results
    return [result.text for result in found]

print(ask(), flush=True)
child = os.fork()
if child == 0:
    signal.alarm(8)  # a child that hangs is ended
    print(ask(), flush=True)
    os._exit(0)
print("child", os.waitpid(child, 0)[1], flush=True)
print(ask(), flush=True)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_sync_tools_run_in_a_forked_child() -> None:
    """The idle threads of the parent are not there; the parent's own go on."""
    done = subprocess.run(
        [sys.executable, "-c", FORKED], capture_output=True, text=True, timeout=30, check=False
    )

    assert done.stdout.splitlines() == ["['3', '7']"] * 2 + ["child 0", "['3', '7']"], done.stderr


async def test_an_idle_thread_is_used_again() -> None:
    """With room for one thread, all calls run in that one, and never in the event loop's."""
    threads = ToolThreads(most=1)
    seen = [await threads.run(threading.current_thread) for _ in range(3)]

    assert seen[0] is not threading.current_thread()
    assert len(set(seen)) == 1


async def test_what_ends_a_process_is_an_error_of_the_call() -> None:
    """sys.exit() in a tool's thread reaches whoever waits for the call as a RuntimeError."""
    threads = ToolThreads()

    with pytest.raises(RuntimeError, match=r"SystemExit\(3\)"):
        await threads.run(lambda: sys.exit(3))
    assert await threads.run(lambda: "on") == "on"
