"""Whole runs with a tool call on a real server, in each protocol that it speaks."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Generator

import pytest

from treadle import Agent, TextDelta, tool
from treadle.ports.model import Model
from treadle.providers import Anthropic, OpenAI, OpenAIResponses
from treadle.providers.local.weights import pull

pytestmark = pytest.mark.e2e

MODELS: dict[str, Callable[[str], Model]] = {
    "openai_chat": lambda url: OpenAI("local", base_url=f"{url}/v1"),
    "openai_responses": lambda url: OpenAIResponses("local", base_url=f"{url}/v1"),
    "anthropic": lambda url: Anthropic("local", base_url=url, api_key="none"),
}


@tool
def multiply(a: int, b: int) -> int:
    """Multiply two whole numbers."""
    return a * b


@pytest.fixture(scope="module")
def server() -> Generator[str]:
    """Start llama.cpp's server, and stop it."""
    command = [sys.executable, "-m", "tests.e2e.llama_server", str(pull())]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        address = process.stdout.readline().strip()
        assert address, f"the server ended with {process.wait()}"
        yield address if address.startswith("http") else f"http://{address}"
    finally:
        process.stdin.close()
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()


@pytest.mark.parametrize("protocol", MODELS)
async def test_a_tool_is_called_and_answered_from(protocol: str, server: str) -> None:
    """The call comes, its result goes back, and the answer states it."""
    agent = Agent("reckoner", MODELS[protocol](server), tools=[multiply])
    result = await agent.run("What is 23 times 17?")
    assert [message.role for message in result.messages] == [
        "user",
        "assistant",
        "tool",
        "assistant",
    ]
    (call,) = result.messages[1].tool_calls
    assert (call.name, call.arguments) == ("multiply", {"a": 23, "b": 17})
    assert "391" in result.output
    assert result.usage.requests == 2
    assert result.usage.input_tokens > 0
    assert result.usage.output_tokens > 0


@pytest.mark.parametrize("protocol", MODELS)
async def test_it_streams(protocol: str, server: str) -> None:
    """Text comes in pieces that make up the answer, also after a call."""
    agent = Agent("reckoner", MODELS[protocol](server), tools=[multiply])
    run = agent.start("What is 12 times 12?")
    texts = [event.text async for event in run if isinstance(event, TextDelta)]
    result = await run
    assert len(texts) > 3
    assert "".join(texts).endswith(result.output)
    assert "144" in result.output
    assert len(result.tool_results) == 1
