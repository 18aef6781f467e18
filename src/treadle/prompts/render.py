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
    skills: str = "",
) -> str:
    """Return the system prompt, its sections with a blank line between them.

    They are the instructions, the skills, how to plan, and the requirements as a list.

    The order is always the same, and what changes from run to run comes last: a provider's prompt
    cache knows a prompt by how it begins.

    Raises:
        ConfigError: the instructions' function returned something else than text.
    """
    listed = bullet_list(requirements)
    sections = [
        await _text_of(instructions, ctx),
        skills,
        planning,
        f"Requirements:\n{listed}" if listed else "",
    ]
    return clean("\n\n".join([each for each in sections if each]))


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
