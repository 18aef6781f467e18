"""Await a tool for a limited time; one that never waits costs no timer."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator
from typing import Any


class CallExpired(Exception):
    """A call took longer than its tool's timeout."""


class Within:
    """Awaits a coroutine, at most `seconds` long, and cancels it after that.

    The first step is taken without a timer: nothing could interrupt it anyway, and many tools
    need no other. `CallExpired` is raised when the time was up.
    """

    __slots__ = ("_coroutine", "_seconds")

    def __init__(self, coroutine: Coroutine[Any, Any, Any], seconds: float) -> None:
        self._coroutine = coroutine
        self._seconds = seconds

    def __await__(self) -> Generator[Any, Any, Any]:
        try:
            waits_for = self._coroutine.send(None)
        except StopIteration as done:
            return done.value
        rest = _Rest(self._coroutine, waits_for)
        return (yield from _timed(rest, self._seconds).__await__())


class _Rest:
    """A coroutine that has taken its first step and waits for something."""

    __slots__ = ("_coroutine", "_waits_for")

    def __init__(self, coroutine: Coroutine[Any, Any, Any], waits_for: Any) -> None:
        self._coroutine = coroutine
        self._waits_for = waits_for

    def __await__(self) -> Generator[Any, Any, Any]:
        waits_for = self._waits_for
        try:
            while True:
                try:
                    sent = yield waits_for
                except GeneratorExit:
                    self._coroutine.close()
                    raise
                except BaseException as error:  # noqa: BLE001 it belongs to the coroutine
                    waits_for = self._coroutine.throw(error)
                else:
                    waits_for = self._coroutine.send(sent)
        except StopIteration as done:
            return done.value


async def _timed(rest: _Rest, seconds: float) -> Any:
    timer = asyncio.timeout(seconds)
    try:
        async with timer:
            return await rest
    except TimeoutError as error:
        if not timer.expired():
            raise  # the tool's own
        raise CallExpired from error
