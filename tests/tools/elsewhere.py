"""Tools that run in processes of their own; a worker imports them from here."""

from __future__ import annotations

import asyncio
import ctypes
import dataclasses
import functools
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from tests.tools.hanging import sleep
from treadle import (
    Finish,
    Image,
    Interrupt,
    Next,
    RunContext,
    Text,
    ToolAbort,
    ToolError,
    Usage,
    register,
    tool,
)
from treadle.state.scoped import StateConflict

kept: list[int] = []
"""What this process was told; each process has a list of its own."""


@tool(isolation="process")
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@tool(isolation="process")
def where() -> int:
    """Tell the process."""
    return os.getpid()


def keep(number: int) -> tuple[int, list[int]]:
    """Remember a number; tell the process and all that it remembers."""
    kept.append(number)
    return os.getpid(), kept


@tool(isolation="process")
async def wait_and_add(a: int, b: int) -> int:
    """Add, in an event loop."""
    await asyncio.sleep(0)
    return a + b


# --- what never ends ----------------------------------------------------------------------------


@tool(isolation="process", timeout=0.5)
def hang_with_children(ctx: RunContext) -> None:
    """Begin programs, one in a session of its own and one with a child, and hang."""
    program = [sys.executable, "-c", "import time; time.sleep(1e6)"]
    nested = f"import subprocess, time; subprocess.Popen({program!r}); time.sleep(1e6)"
    plain = subprocess.Popen(program)
    apart = subprocess.Popen([sys.executable, "-c", nested], start_new_session=True)
    while not (grandchild := _children(apart.pid)):
        time.sleep(0.01)  # noqa: TID251
    ctx.report([os.getpid(), plain.pid, apart.pid, *grandchild])
    sleep()


def _children(pid: int) -> list[int]:
    return list(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))


# --- how a call ends ----------------------------------------------------------------------------


class Odd(Exception):
    """An exception whose `__init__` takes other arguments than it hands on."""

    def __init__(self, code: int, *, hint: str) -> None:
        super().__init__(f"odd {code}")
        self.code = code
        self.hint = hint


class Unportable(Exception):
    """An exception that holds what cannot leave a process."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.lock = threading.Lock()


class Person(BaseModel):
    """A pydantic model."""

    name: str


@register
@dataclasses.dataclass
class Point:
    """A dataclass."""

    x: int
    y: int = 0


def give(what: str) -> Any:
    """Return something."""
    return {
        "next": Next("add", {"a": 1, "b": 2}, output="first"),
        "interrupt": Interrupt("wait"),
        "finish": Finish({"done": True}),
        "parts": [Text("see"), Image.from_bytes(b"\x89PNG....", "image/png")],
        "person": Person(name="Ann"),
        "point": Point(1, 2),
        "none": None,
        "lock": threading.Lock() if what == "lock" else 0,
        "lambda": (lambda: 1) if what == "lambda" else 0,
        "large": b"x" * (65 * 1024 * 1024 if what == "large" else 0),
    }[what]


def fail(how: str) -> Any:
    """Raise something."""
    errors: dict[str, BaseException] = {
        "key": KeyError("lost"),
        "odd": Odd(4, hint="h"),
        "unportable": Unportable("cannot leave"),
        "tool": ToolError("text for the model"),
        "abort": ToolAbort("stop it"),
        "exit": SystemExit(3),
        "interrupt": KeyboardInterrupt(),
        "cancel": asyncio.CancelledError(),
        "stop": StopIteration(1),
        "os": FileNotFoundError(2, "No such file", "/nowhere"),
        "unicode": UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"),
        "conflict": StateConflict("k", first="1", second="2"),
        "pipe": BrokenPipeError("the function's own"),
        "eof": EOFError("the function's own"),
        "time": TimeoutError("the function's own"),
        "group": ExceptionGroup("two", [ValueError("a"), Odd(5, hint="i")]),
    }
    raise errors[how]


def die(how: str) -> None:
    """End the whole process."""
    match how:
        case "exit":
            os._exit(3)
        case "segv":
            ctypes.string_at(0)
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "abort":
            os.abort()
        case "close":
            os.closerange(3, 100)
            time.sleep(1e6)  # noqa: TID251
        case "scribble":
            for each in range(3, 100):
                with suppress(OSError):
                    os.write(each, b"scribble" * 10)
            time.sleep(1e6)  # noqa: TID251
        case _:
            os._exit(0)


def attempt_until(ctx: RunContext, needed: int) -> int:
    """Fail until the try of this number."""
    if ctx.attempt < needed:
        raise ValueError(f"attempt {ctx.attempt}")
    return ctx.attempt


def die_until(ctx: RunContext, needed: int) -> int:
    """Die until the try of this number."""
    if ctx.attempt < needed:
        os._exit(7)
    return ctx.attempt


# --- what a call sees ---------------------------------------------------------------------------


def look(ctx: RunContext) -> dict[str, Any]:
    """Tell what the context says."""
    return {
        "run": ctx.run_id,
        "conversation": ctx.conversation_id,
        "agent": ctx.agent,
        "call": ctx.call_id,
        "tool": ctx.tool,
        "key": ctx.idempotency_key,
        "attempt": ctx.attempt,
        "metadata": dict(ctx.metadata),
        "cancelled": ctx.cancelled,
        "requests": ctx.usage.requests,
    }


def touch(ctx: RunContext, what: str) -> Any:
    """Touch what is not there."""
    return getattr(ctx, what)


def use(ctx: RunContext) -> str:
    """Add usage, and report."""
    ctx.add_usage(Usage(input_tokens=7, requests=1))
    for step in range(3):
        ctx.report({"step": step})
    return "used"


def report_lock(ctx: RunContext) -> None:
    """Report what no other process can have."""
    ctx.report(threading.Lock())


def work_on_state(ctx: RunContext) -> list[Any]:
    """Use each word of the state."""
    state = ctx.state
    state.set("mine", {"n": 1})
    state.session.set("shared", Point(1, 2))
    state.root.set("everyone", [1])
    state.delete("old")
    return [
        state.get("mine"),
        state.get("shared"),
        state.get("everyone"),
        state.get("nowhere", "default"),
        state.get_local("shared", "not mine"),
        state.get_str("mine"),
        "mine" in state,
        "old" in state,
        sorted(state.keys()),
        state.session.snapshot(),
        "agent::a::mine" in state.root.keys("agent::"),
    ]


def write(ctx: RunContext, key: str, value: Any) -> str:
    """Write to the session's state."""
    ctx.state.session.set(key, value)
    return "written"


