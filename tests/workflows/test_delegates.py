"""Agents in the background: started, looked at, waited for, cancelled and spoken to."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.agent.nested import USAGE, playing
from tests.agent.parts import Hanging, check_answered
from tests.workflows.crews import Crewed, boss, checks, outputs, starts, states, waits
from treadle import (
    Agent,
    Conversation,
    MemoryStore,
    ModelRequest,
    RunContext,
    tool,
)
from treadle.events import (
    AgentEntered,
    AgentLeft,
    DelegateFinished,
    DelegateStarted,
    ToolFinished,
)
from treadle.journal import ChildBegan, ChildEnded
from treadle.messages import Thread
from treadle.testing import FunctionModel, calls, reply
from treadle.testing.scripted import last_text


class Gated:
    """An agent that answers when it is let."""

    def __init__(self, name: str = "scout", **options: Any) -> None:
        self.asked, self.gate = asyncio.Event(), asyncio.Event()
        self.agent = Agent(name, FunctionModel(self._answer), **options)

    async def _answer(self, request: ModelRequest) -> Any:
        self.asked.set()
        await self.gate.wait()
        return reply(f"heard {last_text(request)}", usage=USAGE)


def asleep(name: str = "scout") -> Agent[Any, Any]:
    """An agent that never answers."""
    return Agent(name, Hanging())


@pytest.mark.parametrize("stored", [False, True])
async def test_a_run_goes_on_while_agents_work(stored: bool) -> None:
    """S48: it looks at them, waits for them, and gets what they have found."""
    scout, coder = Gated("scout"), Gated("coder")

    async def begun(request: ModelRequest) -> Any:
        assert request.messages[-1].tool_results[0].text == "scout#1"
        await scout.asked.wait()
        await coder.asked.wait()
        return checks("x")

    def seen(request: ModelRequest) -> Any:
        assert states(request) == "scout#1 running; coder#1 running"
        coder.gate.set()
        return waits("y", "coder#1")

    def half(request: ModelRequest) -> Any:
        assert states(request) == "coder#1 done"
        assert outputs(request) == "heard build"
        scout.gate.set()
        return waits("z")

    begins = starts(("a", "scout", "look"), ("b", "coder", "build"))
    agent = boss(begins, begun, seen, half, outputs, agents=[scout.agent, coder.agent])
    store = MemoryStore() if stored else None
    result = await agent.run("go", store=store)

    assert result.output == "heard look; heard build"
    assert result.usage.input_tokens == (2 + 3) * USAGE.input_tokens, "three looks of the run"
    assert result.usage.requests == 2 + 5
    assert result.usage.tool_calls == 5
    check_answered(list(result.messages))
    told = result.tool_results[-1].value
    assert [each["tokens"]["input"] for each in told] == [10, 10]
    assert [each["turns"] for each in told] == [1, 1]
    assert all(each["seconds"] >= 0 and each["started_at"] for each in told)


async def test_what_is_told_in_the_events() -> None:
    """One sequence: those of agents in the background come with their path."""
    run = Crewed().boss.start("go", store=MemoryStore())
    events = [event async for event in run]
    result = await run

    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    started = [event for event in events if isinstance(event, DelegateStarted)]
    assert [(e.delegate_id, e.name, e.task, e.path) for e in started] == [
        ("scout#1", "scout", "scout it", ""),
        ("coder#1", "coder", "code it", ""),
    ]
    ended = [event for event in events if isinstance(event, DelegateFinished)]
    assert {(e.delegate_id, e.stop_reason, e.error) for e in ended} == {
        ("scout#1", "answer", None),
        ("coder#1", "answer", None),
    }
    entered = [event for event in events if isinstance(event, AgentEntered)]
    assert [(e.path, e.input, e.call_id) for e in entered] == [
        ("scout#1", "scout it", ""),
        ("coder#1", "code it", ""),
    ]
    left = {event.path: event for event in events if isinstance(event, AgentLeft)}
    assert left["scout#1"].usage.requests == 2
    assert left["coder#1"].usage.requests == 3
    assert result.usage.requests == 4 + 2 + 3
    assert {event.agent for event in events if event.path == "coder#1"} == {"coder"}


async def test_an_agent_that_is_cancelled() -> None:
    """It stops at once, and what it came to says so; nothing else is touched."""
    model = Hanging()
    scout, coder = Agent("scout", model), Gated("coder")

    async def begun(_: ModelRequest) -> Any:
        await model.asked.wait()
        return calls(("k", "cancel_delegate", {"id": "scout#1"}))

    def stopped(request: ModelRequest) -> Any:
        assert model.stopped.is_set()
        coder.gate.set()
        return waits("w")

    store = MemoryStore()
    agent = boss(
        starts(("a", "scout", "look"), ("b", "coder", "build")),
        begun,
        stopped,
        outputs,
        agents=[scout, coder.agent],
    )
    result = await agent.run("go", store=store, conversation="c")
    reason = "The run that it worked for has cancelled it."
    why = f"scout stopped without an answer (cancelled: {reason})."
    assert result.output == f"{why}; heard build"
    told = result.tool_results[2].value
    assert (told["state"], told["error"]) == ("cancelled", why)
    entries = [e for b in await store.read("c") for e in b.entries if isinstance(e, ChildEnded)]
    assert {(e.path, e.stop_reason) for e in entries} == {
        ("scout#1", "cancelled"),
        ("coder#1", "answer"),
    }


async def test_an_agent_that_is_over_is_not_cancelled() -> None:
    """What it came to stays."""
    agent = boss(
        starts(("a", "scout", "look")),
        waits("w"),
        calls(("k", "cancel_delegate", {"id": "scout#1"})),
        "done",
        agents=[Agent("scout", playing("found"))],
    )
    result = await agent.run("go")
    told = result.tool_results[-1].value
    assert (told["state"], told["output"]) == ("done", "found")


async def test_waiting_for_a_while() -> None:
    """When the time is over the model is told how things stand."""
    agent = boss(
        starts(("a", "scout", "look")),
        waits("w", "scout#1", timeout=0.02),
        states,
        agents=[asleep()],
    )
    result = await agent.run("go")
    assert result.output == "scout#1 running"


async def test_other_runs_do_not_know_an_id() -> None:
    """W50: an ID means something in the run that it was given in, and nowhere else."""
    store = MemoryStore()
    agents = [Agent("scout", playing("found"))]
    first = boss(starts(("a", "scout", "look")), waits("w"), "done", agents=agents)
    await first.run("go", store=store, conversation="c")
    for conversation in ("c", "other"):
        second = boss(
            checks("x", "scout#1"),
            waits("w", "scout#1"),
            calls(("k", "cancel_delegate", {"id": "scout#1"})),
            calls(("m", "message_delegate", {"id": "scout#1", "text": "hey"})),
            checks("y"),
            "done",
            agents=agents,
        )
        again = second.replace(model=playing_from(second.model))
        result = await again.run("go", store=store, conversation=conversation)
        errors = [each.text for each in result.tool_results]
        known = "This run has no delegate 'scout#1'; there are: none was started."
        assert errors == [*[known] * 4, "No delegate was started in this run."]
        assert all(each.is_error for each in result.tool_results)


def playing_from(model: Any) -> Any:
    """A model that counts only the turns since somebody spoke."""

    async def answer(request: ModelRequest) -> Any:
        messages = list(request.messages)
        last = max(n for n, message in enumerate(messages) if message.role == "user")
        return await model.complete(ModelRequest(messages=Thread(messages[last:])))

    return FunctionModel(answer)


async def test_agents_in_the_background_of_one_in_the_background() -> None:
    """Their paths tell where they belong; all they use counts once."""
    inner = Agent("inner", playing(reply("deep", usage=USAGE)))
    middle = boss(starts(("m", "inner", "in")), waits("v"), outputs, agents=[inner])
    agent = boss(
        starts(("a", "middle", "in")), waits("w"), outputs, agents=[middle.replace(name="middle")]
    )
    store = MemoryStore()
    result = await agent.run("go", store=store, conversation="c")
    assert result.output == "deep"
    assert result.usage.input_tokens == 2 * USAGE.input_tokens + USAGE.input_tokens
    entries = [e for b in await store.read("c") for e in b.entries if isinstance(e, ChildBegan)]
    assert [entry.path for entry in entries] == ["middle#1", "middle#1/inner#1"]
    view = await (await Conversation.open("c", store=store)).view()
    assert view.runs[result.run_id].usage == result.usage


async def test_an_agent_that_fails() -> None:
    """It is over, with the reason; the run goes on."""

    def broken(_: ModelRequest) -> Any:
        raise ValueError("no such planet")

    store = MemoryStore()
    scout = Agent("scout", playing(broken))
    agent = boss(starts(("a", "scout", "look")), waits("w"), outputs, agents=[scout])
    run = agent.start("go", store=store, conversation="c")
    (event,) = [event async for event in run if isinstance(event, DelegateFinished)]
    result = await run
    assert "scout failed" in result.output
    assert "no such planet" in result.output
    assert (event.stop_reason, event.error) == ("failed", result.output)
    view = await (await Conversation.open("c", store=store)).view()
    ended = view.children["scout#1"].ended
    assert ended is not None
    assert ended.stop_reason == "failed"


async def test_a_typed_answer() -> None:
    """It comes as a value."""
    scout = Agent("scout", playing('{"result": [1, 2]}'), output_type=list[int])
    agent = boss(starts(("a", "scout", "count")), waits("w"), "done", agents=[scout])
    result = await agent.run("go", store=MemoryStore())
    assert result.tool_results[-1].value[0]["output"] == [1, 2]


async def test_they_share_state_and_deps() -> None:
    """As all child runs do."""

    @tool
    async def note(ctx: RunContext[list[str]]) -> str:
        """Note."""
        ctx.deps.append(ctx.agent)
        ctx.state.session.set("noted", ctx.agent)
        return "ok"

    scout = Agent("scout", playing(calls(("n", "note", {})), "done"), tools=[note])
    agent = boss(starts(("a", "scout", "go")), waits("w"), "done", agents=[scout])
    deps: list[str] = []
    result = await agent.run("go", deps=deps)
    assert deps == ["scout"]
    assert result.state.get("session::noted") == "scout"


async def test_an_agent_that_cannot_begin() -> None:
    """Its instructions fail: it is over at once, and the model is told."""

    def broken(_: RunContext) -> str:
        raise ValueError("no template")

    scout = Agent("scout", playing("ok"), instructions=broken)
    agent = boss(starts(("a", "scout", "look")), waits("w"), outputs, agents=[scout])
    for store in (None, MemoryStore()):
        result = await agent.run("go", store=store)
        assert "scout failed" in result.output
        assert "no template" in result.output


async def test_calls_of_an_agent_are_told_with_its_path() -> None:
    """Also when it is waited for by another turn."""
    run = Crewed().boss.start("go")
    found = [event async for event in run if isinstance(event, ToolFinished) and event.path]
    await run
    assert {(event.path, event.name) for event in found} == {
        ("scout#1", "look"),
        ("coder#1", "add"),
        ("coder#1", "look"),
    }
