"""Worker threads for sync tools: reused, bounded, and no reason for a process not to exit."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import Context, copy_context
from queue import Empty, SimpleQueue
from typing import Any
from weakref import WeakMethod

from treadle.errors import ToolError

MOST_THREADS = 64
IDLE_SECONDS = 30.0

Job = tuple[Context, Callable[[], Any], Future[Any]]


class ToolThreads:
    """Runs sync functions off the event loop, each with a copy of the caller's context variables.

    A thread cannot be stopped from outside. A call that timed out keeps its thread until it
    returns; `stuck` counts those, and when all threads are stuck a new call is refused. A forked
    child, where no other thread survives, begins with none.
    """

    def __init__(self, most: int = MOST_THREADS) -> None:
        self._most = most
        self._begin()
        call_in_children(WeakMethod(self._begin))

    def _begin(self) -> None:
        self._jobs: SimpleQueue[Job] = SimpleQueue()
        self._lock = threading.Lock()
        self._threads = 0
        self._idle = 0
        self.stuck = 0

    async def run(self, function: Callable[[], Any]) -> Any:
        """Call `function` in a thread and return what it returns.

        Raises:
            ToolError: all threads are held by calls that never returned.
        """
        job: Future[Any] = Future()
        job.set_running_or_notify_cancel()
        self._start((copy_context(), function, job))
        waiting = asyncio.wrap_future(job)
        try:
            return await waiting
        finally:
            if not job.done():
                self._count_stuck(job)

    def _start(self, job: Job) -> None:
        with self._lock:
            if self.stuck >= self._most:
                raise ToolError(
                    f"All {self._most} tool threads are held by calls that never returned."
                )
            grow = self._jobs.qsize() >= self._idle and self._threads < self._most
            self._threads += grow
        self._jobs.put(job)
        if grow:
            threading.Thread(target=self._work, name="treadle-tool", daemon=True).start()

    def _count_stuck(self, job: Future[Any]) -> None:
        with self._lock:
            self.stuck += 1
        job.add_done_callback(self._unstick)

    def _unstick(self, _: Future[Any]) -> None:
        with self._lock:
            self.stuck -= 1

    def _work(self) -> None:
        jobs = self._jobs
        while jobs is self._jobs:  # a tool that forked returns in the child, where it is not ours
            with self._lock:
                self._idle += 1
            try:
                context, function, job = jobs.get(timeout=IDLE_SECONDS)
            except Empty:
                with self._lock:
                    self._idle -= 1
                    if jobs.empty():
                        self._threads -= 1
                        return
                continue
            with self._lock:
                self._idle -= 1
            _run_job(context, function, job)
            del context, function, job  # an idle thread keeps nothing of the last call alive


def call_in_children(method: WeakMethod[Callable[[], None]]) -> None:
    """Have a method called in every forked child, as long as its object lives."""

    def call() -> None:
        bound = method()
        if bound is not None:
            bound()

    if hasattr(os, "register_at_fork"):  # not on Windows, which cannot fork
        os.register_at_fork(after_in_child=call)


def _run_job(context: Context, function: Callable[[], Any], job: Future[Any]) -> None:
    try:
        result = context.run(function)
    except StopIteration as error:  # a future cannot carry it
        job.set_exception(RuntimeError(f"raised {error!r}"))
    except Exception as error:  # noqa: BLE001 it is handed to whoever waits
        job.set_exception(error)
    except BaseException as error:  # noqa: BLE001 sys.exit() in a tool must not end the event loop
        job.set_exception(RuntimeError(f"raised {error!r}"))
    else:
        job.set_result(result)


THREADS = ToolThreads()
