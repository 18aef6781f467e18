"""One worker process, as its parent sees it: what it is told, and what it answers."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from contextvars import Context
from pickle import loads
from time import monotonic
from typing import Any

from treadle.errors import ToolError
from treadle.ports.context import RunContext
from treadle.tools.frames import LENGTH, MOST_BYTES, Frame, FrameTooLarge, frame_bytes
from treadle.tools.interpreter import Interpreter, above_standard
from treadle.tools.portable import main_source, packed, packed_error, unpacked, unpacked_error
from treadle.tools.process_context import answer, facts_of
from treadle.tools.timing import CallExpired

START_SECONDS = 60.0
"""How long a process may take until a function begins: to start, and to import its module."""
SILENT_SECONDS = 0.5
"""How long a process that has closed its channel is given to end, so that its end can be told."""

Begin = Callable[[list[str], int, int], Interpreter]
"""Begins a process: takes `sys.path`, and the descriptors of its channel and its lifeline."""


class ProcessDied(Exception):
    """A process ended without an answer; `begun` says whether the function had begun."""

    def __init__(self, code: int | None, *, begun: bool) -> None:
        when = "while it ran" if begun else "before the function began"
        super().__init__(f"its process {_ending(code)} {when}.")
        self.begun = begun


class CallStopped(Exception):
    """Nobody waits for the call any more."""


class ProcessCall:
    """What a worker is to do, and how to stop it."""

    __slots__ = (
        "_lock",
        "_process",
        "_stopped",
        "arguments",
        "context",
        "ctx",
        "function",
        "keywords",
        "timeout",
    )

    def __init__(
        self,
        function: Callable[..., Any],
        arguments: tuple[Any, ...],
        keywords: dict[str, Any],
        *,
        ctx: RunContext[Any] | None,
        timeout: float | None,
        context: Context,
    ) -> None:
        self.function = function
        self.arguments = arguments
        self.keywords = keywords
        self.ctx = ctx
        self.timeout = timeout
        self.context = context
        self._lock = threading.Lock()
        self._process: WorkerProcess | None = None
        self._stopped = False

    def attach(self, process: WorkerProcess | None) -> None:
        """Say which process has the call now.

        Raises:
            CallStopped: the call was stopped, so that the process is of no use any more.
        """
        with self._lock:
            self._process = process
            if self._stopped:
                raise CallStopped

    def stop(self) -> None:
        """Have the process killed, by the thread that waits for it; or never given the call."""
        with self._lock:
            self._stopped = True
            if self._process is not None:
                self._process.hang_up()


class WorkerProcess:
    """A process that takes one call at a time. All but `hang_up` belongs to one thread.

    It has no descriptors but the standard ones and its channel; what it prints goes to standard
    error. It dies with this process, however that ends: the system kills its group when the
    lifeline, a pipe that only this process holds, is closed.

    Raises:
        OSError: it cannot be started.
    """

    def __init__(self, begin: Begin = Interpreter) -> None:
        self._path = [each for each in sys.path if type(each) is str]
        self._hung_up = False
        with ExitStack() as theirs, ExitStack() as ours:
            ours_end, theirs_end = (above_standard(each.detach()) for each in socket.socketpair())
            ours.callback(os.close, ours_end)
            theirs.callback(os.close, theirs_end)
            their_life, self._lifeline = map(above_standard, os.pipe())
            ours.callback(os.close, self._lifeline)
            theirs.callback(os.close, their_life)
            self._child = begin(self._path, theirs_end, their_life)
            ours.pop_all()
        self._socket = socket.socket(fileno=ours_end)
        self.alive = True
        self._say(("hello", sys.argv[:], main_source()))

    @property
    def pid(self) -> int:
        """The process ID, which is also that of its session."""
        return self._child.pid

    def load(self, function: Callable[..., Any]) -> None:
        """Have it import a function that it will be asked for."""
        with suppress(Exception):  # the call that needs it will tell
            self._say(("load", packed(function)))

    def run(self, call: ProcessCall) -> Any:
        """Run a call and return what its function returned; raise what it raised.

        Raises:
            CallExpired: it took longer than its timeout; the process is gone.
            ProcessDied: the process ended.
            ToolError: the arguments or the result cannot go from one process to the other.
        """
        begun = False
        deadline: float | None = monotonic() + START_SECONDS
        request = self._request(call)
        try:
            self._send(request, deadline)
            while True:
                match self._receive(deadline):
                    case ("begun",):
                        begun = True
                        deadline = None if call.timeout is None else monotonic() + call.timeout
                    case "ask", str(what), bytes(content):
                        self._send(_answered(call, what, content), deadline)
                    case ("returned" | "raised", *_) as outcome:
                        break
                    case _:
                        raise EOFError
        except TimeoutError as error:
            self.kill()
            if begun:
                raise CallExpired from error
            raise RuntimeError(
                f"its process was not ready after {START_SECONDS:g} s: the module of the function "
                "takes too long to import."
            ) from error
        except (EOFError, OSError) as error:
            raise ProcessDied(self._reap(), begun=begun) from error
        return _value_of(outcome)

    def hang_up(self) -> None:
        """Wake the thread that waits for it, as if it had died. Never blocks; from any thread."""
        self._hung_up = True
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def kill(self) -> None:
        """End it and its children at once."""
        if self.alive:
            self.alive = False
            self._child.kill()
            self._close()

    def end(self, seconds: float) -> None:
        """Let it end by itself; kill it when it has not after so long."""
        self.hang_up()
        self._child.wait(seconds)
        self.kill()

    def forget(self) -> None:
        """Close what a forked child has of it: it is the parent's."""
        if self.alive:
            self.alive = False
            self._child.forget()
            self._close()

    def _reap(self) -> int | None:
        """Return the exit code of a process that has fallen silent; None when it had not ended."""
        code = self._child.wait(0 if self._hung_up else SILENT_SECONDS)
        self.kill()
        return code

    def _close(self) -> None:
        self._socket.close()
        os.close(self._lifeline)

    def _request(self, call: ProcessCall) -> bytes:
        try:
            facts = None if call.ctx is None else packed(facts_of(call.ctx))
            function = packed(call.function)
            arguments = packed((call.arguments, call.keywords))
            request = frame_bytes(("call", function, arguments, facts))
        except Exception as error:
            raise ToolError(f"The call cannot be given to a process of its own: {error}") from error
        path = [each for each in sys.path if type(each) is str]
        if path == self._path:
            return request
        self._path = path
        return frame_bytes(("path", path)) + request

    def _say(self, frame: Frame) -> None:
        with suppress(OSError):  # it has died: who waits for an answer will see
            self._send(frame_bytes(frame), monotonic() + START_SECONDS)

    def _send(self, content: bytes, deadline: float | None) -> None:
        self._socket.settimeout(_left(deadline))
        self._socket.sendall(content)

    def _receive(self, deadline: float | None) -> Frame:
        (size,) = LENGTH.unpack(self._read(LENGTH.size, deadline))
        if size > MOST_BYTES:
            raise EOFError  # something else has written here
        content = self._read(size, deadline)
        try:
            return loads(content)  # noqa: S301 it is this very program
        except Exception as error:  # what is no pickle may raise anything
            raise EOFError from error

    def _read(self, size: int, deadline: float | None) -> bytearray:
        content = bytearray(size)
        rest = memoryview(content)
        while rest:
            self._socket.settimeout(_left(deadline))
            count = self._socket.recv_into(rest)
            if not count:
                raise EOFError
            rest = rest[count:]
        return content


