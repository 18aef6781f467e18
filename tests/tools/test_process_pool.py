"""Who gets which process: reused, bounded, begun anew; here they are threads that only pretend."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from itertools import count
from typing import Any, cast

import pytest

from tests.tools.elsewhere import add, keep
from treadle import ToolAbort
from treadle.tools.portable import Script
from treadle.tools.processes import ToolProcesses
from treadle.tools.timing import CallExpired
from treadle.tools.worker_process import ProcessCall, ProcessDied, WorkerProcess


class Pretender:
    """Does what `WorkerProcess` does, in this process."""

    numbers = count(1)

    def __init__(self) -> None:
        self.pid = next(self.numbers)
        self.alive = True
        self.loaded: list[Any] = []
        self._hung_up = threading.Event()

    def load(self, function: Any) -> None:
        self.loaded.append(function)

    def run(self, call: ProcessCall) -> Any:
        if call.function is hang:
            if self._hung_up.wait(call.timeout):
                self.kill()
                raise ProcessDied(None, begun=True)
            self.kill()
            raise CallExpired
        if call.function is die:
            self.kill()
            raise ProcessDied(3, begun=True)
        if self._hung_up.is_set():
            self.kill()
            raise ProcessDied(-9, begun=False)
        return self.pid, call.function(*call.arguments, **call.keywords)

    def hang_up(self) -> None:
        self._hung_up.set()

    def kill(self) -> None:
        self.alive = False

    def end(self, seconds: float) -> None:
        self.kill()

    def forget(self) -> None:
        self.kill()


def hang() -> None:
    """Hang, as the pretender does for it."""


def die() -> None:
    """Die, as the pretender does for it."""


class Pool(ToolProcesses):
    """A pool of pretenders, all of which are kept."""

    def __init__(self, most: int = 4, idle_seconds: float = 5.0) -> None:
        self.made: list[Pretender] = []
        super().__init__(most, idle_seconds, self._begin_one)

    def _begin_one(self) -> WorkerProcess:
        self.made.append(Pretender())
        return cast("WorkerProcess", self.made[-1])


async def closed(pool: Pool) -> None:
    await asyncio.to_thread(pool.close)
    assert not any(each.alive for each in pool.made)
    assert pool.pids == []


async def test_one_is_used_again() -> None:
    """Calls one after another meet one process."""
    pool = Pool()
    pids = {(await pool.run(add.function, (n, 1), {}))[0] for n in range(20)}

    assert len(pids) == 1
    assert pool.pids == [pool.made[0].pid]
    await closed(pool)


async def test_a_function_meets_the_process_that_knows_it() -> None:
    """Of two that are idle."""
    pool = Pool()
    slow = asyncio.ensure_future(pool.run(hang, (), {}, timeout=0.2))
    await asyncio.sleep(0)
    first = (await pool.run(add.function, (1, 2), {}))[0]
    with pytest.raises(CallExpired):
        await slow
    await asyncio.sleep(0.05)

    for _ in range(5):
        assert (await pool.run(add.function, (1, 2), {}))[0] == first
    assert pool.made[-1].loaded == [hang]  # the next is ready, and knows what was asked for
    await closed(pool)


async def test_deaths() -> None:
    """An idle one that died is replaced in silence, one that died at work is told."""
    pool = Pool()
    first = (await pool.run(add.function, (1, 2), {}))[0]
    pool.made[0].hang_up()

    assert (await pool.run(add.function, (1, 2), {}))[0] != first
    with pytest.raises(ProcessDied, match="ended with exit code 3 while it ran"):
        await pool.run(die, (), {})
    assert (await pool.run(add.function, (1, 2), {}))[1] == 3
    await closed(pool)


async def test_waiting_and_cancelling() -> None:
    """More calls than processes: they wait; what is cancelled never runs, or is stopped."""
    pool = Pool(most=1)
    first = asyncio.ensure_future(pool.run(hang, (), {}))
    await asyncio.sleep(0.05)
    second = asyncio.ensure_future(pool.run(keep, (1,), {}))
    third = asyncio.ensure_future(pool.run(add.function, (1, 2), {}))
    await asyncio.sleep(0)
    second.cancel()
    first.cancel()

    for each in (first, second):
        with pytest.raises(asyncio.CancelledError):
            await each
    assert (await third)[1] == 3
    assert [each.alive for each in pool.made] == [False, True]
    await closed(pool)


async def test_an_error_that_comes_with_a_cancel() -> None:
    """Nobody waits for it any more, and asyncio does not complain of that."""
    complaints: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, what: complaints.append(what))
    pool = Pool()
    running = asyncio.ensure_future(pool.run(die, (), {}))
    await asyncio.sleep(0)
    time.sleep(0.1)  # noqa: ASYNC251, TID251 its error is there, and the loop does not know it
    running.cancel()

    with pytest.raises(asyncio.CancelledError):
        await running
    del running
    await closed(pool)
    gc.collect()
    assert complaints == []


async def test_idle_ones_end() -> None:
    """After a while without work, and there is a new one when it is needed."""
    pool = Pool(most=1, idle_seconds=0.02)
    for _ in range(20):
        assert (await pool.run(add.function, (1, 2), {}))[1] == 3
        await asyncio.sleep(0.02)
    for _ in range(200):
        if not pool.pids:
            break
        await asyncio.sleep(0.01)
    assert pool.pids == []
    await closed(pool)


async def test_closing_ends_what_runs() -> None:
    """A call that runs has an error, and the pool can be used again."""
    pool = Pool()
    running = asyncio.ensure_future(pool.run(hang, (), {}))
    await asyncio.sleep(0.05)
    await closed(pool)

    with pytest.raises(ProcessDied, match="closed the channel"):
        await running
    assert (await pool.run(add.function, (1, 2), {}))[1] == 3
    await closed(pool)


async def test_a_process_that_cannot_begin() -> None:
    """Is the call's error; the next call tries again."""
    refusals = [OSError("no more"), None]

    def begin() -> WorkerProcess:
        refusal = refusals.pop(0)
        if refusal is not None:
            raise refusal
        return cast("WorkerProcess", Pretender())

    pool = ToolProcesses(begin=begin)
    with pytest.raises(OSError, match="no more"):
        await pool.run(add.function, (1, 2), {})
    assert (await pool.run(add.function, (1, 2), {}))[1] == 3
    await asyncio.to_thread(pool.close)


async def test_a_program_that_is_being_imported() -> None:
    """It must not begin runs, which would go on without end."""
    Script.loading = True
    try:
        with pytest.raises(ToolAbort, match="__main__"):
            await Pool().run(add.function, (1, 2), {})
    finally:
        Script.loading = False
