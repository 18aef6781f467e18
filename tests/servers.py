"""Servers on this machine that answer byte for byte as a test says."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

End = Literal["done", "close", "reset", "hang"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One answer: each of `pieces` is a flushed write of its own.

    With `framing` "chunked" each is a chunk, with "length" the head announces `length` bytes (or
    all there are), with "close" the body ends with the connection. `end` "done" ends as HTTP wants
    it, "close" and "reset" drop the connection there and then, "hang" leaves it open and silent.
    `raw` is sent instead of all that.
    """

    pieces: tuple[bytes, ...] = ()
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=lambda: {"Content-Type": EVENTS})
    framing: Literal["chunked", "length", "close"] = "chunked"
    length: int | None = None
    end: End = "done"
    raw: bytes | None = None


@dataclass(frozen=True, slots=True)
class Received:
    """One request as it came; header names are in lower case."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body decoded."""
        return json.loads(self.body)


class SseServer:
    """Answers requests in order, the last answer again and again; remembers what it was asked."""

    def __init__(self, answers: tuple[Answer, ...]) -> None:
        self._answers = answers
        self._writers: set[asyncio.StreamWriter] = set()
        self._idle = asyncio.Event()
        self._idle.set()
        self._asked = asyncio.Event()
        self.requests: list[Received] = []
        self.connections = 0
        self.port = 0

    @property
    def url(self) -> str:
        """The base URL of the API that this server plays."""
        return f"http://127.0.0.1:{self.port}/v1"

    async def wait_asked(self) -> None:
        """Wait until the first request is here."""
        await asyncio.wait_for(self._asked.wait(), 5)

    async def wait_closed_by_client(self) -> None:
        """Wait until every connection is gone; the client must have dropped them."""
        await asyncio.wait_for(self._idle.wait(), 5)

    async def close(self) -> None:
        """Drop every connection that is still open."""
        for writer in self._writers:
            writer.close()
        await self._idle.wait()

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection."""
        self.connections += 1
        self._writers.add(writer)
        self._idle.clear()
        try:
            while await self._exchange(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()
            self._writers.discard(writer)
            if not self._writers:
                self._idle.set()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        self.requests.append(await _received(reader))
        self._asked.set()
        answer = self._answers[min(len(self.requests), len(self._answers)) - 1]
        writer.write(_head(answer) if answer.raw is None else answer.raw)
        for piece in answer.pieces:
            writer.write(_framed(answer, piece))
            await writer.drain()
            await asyncio.sleep(0.0005)  # so that the next piece is a read of its own
        if answer.end == "hang":
            await reader.read()
        elif answer.end == "reset":
            connection: socket.socket = writer.get_extra_info("socket")
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()
        elif answer.end == "done" and answer.framing == "chunked" and answer.raw is None:
            writer.write(b"0\r\n\r\n")
        await writer.drain()
        return answer.end == "done" and answer.framing != "close" and answer.raw is None


@asynccontextmanager
async def serve(*answers: Answer) -> AsyncGenerator[SseServer]:
    """Serve these answers on a free port until the block ends."""
    server = SseServer(answers)
    listener = await asyncio.start_server(server.handle, "127.0.0.1", 0)
    server.port = listener.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listener.close()
        await server.close()
        await listener.wait_closed()


def stream(*chunks: Mapping[str, Any] | bytes, end: End = "done") -> Answer:
    """Return a streamed answer: objects become events, bytes are sent as they are."""
    pieces = tuple(chunk if isinstance(chunk, bytes) else event(chunk) for chunk in chunks)
    return Answer(pieces=pieces, end=end)


def whole(body: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Answer:
    """Return an answer of JSON in one piece."""
    head = {"Content-Type": "application/json", **(headers or {})}
    return Answer(
        pieces=(json.dumps(body).encode(),), status=status, headers=head, framing="length"
    )


def event(chunk: Mapping[str, Any]) -> bytes:
    """Return one server-sent event."""
    return b"data: " + json.dumps(chunk).encode() + b"\n\n"


def delta(finish: str | None = None, **fields: Any) -> dict[str, Any]:
    """Return a chunk with this delta."""
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": finish}]}


def reply(content: Any = None, finish: str = "stop", **fields: Any) -> dict[str, Any]:
    """Return a whole chat completion with this message."""
    message = {"role": "assistant", "content": content, **fields}
    return {
        "id": "chatcmpl-1",
        "model": "m-1",
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9},
    }


def free_port() -> int:
    """Return a port on which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


async def _received(reader: asyncio.StreamReader) -> Received:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    fields = (line.split(": ", 1) for line in head[1:] if line)
    headers = {name.lower(): value for name, value in fields}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Received(head[0].split(" ")[1], headers, body)


def _head(answer: Answer) -> bytes:
    lines = [f"HTTP/1.1 {answer.status} OK", *(f"{k}: {v}" for k, v in answer.headers.items())]
    if answer.framing == "chunked":
        lines.append("Transfer-Encoding: chunked")
    elif answer.framing == "length":
        announced = sum(map(len, answer.pieces)) if answer.length is None else answer.length
        lines.append(f"Content-Length: {announced}")
    else:
        lines.append("Connection: close")
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def _framed(answer: Answer, piece: bytes) -> bytes:
    if answer.framing == "chunked" and answer.raw is None:
        return f"{len(piece):x}\r\n".encode() + piece + b"\r\n"
    return piece


EVENTS = "text/event-stream"
DONE = b"data: [DONE]\n\n"
