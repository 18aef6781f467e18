"""Functions that use their context and what is around them; a worker imports them from here."""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

from tests.tools.elsewhere import Point
from tests.tools.hanging import sleep
from treadle import RunContext, ToolError, Usage


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
