"""The same work by hand over the `openai` SDK, as its own documentation writes such a loop."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence

from openai import AsyncOpenAI
from openai.types.chat import (
    ChatCompletionFunctionToolParam,
    ChatCompletionMessage,
    ChatCompletionMessageFunctionToolCall,
    ChatCompletionMessageParam,
)

from benchmarks.work import (
    ANSWER,
    API_KEY,
    INSTRUCTIONS,
    MAX_TURNS,
    MODEL,
    QUESTION,
    STREAM_TEXT,
    TOOL_NAME,
    TOOL_TURNS,
    Gate,
    WrongWork,
    expect,
    question,
    weather,
)
from benchmarks.worker import work_for

Tools = Mapping[str, Callable[..., Awaitable[str]]]

SYSTEM: ChatCompletionMessageParam = {"role": "system", "content": INSTRUCTIONS}
ASKED: ChatCompletionMessageParam = {"role": "user", "content": QUESTION}
TOOL: ChatCompletionFunctionToolParam = {
    "type": "function",
    "function": {
        "name": TOOL_NAME,
        "description": "Current weather in a city.",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": "City name."},
                "unit": {"type": "string", "description": "Unit of temperature.", "default": "C"},
            },
            "required": ["city"],
            "additionalProperties": False,
        },
    },
}


async def get_weather(city: str, unit: str = "C") -> str:
    """Answer at once."""
    return weather(city, unit)


def sent_back(message: ChatCompletionMessage) -> ChatCompletionMessageParam:
    """Return a reply as the message that goes into the next request."""
    calls = [
        call
        for call in message.tool_calls or ()
        if isinstance(call, ChatCompletionMessageFunctionToolCall)
    ]
    if not calls:
        return {"role": "assistant", "content": message.content}
    return {
        "role": "assistant",
        "content": message.content,
        "tool_calls": [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.function.name, "arguments": call.function.arguments},
            }
            for call in calls
        ],
    }


class SdkLoop:
    """The work over the SDK."""

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._root = AsyncOpenAI(api_key=API_KEY, base_url=f"{provider}/answer/v1")
        self._clients: dict[str, AsyncOpenAI] = {}

    def _client(self, script: str) -> AsyncOpenAI:
        """Return a client for `script`; all of them share one pool of connections."""
        if script not in self._clients:
            url = f"{self._provider}/{script}/v1"
            self._clients[script] = self._root.with_options(base_url=url)
        return self._clients[script]

    async def ask(self, count: int) -> None:
        """Ask single questions."""
        client = self._client("answer")
        for _ in range(count):
            reply = await client.chat.completions.create(model=MODEL, messages=[SYSTEM, ASKED])
            expect("answer", reply.choices[0].message.content, ANSWER)

    async def _run(self, client: AsyncOpenAI, tools: Tools) -> str | None:
        """Do one run: ask, call tools, ask again, until there is an answer."""
        messages = [SYSTEM, ASKED]
        for _ in range(MAX_TURNS):
            reply = await client.chat.completions.create(
                model=MODEL, messages=messages, tools=[TOOL]
            )
            message = reply.choices[0].message
            messages.append(sent_back(message))
            if not message.tool_calls:
                expect("messages", len(messages), 2 * TOOL_TURNS + 3)
                return message.content
            for call in message.tool_calls:
                if isinstance(call, ChatCompletionMessageFunctionToolCall):
                    arguments = json.loads(call.function.arguments)
                    output = await tools[call.function.name](**arguments)
                    messages.append({"role": "tool", "content": output, "tool_call_id": call.id})
        raise WrongWork(f"no answer after {MAX_TURNS} turns")

    async def tool_runs(self, count: int) -> None:
        """Do runs with tools, one after another."""
        client = self._client(f"tools-{TOOL_TURNS}")
        for _ in range(count):
            expect("answer", await self._run(client, {TOOL_NAME: get_weather}), ANSWER)

    async def chat(self, turns: int) -> Sequence[float]:
        """Hold a conversation in a list of messages."""
        client = self._client("answer")
        messages = [SYSTEM]
        clock: list[float] = []
        for number in range(turns):
            messages.append({"role": "user", "content": question(number)})
            reply = await client.chat.completions.create(model=MODEL, messages=messages)
            messages.append(sent_back(reply.choices[0].message))
            clock.append(time.process_time())
        expect("messages", len(messages), 2 * turns + 1)
        return clock

    async def stored_chat(self, turns: int) -> Sequence[float]:
        """Hold a conversation: by hand, the list is the store."""
        return await self.chat(turns)

    async def kept_chat(self, turns: int) -> Sequence[float]:
        """Hold a conversation: the SDK keeps nothing."""
        return await self.chat(turns)

    async def stream(self, chunks: int, *, paced: bool) -> None:
        """Read one streamed answer, chunk by chunk."""
        client = self._client(f"{'paced' if paced else 'burst'}-{chunks}")
        count = 0
        text = ""
        stream = await client.chat.completions.create(
            model=MODEL,
            messages=[SYSTEM, ASKED],
            stream=True,
            stream_options={"include_usage": True},
        )
        async for chunk in stream:
            if chunk.choices and (delta := chunk.choices[0].delta.content):
                text = delta
                count += 1
        expect("chunks", count, chunks)
        expect("last text", text, STREAM_TEXT)

    async def crowd(self, runs: int, gate: Gate | None) -> None:
        """Do runs with tools, all at the same time."""

        async def held_weather(city: str, unit: str = "C") -> str:
            if gate is not None:
                await gate.arrive(city)
            return weather(city, unit)

        client = self._client(f"tools-{TOOL_TURNS}")
        tools = {TOOL_NAME: get_weather if gate is None else held_weather}
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._run(client, tools)) for _ in range(runs)]
        for task in tasks:
            expect("answer", task.result(), ANSWER)

    async def close(self) -> None:
        """Close the client."""
        await self._root.close()


if __name__ == "__main__":
    work_for(SdkLoop)
