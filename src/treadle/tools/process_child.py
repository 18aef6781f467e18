"""The program of a worker process: takes calls from its parent, one after another."""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from inspect import isawaitable
from io import TextIOWrapper
from typing import Any

from treadle.errors import NotStorable, ToolError
from treadle.tools.frames import Frame, FrameTooLarge, frame_bytes, read_frame
from treadle.tools.portable import Script, packed, packed_error, unpacked, unpacked_error

MOST_FUNCTIONS = 100


def main(channel: int, lifeline: int) -> None:
    """Serve calls until the parent closes the channel; die when it is gone."""
    for descriptor in (channel, lifeline):
        os.set_inheritable(descriptor, False)  # noqa: FBT003 it takes no name
    _die_with(lifeline)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # what was printed is there when a call is killed
            stream.reconfigure(line_buffering=True)
    with suppress(EOFError, ConnectionError):
        Worker(channel).serve()


class Worker:
    """The worker's side of the channel."""

    def __init__(self, channel: int) -> None:
        self._reader = open(channel, "rb", closefd=False)  # noqa: SIM115 it lives as we do
        self._writer = open(channel, "wb", closefd=False)  # noqa: SIM115
        self._turn = threading.Lock()
        self._process = os.getpid()
        self._call = 0
        self._functions: dict[bytes, Callable[..., Any]] = {}

    def serve(self) -> None:
        """Do what the parent says, until it says nothing more."""
        while True:
            match read_frame(self._reader):
                case "hello", argv, source:
                    sys.argv[:], Script.source = argv, source
                case "path", path:
                    sys.path[:] = path
                case "load", bytes(function):
                    with suppress(Exception):  # the call that needs it will tell
                        self._function(function)
                case "call", bytes(function), bytes(arguments), facts:
                    self._end(self._outcome(function, arguments, facts))
                case frame:
                    raise ValueError(f"{frame[0]!r} is no word of the parent's.")

    def _function(self, content: bytes) -> Callable[..., Any]:
        """Return a function: the same object, with what it keeps, from one call to the next."""
        if content not in self._functions:
            if len(self._functions) >= MOST_FUNCTIONS:
                del self._functions[next(iter(self._functions))]
            self._functions[content] = unpacked(content)
        return self._functions[content]

    def _outcome(self, function: bytes, arguments: bytes, facts: bytes | None) -> Frame:
        try:
            target = self._function(function)
            positional, keywords = unpacked(arguments)
            if facts is not None:
                positional = (self._context(unpacked(facts)), *positional)
            self._send(("begun",))
            value = target(*positional, **keywords)
            if isawaitable(value):
                value = _awaited(value)
        except BaseException as error:  # noqa: BLE001 the border: a tool may raise anything
            return "raised", *packed_error(error)
        try:
            return "returned", packed(value)
        except Exception as error:  # noqa: BLE001 a class may raise anything when it is pickled
            refused = ToolError(
                f"It ran, but its result, of type {type(value).__name__!r}, cannot leave its "
                f"process: {error}"
            )
            return "raised", *packed_error(refused)

    def _context(self, facts: dict[str, Any]) -> Any:
        from treadle.tools.process_context import DistantContext  # noqa: PLC0415 (if it is wanted)

        return DistantContext(facts, partial(self._ask, self._call))

    def _ask(self, call: int, what: str, *arguments: Any) -> Any:
        """Have the parent do something with the call's context, and return what came of it."""
        try:
            content = packed(arguments)
        except Exception as error:
            raise NotStorable(f"A value cannot leave its process: {error}.") from error
        with self._turn:
            if call != self._call or os.getpid() != self._process:
                raise ToolError("The context was used after its call had ended, or after a fork.")
            self._send(("ask", what, content))
            told, *content = read_frame(self._reader)
        if told == "raised":
            raise unpacked_error(*content)
        return unpacked(*content)

    def _end(self, frame: Frame) -> None:
        if os.getpid() != self._process:  # a tool that forked has returned in the child, too
            os._exit(0)
        with self._turn:
            self._call += 1
            try:
                self._send(frame)
            except FrameTooLarge as error:
                what = "result" if frame[0] == "returned" else "error"
                refused = ToolError(f"It ran, but its {what} is too large: {error}.")
                self._send(("raised", *packed_error(refused)))

    def _send(self, frame: Frame) -> None:
        self._writer.write(frame_bytes(frame))
        self._writer.flush()


def _awaited(value: Any) -> Any:
    import asyncio  # noqa: PLC0415 (it takes long to load, and most tools need none)

    async def wait() -> Any:
        return await value

    running: Coroutine[Any, Any, Any] = wait()
    return asyncio.run(running)


def _die_with(lifeline: int) -> None:
    """Have this process and its group killed when the other end of a pipe closes.

    Linux does that itself, whatever this process is at then; elsewhere a thread waits for it.
    """
    if not hasattr(fcntl, "F_SETSIG"):
        threading.Thread(target=_die_after, args=(lifeline,), daemon=True).start()
        return
    fcntl.fcntl(lifeline, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(lifeline, fcntl.F_SETOWN, -os.getpgrp())
    flags = fcntl.fcntl(lifeline, fcntl.F_GETFL)
    fcntl.fcntl(lifeline, fcntl.F_SETFL, flags | os.O_ASYNC | os.O_NONBLOCK)
    with suppress(BlockingIOError):
        _die_after(lifeline)  # it may have been closed before


def _die_after(lifeline: int) -> None:
    os.read(lifeline, 1)
    os.killpg(0, signal.SIGKILL)
