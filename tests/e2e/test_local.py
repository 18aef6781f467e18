"""A whole run on the real local model: the call comes, its result goes back, the run ends."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest

from treadle import Agent, RunResult, Skill, tool
from treadle.events import TextDelta, ToolFinished
from treadle.ports.model import ModelSettings
from treadle.providers.local.model import Local
from treadle.providers.local.weights import pull

pytestmark = pytest.mark.e2e


@tool
def add(a: int, b: int) -> int:
    """Add two whole numbers."""
    return a + b


@pytest.fixture(scope="module")
def model() -> Local:
    """The default model; its weights are fetched where they are missing."""
    pull()
    return Local()


def must_call(model: Local) -> Agent[None, str]:
    """Return an agent whose first turn has to be a call."""
    return Agent(
        "adder", model=model, tools=[add], settings=ModelSettings(tool_choice="required", seed=1)
    )


async def test_a_tool_is_called_and_answered_from(model: Local) -> None:
    """The call's arguments are what the tool takes, its result is fed back, and the run ends."""
    result = await must_call(model).run("What is 19 + 23?")

    assert result.stop_reason == "answer"
    assert [message.role for message in result.messages] == [
        "user",
        "assistant",
        "tool",
        "assistant",
    ]
    (call,) = result.messages[1].tool_calls
    assert call.name == "add"
    assert set(call.arguments) == {"a", "b"}
    assert all(isinstance(number, int) for number in call.arguments.values())
    (answered,) = result.messages[2].tool_results
    assert not answered.is_error
    assert answered.value == call.arguments["a"] + call.arguments["b"]
    assert result.output.strip()
    assert result.usage.requests == 2
    assert result.usage.input_tokens > 0
    assert result.usage.output_tokens > 0


async def test_the_answer_streams(model: Local) -> None:
    """Its text comes in pieces, after the tool has finished."""
    seen = [
        type(event)
        async for event in must_call(model).stream("What is 40 + 2?")
        if isinstance(event, TextDelta | ToolFinished)
    ]

    assert seen[0] is ToolFinished
    assert seen.count(TextDelta) > 3


async def test_a_cancelled_run_leaves_the_model_free(model: Local) -> None:
    """The next run gets its turn long before the first would have ended."""
    writer = Agent("writer", model=model)
    run = writer.start("Write a story of a thousand words about a fox.")
    async for event in run:
        if isinstance(event, TextDelta):
            await run.cancel("enough")
    story: RunResult[str] = await run
    assert story.stop_reason == "cancelled"

    async with asyncio.timeout(60):
        result = await writer.run("Say hello.")
    assert result.stop_reason == "answer"


def test_a_process_that_ends_in_the_middle_of_a_reply_ends() -> None:
    """Neither a crash nor a wait: the exit code is the program's own."""
    script = (
        "import asyncio, sys\n"
        "from treadle import Agent\n"
        "async def leave():\n"
        "    async for event in Agent('a', 'local:').stream('Write a long story.'):\n"
        "        if event.type == 'text.delta':\n"
        "            sys.exit(7)\n"
        "asyncio.run(leave())\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script], check=False, timeout=120, capture_output=True
    )

    assert (ended.returncode, ended.stdout, ended.stderr) == (7, b"", b"")


async def test_a_skill_is_loaded_and_followed(model: Local) -> None:
    """The model reads what only the skill says, and the run ends with an answer."""
    skill = Skill(
        name="codeword",
        description="Use when the code word is asked for.",
        instructions="The code word is MARMALADE. Answer with it.",
    )
    settings = ModelSettings(tool_choice="required", temperature=0, seed=1)
    agent = Agent("keeper", model=model, skills=[skill], settings=settings)

    result = await agent.run("Load the skill codeword, then tell me the code word.")

    loaded = result.tool_results[0]
    assert (loaded.name, loaded.is_error) == ("load_skill", False)
    assert "MARMALADE" in loaded.text
    assert (result.stop_reason, bool(result.output)) == ("answer", True)
