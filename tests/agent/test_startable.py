"""What all that can be started has in common as objects."""

from __future__ import annotations

from typing import Any

import pytest

from treadle import Agent, Graph, Swarm
from treadle.testing import ScriptedModel


def test_made_with_their_types() -> None:
    """`Agent[Deps, Output](...)` is an agent, as where the types are found out."""
    agent = Agent[int, str]("a", ScriptedModel(["hi"]))
    swarm = Swarm[Any]("s", agents=[agent])
    assert type(agent) is Agent
    assert type(swarm) is Swarm
    assert isinstance(Graph[dict[str, Any]]("g"), Graph)
    assert swarm.run_sync("Hello.").output == "hi"


@pytest.mark.parametrize("name", ["name", "colour"])
def test_they_do_not_change(name: str) -> None:
    """Neither what they have nor what they do not."""
    for each in (Agent("a"), Swarm("s", agents=[Agent("a")])):
        with pytest.raises(AttributeError, match=f"cannot assign to field '{name}'"):
            setattr(each, name, "other")
