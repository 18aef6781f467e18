"""Run a coroutine from sync code: on one event loop in a background thread, so that pools survive.

Works from any thread, also inside a running event loop (a notebook, for example): the loop that
runs there is not touched.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import CancelledError
from contextlib import suppress
from typing import Any, TypeVar

from treadle.errors import ConfigError

ResultT = TypeVar("ResultT")


class _Background:
    """The thread and its loop; made again in a forked child, where no thread survives."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self._serve, name="treadle-loop", daemon=True)
        self.thread.start()

    def _serve(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()

    def close(self) -> None:
        """End the loop as asyncio.run() would: tasks cancelled, generators and pools closed."""
        if self.pid != os.getpid() or self.loop.is_closed():
            return
        closing = asyncio.run_coroutine_threadsafe(_wind_down(), self.loop)
        try:
            closing.result(timeout=5)
        except TimeoutError:
            return  # something does not let go; the thread is a daemon and ends with the process
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(timeout=5)
        self.loop.close()


_lock = threading.Lock()
_background: _Background | None = None


def run_blocking(work: Coroutine[Any, Any, ResultT]) -> ResultT:
    """Run `work` to its end and return its result. Ctrl-C cancels it, waits for it, and is raised.

    Raises:
        ConfigError: called from the background loop itself, which would wait for ever.
    """
    background = _current()
    if threading.current_thread() is background.thread:
        work.close()
        raise ConfigError(
            "run_sync() was called inside a run that run_sync() started; "
            "make the tool async and use await."
        )
    future = asyncio.run_coroutine_threadsafe(work, background.loop)
    try:
        return future.result()
    except KeyboardInterrupt:
        future.cancel()
        with suppress(CancelledError, TimeoutError):
            future.exception(timeout=10)
        raise


def _current() -> _Background:
    global _background  # noqa: PLW0603 the one bridge between sync and async of a process
    with _lock:
        if _background is None or _background.pid != os.getpid():
            _background = _Background()
            atexit.register(_background.close)
        return _background


async def _wind_down() -> None:
    loop = asyncio.get_running_loop()
    tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks, timeout=3)
    await loop.shutdown_asyncgens()
