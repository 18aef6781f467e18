"""Worker processes for tools: reused, bounded, and killed when a call has to end."""

from __future__ import annotations

import asyncio
import atexit
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import copy_context
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any
from weakref import WeakMethod

from treadle.errors import ToolAbort
from treadle.ports.context import RunContext
from treadle.tools.portable import Script
from treadle.tools.threads import call_in_children
from treadle.tools.tool import Tool
from treadle.tools.worker_process import CallStopped, ProcessCall, ProcessDied, WorkerProcess

MOST_PROCESSES = 16
IDLE_SECONDS = 30.0
END_SECONDS = 1.0
"""How long an idle process may take to end by itself."""
STOP_SECONDS = 1.0
"""How long a cancelled call waits until its process is gone, which takes milliseconds."""

Job = tuple[ProcessCall, Future[Any]]


class ToolProcesses:
    """Runs functions in processes of their own, which can be killed at any moment.

    Each process has a thread here that waits for it, so no event loop ever does. A process is
    used for one call at a time, and again as long as all goes well; after a timeout, a cancelled
    call or a crash there is a new one. When all are at work, calls wait for their turn.
    A forked child begins with none.
    """

    def __init__(
        self,
        most: int = MOST_PROCESSES,
        idle_seconds: float = IDLE_SECONDS,
        begin: Callable[[], WorkerProcess] = WorkerProcess,
    ) -> None:
        self._most = most
        self._new_process = begin
        self._idle_seconds = idle_seconds
        self._lanes: set[Lane] = set()
        self._leaving: set[Lane] = set()
        self._begin()
        call_in_children(WeakMethod(self._begin))

    def _begin(self) -> None:
        for lane in (*self._lanes, *self._leaving):  # those of the process that forked
            lane.forget()
        self._lock = threading.Lock()
        self._lanes, self._leaving = set(), set()
        self._idle: list[Lane] = []
        self._waiting: deque[Job] = deque()

    async def run(
        self,
        function: Callable[..., Any],
        arguments: tuple[Any, ...],
        keywords: dict[str, Any],
        *,
        ctx: RunContext[Any] | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 it is kept by the thread that can kill
    ) -> Any:
        """Call `function` in a process and return what it returns.

        With `ctx` it is given a context first, which speaks to this one. `timeout` is in seconds
        and counts from when the function begins. When the call is cancelled, or its time is up,
        its process is gone when this ends.

        Raises:
            CallExpired: the time was up.
            ProcessDied: the process ended by itself.
            ToolError: arguments or result cannot go from one process to the other.
            Exception: what the function raised.
        """
        if Script.loading:
            raise ToolAbort(
                "The program starts a run while it is imported, which each worker process does: "
                'put what it runs under `if __name__ == "__main__":`.'
            )
        call = ProcessCall(
            function, arguments, keywords, ctx=ctx, timeout=timeout, context=copy_context()
        )
        job: Future[Any] = Future()
        self._hand_out((call, job))
        waiting = asyncio.wrap_future(job)
        waiting.add_done_callback(_heard)
        try:
            await asyncio.wait((waiting,))
        except asyncio.CancelledError:
            if not job.cancel():  # it has begun
                call.stop()
                await asyncio.wait((waiting,), timeout=STOP_SECONDS)
            raise
        finally:
            if not (job.cancel() or job.done()):
                call.stop()
        return waiting.result()

    def close(self) -> None:
        """Kill all processes, and wait until they are gone; calls that run fail."""
        with self._lock:
            lanes, self._idle = [*self._lanes, *self._leaving], []
            for lane in lanes:
                lane.stop()
        for lane in lanes:
            lane.thread.join(STOP_SECONDS + END_SECONDS)
        atexit.unregister(self.close)

    @property
    def pids(self) -> list[int]:
        """The IDs of the processes that live now."""
        with self._lock:
            return [pid for lane in self._lanes if (pid := lane.pid) is not None]

    def _hand_out(self, job: Job) -> None:
        with self._lock:
            if self._idle:
                lane = max(reversed(self._idle), key=lambda each: each.suits(job[0]))
                self._idle.remove(lane)
                lane.jobs.put(job)
                return
            if len(self._lanes) >= self._most:
                self._waiting.append(job)
                return
            lane = Lane(self._work, self._new_process)
            lane.jobs.put(job)
            self._lanes.add(lane)
            if len(self._lanes) == 1:
                atexit.unregister(self.close)
                atexit.register(self.close)
        try:
            lane.thread.start()
        except RuntimeError:  # the system gives no more threads
            with self._lock:
                self._lanes.discard(lane)
            raise

    def _work(self, lane: Lane) -> None:
        job: Job | None = lane.jobs.get()
        while job is not None:
            tell = lane.serve(*job)
            if lane.ready:
                job = self._release(lane)  # whoever is told may have the next call at once
                tell()
            else:
                tell()
                lane.restart(job[0].function)
                job = self._release(lane)
            del tell  # an idle thread keeps nothing of the last call alive
            job = job or self._wait_for_job(lane)
        lane.end()
        with self._lock:
            self._lanes.discard(lane)
            self._leaving.discard(lane)

    def _release(self, lane: Lane) -> Job | None:
        """Return the call that has waited longest; without one the lane is idle from now on."""
        with self._lock:
            if self._waiting:
                return self._waiting.popleft()
            if not lane.stopped:
                self._idle.append(lane)
        return None

    def _wait_for_job(self, lane: Lane) -> Job | None:
        try:
            return lane.jobs.get(timeout=self._idle_seconds)
        except Empty:
            with self._lock:
                if lane in self._idle:
                    self._idle.remove(lane)
                    self._lanes.remove(lane)  # at once: no call must wait for it
                    self._leaving.add(lane)
                    return None
            return lane.jobs.get()


