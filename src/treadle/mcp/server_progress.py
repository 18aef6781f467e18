"""How far a call is, as a client hears it: numbers that only grow, and what happens in words."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

from treadle.errors import NotStorable
from treadle.events import (
    AnyEvent,
    ModelRetried,
    TextDelta,
    ToolFinished,
    ToolProgress,
    ToolStarted,
)
from treadle.mcp.server_wire import Client
from treadle.values import is_object, json_text

MOST_WAITING = 1_000
"""Reports that wait for a slow client; of more, the oldest are dropped."""

Report = tuple[float | None, float | None, str | None]


class Progress:
    """Sends reports to one client, in order, each with a higher number than the last."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._last: float | None = None

    async def send(self, report: Report) -> None:
        """Send one; a number that does not grow is replaced by one that does."""
        amount, total, message = report
        if amount is None or (self._last is not None and amount <= self._last):
            amount = 1.0 if self._last is None else self._last + 1
            if total is not None and amount > total:
                total = None
        self._last = amount
        await self._client.progress(amount, total, message)


class Reports:
    """What a tool reports, from any thread, on its way to the client."""

    def __init__(self, client: Client) -> None:
        self._progress = Progress(client)
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[Report] = deque(maxlen=MOST_WAITING)
        self._news = asyncio.Event()
        self._ended = False

    def add(self, progress: Any) -> None:
        """Take a report in; from a worker thread, too."""
        self._waiting.append(report_of(progress))
        self._loop.call_soon_threadsafe(self._news.set)

    def end(self) -> None:
        """No more will come."""
        self._ended = True
        self._news.set()

    async def send_all(self) -> None:
        """Send reports as they come, until the last is sent."""
        while not (self._ended and not self._waiting):
            await self._news.wait()
            self._news.clear()
            while self._waiting:
                await self._progress.send(self._waiting.popleft())


def report_of(progress: Any) -> Report:
    """Return what a tool reported: a number, a dict with `progress`, `total`, `message`, or words.

    All else is told as its JSON.
    """
    if is_object(progress):
        amount, total = _number(progress.get("progress")), _number(progress.get("total"))
        if amount is not None:
            message = progress.get("message")
            return amount, total, None if message is None else str(message)
    amount = _number(progress)
    return (amount, None, None) if amount is not None else (None, None, _words(progress))


def report_of_event(event: AnyEvent) -> Report | None:
    """Return what a client hears of an event: text as it comes, and which tools are at work.

    Arguments and results of tools stay here: they are between the agent and its tools. So does the
    text of agents that it asks.
    """
    match event:
        case TextDelta(path="", text=text):
            return None, None, text
        case ToolStarted(name=name):
            return None, None, f"[{name} started]"
        case ToolProgress(name=name, progress=progress):
            return None, None, f"[{name}: {_words(progress)}]"
        case ToolFinished(name=name, error=error):
            return None, None, f"[{name} {'finished' if error is None else 'failed'}]"
        case ModelRetried(path=""):
            return None, None, "[the model is asked again; what it said does not count]"
        case _:
            return None


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if abs(value) < 1e300 else None  # nan and infinity are no JSON


def _words(progress: Any) -> str:
    try:
        return json_text(progress)
    except NotStorable:
        return str(progress)
