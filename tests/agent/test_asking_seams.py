"""Questions in the middle of a call, where they meet chains and middleware."""

from __future__ import annotations

from typing import Any

import pytest

from tests.agent.test_asking_midway import agent_with, book, ran
from treadle import Approve, AskApproval, MemoryStore, Middleware, Next, RunContext, tool
from treadle.testing import calls


@pytest.fixture(autouse=True)
def _forget() -> None:
    ran.clear()


async def test_links_of_a_chain_and_middleware() -> None:
    """A link cannot wait; middleware may ask for any tool, and hears the answer."""

    @tool
    async def leads() -> Next:
        """Lead to a booking."""
        return Next("book", {"trip": "x"})

    agent = agent_with(MemoryStore(), calls(("1", "leads", {})), "done", tools=[leads, book])
    result = await agent.run("go", conversation="c")
    assert "call it by itself" in result.tool_results[-1].text

    class Careful(Middleware):
        async def before_tool(self, ctx: RunContext, call: Any, arguments: Any) -> None:
            if ctx.answer is None:
                raise AskApproval("Before anything runs.")

    agent = agent_with(MemoryStore(), calls(("1", "calc", {"a": 1})), "done")
    careful = agent.replace(middleware=[Careful()])
    first = await careful.run("go", conversation="c")
    assert ([p.reason for p in first.pending], ran[-1:]) == (
        ["Before anything runs."],
        [("book", "x", None, f"{result.run_id}:1")],
    )
    result = await careful.resume(first.run_id, decisions={"1": Approve()})
    assert result.tool_results[-1].value == 2


async def test_middleware_asks_before_a_tool_runs_only() -> None:
    """Afterwards a yes would run it twice: the call has an error, and has run once."""

    class Late(Middleware):
        async def after_tool(self, ctx: RunContext, call: Any, result: Any) -> None:
            raise AskApproval("Was that right?")

    agent = agent_with(MemoryStore(), calls(("1", "calc", {"a": 1})), "done")
    result = await agent.replace(middleware=[Late()]).run("go", conversation="c")
    assert (result.output, ran) == ("done", [("calc", 1)])
    assert "before_tool only" in result.tool_results[-1].text
