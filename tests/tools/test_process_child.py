"""What a worker answers to what it is told: here it is a thread of this process."""

from __future__ import annotations

import fcntl
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.tools import elsewhere, seen
from treadle import ConfigError, State, ToolError
from treadle.errors import NotStorable
from treadle.limits import Budget, Limits
from treadle.ports.context import RunContext, RunFacts
from treadle.tools.frames import LENGTH, Frame, FrameTooLarge, frame_bytes, read_frame
from treadle.tools.portable import packed, unpacked, unpacked_error
from treadle.tools.process_child import Worker
from treadle.tools.process_context import answer, facts_of


class Parent:
    """The other side of the channel, with a context that answers."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        self._theirs = theirs
        self._file = ours.makefile("rwb")
        ours.close()
        self.reports: list[Any] = []

        def report(call: str, tool: str, progress: Any) -> None:
            self.reports.append((call, tool, progress))

        self.ctx: RunContext[Any] = RunContext(
            RunFacts(
                run_id="r",
                conversation_id="c",
                agent="a",
                deps=None,
                metadata={"m": 1},
                budget=Budget(Limits()),
                state=State(),
                report=report,
            ),
            call_id="1",
            tool="t",
        )
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        worker = Worker(self._theirs.fileno())
        with pytest.raises(EOFError):
            worker.serve()
        self._theirs.close()

    def say(self, *frame: Any) -> None:
        self._file.write(frame_bytes(frame))
        self._file.flush()

    def hear(self) -> Frame:
        return read_frame(self._file)

    def call(self, function: Any, *arguments: Any, context: bool = False) -> Any:
        """Have a function called; answer what it asks; return or raise what it did."""
        facts = packed(facts_of(self.ctx)) if context else None
        keywords: dict[str, Any] = {}
        self.say("call", packed(function), packed((arguments, keywords)), facts)
        while True:
            word, *rest = self.hear()
            if word == "ask":
                try:
                    self.say("told", packed(answer(self.ctx, rest[0], unpacked(rest[1]))))
                except ToolError as error:
                    self.say("raised", packed(error), str(error), "")
            elif word == "raised":
                raise unpacked_error(*rest)
            elif word == "returned":
                return unpacked(rest[0])

    def close(self) -> None:
        self._file.close()
        self._thread.join(5)


@pytest.fixture
def parent() -> Iterator[Parent]:
    """A worker in a thread, and its parent."""
    made = Parent()
    yield made
    made.close()


def test_calls(parent: Parent) -> None:
    """One after another, sync or not; what is raised comes back."""
    parent.say("load", packed(elsewhere.add.function))
    parent.say("path", sys.path)

    assert parent.call(elsewhere.add.function, 1, 2) == 3
    assert parent.call(elsewhere.wait_and_add.function, 1, 2) == 3
    with pytest.raises(elsewhere.Odd, match="odd 4"):
        parent.call(elsewhere.fail, "odd")
    with pytest.raises(RuntimeError, match=r"raised SystemExit\(3\)"):
        parent.call(elsewhere.fail, "exit")
    with pytest.raises(ToolError, match="of type 'lock', cannot leave its process"):
        parent.call(elsewhere.give, "lock")
    with pytest.raises(ToolError, match="its result is too large"):
        parent.call(elsewhere.give, "large")


def test_a_context(parent: Parent) -> None:
    """All that it does is done by the parent's."""
    told = parent.call(seen.look, context=True)
    answers = parent.call(seen.work_on_state, context=True)
    used = parent.call(seen.use, context=True)

    assert (told["run"], told["key"], told["metadata"]) == ("r", "r:1", {"m": 1})
    assert answers[:4] == [{"n": 1}, elsewhere.Point(1, 2), [1], "default"]
    assert parent.ctx.state.get("mine") == {"n": 1}
    assert (used, len(parent.reports)) == ("used", 3)
    assert parent.ctx.added_usage.input_tokens == 7
    with pytest.raises(NotStorable, match="A value cannot leave its process"):
        parent.call(seen.write_lock, context=True)
    with pytest.raises(ConfigError, match=r"ctx\.deps is not to be had in tool 't'"):
        parent.call(seen.touch, "deps", context=True)
    with pytest.raises(ConfigError, match=r"ctx\.artefacts is not to be had"):
        parent.call(seen.touch, "artefacts", context=True)


def test_a_late_use_of_the_context(parent: Parent) -> None:
    """After its call it is refused, in the worker."""
    seen.late.clear()
    parent.call(seen.ask_later, False, context=True)

    assert "used after its call had ended" in parent.call(seen.ask_later, True, context=True)[0]


def test_what_a_worker_may_not_ask(parent: Parent) -> None:
    """Only the words of the context."""
    for what, arguments in (("deps", ()), ("state", ("close",)), ("state", ("__class__",))):
        with pytest.raises(ConfigError, match="which is not to be had"):
            answer(parent.ctx, what, arguments)
    with pytest.raises(ConfigError, match="without a context"):
        answer(None, "usage", ())


def test_frames() -> None:
    """One that is too large is refused before it is sent, one that is cut is an end."""
    with pytest.raises(FrameTooLarge, match="at most 67108864"):
        frame_bytes(("x", b"x" * (64 * 1024 * 1024)))
    reader, writer = os.pipe()
    with open(reader, "rb") as file, open(writer, "wb") as other:
        other.write(frame_bytes(("whole",)) + LENGTH.pack(100) + b"cut")
        other.close()
        assert read_frame(file) == ("whole",)
        with pytest.raises(EOFError):
            read_frame(file)
        with pytest.raises(EOFError):
            read_frame(file)


WITHOUT_SIGNAL = """
import fcntl, os, sys, time
for name in ("F_SETSIG",):
    delattr(fcntl, name)
from treadle.tools.process_child import main
import threading
threading.Thread(target=main, args=(int(sys.argv[1]), int(sys.argv[2])), daemon=True).start()
time.sleep(60)
"""


@pytest.mark.e2e
@pytest.mark.skipif(not hasattr(fcntl, "F_SETSIG"), reason="this system has the other way only")
def test_a_lifeline_where_the_system_sends_no_signal() -> None:
    """A thread waits for it there, and kills the whole group."""
    channel, theirs = socket.socketpair()
    life, held = os.pipe()
    child = subprocess.Popen(
        [sys.executable, "-c", WITHOUT_SIGNAL, str(theirs.fileno()), str(life)],
        pass_fds=(theirs.fileno(), life),
        start_new_session=True,
    )
    theirs.close()
    os.close(life)
    with channel, channel.makefile("rwb") as file:
        keywords: dict[str, Any] = {}
        file.write(frame_bytes(("call", packed(len), packed((("abc",), keywords)), None)))
        file.flush()
        assert [read_frame(file)[0] for _ in range(2)] == ["begun", "returned"]
        assert child.poll() is None
        os.close(held)
        assert child.wait(20) == -9
