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
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from typing import Any, Generic, TypeVar

from treadle.errors import ConfigError

ResultT = TypeVar("ResultT")
CLEAN_UP_SECONDS = 10.0


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
    job = _Job(work)
    background.loop.call_soon_threadsafe(job.start)
    try:
        return job.done.result()
    except KeyboardInterrupt:
        background.loop.call_soon_threadsafe(job.cancel)
        with suppress(CancelledError, TimeoutError):
            job.done.exception(timeout=CLEAN_UP_SECONDS)
        raise


class _Job(Generic[ResultT]):
    """A coroutine on its way in the background. `done` comes true when it has really ended."""

    def __init__(self, work: Coroutine[Any, Any, ResultT]) -> None:
        self._work = work
        self._task: asyncio.Task[ResultT] | None = None
        self.done: Future[ResultT] = Future()

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._work)
        self._task.add_done_callback(self._finish)

    def cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def _finish(self, task: asyncio.Task[ResultT]) -> None:
        if task.cancelled():
            self.done.cancel()
            self.done.set_running_or_notify_cancel()
            return
        error = task.exception()
        if error is None:
            self.done.set_result(task.result())
        else:
            self.done.set_exception(error)


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
