"""The quota of a process."""

from __future__ import annotations

import asyncio
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.models.quota_contract import QuotaContract, most_in_a_window, settled
from treadle import ConfigError, RateLimited
from treadle.models.quota import LocalQuota, Window
from treadle.ports.quota import Bounds, Permit
from treadle.testing import FakeClock


class TestLocalQuota(QuotaContract):
    """By a clock that passes when somebody waits."""

    def make(self, bounds: Bounds) -> LocalQuota:
        return LocalQuota(bounds, clock=FakeClock())


@given(
    st.lists(st.tuples(st.integers(0, 120), st.floats(0, 100)), max_size=40),
    st.none() | st.integers(1, 5),
    st.none() | st.integers(1, 100),
)
def test_no_window_ever_has_more(
    asked: list[tuple[int, float]], rpm: int | None, tpm: int | None
) -> None:
    """Whatever is asked when: requests and tokens stay within the bounds, and nobody waits more."""
    bounds = Bounds(rpm=rpm, tpm=tpm, concurrency=1)
    window, now, permits = Window(bounds), 0.0, list[Permit]()
    for number, (tokens, pause) in enumerate(asked):
        tokens, now = bounds.reserved(tokens), now + pause
        wait = window.wait(tokens, now)
        if wait > 0.001:  # less is lost in rounding
            assert window.wait(tokens, now + wait * 0.99) > 0
        while (left := window.wait(tokens, now)) > 0:
            now += left
        window.begin(str(number), tokens, now)
        permits.append(Permit(str(number), tokens, now))
    if permits:
        requests, used = most_in_a_window(permits, 60.0)
        assert requests <= (rpm or requests)
        assert used <= (tpm or used)


async def test_nobody_waits_busily() -> None:
    """Each wait is slept once, and only by the first in the line."""
    clock = FakeClock()
    quota = LocalQuota(Bounds(rpm=2), clock=clock)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(6):
            tasks.create_task(quota.begin(1))

    assert clock.sleeps == [60.0, 60.0]


async def test_those_in_line_count_for_the_wait() -> None:
    """Whoever would be served after the deadline is told at once."""
    clock = FakeClock()
    quota = LocalQuota(Bounds(rpm=1, concurrency=1), clock=clock)
    held = await quota.begin(1)

    async with asyncio.TaskGroup() as tasks:
        waiting = [tasks.create_task(quota.begin(1)) for _ in range(3)]
        await settled()
        with pytest.raises(RateLimited, match=r"a place in 240\.0 s, and only 200\.0 s"):
            await quota.begin(1, longest=200.0)
        assert clock.sleeps == []
        for _ in waiting:
            await quota.end(held, 1)
            await settled()
    assert clock.sleeps == [60.0, 60.0, 60.0]


async def test_waiting_for_one_to_end_ends_in_time_too() -> None:
    """Nobody knows how long others run, so the wait ends with what is left."""
    clock = FakeClock()
    quota = LocalQuota(Bounds(concurrency=1), clock=clock)
    await quota.begin(1)

    with pytest.raises(RateLimited, match=r"concurrency=1"):
        await quota.begin(1, longest=5.0)
    assert clock.sleeps == [5.0]


def test_loops_of_several_threads_share_it() -> None:
    """Also the order, and what is free again is heard in another loop."""
    quota = LocalQuota(Bounds(concurrency=1))
    running, most, done = 0, 0, list[int]()

    async def run() -> None:
        nonlocal running, most
        permit = await quota.begin(1)
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        done.append(1)
        await quota.end(permit, 1)

    async def several() -> None:
        async with asyncio.TaskGroup() as tasks:
            for _ in range(20):
                tasks.create_task(run())

    threads = [threading.Thread(target=asyncio.run, args=(several(),)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert (most, len(done)) == (1, 80)


def test_a_loop_that_is_gone_holds_nobody_up() -> None:
    """Its callers wait no more."""
    quota = LocalQuota(Bounds(concurrency=1))
    loop = asyncio.new_event_loop()
    held = loop.run_until_complete(quota.begin(1))
    lost = quota.begin(1)
    with pytest.raises(TimeoutError):
        loop.run_until_complete(_stopped(lost, loop))
    loop.close()

    async def another() -> None:
        await quota.end(held, 1)
        await quota.end(await quota.begin(1), 1)

    asyncio.run(another())


async def _stopped(waiting: object, loop: asyncio.AbstractEventLoop) -> None:
    """Begin to wait, and be stopped in the middle."""
    assert asyncio.iscoroutine(waiting)
    waiting.send(None)
    waiting.close()
    raise TimeoutError


@pytest.mark.parametrize(
    ("bounds", "said"),
    [
        ({}, "limits nothing"),
        ({"rpm": 0}, "rpm=0"),
        ({"tpm": -1}, "tpm=-1"),
        ({"concurrency": 1.5}, "concurrency=1.5"),
        ({"rpm": True}, "rpm=True"),
        ({"rpm": 1, "window": 0}, "window=0"),
    ],
)
def test_bounds_that_cannot_be(bounds: dict[str, int], said: str) -> None:
    """Refused with their values."""
    with pytest.raises(ConfigError, match=said):
        Bounds(**bounds)
