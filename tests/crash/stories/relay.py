"""A flow by hand: an agent, a function, two branches at once, and an agent that answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.agent.relay import Relay
from tests.crash.agent import Tell
from tests.crash.stories.parts import Cast, does, summed
from treadle.agent.startable import Startable


class Telling(list[str]):
    """A list that also tells what is added."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        super().__init__()
        self._tell = tell

    def append(self, line: str) -> None:
        """Tell it."""
        self._tell(f"step {line}")


def build(store: Any, tell: Tell) -> Startable[Any, Any]:
    """Return the relay."""
    cast = Cast(tell)
    return Relay(
        "relay",
        cast.agent("first", does("look", "pay"), summed),
        (
            cast.agent("one", does("measure"), does("pay"), summed),
            cast.agent("two", does("look", "note", n=2), summed),
        ),
        cast.agent("last", summed),
        Telling(tell),
    )
