"""What a provider may have cached stays as it was: system, tools, history, in that order."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from tests.agent.test_compaction import WINDOW, Talker, agent_of, events_of
from treadle import Compaction, ContextCompacted, MemoryStore


@pytest.mark.parametrize("strategy", ["summary", "checkpoint", "aggressive", "drop_oldest"])
async def test_a_prefix_changes_with_compactions_only(strategy: Any) -> None:
    """Each request goes on from the one before it, but for one change a compaction."""
    talker = Talker(60)
    compaction = Compaction(window=WINDOW, strategy=strategy)
    agent = agent_of(talker, compaction=compaction, instructions="Be brief.")
    _, events = await events_of(agent)
    changes = 0
    for before, after in pairwise(talker.asked):
        assert (after.system, after.tools) == (before.system, before.tools)
        goes_on = list(after.messages[: len(before.messages)]) == list(before.messages)
        changes += not goes_on
    assert changes == len([each for each in events if isinstance(each, ContextCompacted)]) > 1


async def test_the_next_run_goes_on_from_the_same_prefix() -> None:
    """A kept conversation begins its next run with what the last one ended with."""
    store = MemoryStore()
    talker = Talker(30)
    agent = agent_of(talker, store=store)
    result = await agent.run("go", conversation="c")
    last = talker.asked[-1]
    await agent.run("and then?", conversation="c")
    after = talker.asked[-1]
    assert list(after.messages[: len(last.messages)]) == list(last.messages)
    assert list(after.messages[: len(result.messages)]) == list(result.messages)
    assert after.tools is last.tools
