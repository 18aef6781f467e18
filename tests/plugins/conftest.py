"""Plugin servers and runs for these tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
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


async def run_calls(tools: Any, *asked: tuple[str, dict[str, Any]], **options: Any) -> RunResult:
    """Run an agent whose model calls these tools one after another, and then says "done"."""
    replies: list[Any] = [
        calls((f"c{number}", name, arguments)) for number, (name, arguments) in enumerate(asked)
    ]
    agent = Agent("tester", model=ScriptedModel([*replies, "done"]), tools=tools)
    return await agent.run("Go.", limits=Limits(max_turns=50), **options)
