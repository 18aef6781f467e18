"""The same work with Treadle, as its users write it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import aclosing
from itertools import count
from tempfile import TemporaryDirectory
from typing import Literal

from benchmarks.work import (
    ANSWER,
    API_KEY,
    CALLS,
    INSTRUCTIONS,
    MAX_TURNS,
    MODEL,
    QUESTION,
    STREAM_TEXT,
    TOOL_TURNS,
    Gate,
    expect,
    question,
    weather,
)
from benchmarks.worker import work_for
from treadle import Agent, Limits, MemoryStore, Tool, open_store, tool
from treadle.events import TextDelta
from treadle.ports.store import Store
from treadle.providers import OpenAI


@tool
async def get_weather(city: str, unit: Literal["C", "F"] = "C") -> str:
    """Current weather in a city.

    Args:
        city: City name.
        unit: Unit of temperature.
    """
    return weather(city, unit)


def held_weather(gate: Gate) -> Tool:
    """Return the same tool, with a gate in it."""

    @tool(name="get_weather")
    async def held(city: str, unit: Literal["C", "F"] = "C") -> str:
        """Current weather in a city.

        Args:
            city: City name.
            unit: Unit of temperature.
        """
        await gate.arrive(city)
        return weather(city, unit)

    return held


class TreadleLoop:
    """The work with Treadle."""

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._agents: dict[str, Agent] = {}
        self._store = MemoryStore()
        self._chats = count()

    def _agent(self, script: str, tools: Sequence[Tool] = ()) -> Agent:
        """Return the agent for `script`, made once."""
        if script not in self._agents:
            model = OpenAI(MODEL, api_key=API_KEY, base_url=f"{self._provider}/{script}/v1")
            self._agents[script] = Agent(
                "assistant",
                model,
                instructions=INSTRUCTIONS,
                tools=tools,
                limits=Limits(max_turns=MAX_TURNS),
            )
        return self._agents[script]

    async def ask(self, count: int) -> None:
        """Ask single questions."""
        agent = self._agent("answer")
        for _ in range(count):
            result = await agent.run(QUESTION)
            expect("answer", result.output, ANSWER)

    async def _run(self, agent: Agent) -> None:
        result = await agent.run(QUESTION)
        expect("answer", result.output, ANSWER)
        expect("turns", result.turns, CALLS)

    async def tool_runs(self, count: int) -> None:
        """Do runs with tools, one after another."""
        agent = self._agent(f"tools-{TOOL_TURNS}", [get_weather])
        for _ in range(count):
            await self._run(agent)

    async def chat(self, turns: int) -> Sequence[float]:
        """Hold a conversation by handing each run the history of the one before."""
        agent = self._agent("answer")
        result = await agent.run(question(0))
        clock = [time.process_time()]
        for number in range(1, turns):
            result = await agent.run(question(number), history=result.messages)
            clock.append(time.process_time())
        expect("answer", result.output, ANSWER)
        expect("turns", len([m for m in result.messages if m.role == "user"]), turns)
        return clock

    async def stored_chat(self, turns: int) -> Sequence[float]:
        """Hold one conversation that is kept in a store in memory."""
        return await self._chat_in(self._store, turns)

    async def kept_chat(self, turns: int) -> Sequence[float]:
        """Hold one conversation that is kept in an SQLite file."""
        with TemporaryDirectory() as folder:
            store = open_store(f"sqlite:///{folder}/chat.db")
            try:
                return await self._chat_in(store, turns)
            finally:
                await store.close()

    async def _chat_in(self, store: Store, turns: int) -> Sequence[float]:
        agent = self._agent("answer")
        conversation = f"chat-{next(self._chats)}"
        clock: list[float] = []
        for number in range(turns):
            result = await agent.run(question(number), conversation=conversation, store=store)
            expect("answer", result.output, ANSWER)
            clock.append(time.process_time())
        return clock

    async def stream(self, chunks: int, *, paced: bool) -> None:
        """Read one streamed answer, event by event."""
        agent = self._agent(f"{'paced' if paced else 'burst'}-{chunks}")
        count = 0
        text = ""
        async with aclosing(agent.stream(QUESTION)) as events:
            async for event in events:
                if isinstance(event, TextDelta):
                    text = event.text
                    count += 1
        expect("chunks", count, chunks)
        expect("last text", text, STREAM_TEXT)

    async def crowd(self, runs: int, gate: Gate | None) -> None:
        """Do runs with tools, all at the same time."""
        agent = self._agent(f"tools-{TOOL_TURNS}", [get_weather])
        if gate is not None:
            agent = agent.replace(tools=[held_weather(gate)])
        async with asyncio.TaskGroup() as group:
            for _ in range(runs):
                group.create_task(self._run(agent))

    async def close(self) -> None:
        """Leave the pools to Treadle, which closes them with the loop."""


if __name__ == "__main__":
    work_for(TreadleLoop)
