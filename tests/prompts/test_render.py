"""The system prompt of a run: its sections, in the one order that keeps prompt caches warm."""

from __future__ import annotations

import pytest

from treadle import Agent, ConfigError
from treadle.prompts.planning import PLANNING
from treadle.testing import ScriptedModel


async def system_of(agent: Agent[None, str], **options: object) -> str:
    """The system prompt of one run."""
    model = ScriptedModel(["ok"])
    await agent.replace(model=model).run("x", **options)  # type: ignore[arg-type]
    return model.requests[0].system


async def test_the_order_of_the_sections() -> None:
    """B37: instructions, how to plan, then what this one run requires: what changes comes last."""
    agent = Agent("a", "local:none", instructions="You plan trips.", planning=True)

    assert await system_of(agent, requirements=["Be short.", " ", " No trains. "]) == (
        f"You plan trips.\n\n{PLANNING}\n\nRequirements:\n- Be short.\n- No trains."
    )


async def test_runs_share_how_their_prompts_begin() -> None:
    """Two runs that only differ in their requirements have one beginning, to the last section."""
    agent = Agent("a", "local:none", instructions="You plan trips.", planning=True)
    one = await system_of(agent, requirements=["Be short."])
    other = await system_of(agent, requirements=["Rhyme."])
    plain = await system_of(agent)

    assert plain
    assert [text.startswith(plain) for text in (one, other)] == [True, True]


async def test_what_is_not_set_is_not_there() -> None:
    """Nothing stands for what an agent does not have."""
    assert await system_of(Agent("a", "local:none")) == ""
    assert await system_of(Agent("a", "local:none", planning="Plan.")) == "Plan."
    only = await system_of(Agent("a", "local:none"), requirements=["Rhyme."])
    assert only == "Requirements:\n- Rhyme."


def test_what_is_told_about_planning() -> None:
    """B39, B40: size, knowing first, an update after every step that was checked; and short."""
    for rule in ("3 to 7", "Find out first", "as soon as it is done", "checked", "depends on"):
        assert rule in PLANNING
    assert len(PLANNING) < 600


async def test_instructions_that_are_no_text() -> None:
    """A function that returns something else is told so."""
    agent = Agent("a", "local:none", instructions=lambda ctx: 7)  # type: ignore[arg-type,return-value]
    with pytest.raises(ConfigError, match="gave int"):
        await system_of(agent)
