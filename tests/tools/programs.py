"""Programs with worker processes, which tests write and run."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

from tests.tools.apart import is_alive

SCRIPT = """
import asyncio, os, sys, threading, time
from dataclasses import dataclass
from treadle import Agent, RunContext, tool
from treadle.testing import ScriptedModel, calls
from treadle.tools.processes import PROCESSES

print("loaded as", __name__, file=sys.stderr, flush=True)

@dataclass
class Point:
    x: int

@tool(isolation="process")
def move(x: int) -> Point:
    "Move."
    return Point(x + 1)

@tool(isolation="process", timeout=None)
def spin() -> None:
    "Loop."
    print("spinning", flush=True)
    while True:
        pass

def ask(made, **arguments):
    model = ScriptedModel([calls(("1", made.name, arguments)), "ok"])
    return Agent("a", model, tools=[made]).run_sync("x").tool_results[0]

def begin(made):
    "Run a tool in another thread; return the ID of its process."
    threading.Thread(target=ask, args=(made,), daemon=True).start()
    while not PROCESSES.pids:
        time.sleep(0.01)
    time.sleep(1)
    return PROCESSES.pids[0]
"""


def script(folder: Path, end: str, begin: str = "") -> Path:
    """A program in a file, with the tools above."""
    path = folder / "program.py"
    path.write_text(begin + SCRIPT + textwrap.dedent(end))
    return path


def run(*program: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a program with this interpreter, to its end."""
    command = [sys.executable, *map(str, program)]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=False, **options
    )


def goes_away(pid: int) -> bool:
    """Whether a process goes away within some seconds."""
    for _ in range(500):
        if not is_alive(pid):
            return True
        time.sleep(0.01)  # noqa: TID251
    return False