class Lane:
    """A thread, and the process that it looks after."""

    def __init__(self, work: Callable[[Lane], None], begin: Callable[[], WorkerProcess]) -> None:
        self._begin = begin
        self.jobs: SimpleQueue[Job | None] = SimpleQueue()
        self.thread = threading.Thread(
            target=work, args=(self,), name="treadle-process", daemon=True
        )
        self.stopped = False
        self._process: WorkerProcess | None = None
        self._last: Callable[..., Any] | None = None

    @property
    def ready(self) -> bool:
        """Whether its process can take a call."""
        return self._process is not None and self._process.alive

    @property
    def pid(self) -> int | None:
        """The ID of its process, if it has one."""
        process = self._process
        return process.pid if process is not None and process.alive else None

    def suits(self, call: ProcessCall) -> tuple[bool, bool]:
        """Return how well a call fits: best is the process that knows its function already."""
        return self._last is call.function, self.ready

    def serve(self, call: ProcessCall, job: Future[Any]) -> Callable[[], object]:
        """Run a call, and return what tells its job what came of it."""
        if not job.set_running_or_notify_cancel():
            return _nothing
        self._last = call.function
        try:
            value = self._run(call)
        except CallStopped:
            return partial(job.set_result, None)  # nobody looks at it
        except BaseException as error:  # noqa: BLE001 it is handed to whoever waits
            return partial(job.set_exception, error)
        return partial(job.set_result, value)

    def restart(self, function: Callable[..., Any]) -> None:
        """When a process had to be killed, have the next one ready before it is asked for."""
        if self._process is None or self.stopped:
            return
        try:
            self._process = self._begin()
        except OSError:
            self._process = None  # the call that needs it will tell
        else:
            self._process.load(function)

    def stop(self) -> None:
        """Have the thread end, and its process killed; from another thread."""
        self.stopped = True
        process = self._process
        if process is not None:
            process.hang_up()
        self.jobs.put(None)

    def end(self) -> None:
        """End the process: let an idle one run to its end, or kill it."""
        if self._process is not None:
            if not self.stopped:
                self._process.end(END_SECONDS)
            self._process.kill()

    def forget(self) -> None:
        """Close what a forked child has of the process."""
        if self._process is not None:
            self._process.forget()

    def _run(self, call: ProcessCall) -> Any:
        """Run a call; one whose idle process has died meanwhile runs in a new one."""
        if self._process is not None and self._process.alive:
            try:
                return self._run_in(self._process, call)
            except ProcessDied as died:
                if died.begun or self.stopped:
                    raise
        self._process = self._begin()
        return self._run_in(self._process, call)

    def _run_in(self, process: WorkerProcess, call: ProcessCall) -> Any:
        try:
            call.attach(process)
            return process.run(call)
        finally:
            try:
                call.attach(None)
            except CallStopped:
                process.kill()
                raise


def _heard(waiting: asyncio.Future[Any]) -> None:
    """Look at an error that comes with a cancel, for asyncio tells of those that nobody saw."""
    if not waiting.cancelled():
        waiting.exception()


def _nothing() -> None:
    """Tell nobody: the call was cancelled before it began."""


PROCESSES = ToolProcesses()


async def run_in_process(tool: Tool, ctx: RunContext[Any], keywords: dict[str, Any]) -> Any:
    """Run a tool's function in a process, and return or raise what it did (see `run`)."""
    given, keywords = ((), keywords) if tool.as_keywords else ((keywords,), {})
    own = ctx if tool.takes_context else None
    return await PROCESSES.run(tool.function, given, keywords, ctx=own, timeout=tool.timeout)
