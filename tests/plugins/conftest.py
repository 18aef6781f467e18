"""Plugin servers and runs for these tests."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.plugins.wire import Plugin, start
from treadle import Agent, Limits, RunResult
from treadle.testing import ScriptedModel, calls


@pytest.fixture
def serve() -> Iterator[Callable[..., str]]:
    """Serve plugins on free ports for the time of a test; gives the address of each."""
    with ExitStack() as stack:

        def begin(plugin: Plugin, port: int = 0, credentials: Any = None) -> str:
            server, port = start(plugin, port, credentials)
            stack.callback(lambda: server.stop(None).wait())
            return f"127.0.0.1:{port}"

        yield begin


def compiler(name: str) -> str:
    """Return where a compiler is; without it a test is skipped, or fails where that is asked."""
    rustup = Path.home() / ".cargo" / "bin"
    found = shutil.which(name, path=f"{os.environ.get('PATH', os.defpath)}:{rustup}")
    if found is None:
        end = pytest.fail if os.environ.get("TREADLE_NEED_STORES") else pytest.skip
        end(f"There is no {name} here; see tools/compilers.sh.")
    return found


def compile_c(source: str | Path, into: Path, *flags: str) -> Path:
    """Compile a library from a file or from a text in C."""
    into.parent.mkdir(exist_ok=True)
    command = [compiler("cc"), "-shared", "-fPIC", *flags, "-o", str(into)]
    if isinstance(source, Path):
        subprocess.run([*command, str(source)], check=True)
    else:
        subprocess.run([*command, "-x", "c", "-"], input=source, text=True, check=True)
    return into


def compile_rust(source: Path, into: Path, *flags: str) -> Path:
    """Compile a library in Rust, with the compiler of the path or of rustup."""
    command = [compiler("rustc"), "--edition", "2021", "--crate-type", "cdylib", *flags, "-o", into]
    subprocess.run([*command, source], cwd=into.parent, check=True)
    return into


async def run_calls(tools: Any, *asked: tuple[str, dict[str, Any]], **options: Any) -> RunResult:
    """Run an agent whose model calls these tools one after another, and then says "done"."""
    replies: list[Any] = [
        calls((f"c{number}", name, arguments)) for number, (name, arguments) in enumerate(asked)
    ]
    agent = Agent("tester", model=ScriptedModel([*replies, "done"]), tools=tools)
    return await agent.run("Go.", limits=Limits(max_turns=50), **options)