def read(ctx: RunContext, key: str) -> Any:
    """Read from the state."""
    return ctx.state.get(key)


def write_lock(ctx: RunContext) -> None:
    """Write what cannot be stored."""
    ctx.state.set("lock", threading.Lock())


def write_and_hang(ctx: RunContext) -> None:
    """Write, and never return."""
    ctx.state.set("before", 1)
    sleep()


late: list[str] = []


def ask_later(ctx: RunContext, tell: bool) -> list[str]:
    """Leave a thread behind that uses the context when the call has ended; or tell of it."""
    if tell:
        return _wait_for_late()
    ended = threading.Event()

    def use_it() -> None:
        ended.wait(0.2)
        try:
            ctx.state.set("late", 1)
        except ToolError as error:
            late.append(str(error))

    threading.Thread(target=use_it).start()
    return []


def _wait_for_late() -> list[str]:
    for _ in range(100):
        if late:
            break
        time.sleep(0.02)  # noqa: TID251
    return late


def from_many_threads(ctx: RunContext, count: int) -> int:
    """Ask from many threads at once."""

    def ask(number: int) -> None:
        ctx.state.set(f"k{number}", number)
        assert ctx.state.get(f"k{number}") == number

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(count)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    return len(ctx.state.keys("k"))


def fork_and_return(ctx: RunContext) -> str:
    """Return twice."""
    child = os.fork()
    if child == 0:
        try:
            ctx.report("from the fork")
        except ToolError:
            return "child"
        os._exit(9)
    return str(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


def say(text: str) -> str:
    """Print, and write to both standard descriptors."""
    print(text)
    print(text, file=sys.stderr)
    os.write(1, b"raw out\n")
    os.write(2, b"raw err\n")
    return "said"


def descriptors() -> list[int]:
    """Tell what is open here, and read standard input."""
    assert sys.stdin.read() == ""
    found = sorted(map(int, os.listdir("/proc/self/fd")))
    return [each for each in found if Path(f"/proc/self/fd/{each}").exists()]


# --- what can be called -------------------------------------------------------------------------


class Counter:
    """A callable instance; what it keeps stays in the process that runs it."""

    def __init__(self, start: int) -> None:
        self.count = start

    def __call__(self, arguments: dict[str, Any]) -> list[int]:
        """Count."""
        self.count += arguments.get("by", 1)
        return [os.getpid(), self.count]


class Math:
    """Methods of all kinds."""

    factor = 3

    def __init__(self, factor: int = 5) -> None:
        self.factor = factor

    @staticmethod
    def plain(number: int) -> int:
        """Add one."""
        return number + 1

    @classmethod
    def of_class(cls, number: int) -> int:
        """Multiply by the factor of the class."""
        return number * cls.factor

    def bound(self, number: int) -> int:
        """Multiply by the factor of the instance."""
        return number * self.factor

    @staticmethod
    @tool(isolation="process")
    def inner(number: int) -> int:
        """Add two."""
        return number + 2

    @tool(isolation="process")
    @staticmethod
    def outer(number: int) -> int:
        """Add four."""
        return number + 4


def doubled(function: Callable[..., int]) -> Callable[..., int]:
    """Return a function that gives twice as much."""

    @functools.wraps(function)
    def twice(*arguments: Any, **keywords: Any) -> int:
        return 2 * function(*arguments, **keywords)

    return twice


@tool(isolation="process")
@doubled
def wrapped(number: int) -> int:
    """Add three, twice."""
    return number + 3


class Slow:
    """A callable instance that takes long to be had again."""

    def __setstate__(self, state: object) -> None:
        time.sleep(0.5)  # noqa: TID251

    def __getstate__(self) -> object:
        return "slow"

    def __call__(self) -> None:
        """Return."""


class Holder:
    """A callable instance that holds what cannot be pickled."""

    def __init__(self) -> None:
        self.lock = threading.Lock()

    def __call__(self, number: int) -> int:
        """Return it."""
        return number
