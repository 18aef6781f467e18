"""A worker as its parent sees it; here its interpreter is a thread of this process."""

from __future__ import annotations

import os
import sys
import threading
from contextlib import suppress
from contextvars import copy_context
from typing import Any, cast

import pytest

from tests.tools import elsewhere, seen
from treadle import State, ToolError
from treadle.limits import Budget, Limits
from treadle.ports.context import RunContext, RunFacts
from treadle.tools import portable
from treadle.tools.interpreter import Interpreter
from treadle.tools.process_child import Worker
from treadle.tools.timing import CallExpired
from treadle.tools.worker_process import CallStopped, ProcessCall, ProcessDied, WorkerProcess

released = threading.Event()


def wait() -> None:
    """Wait until the test is over."""
    released.wait(10)


class Thread:
    """An interpreter that is none: `code` is what it ends with."""

    pid = 0

    def __init__(self, channel: int, code: int | None, first: bytes) -> None:
        self._channel = os.dup(channel)
        self.code = code
        self.killed = False
        self._first = first
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        if self._first:
            os.write(self._channel, self._first)
        elif self.code is None:
            with suppress(EOFError, ConnectionError):
                Worker(self._channel).serve()
        os.close(self._channel)

    def wait(self, seconds: float) -> int | None:
        if self.code is None and seconds:
            self._thread.join(0.01)
        return self.code

    def kill(self) -> None:
        self.killed = True

    def forget(self) -> None:
        """Nothing is held."""

    def join(self) -> None:
        released.set()
        self._thread.join(10)
        released.clear()


class Begun:
    """A worker process on such a thread."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, *, code: int | None = None, first: bytes = b""
    ) -> None:
        source = portable.Script.source
        monkeypatch.setattr(portable.Script, "source", source)  # the thread hears of a script
        monkeypatch.setattr(sys, "argv", sys.argv[:])

        threads: list[Thread] = []

        def begin(path: list[str], channel: int, lifeline: int) -> Interpreter:
            threads.append(Thread(channel, code, first))
            return cast("Interpreter", threads[0])

        self.process = WorkerProcess(begin)
        self.thread = threads[0]

    def run(self, function: Any, *arguments: Any, **options: Any) -> Any:
        return self.process.run(call_of(function, *arguments, **options))

    def end(self) -> None:
        self.process.hang_up()
        self.thread.join()
        self.process.end(0)
        assert self.thread.killed
        assert not self.process.alive


def call_of(
    function: Any, *arguments: Any, timeout: float | None = None, ctx: Any = None
) -> ProcessCall:
    return ProcessCall(function, arguments, {}, ctx=ctx, timeout=timeout, context=copy_context())


def a_context() -> RunContext[Any]:
    def report(call: str, tool: str, progress: Any) -> None:
        """Tell nobody."""

    facts = RunFacts(
        run_id="r",
        conversation_id="c",
        agent="a",
        deps=None,
        metadata={},
        budget=Budget(Limits()),
        state=State(),
        report=report,
    )
    return RunContext(facts, call_id="1", tool="t")


def test_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Values, exceptions, and a context that answers."""
    begun = Begun(monkeypatch)
    ctx = a_context()
    begun.process.load(elsewhere.add.function)
    monkeypatch.setattr(sys, "path", [*sys.path, "/nowhere"])

    assert begun.run(elsewhere.add.function, 1, 2) == 3
    assert begun.run(seen.write, "k", [1], ctx=ctx) == "written"
    assert ctx.state.session.get("k") == [1]
    with pytest.raises(elsewhere.Odd):
        begun.run(elsewhere.fail, "odd")
    with pytest.raises(ToolError, match="cannot be given to a process of its own: cannot pickle"):
        begun.run(elsewhere.add.function, threading.Lock(), 2)
    with pytest.raises(ToolError, match="cannot be given to a process of its own: 6710"):
        begun.run(len, b"x" * (64 * 1024 * 1024))
    begun.end()


def test_a_large_value_of_the_state(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that no frame holds is an error where it was asked for."""
    begun = Begun(monkeypatch)
    ctx = a_context()
    ctx.state.set("k", "x" * (64 * 1024 * 1024))

    with pytest.raises(ToolError, match="too large for a process of its own"):
        begun.run(seen.read, "k", ctx=ctx)
    assert begun.run(seen.read, "other", ctx=ctx) is None
    begun.end()


def test_a_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process is killed."""
    begun = Begun(monkeypatch)

    with pytest.raises(CallExpired):
        begun.run(wait, timeout=0.02)
    assert begun.thread.killed
    begun.end()


def test_a_module_that_takes_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that does not get to the function is killed, too."""
    monkeypatch.setattr("treadle.tools.worker_process.START_SECONDS", 0.05)
    begun = Begun(monkeypatch)
    begun.process.load(elsewhere.Slow().__call__)

    with pytest.raises(RuntimeError, match=r"not ready after 0\.05 s: the module"):
        begun.run(elsewhere.Slow())
    assert begun.thread.killed
    begun.end()


@pytest.mark.parametrize(
    ("code", "first", "text"),
    [
        (3, b"", "ended with exit code 3 before the function began."),
        (-11, b"", r"was ended by signal 11 \(SIGSEGV\) before"),
        (-9, b"", r"was ended by signal 9 \(SIGKILL\), as happens when memory runs out, before"),
        (None, b"scribble" * 4, "closed the channel to its parent, or wrote to it, before"),
        (None, b"\0\0\0\0\0\0\0\3bad", "closed the channel to its parent, or wrote to it, before"),
    ],
)
def test_deaths(monkeypatch: pytest.MonkeyPatch, code: int | None, first: bytes, text: str) -> None:
    """Each way to end is told."""
    begun = Begun(monkeypatch, code=code, first=first)

    with pytest.raises(ProcessDied, match=text) as caught:
        begun.run(elsewhere.add.function, 1, 2)
    assert not caught.value.begun
    begun.end()


def test_a_call_that_was_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopped before, it begins nowhere; stopped while it runs, its process is hung up."""
    begun = Begun(monkeypatch)
    early, running = call_of(wait), call_of(wait)
    early.stop()
    with pytest.raises(CallStopped):
        early.attach(begun.process)
    running.attach(begun.process)
    threading.Timer(0.05, running.stop).start()

    with pytest.raises(ProcessDied):
        begun.process.run(running)
    with pytest.raises(CallStopped):
        running.attach(None)
    begun.process.forget()  # it is dead already
    begun.end()
