"""Standard input and output as a line to a client, with nothing else on it."""

from __future__ import annotations

import asyncio
import fcntl
import os
import select
import sys
import threading
from collections import deque
from collections.abc import AsyncIterator
from contextlib import suppress
from io import TextIOWrapper

from treadle.errors import ConfigError
from treadle.values.logs import logger

log = logger(__name__)

LONGEST_LINE = 16 * 1024 * 1024
MOST_LINES = 64
"""Lines that are read ahead of who takes them."""
MOST_BYTES = 1024 * 1024
"""Bytes that wait for a client that does not read, before who writes has to wait, too."""
CHUNK = 4096
"""A pipe that is ready takes so many bytes at once."""
LAST_WORDS = 2.0
"""Seconds that a client has to take what is left at the end."""


class Wires:
    """The two standard streams, taken away from the rest of the process.

    From then on reading standard input gives nothing, and what anybody prints, child processes
    too, goes to standard error. `release` gives the streams back. `ended` is set when the client
    has closed its end.
    """

    def __init__(self) -> None:
        self.ended = threading.Event()
        try:
            self.input = fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, 3)
            self.output = fcntl.fcntl(1, fcntl.F_DUPFD_CLOEXEC, 3)
        except OSError as error:
            raise ConfigError(
                "Serving over stdio needs an open standard input and output: a client starts this "
                "command and talks to it through them."
            ) from error
        with suppress(AttributeError, ValueError):
            sys.stdout.flush()
        printed: object = sys.stdout
        if isinstance(printed, TextIOWrapper):
            printed.reconfigure(line_buffering=True)  # as standard error does
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        with suppress(OSError):
            os.dup2(2, 1)

    def release(self) -> None:
        """Give the streams back to the process."""
        with suppress(AttributeError, ValueError):
            sys.stdout.flush()
        for number, taken in ((0, self.input), (1, self.output)):
            os.dup2(taken, number)
            os.close(taken)


class Lines:
    """Reads lines from one descriptor and writes them to another, in a thread of its own.

    The thread always can be ended, whatever the client does, which a plain read cannot.
    """

    def __init__(self, wires: Wires) -> None:
        self._wires = wires
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._wake_in, self._wake_out = os.pipe()
        os.set_blocking(self._wake_out, False)
        self._lines: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._waiting = 0
        self._written: deque[bytes] = deque()
        self._size = 0
        self._room = asyncio.Event()
        self._room.set()
        self._ending = self._broken = self._closed = False
        self._part = bytearray()
        self._skips = False
        self._thread = threading.Thread(target=self._turn, name="treadle-mcp-stdio", daemon=True)
        self._thread.start()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Yield lines until the client closes its end; lines longer than 16 MiB are left out."""
        while (line := await self._lines.get()) is not None:
            with self._lock:
                self._waiting -= 1
            self._wake()
            yield line

    async def write(self, line: bytes) -> None:
        """Write a line; waits while much waits for the client already."""
        await self._room.wait()
        with self._lock:
            self._written.append(line + b"\n")
            self._size += len(line) + 1
            if self._size > MOST_BYTES:
                self._room.clear()
        self._wake()

    async def close(self) -> None:
        """End the thread; what was written before is still sent, if the client takes it soon."""
        self._ending = True
        self._wake()
        await asyncio.to_thread(self._thread.join, LAST_WORDS)
        self._broken = True
        self._wake()
        self._thread.join()
        self._closed = True
        os.close(self._wake_in)
        os.close(self._wake_out)

    def _wake(self) -> None:
        if not self._closed:
            with suppress(BlockingIOError):  # full of calls that it has not heard yet
                os.write(self._wake_out, b".")

    def _turn(self) -> None:
        """Read and write until the end; however that comes, who takes lines hears of it."""
        try:
            self._exchange()
        finally:
            self._hand_on(None)

    def _exchange(self) -> None:
        reads = True
        while True:
            with self._lock:
                left, full = bool(self._written), self._waiting >= MOST_LINES
            if self._broken or (self._ending and not left):
                return
            poll = select.poll()  # select() knows the first 1,024 descriptors only
            poll.register(self._wake_in, select.POLLIN)
            if reads and not full and not self._ending:
                poll.register(self._wires.input, select.POLLIN)
            if left:
                poll.register(self._wires.output, select.POLLOUT)
            ready = dict(poll.poll())
            if self._wake_in in ready:
                os.read(self._wake_in, CHUNK)
            if self._wires.input in ready:
                reads = self._read()
            if self._wires.output in ready:
                self._send()

    def _read(self) -> bool:
        """Take in what there is; return whether there can be more."""
        try:
            content = os.read(self._wires.input, 65536)
        except OSError:
            content = b""
        if not content:
            self._wires.ended.set()
            self._hand_on(None)
            return False
        *lines, rest = content.split(b"\n")
        for line in lines:
            whole = bytes(self._part) + line
            self._part.clear()
            if self._skips:
                self._skips = False
            elif whole.strip():
                self._hand_on(whole)
        if not self._skips:
            self._part += rest
        if len(self._part) > LONGEST_LINE:
            log.warning("A line of more than %d bytes from the client is left out.", LONGEST_LINE)
            self._part.clear()
            self._skips = True
        return True

    def _hand_on(self, line: bytes | None) -> None:
        with self._lock:
            self._waiting += 1
        self._tell(self._lines.put_nowait, line)

    def _send(self) -> None:
        with self._lock:
            line = self._written.popleft()
        try:
            sent = os.write(self._wires.output, line[:CHUNK])
        except OSError:  # the client is gone, so nobody misses what is left
            sent = len(line)
        with self._lock:
            self._size -= sent
            if sent < len(line):
                self._written.appendleft(line[sent:])
            room = self._size <= MOST_BYTES
        if room:
            self._tell(self._room.set)

    def _tell(self, function: object, *arguments: object) -> None:
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(function, *arguments)  # pyright: ignore[reportArgumentType, reportUnknownMemberType, reportCallIssue]
