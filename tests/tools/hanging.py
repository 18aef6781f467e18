"""Tools that never return, in as many ways as there are; a worker imports them from here."""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from treadle import RunContext, tool


def spin() -> None:
    """Loop."""
    while True:
        pass


def sleep() -> None:
    """Sleep, through every interruption."""
    while True:
        time.sleep(1e6)  # noqa: TID251


def hold_the_interpreter() -> None:
    """Work in C code that lets no other thread run and looks at no signal."""
    re.match(r"(a+)+$", "a" * 64 + "b")


def ignore_signals() -> None:
    """Sleep, deaf to all signals that can be ignored."""
    for each in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(each, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    sleep()


def wait_for_lock() -> None:
    """Wait for what never comes."""
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()


def swallow() -> None:
    """Catch whatever is raised, and go on."""
    while True:
        with suppress(BaseException):
            time.sleep(1e6)  # noqa: TID251


HANGS: dict[str, Callable[[], None]] = {
    function.__name__: function
    for function in (spin, sleep, hold_the_interpreter, ignore_signals, wait_for_lock, swallow)
}


@tool(isolation="process", timeout=0.02)
def hang(ctx: RunContext, how: str) -> None:
    """Tell that it has begun, and never return."""
    ctx.report(os.getpid())
    HANGS[how]()


@tool(isolation="process", timeout=60)
def hang_long(ctx: RunContext, how: str) -> None:
    """Tell that it has begun, and never return."""
    ctx.report(os.getpid())
    HANGS[how]()
