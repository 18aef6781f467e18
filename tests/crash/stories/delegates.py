"""Agents that work in the background, and others that are waited for, two at once."""

from __future__ import annotations

from typing import Any

from tests.crash.agent import Tell
from tests.crash.stories.parts import Call, Cast, asks, does, summed
from treadle import Agent, delegates


def _starts(name: str, call: str) -> Call:
    return (call, "delegate", {"agent": name, "task": f"Do it, {name}."})


def background(store: Any, tell: Tell) -> Agent[Any, Any]:
    """Return an agent that starts two, works, and waits for both."""
    cast = Cast(tell)
    members = [
        cast.agent("scout", does("look"), summed),
        cast.agent("coder", does("measure", n=3), does("pay", n=4), summed),
    ]
    starts = [_starts("scout", "s"), _starts("coder", "k")]
    waits: list[Call] = [("w", "wait_for_delegate", {})]
    return cast.agent("boss", starts, does("note"), waits, summed, tools=delegates(members))


def asked(store: Any, tell: Tell) -> Agent[Any, Any]:
    """Return an agent that asks two at once, one of which asks another."""
    cast = Cast(tell)
    critic = cast.agent("critic", does("measure"), summed)
    expert = cast.agent("expert", does("look"), asks("critic"), summed, tools=[critic])
    writer = cast.agent("writer", does("pay"), summed)
    return cast.agent("boss", asks("expert", "writer"), summed, tools=[expert, writer])
