"""Bring a run's events to whoever listens: in order, never blocking the run."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections import deque
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

from treadle.events import AnyEvent, Event, ReasoningDelta, TextDelta, ToolProgress
from treadle.ports.observer import Observer
from treadle.values.logs import logger

MOST_WAITING = 4096
"""Unread events of one reader. Beyond it deltas are joined, so that memory grows with text only."""

log = logger(__name__)
now = datetime.now


class Reader:
    """One listener's unread events. Lifecycle events are never dropped, nor is any text."""

    __slots__ = ("_closed", "_events", "_joined", "_waiter")

    def __init__(self) -> None:
        self._events: deque[AnyEvent] = deque()
        self._joined: list[TextDelta | ReasoningDelta] = []
        self._waiter: asyncio.Future[None] | None = None
        self._closed = False

    def push(self, event: AnyEvent) -> None:
        """Add an event; called by the bus."""
        if self._joined or len(self._events) >= MOST_WAITING:
            self._push_late(event)
        else:
            self._events.append(event)
        if self._waiter is not None:
            self._wake()

    def close(self) -> None:
        """No more events will come."""
        self._closed = True
        self._wake()

    def __aiter__(self) -> Reader:
        return self

    async def __anext__(self) -> AnyEvent:
        """Return the next event, waiting for it."""
        while not self._events:
            if self._joined:
                self._join()
            elif self._closed:
                raise StopAsyncIteration
            else:
                if self._waiter is not None:
                    raise RuntimeError(
                        "Two tasks read one iteration of a run; let each iterate the run itself."
                    )
                self._waiter = asyncio.get_running_loop().create_future()
                try:
                    await self._waiter
                finally:
                    self._waiter = None
        return self._events.popleft()

    def _push_late(self, event: AnyEvent) -> None:
        """Add an event behind many unread ones: deltas are joined."""
        if self._joined and not _continues(self._joined[0], event):
            self._join()
        if isinstance(event, TextDelta | ReasoningDelta):
            self._joined.append(event)
        else:
            self._events.append(event)

    def _join(self) -> None:
        first = self._joined[0]
        text = "".join(delta.text for delta in self._joined)
        kind = type(first)
        self._events.append(
            kind(
                first.run_id,
                first.seq,
                first.span_id,
                first.parent_id,
                first.agent,
                first.path,
                first.at,
                text,
                first.turn,
            )
        )
        self._joined = []

    def _wake(self) -> None:
        waiter = self._waiter
        if waiter is not None:
            self._waiter = None
            if not waiter.done():
                waiter.set_result(None)


def _continues(delta: AnyEvent, event: AnyEvent) -> bool:
    """Whether an event is more of the same text: agents in one run speak at the same time."""
    return type(event) is type(delta) and event.span_id == delta.span_id


