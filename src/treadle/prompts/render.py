"""Render the system prompt of one run."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from treadle.errors import ConfigError
from treadle.ports.context import RunContext
from treadle.prompts.builder import Prompt
from treadle.prompts.lists import bullet_list
from treadle.values import clean

Instructions = str | Prompt | Callable[[RunContext], str | Prompt | Awaitable[str | Prompt]]
"""Text, a `Prompt`, or a function of the run (sync or async) that returns one of them."""


def rendered(instructions: Instructions | None) -> Instructions | None:
    """Return a `Prompt` as its text: what is done to it later has no effect on the agent."""
    return str(instructions) if isinstance(instructions, Prompt) else instructions


async def render_instructions(
    instructions: Instructions | None,
    requirements: Sequence[str],
    ctx: RunContext,
    planning: str = "",
) -> str:
    """Return the system prompt: instructions, how to plan, then the requirements as a list.

    The order is always the same, and what changes from run to run comes last: a provider's prompt
    cache knows a prompt by how it begins.

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
    given = rendered(given)
    if not isinstance(given, str):
        raise ConfigError(
            f"instructions gave {type(given).__name__}; they are a str, or return one."
        )
    return given
