"""Render the system prompt of one run."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from treadle.errors import ConfigError
from treadle.ports.context import RunContext
from treadle.values import clean

Instructions = str | Callable[[RunContext], str | Awaitable[str]]
"""Text, or a function of the run (sync or async) that returns it."""


async def render_instructions(
    instructions: Instructions | None,
    requirements: Sequence[str],
    ctx: RunContext,
    planning: str = "",
) -> str:
    """Return the system prompt: instructions, how to plan, then the requirements as a list.

    Raises:
        ConfigError: the instructions' function returned something else than text.
    """
    text = await _text_of(instructions, ctx)
    if planning:
        text = f"{text}\n\n{planning}" if text else planning
    listed = bullet_list(requirements)
    if listed:
        text = f"{text}\n\nRequirements:\n{listed}" if text else f"Requirements:\n{listed}"
    return clean(text)


async def _text_of(instructions: Instructions | None, ctx: RunContext) -> str:
    given: Any = instructions or ""  # what a function of the user's returns is looked at below
    if callable(given):
        given = given(ctx)
        if inspect.isawaitable(given):
            given = await given
    if not isinstance(given, str):
        raise ConfigError(
            f"instructions gave {type(given).__name__}; they are a str, or return one."
        )
    return given


def bullet_list(items: Sequence[str]) -> str:
    """Return the items as lines with a dash; blank ones are left out."""
    return "\n".join(f"- {item.strip()}" for item in items if item.strip())


def numbered_list(items: Sequence[str]) -> str:
    """Return the items as numbered lines; blank ones are left out."""
    kept = [item.strip() for item in items if item.strip()]
    return "\n".join(f"{number}. {item}" for number, item in enumerate(kept, 1))
