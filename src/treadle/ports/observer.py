"""The seam to whoever watches runs."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, Protocol

from treadle.events import AnyEvent, Event


class Observer(Protocol):
    """Gets every event of a run, in order, and can change nothing.

    An error raised here is logged and the run goes on. Be quick, or be async.
    """

    def on_event(self, event: AnyEvent) -> Awaitable[None] | None:
        """Take in one event."""
        ...


class Watch(Protocol):
    """Where the parts of a run put their events. Ask `live` before building anything costly."""

    @property
    def live(self) -> bool:
        """Whether anybody listens."""
        ...

    def emit(self, kind: type[Event], span_id: str, parent_id: str | None, *fields: Any) -> None:
        """Build an event of this kind with its own fields, in order, and deliver it."""
        ...
