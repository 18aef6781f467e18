"""A swarm of three: each uses tools, asks or hands over; the last one answers."""

from __future__ import annotations

from typing import Any

from tests.crash.agent import Tell
from tests.crash.stories.parts import Call, Cast, does, summed
from treadle import Swarm


def _to(name: str) -> list[Call]:
    return [("t", f"transfer_to_{name}", {"message": f"Over to {name}."})]


def build(store: Any, tell: Tell) -> Swarm[str]:
    """Return the swarm."""
    cast = Cast(tell)
    asks = [("q", "consult_third", {"input": "What do you say?"})]
    return Swarm(
        "story",
        agents=[
            cast.agent("first", does("look", "pay"), _to("second")),
            cast.agent("second", does("note"), asks, [*does("measure", n=5), *_to("third")]),
            cast.agent("third", does("book"), summed),
        ],
    )
