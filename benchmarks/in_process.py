"""What Treadle costs without any network: a step with a scripted model, and building an agent."""

from __future__ import annotations

import tracemalloc
from collections.abc import Sequence

from benchmarks.work import ANSWER, CITIES, INSTRUCTIONS, QUESTION, expect, weather
from benchmarks.worker import Jobs, work
from treadle import Agent, tool
from treadle.testing import ScriptedModel, calls

STEPS_PER_RUN = 2
"""A turn with one tool call, and the turn with the answer."""


@tool
async def get_weather(city: str, unit: str = "C") -> str:
    """Current weather in a city."""
    return weather(city, unit)


@tool
async def get_time(city: str) -> str:
    """Local time in a city."""
    return f"12:00 in {city}"


@tool
async def get_population(city: str) -> int:
    """Population of a city."""
    return len(city) * 100_000


async def steps(runs: int) -> None:
    """Do `runs` runs of two steps each, one after another."""
    script = [calls(("c1", "get_weather", {"city": CITIES[0]})), ANSWER] * runs
    agent = Agent(
        "assistant", ScriptedModel(script), instructions=INSTRUCTIONS, tools=[get_weather]
    )
    for _ in range(runs):
        result = await agent.run(QUESTION)
        expect("answer", result.output, ANSWER)


async def asking(runs: int) -> None:
    """Do `runs` runs that ask another agent, which does two steps of its own."""
    script = [calls(("c1", "get_weather", {"city": CITIES[0]})), ANSWER] * runs
    expert = Agent("expert", ScriptedModel(script), instructions=INSTRUCTIONS, tools=[get_weather])
    script = [calls(("c1", "expert", {"input": QUESTION})), ANSWER] * runs
    agent = Agent("assistant", ScriptedModel(script), instructions=INSTRUCTIONS, tools=[expert])
    for _ in range(runs):
        result = await agent.run(QUESTION)
        expect("answer", result.output, ANSWER)
        expect("tool calls", result.usage.tool_calls, 2)


async def build(agents: int) -> None:
    """Build `agents` agents with three tools that are ready."""
    model = ScriptedModel([ANSWER])
    tools = [get_weather, get_time, get_population]
    for _ in range(agents):
        Agent("assistant", model, instructions=INSTRUCTIONS, tools=tools)


async def build_bytes(agents: int) -> Sequence[float]:
    """Return the bytes that one such agent keeps."""
    model = ScriptedModel([ANSWER])
    tools = [get_weather, get_time, get_population]
    Agent("assistant", model, instructions=INSTRUCTIONS, tools=tools)
    tracemalloc.start()
    kept = [
        Agent("assistant", model, instructions=INSTRUCTIONS, tools=tools) for _ in range(agents)
    ]
    size = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return [size / len(kept)]


async def nothing_to_close() -> None:
    """End at once: nothing here is open."""


if __name__ == "__main__":
    jobs = {"steps": steps, "asking": asking, "build": build, "build_bytes": build_bytes}
    work(lambda: Jobs(jobs, nothing_to_close))
