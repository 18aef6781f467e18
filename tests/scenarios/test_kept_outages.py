"""A database that goes away in the middle of a run, and comes back."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from typing import Any, Literal

import pytest

from tests.agent.parts import check_answered
from tests.databases import Kind, started
from tests.stores.served import every_kind
from treadle import (
    Agent,
    Conversation,
    ModelReply,
    ModelRequest,
    StoreUnavailable,
    open_store,
    tool,
)
from treadle.ports.store import Lease
from treadle.testing import FunctionModel, calls

pytestmark = [pytest.mark.e2e]


def answer(request: ModelRequest) -> str | ModelReply:
    """Call once, then end."""
    return calls(("1", "work", {})) if len(request.messages) < 3 else "end"


@every_kind
@pytest.mark.parametrize("where", ["tool", "model"])
async def test_killed_in_the_middle_of_a_run(kind: Kind, where: Literal["tool", "model"]) -> None:
    """J1, S57, W8: the run ends with a typed error; later the same run goes on, nothing twice."""
    did: list[int] = []
    with ExitStack() as servers:
        server = await asyncio.to_thread(started, kind, servers)

        @tool
        async def work() -> str:
            """Work."""
            did.append(1)
            if where == "tool":
                await asyncio.to_thread(server.kill)
            return "worked"

        async def model(request: ModelRequest) -> str | ModelReply:
            if where == "model" and len(request.messages) == 3:
                await asyncio.to_thread(server.kill)
            return answer(request)

        store = open_store(server.url)
        agent = Agent("a", FunctionModel(model), tools=[work])
        run = agent.start("go", conversation="c", run_id="r", store=store)
        events = [event.type async for event in run]
        with pytest.raises(StoreUnavailable, match=f"{server.port}") as caught:
            await run
        await asyncio.to_thread(server.start)
        try:
            told = await gone_on_with(store, agent.replace(model=FunctionModel(answer)))
        finally:
            await store.close()

    assert events[-1] == "run.finished"
    check_answered(caught.value.result.messages)
    assert told == ("worked" if where == "model" else "The call of 'work' was interrupted")
    assert did == [1]


async def gone_on_with(store: Any, agent: Agent[Any, Any]) -> str:
    """Resume the run, whose lease would end by itself, and return what became of the call."""
    conversation = await Conversation.open("c", store=store)
    check_answered(await conversation.messages())
    lease = conversation.head.lease
    assert isinstance(lease, Lease)
    await store.release(lease)
    result = await agent.resume("r", store=store)
    assert (result.output, result.stop_reason) == ("end", "answer")
    return result.messages[2].tool_results[0].text.partition(";")[0]
