"""Waking an event loop from other threads."""

from __future__ import annotations

import asyncio
import gc
import os
import threading

import pytest

from treadle.stores.bell import Bell, bell_of


async def test_all_that_is_rung_is_called_in_order() -> None:
    """By many threads, each in its own order."""
    heard: list[tuple[int, int]] = []
    bell = bell_of(asyncio.get_running_loop())
    assert bell_of(asyncio.get_running_loop()) is bell

    all_heard = asyncio.Event()

    def hear(thread: int, number: int) -> None:
        heard.append((thread, number))
        if len(heard) == 2_000:
            all_heard.set()

    def ring(thread: int) -> None:
        for number in range(500):
            bell.ring([lambda number=number: hear(thread, number)])

    threads = [threading.Thread(target=ring, args=(number,)) for number in range(4)]
    for each in threads:
        each.start()
    await all_heard.wait()
    for each in threads:
        each.join()
    for thread in range(4):
        assert [number for name, number in heard if name == thread] == list(range(500))


def test_a_closed_loop_hears_nothing_and_keeps_nothing_open() -> None:
    """Whoever rings then does no harm, and the descriptors go with the last of them."""
    called: list[int] = []

    async def take() -> Bell:
        return bell_of(asyncio.get_running_loop())

    bell = asyncio.run(take())
    bell.ring([lambda: called.append(1)])
    ear = bell.ear
    del bell
    gc.collect()
    assert called == []
    with pytest.raises(OSError, match="descriptor"):
        os.fstat(ear)


def test_it_works_where_there_is_no_eventfd(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a pipe, which may be full."""
    monkeypatch.delattr(os, "eventfd", raising=False)
    called: list[int] = []

    async def hear() -> None:
        bell = bell_of(asyncio.get_running_loop())
        all_heard = asyncio.Event()
        for number in range(20_000):  # more than a pipe holds
            bell.ring([lambda number=number: called.append(number)])
        bell.ring([all_heard.set])
        await all_heard.wait()

    asyncio.run(hear())
    assert called == list(range(20_000))