class EventBus:
    """Builds a run's events and hands them to its readers.

    Lives in one event loop. Without readers nothing is built. The last event is kept, so that a
    reader that comes late still gets it.
    """

    __slots__ = (
        "_agent",
        "_closed",
        "_last",
        "_path",
        "_readers",
        "_run_id",
        "_seq",
        "live",
        "nested",
    )

    def __init__(self, run_id: str, agent: str, path: str = "") -> None:
        self._run_id = run_id
        self._agent = agent
        self._path = path
        self._seq = 0
        self._readers: list[Reader] = []
        self._last: AnyEvent | None = None
        self._closed = False
        self.nested: set[NestedBus] = set()
        self.live = False

    @property
    def root(self) -> EventBus:
        """The bus of the outermost run: its own."""
        return self

    def _is(self, *, live: bool) -> None:
        """Somebody listens, or nobody does any more: to child runs under way, too."""
        self.live = live
        for bus in self.nested:
            bus.live = live

    def reader(self) -> Reader:
        """Add a listener that gets everything from now on; after the end, the last event."""
        reader = Reader()
        if self._closed:
            if self._last is not None:
                reader.push(self._last)
            reader.close()
        else:
            self._readers.append(reader)
            self._is(live=True)
        return reader

    def say(self, span_id: str, parent_id: str | None, text: str, turn: int) -> None:
        """Emit a `TextDelta`: the one event that comes by the thousand."""
        self._seq += 1
        seq, path, at = self._seq, self._path, now(UTC)
        event = TextDelta(self._run_id, seq, span_id, parent_id, self._agent, path, at, text, turn)
        for reader in self._readers:
            reader.push(event)

    def emit(
        self, kind: Callable[..., Event], span_id: str, parent_id: str | None, *fields: Any
    ) -> None:
        """Build an event and deliver it; without readers there is nothing to do."""
        if not self._readers:
            return
        self._seq += 1
        event: Any = kind(
            self._run_id, self._seq, span_id, parent_id, self._agent, self._path, now(UTC), *fields
        )
        self._last = event
        for reader in self._readers:
            reader.push(event)

    def emit_of(
        self,
        origin: tuple[str, str],
        kind: Callable[..., Event],
        span_id: str,
        parent_id: str | None,
        *fields: Any,
    ) -> None:
        """Like `emit`, for the agent and the path of a child run."""
        own = self._agent, self._path
        self._agent, self._path = origin
        try:
            self.emit(kind, span_id, parent_id, *fields)
        finally:
            self._agent, self._path = own

    def close(self) -> None:
        """The last event was emitted: readers that come now get only that."""
        for reader in self._readers:
            reader.close()
        self._readers = []
        self._is(live=False)
        self._closed = True


class NestedBus:
    """Brings the events of a child run to whoever listens to the run that it is in.

    `path` is its own, `span` that of the call that it works for. `live` is whether anybody listens.
    """

    __slots__ = ("_origin", "_root", "_span", "live", "path")

    def __init__(self, above: EventBus | NestedBus, agent: str, path: str, span: str) -> None:
        self._root: EventBus = above.root
        self._origin = agent, path
        self._span = span or None
        self.path = path
        self.live: bool = self._root.live
        self._root.nested.add(self)

    @property
    def root(self) -> EventBus:
        """The bus of the run itself."""
        return self._root

    def reader(self) -> Reader:
        """Add a listener to all events of the run."""
        return self._root.reader()

    def say(self, span_id: str, parent_id: str | None, text: str, turn: int) -> None:
        """Emit a `TextDelta`."""
        self.emit(TextDelta, span_id, parent_id, text, turn)

    def emit(
        self, kind: Callable[..., Event], span_id: str, parent_id: str | None, *fields: Any
    ) -> None:
        """Emit an event; what has no parent in the child run has the call for its parent."""
        self._root.emit_of(self._origin, kind, span_id, parent_id or self._span, *fields)

    def close(self) -> None:
        """The child run is over; the events of the run go on."""
        self._root.nested.discard(self)


Bus = EventBus | NestedBus


async def deliver(reader: Reader, observer: Observer) -> None:
    """Hand each event to an observer, until the last; its errors are logged and change nothing."""
    on_event: Callable[[AnyEvent], Awaitable[None] | None] = observer.on_event
    async for event in reader:
        try:
            answer = on_event(event)
            if inspect.isawaitable(answer):
                await answer
        except (Exception, SystemExit):
            log.exception("observer %r failed on %s of run %s", observer, event.type, event.run_id)


class Progress:
    """Brings what tools tell to the events, from the loop's thread or any other."""

    __slots__ = ("_bus", "_home", "_loop", "_span")

    def __init__(self, bus: Bus, span: str) -> None:
        self._bus = bus
        self._span = span
        self._home = threading.get_ident()
        self._loop = asyncio.get_running_loop()

    def __call__(self, call_id: str, tool: str, progress: Any) -> None:
        """Tell how far a call is."""
        self.tell(ToolProgress, call_id, tool, progress)

    def tell(self, kind: type[Event], *fields: Any) -> None:
        """Emit an event, when anybody listens."""
        if not self._bus.live:
            return
        event = (kind, self._span, None, *fields)
        if threading.get_ident() == self._home:
            self._bus.emit(*event)
        else:
            self._loop.call_soon_threadsafe(self._bus.emit, *event)
