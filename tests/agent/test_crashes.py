"""A process died: what finished is never repeated, what is unknown is told, asked or fails."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from msgspec.structs import replace

from tests.agent.dying import Dying, Tools, die_after, script
from tests.agent.parts import check_answered
from treadle import (
    Agent,
    Approve,
    Conversation,
    Deny,
    Finish,
    Interrupt,
    MemoryStore,
    ToolAborted,
    tool,
)
from treadle.journal import ModelReplied
from treadle.testing import FunctionModel, ScriptedModel, calls


@pytest.mark.parametrize("appends", range(1, 14))
async def test_after_a_crash_at_any_append(appends: int) -> None:
    """J4, J5, S55, S56: nothing that finished runs again, counters and state go on."""
    tools, store, model = Tools(), Dying(), script()
    agent = Agent("a", model, tools=tools.all(), max_parallel_tools=1)
    whole = await agent.replace(model=script()).run("go", store=MemoryStore())
    tools.did.clear()

    await die_after(appends, agent, store, conversation="c")
    asked = len(model.requests)
    replied = [e for b in await store.read("c") for e in b.entries if isinstance(e, ModelReplied)]
    result = await agent.resume("r", store=store)

    assert (result.output, result.stop_reason, result.turns) == ("done", "answer", 5)
    assert asked - len(replied) in (0, 1), "only a reply that was not stored is asked for again"
    check_answered(list(result.messages))
    synthetic = [r for m in result.messages for r in m.tool_results if r.synthetic]
    assert len(synthetic) <= 1
    if not synthetic:
        assert list(result.messages) == list(whole.messages)
        assert result.state.packed() == whole.state.packed()
        assert result.usage == whole.usage
    adds = [did for did in tools.did if did[0] == "add"]
    assert len(adds) == len(set(adds)), "none ran twice"
    puts = {(n, key) for name, n, key in tools.did if name == "put"}
    assert puts == {(n, f"r:p{n}") for n in range(4)}
    assert result.usage.tool_calls == 8
    runs = (await (await Conversation.open("c", store=store)).view()).runs
    assert list(runs) == ["r"]


@pytest.mark.parametrize("policy", ["tell_model", "ask", "fail"])
async def test_a_call_whose_outcome_is_unknown(policy: Any) -> None:
    """J5: told to the model, asked of somebody, or the run fails, as the tool says."""
    did: list[int] = []

    @tool(on_unknown=policy)
    async def pay(n: int) -> str:
        """Pay."""
        did.append(n)
        return "paid"

    store = Dying()
    model = ScriptedModel([calls(("1", "pay", {"n": 1})), "done"])
    agent = Agent("a", model, tools=[pay])
    await die_after(2, agent, store, conversation="c")
    assert did == [1]

    if policy == "fail":
        with pytest.raises(ToolAborted, match="unknown"):
            await agent.resume("r", store=store)
        return
    result = await agent.resume("r", store=store)
    if policy == "ask":
        assert (result.stop_reason, result.pending[0].call_id) == ("paused", "1")
        assert "unknown" in result.pending[0].reason
        again = await agent.resume("r", store=store, decisions={"1": Deny("it was paid")})
        assert "it was paid" in again.messages[2].tool_results[0].text
        result = again
    else:
        assert result.messages[2].tool_results[0].synthetic
    assert (result.output, did) == ("done", [1])


async def test_asked_and_told_to_run_again() -> None:
    """Somebody knows that it did not take effect."""
    did: list[int] = []

    @tool(on_unknown="ask")
    async def pay(n: int) -> str:
        """Pay."""
        did.append(n)
        return "paid"

    store = Dying()
    agent = Agent("a", ScriptedModel([calls(("1", "pay", {"n": 1})), "done"]), tools=[pay])
    await die_after(2, agent, store, conversation="c")
    await agent.resume("r", store=store)
    result = await agent.resume("r", store=store, decisions={"1": Approve()})
    assert (result.output, did, result.usage.tool_calls) == ("done", [1, 1], 1)


async def test_what_a_finished_call_asked_for_still_counts() -> None:
    """A finish or an interrupt that was stored is obeyed, though the process died right after."""

    @tool
    async def stop() -> Finish:
        """Stop."""
        return Finish({"n": Decimal("1.10")})

    @tool
    async def pause() -> Interrupt:
        """Pause."""
        return Interrupt("look at this")

    for each, reason in ((stop, "answer"), (pause, "paused")):
        store = Dying()
        agent = Agent("a", ScriptedModel([calls(("1", each.name, {}))]), tools=[each])
        await die_after(3, agent, store, conversation="c")
        result = await agent.resume("r", store=store)
        assert result.stop_reason == reason
        if reason == "answer":
            assert result.output == {"n": Decimal("1.10")}


async def test_accepted_changes() -> None:
    """The calls of a tool that is gone get an error, as those of any unknown tool."""
    store = Dying()
    agent = Agent("a", script(), tools=Tools().all(), max_parallel_tools=1)
    await die_after(1, agent, store, conversation="c")
    bare = Agent("a", FunctionModel(lambda request: "on my own"))
    result = await bare.resume("r", store=store, on_change="accept")
    assert result.output == "on my own"


async def test_a_reply_that_was_cut_off_runs_no_call() -> None:
    """BS-13: nor after a crash between it and what it was told."""
    tools, store = Tools(), Dying()
    cut = replace(calls(("p", "put", {"n": 1})), finish_reason="length")
    agent = Agent("a", ScriptedModel([cut, "done", "done"]), tools=tools.all())
    await die_after(2, agent, store, conversation="c")
    result = await agent.resume("r", store=store)
    assert (result.output, tools.did) == ("done", [])
    assert "cut off" in result.messages[2].tool_results[0].text
