"""Run a coroutine from sync code: on one event loop in a background thread, so that pools survive.

Works from any thread, also inside a running event loop (a notebook, for example): the loop that
runs there is not touched.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import signal
import threading
import time
from collections.abc import Callable, Coroutine, Generator
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar

from treadle.errors import ConfigError

ResultT = TypeVar("ResultT")
CLEAN_UP_SECONDS = 10.0
CLOSE_SECONDS = 10.0


class _Background:
    """The thread and its loop; made again in a forked child, where no thread survives."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self._serve, name="treadle-loop", daemon=True)
        self._lock = threading.Lock()
        self._jobs: set[_Job[Any]] = set()
        self._ended = False
        self.thread.start()

    @property
    def serves(self) -> bool:
        """Whether work that is given now will be run."""
        return self.pid == os.getpid() and not self._ended and self.thread.is_alive()

    def take(self, job: _Job[Any]) -> bool:
        """Begin a job in the loop; False when the loop has ended meanwhile and nothing was done."""
        with self._lock:
            if self._ended:
                return False
            self._jobs.add(job)
            job.at_end = self._jobs.discard
            self.loop.call_soon_threadsafe(job.start)
            return True

    def close(self) -> None:
        """End the loop as asyncio.run() would: tasks cancelled, generators and pools closed."""
        if self.serves:
            self.call(self.loop.stop)
            # What does not let go in time ends with the process: the thread is a daemon.
            self.thread.join(timeout=CLOSE_SECONDS)

    def call(self, callback: Callable[[], object]) -> None:
        """Call something in the loop soon, unless the loop has ended."""
        with suppress(RuntimeError):
            self.loop.call_soon_threadsafe(callback)

    def _serve(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            while _exited(self.loop):
                pass
        finally:
            self._wind_up()

    def _wind_up(self) -> None:
        """Leave nobody waiting, however the loop came to its end."""
        with self._lock:
            self._ended = True
            jobs = tuple(self._jobs)
        for job in jobs:
            job.abandoned = True
        try:
            self.loop.run_until_complete(_wind_down())
        finally:
            for job in jobs:
                job.abandon()
            self.loop.close()


def _exited(loop: asyncio.AbstractEventLoop) -> bool:
    """Run the loop; True when it was left by sys.exit() or the like, so that it can go on.

    The task that raised it keeps the exception, and whoever waits for that task gets it: it ends
    one run, not the loop that serves all others.
    """
    try:
        loop.run_forever()
    except (SystemExit, KeyboardInterrupt):
        return True
    return False


_lock = threading.Lock()
_background: _Background | None = None


def run_blocking(work: Coroutine[Any, Any, ResultT]) -> ResultT:
    """Run `work` to its end and return its result. Ctrl-C cancels it, waits for it, and is raised.

    A second Ctrl-C does not wait.

    Raises:
        ConfigError: called from the background loop itself, which would wait for ever.
        SystemExit: the work called sys.exit(); other work in the background goes on.
        RuntimeError: the background loop was stopped before the work ended.
    """
    background = _current()
    if threading.current_thread() is background.thread:
        work.close()
        raise ConfigError(
            "run_sync() was called inside a run that run_sync() started; "
            "make the tool async and use await."
        )
    job = _Job(work)
    with _taking_interrupts(job):
        try:
            while not background.take(job):
                background = _current()
            job.wait()
        except KeyboardInterrupt:
            background.call(job.cancel)
            job.wait_for_clean_up()
            raise
    if job.interrupted:  # just as the wait was over
        raise KeyboardInterrupt
    return job.result()


class _Job(Generic[ResultT]):
    """A coroutine on its way in the background, which is `over` when it has really ended.

    `abandoned` says that its loop is ending, so that a cancellation is not anybody's wish;
    `interrupted` that Ctrl-C was pressed. Whoever waits does so at `_bell`, which is C code all
    through: an exception that a signal handler raises leaves no lock of it held, as it would in a
    `concurrent.futures.Future`.
    """

    def __init__(self, work: Coroutine[Any, Any, ResultT]) -> None:
        self._work = work
        self._task: asyncio.Task[ResultT] | None = None
        self._result: list[ResultT] = []
        self._error: BaseException | None = None
        self._bell: SimpleQueue[None] = SimpleQueue()
        self.at_end: Callable[[_Job[Any]], object] | None = None
        self.abandoned = False
        self.interrupted = False
        self.over = False

    def start(self) -> None:
        if self.over:  # Ctrl-C was quicker
            return
        self._task = asyncio.get_running_loop().create_task(self._work)
        self._task.add_done_callback(self._finish)

    def interrupt(self, _signal: int, _frame: object) -> None:
        """Ctrl-C, as a signal handler: whoever waits is told, wherever this comes in between."""
        if self.interrupted:
            raise KeyboardInterrupt
        self.interrupted = True
        self._bell.put(None)

    def wait(self) -> None:
        """Wait for the end, or raise KeyboardInterrupt on Ctrl-C."""
        while not (self.over or self.interrupted):
            self._bell.get()
        if self.interrupted:
            raise KeyboardInterrupt

    def wait_for_clean_up(self) -> None:
        """Wait for the end, but not for ever."""
        deadline = time.monotonic() + CLEAN_UP_SECONDS
        with suppress(Empty):
            while not self.over:
                self._bell.get(timeout=max(0.0, deadline - time.monotonic()))

    def result(self) -> ResultT:
        """What the work returned, or what it raised."""
        if self._error is not None:
            raise self._error
        return self._result[0]

    def cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()
        elif not self.over:
            self._work.close()
            self._end(CancelledError())

    def abandon(self) -> None:
        """Fail the job of a loop that has ended, unless it came to an end of its own."""
        if self._task is None:
            self._work.close()
        if not self.over:
            self._end(
                RuntimeError(
                    "The event loop of run_sync() was stopped before the run ended. Does a tool, "
                    "model or observer call loop.stop()? The next run_sync() starts a new loop."
                )
            )

    def _finish(self, task: asyncio.Task[ResultT]) -> None:
        if task.cancelled():
            if not self.abandoned:
                self._end(CancelledError())
            return
        error = task.exception()
        if error is None:
            self._result.append(task.result())
        self._end(error)

    def _end(self, error: BaseException | None) -> None:
        self._error = error
        self.over = True
        self._bell.put(None)
        if self.at_end is not None:
            self.at_end(self)


@contextmanager
def _taking_interrupts(job: _Job[Any]) -> Generator[None]:
    """Have Ctrl-C tell this job, where nobody else has taken it.

    Python's own handler raises KeyboardInterrupt between any two instructions of the main thread:
    in a weak reference's callback, for example, where it is printed and lost.
    """
    ours = job.interrupt
    if (
        threading.current_thread() is not threading.main_thread()
        or signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    ):
        yield
        return
    signal.signal(signal.SIGINT, ours)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGINT) == ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def _current() -> _Background:
    global _background  # noqa: PLW0603 the one bridge between sync and async of a process
    with _lock:
        if _background is None or not _background.serves:
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
