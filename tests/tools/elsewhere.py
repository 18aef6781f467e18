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
    AskApproval,
    Finish,
    Image,
    Interrupt,
    Next,
    RunContext,
    Text,
    ToolAbort,
    ToolError,
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


class Bill(AskApproval):
    """A question that is made of something else than its reason."""

    def __init__(self, *, amount: int) -> None:
        super().__init__(f"costs {amount}", {"properties": {"paid": {"type": "boolean"}}})
        self.amount = amount


class HeldBill(Bill):
    """One that holds what cannot leave a process."""

    def __init__(self, *, amount: int) -> None:
        super().__init__(amount=amount)
        self.lock = threading.Lock()


class HeldAbort(ToolAbort):
    """Stops the run, and holds what cannot leave a process."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.lock = threading.Lock()


class HeldError(ToolError):
    """A text for the model, and what cannot leave a process."""

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
        "bill": Bill(amount=9),
        "held bill": HeldBill(amount=9),
        "held abort": HeldAbort("stop it"),
        "held tool": HeldError("text for the model"),
        "long": ValueError("x" * (25_000_000 if how == "long" else 1)),
        "too long": ValueError("x" * (65_000_000 if how == "too long" else 1)),
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