def _answered(call: ProcessCall, what: str, content: bytes) -> bytes:
    """Do what a worker asks of the call's context; return the frame that says what came of it."""
    try:
        value = call.context.run(answer, call.ctx, what, unpacked(content))
        return frame_bytes(("told", packed(value)))
    except FrameTooLarge as error:
        refused = ToolError(f"The value is too large for a process of its own: {error}.")
        return frame_bytes(("raised", *packed_error(refused)))
    except Exception as error:  # noqa: BLE001 it is the function's
        return frame_bytes(("raised", *packed_error(error)))


def _value_of(outcome: Frame) -> Any:
    match outcome:
        case "returned", bytes(content):
            try:
                return unpacked(content)
            except Exception as error:
                raise ToolError(
                    f"It ran, but its result cannot be read here: {type(error).__name__}: {error}"
                ) from error
        case "raised", *error:
            raise unpacked_error(*error)
        case _:
            raise RuntimeError(f"its process said {outcome[:1]!r}, which means nothing.")


def _left(deadline: float | None) -> float | None:
    if deadline is None:
        return None
    left = deadline - monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def _ending(code: int | None) -> str:
    if code is None:
        return "closed the channel to its parent, or wrote to it,"
    if code >= 0:
        return f"ended with exit code {code}"
    name = signal.Signals(-code).name if -code in signal.valid_signals() else "no known name"
    hint = ", as happens when memory runs out," if -code == signal.SIGKILL else ""
    return f"was ended by signal {-code} ({name}){hint}"
