"""A loopback provider in a process of its own: OpenAI's wire format at next to no cost.

`python -m benchmarks.provider [--core N]` prints the port it listens on, and ends when its
standard input does, so it never outlives the process that started it. The first part of the
path says what to answer, so that no request body is ever parsed:

    /answer/v1/chat/completions       a short answer
    /tools-10/v1/chat/completions     ten tool calls, one a reply, then the answer
    /burst-5000/v1/chat/completions   a stream of 5,000 chunks in one write
    /paced-300/v1/chat/completions    a stream of 300 chunks, each in a write of its own
    /counts                           how many connections and requests there were
"""

from __future__ import annotations

import argparse
import asyncio
import re
import sys
from collections.abc import Callable, Sequence
from threading import Event

from benchmarks import replies
from benchmarks.cores import pin
from benchmarks.unread import Unread

PACE = 0.000_3
"""Seconds between two paced chunks, at least; the next also waits until the last one was read."""

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_STREAMED = re.compile(rb'"stream": ?true')
_TOOL_MESSAGE = re.compile(rb'"role": ?"tool"')
_SCRIPT = re.compile(rb"(answer|tools|burst|paced)(?:-(\d+))?")

Script = Callable[[asyncio.Transport, bytes], None]
"""What answers a request: it gets the connection and the request as it came."""


class Counts:
    """How much one provider was used."""

    def __init__(self) -> None:
        self.connections = 0
        self.requests = 0


class Scripts:
    """The scripts of one provider, each made when its path is first asked for."""

    def __init__(self) -> None:
        self.counts = Counts()
        self._by_path: dict[bytes, Script] = {}

    def answer(self, transport: asyncio.Transport, request: bytes) -> None:
        """Answer one whole request."""
        path = request[: request.index(b"\r\n")].split(b" ")[1]
        script = self._by_path.get(path)
        if script is None:
            script = self._by_path[path] = self._script_for(path)
        script(transport, request)

    def _script_for(self, path: bytes) -> Script:
        if path == b"/counts":
            return self._tell_counts
        found = _SCRIPT.fullmatch(path.split(b"/")[1])
        if found is None or not path.endswith(b"/chat/completions"):
            return _refuse
        count = int(found[2] or 1)
        match found[1]:
            case b"tools":
                return _ToolScript(count)
            case b"burst":
                return _whole(replies.stream_burst(count))
            case b"paced":
                return _paced(replies.stream_pieces(count))
            case _:
                return _spoken(replies.answer_reply())

    def _tell_counts(self, transport: asyncio.Transport, request: bytes) -> None:
        del request
        counts = {"connections": self.counts.connections, "requests": self.counts.requests}
        transport.write(replies.json_reply(b"200 OK", counts))


class _ToolScript:
    """Asks for one tool call more than there are tool results, then answers."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._replies = [*map(replies.tool_reply, range(count)), replies.answer_reply()]

    def __call__(self, transport: asyncio.Transport, request: bytes) -> None:
        results = len(_TOOL_MESSAGE.findall(request))
        _spoken(self._replies[min(results, self._count)])(transport, request)


def _spoken(reply: replies.Reply) -> Script:
    def send(transport: asyncio.Transport, request: bytes) -> None:
        transport.write(reply.streamed if _STREAMED.search(request) else reply.whole)

    return send


def _whole(response: bytes) -> Script:
    def send(transport: asyncio.Transport, request: bytes) -> None:
        del request
        transport.write(response)

    return send


def _paced(pieces: Sequence[bytes]) -> Script:
    """Send each piece alone: when the one before was read. Nobody else is served meanwhile."""
    never, unread = Event(), Unread()

    def send(transport: asyncio.Transport, request: bytes) -> None:
        del request
        reader, writer = transport.get_extra_info("peername"), transport.get_extra_info("sockname")
        for piece in pieces:
            transport.write(piece)
            never.wait(PACE)
            while not transport.is_closing() and unread.bytes_at(reader[1], writer[1]):
                never.wait(PACE / 4)

    return send


def _refuse(transport: asyncio.Transport, request: bytes) -> None:
    line = request[: request.index(b"\r\n")].decode("latin-1")
    message = f"no script for {line!r}; the paths are listed at the top of benchmarks/provider.py"
    transport.write(replies.json_reply(b"404 Not Found", {"error": {"message": message}}))


class Connection(asyncio.Protocol):
    """One client's connection: cuts what arrives into requests."""

    def __init__(self, scripts: Scripts) -> None:
        self._scripts = scripts
        self._transport: asyncio.Transport | None = None
        self._rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the connection; asyncio has set TCP_NODELAY on it."""
        if not isinstance(transport, asyncio.Transport):
            raise TypeError(f"a provider needs a two-way connection, not {transport!r}")
        self._transport = transport
        self._scripts.counts.connections += 1

    def data_received(self, data: bytes) -> None:
        """Answer every request that is complete by now."""
        if self._rest:
            data = self._rest + data
        while data and self._transport is not None:
            size = _request_size(data)
            if size is None or len(data) < size:
                break
            self._scripts.counts.requests += 1
            self._scripts.answer(self._transport, data[:size])
            data = data[size:]
        self._rest = data


def _request_size(data: bytes) -> int | None:
    """Return the length of the first request in `data`, or None while its head is incomplete."""
    head = data.find(b"\r\n\r\n")
    if head < 0:
        return None
    length = _LENGTH.search(data, 0, head)
    return head + 4 + (int(length[1]) if length else 0)


async def provide() -> None:
    """Listen on a free port of 127.0.0.1, print it, and answer until standard input ends."""
    scripts = Scripts()
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    server = await loop.create_server(lambda: Connection(scripts), "127.0.0.1", 0, backlog=2048)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    loop.add_reader(sys.stdin.fileno(), ended.set)
    async with server:
        await ended.wait()


def main() -> None:
    """Run a provider until its parent is gone."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.provider", description=__doc__)
    parser.add_argument("--core", type=int, help="the core to run on (default: any)")
    pin(parser.parse_args().core)
    asyncio.run(provide())


if __name__ == "__main__":
    main()
