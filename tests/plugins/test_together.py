"""One agent with tools of every kind: two plugin servers, C, Rust, MCP, a folder, and its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.plugins.conftest import compile_c, compile_rust
from treadle import Agent, Conversation, ToolFinished, ToolStarted, open_store, tool
from treadle.journal import CallBegan, CallEnded
from treadle.mcp import MCP
from treadle.plugins import connect_grpc, load_folder, load_library
from treadle.testing import ScriptedModel, calls

HERE = Path(__file__).parent
EXAMPLES = HERE.parents[1] / "examples" / "plugins"

pytestmark = pytest.mark.e2e


@tool
def half(number: float) -> float:
    """Take the half of a number."""
    return number / 2


@pytest.fixture
def address() -> Iterator[str]:
    """Run the example of a plugin server as a process of its own."""
    program = [sys.executable, str(EXAMPLES / "plugin_server.py")]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield f"127.0.0.1:{process.stdout.readline().strip()}"
        process.kill()


@pytest.fixture
def wired() -> Iterator[str]:
    """Run the server that was written from the wire description alone."""
    program = [sys.executable, "-m", "tests.plugins.wire", "0"]
    with subprocess.Popen(
        program, cwd=HERE.parents[1], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        yield f"127.0.0.1:{process.stdout.readline().strip()}"
        process.kill()


@pytest.fixture
def local_tools(tmp_path: Path) -> list[Any]:
    """Compile and load the libraries, and load a folder of one module."""
    sums = compile_c(EXAMPLES / "sums.c", tmp_path / "libsums.so")
    words = compile_rust(EXAMPLES / "words.rs", tmp_path / "libwords.so")
    folder = tmp_path / "plugins"
    folder.mkdir()
    (folder / "greet.py").write_text(
        "from treadle import tool\n\n\n@tool\ndef greet(name: str) -> str:\n"
        "    return f'Hello {name}'\n"
    )
    return [half, *load_library(sums), *load_library(words), *load_folder(folder)]


async def test_all_kinds_in_one_agent(
    address: str, wired: str, local_tools: list[Any], tmp_path: Path
) -> None:
    """Each call is told by events, kept in the journal, and answered rightly."""
    asked: list[tuple[str, dict[str, Any], object]] = [
        ("forecast", {"city": "Paris", "days": 2}, {"celsius": [12, 13], "city": "Paris"}),
        ("sum_up", {"numbers": [1, 2.5]}, None),
        ("add", {"a": 1, "b": 2.5}, 3.5),
        ("count_words", {"text": "one two"}, {"words": 2, "characters": 7}),
        ("small_shout", {"text": "hello"}, None),
        ("greet", {"name": "Ada"}, None),
        ("half", {"number": 5}, 2.5),
    ]
    replies = [calls((f"c{index}", name, given)) for index, (name, given, _) in enumerate(asked)]
    at_once = [(f"all{index}", name, given) for index, (name, given, _) in enumerate(asked)]
    model = ScriptedModel([*replies, calls(*at_once), "done"])
    store = open_store(f"sqlite:///{tmp_path / 'chat.db'}")
    small = MCP.stdio(sys.executable, str(HERE / "mcp_server.py"), name="small")

    async with connect_grpc([address, wired], send_metadata=["user_id"]) as plugins, small:
        tools = [*plugins.tools, *small.tools, *local_tools]
        agent = Agent("all_kinds", model=model, tools=tools)
        run = agent.start(
            "Go.", conversation="c", store=store, metadata={"user_id": "u1", "token": "hush-hush"}
        )
        events = [event async for event in run]
        result = await run

    assert result.output == "done"
    assert [found.is_error for found in result.tool_results] == [False] * 14
    texts = [found.text for found in result.tool_results]
    assert texts[:7] == texts[7:]
    assert "sum 3.5" in texts[1]
    assert '"user_id": "u1"' in texts[1]
    assert "hush-hush" not in "".join(texts)
    assert texts[4:6] == ["HELLO", "Hello Ada"]
    for (name, _, value), found in zip(asked, result.tool_results, strict=False):
        assert value is None or found.value == value, name

    expected = [f"c{index}" for index in range(7)] + [f"all{index}" for index in range(7)]
    started = [event for event in events if isinstance(event, ToolStarted)]
    finished = [event for event in events if isinstance(event, ToolFinished)]
    assert sorted(event.call_id for event in started) == sorted(expected)
    assert sorted(event.call_id for event in finished) == sorted(expected)
    assert not any(event.error for event in finished)

    conversation = await Conversation.open("c", store=store)
    entries = [entry for _, entry in await conversation.entries()]
    began = [entry.call_id for entry in entries if isinstance(entry, CallBegan)]
    ended = [entry for entry in entries if isinstance(entry, CallEnded)]
    assert sorted(began) == sorted(expected)
    assert sorted(entry.result.call_id for entry in ended) == sorted(expected)
    await store.close()


async def test_a_plugin_that_fails_ends_no_other(address: str, local_tools: list[Any]) -> None:
    """In one reply a server refuses, and a library and a local tool answer."""
    asked = calls(
        ("a", "forecast", {"city": "Paris", "days": 9}),
        ("b", "add", {"a": 1, "b": 2}),
        ("c", "half", {"number": 5}),
    )
    async with connect_grpc(address) as plugins:
        tools = [*plugins.tools, *local_tools]
        agent = Agent("all_kinds", model=ScriptedModel([asked, "done"]), tools=tools)
        result = await agent.run("Go.")

    refused, added, halved = result.tool_results
    assert refused.text == "Tool 'forecast' failed on its server: OUT_OF_RANGE: At most 7 days."
    assert (added.value, halved.value) == (3, 2.5)
