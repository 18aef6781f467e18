"""The floor: the least Python that does the work, by hand over raw aiohttp and msgspec.

Each message is encoded once and its bytes are kept, a request is those bytes joined, replies are
decoded into types, the tool is called directly, and one pooled session serves everything. There is
no retry, no event, no journal, no validation beyond the types: nothing that could be left out.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, closing
from tempfile import TemporaryDirectory

import aiohttp
import msgspec
from yarl import URL

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

Tools = Mapping[str, Callable[["Weather"], Awaitable[str]]]


class Weather(msgspec.Struct):
    """The arguments of the tool."""

    city: str
    unit: str = "C"


class Function(msgspec.Struct):
    """What a tool call asks for."""

    name: str
    arguments: str


class ToolCall(msgspec.Struct):
    """One tool call of a reply."""

    id: str
    function: Function
    type: str = "function"


class Message(msgspec.Struct, omit_defaults=True):
    """One message, as it is received and as it goes back."""

    role: str
    content: str | None = None
    tool_calls: list[ToolCall] | None = None
    tool_call_id: str | None = None


class Choice(msgspec.Struct):
    """The one choice of a reply."""

    message: Message
    finish_reason: str


class Usage(msgspec.Struct):
    """The tokens of one reply."""

    prompt_tokens: int
    completion_tokens: int


class Reply(msgspec.Struct):
    """A whole reply."""

    choices: list[Choice]
    usage: Usage


class Delta(msgspec.Struct):
    """What one chunk adds."""

    content: str | None = None


class ChunkChoice(msgspec.Struct):
    """The one choice of a chunk."""

    delta: Delta
    finish_reason: str | None = None


class Chunk(msgspec.Struct):
    """One chunk of a streamed reply."""

    choices: list[ChunkChoice]
    usage: Usage | None = None


TOOL_SCHEMA = {
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

_encode = msgspec.json.Encoder().encode
_decode_reply = msgspec.json.Decoder(Reply).decode
_decode_chunk = msgspec.json.Decoder(Chunk).decode
_decode_weather = msgspec.json.Decoder(Weather).decode

_OPEN = b'{"model":' + _encode(MODEL) + b',"messages":['
_CLOSE = b"]}"
_CLOSE_TOOLS = b'],"tools":' + _encode([TOOL_SCHEMA]) + b"}"
_CLOSE_STREAM = b'],"stream":true,"stream_options":{"include_usage":true}}'
_SYSTEM = _encode(Message("system", INSTRUCTIONS))


async def get_weather(arguments: Weather) -> str:
    """Answer at once."""
    return weather(arguments.city, arguments.unit)


def keeper(path: str) -> sqlite3.Connection:
    """Open a file in which every commit is durable."""
    database = sqlite3.connect(path, isolation_level=None)
    database.execute("PRAGMA journal_mode=WAL")
    database.execute("PRAGMA synchronous=FULL")
    database.execute("CREATE TABLE kept (number INTEGER PRIMARY KEY, content BLOB)")
    return database


def keep(database: sqlite3.Connection, number: int, content: bytes) -> None:
    """Write one row, durably."""
    database.execute("INSERT INTO kept VALUES (?, ?)", (number, content))


class Floor:
    """The work by hand."""

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"Authorization": f"Bearer {API_KEY}", "Content-Type": "application/json"},
        )

    def _url(self, script: str) -> URL:
        return URL(f"{self._provider}/{script}/v1/chat/completions")

    async def _complete(self, url: URL, body: bytes) -> Message:
        async with self._session.post(url, data=body) as response:
            content = await response.read()
            if response.status != 200:
                raise WrongWork(f"the provider said {response.status}: {content!r}")
        return _decode_reply(content).choices[0].message

    async def ask(self, count: int) -> None:
        """Ask single questions."""
        url = self._url("answer")
        for _ in range(count):
            asked = _encode(Message("user", QUESTION))
            body = b"".join((_OPEN, _SYSTEM, b",", asked, _CLOSE))
            reply = await self._complete(url, body)
            expect("answer", reply.content, ANSWER)

    async def _run(self, url: URL, tools: Tools) -> str | None:
        """Do one run: ask, call tools, ask again, until there is an answer."""
        messages = [_SYSTEM, _encode(Message("user", QUESTION))]
        for _ in range(MAX_TURNS):
            reply = await self._complete(url, _OPEN + b",".join(messages) + _CLOSE_TOOLS)
            messages.append(_encode(reply))
            if not reply.tool_calls:
                expect("messages", len(messages), 2 * TOOL_TURNS + 3)
                return reply.content
            for call in reply.tool_calls:
                arguments = _decode_weather(call.function.arguments)
                output = await tools[call.function.name](arguments)
                messages.append(_encode(Message("tool", output, tool_call_id=call.id)))
        raise WrongWork(f"no answer after {MAX_TURNS} turns")

    async def tool_runs(self, count: int) -> None:
        """Do runs with tools, one after another."""
        url = self._url(f"tools-{TOOL_TURNS}")
        for _ in range(count):
            expect("answer", await self._run(url, {TOOL_NAME: get_weather}), ANSWER)

    async def chat(self, turns: int) -> Sequence[float]:
        """Hold a conversation in a list of encoded messages."""
        url = self._url("answer")
        messages = [_SYSTEM]
        clock: list[float] = []
        for number in range(turns):
            messages.append(_encode(Message("user", question(number))))
            reply = await self._complete(url, _OPEN + b",".join(messages) + _CLOSE)
            messages.append(_encode(reply))
            clock.append(time.process_time())
        expect("messages", len(messages), 2 * turns + 1)
        return clock

    async def stored_chat(self, turns: int) -> Sequence[float]:
        """Hold a conversation: by hand, the list is the store."""
        return await self.chat(turns)

    async def kept_chat(self, turns: int) -> Sequence[float]:
        """Hold the conversation and keep each turn by three durable writes, by hand."""
        with TemporaryDirectory() as folder, closing(keeper(f"{folder}/chat.db")) as database:
            url = self._url("answer")
            messages = [_SYSTEM]
            clock: list[float] = []
            for number in range(turns):
                messages.append(_encode(Message("user", question(number))))
                keep(database, 3 * number, b"claimed")
                keep(database, 3 * number + 1, messages[-1])
                reply = await self._complete(url, _OPEN + b",".join(messages) + _CLOSE)
                messages.append(_encode(reply))
                keep(database, 3 * number + 2, messages[-1])
                clock.append(time.process_time())
        return clock

    async def _texts(self, url: URL) -> AsyncGenerator[str]:
        """Ask with streaming and yield the text of each chunk."""
        asked = _encode(Message("user", QUESTION))
        body = b"".join((_OPEN, _SYSTEM, b",", asked, _CLOSE_STREAM))
        rest = b""
        async with self._session.post(url, data=body) as response:
            async for received in response.content.iter_any():
                events = (rest + received).split(b"\n\n")
                rest = events.pop()
                for event in events:
                    if event == b"data: [DONE]":
                        return
                    chunk = _decode_chunk(event[6:])
                    if chunk.choices and (text := chunk.choices[0].delta.content):
                        yield text
        raise WrongWork("the stream ended without [DONE]")

    async def stream(self, chunks: int, *, paced: bool) -> None:
        """Read one streamed answer, text by text."""
        url = self._url(f"{'paced' if paced else 'burst'}-{chunks}")
        count = 0
        text = ""
        async with aclosing(self._texts(url)) as texts:
            async for text in texts:  # noqa: B007 - the last one is looked at below
                count += 1
        expect("chunks", count, chunks)
        expect("last text", text, STREAM_TEXT)

    async def crowd(self, runs: int, gate: Gate | None) -> None:
        """Do runs with tools, all at the same time."""

        async def held_weather(arguments: Weather) -> str:
            if gate is not None:
                await gate.arrive(arguments.city)
            return weather(arguments.city, arguments.unit)

        url = self._url(f"tools-{TOOL_TURNS}")
        tools = {TOOL_NAME: get_weather if gate is None else held_weather}
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._run(url, tools)) for _ in range(runs)]
        for task in tasks:
            expect("answer", task.result(), ANSWER)

    async def close(self) -> None:
        """Close the session."""
        await self._session.close()


if __name__ == "__main__":
    work_for(Floor)
