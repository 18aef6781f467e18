"""A node of a graph that is tried again goes on with the numbers of the agents that it asks."""

from __future__ import annotations

from typing import Any

from tests.agent.nested import asking, playing
from tests.workflows.crews import outputs, starts, waits
from treadle import Agent, Graph, MemoryStore, ModelRequest, delegates
from treadle.journal import ChildBegan
from treadle.testing import FunctionModel


async def test_paths_are_never_used_again() -> None:
    """Neither for calls nor in the background; what is in the background goes on."""
    tries: list[int] = []

    async def lead(request: ModelRequest) -> Any:
        turn = sum(message.role == "assistant" for message in request.messages)
        if turn == 2:
            tries.append(turn)
            if len(tries) == 1:
                raise ValueError("the leader is ill")
        rounds = (asking(("a", "expert")), starts(("s", "scout", "look")), asking(("b", "expert")))
        each: Any = (*rounds, waits("w"), outputs)[turn]
        return each(request) if callable(each) else each

    expert, scout = Agent("expert", playing("ok")), Agent("scout", playing("found"))
    leader = Agent("leader", FunctionModel(lead), tools=[expert, *delegates([scout])])
    graph = Graph("g")
    graph.add_node("lead", leader, retries=1)
    graph.set_entry("lead")
    graph.set_finish("lead")
    store = MemoryStore()
    result = await graph.run("go", store=store, conversation="c")
    assert result.output == "found"
    entries = [entry for batch in await store.read("c") for entry in batch.entries]
    paths = [e.path.split("/")[-1] for e in entries if isinstance(e, ChildBegan) and "/" in e.path]
    assert sorted(paths) == ["expert#1", "expert#2", "scout#1"]
