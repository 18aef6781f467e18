"""What a run is to its caller: begun at once, told in events, settled before it says so."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.scenarios.provider import ask, both_ways, kinds_of, provider, saying, watch
from treadle import (
    Agent,
    AuthenticationFailed,
    ConfigError,
    Interrupt,
    InvalidInput,
    Limits,
    MemoryStore,
    Message,
    ModelFinished,
    ModelSettings,
    Reasoning,
    RunContext,
    RunFinished,
    RunPaused,
    State,
    Tool,
    ToolFinished,
    ToolStarted,
    Usage,
    tool,
)
from treadle.events import TERMINAL
from treadle.journal import RunBegan, RunEnded, RunSuspended
from treadle.ports.model import ModelReply, ModelRequest
from treadle.testing import FakeClock, FunctionModel, ScriptedModel, calls, raises, reply


@tool
async def add(a: int, b: int) -> int:
    """Add."""
    return a + b


ADDING = calls(("c", "add", {"a": 1, "b": 1}))


@pytest.mark.parametrize("name", ["", "  "])
def test_an_agent_has_a_name(name: str) -> None:
    """B2: it is where its state and its events are told apart."""
    with pytest.raises(ConfigError, match="needs a name"):
        Agent(name, ScriptedModel([]))


async def test_ten_turns_unless_said_otherwise() -> None:
    """B4, B34: and one more for the forced answer, which counts."""
    model = FunctionModel(lambda request: ADDING if request.tools else "enough")

    result = await Agent("a", model, tools=[add]).run("x")

    assert (result.output, result.stop_reason, result.turns) == ("enough", "limit", 11)
    assert result.usage.tool_calls == 10


async def test_a_turn_is_a_reply_with_any_number_of_calls() -> None:
    """B16: four calls are one turn, and the answer is another."""
    asked = calls(*((str(n), "add", {"a": n, "b": 1}) for n in range(4)))

    result = await Agent("a", ScriptedModel([asked, "ok"]), tools=[add]).run("x")

    assert (result.turns, result.usage.tool_calls) == (2, 4)
    assert [found.value for found in result.tool_results] == [1, 2, 3, 4]


async def test_a_run_begins_at_once() -> None:
    """B14, B28: the handle has both IDs before anything was asked, and no two runs share one."""
    model = ScriptedModel(["a", "b"])
    agent = Agent("a", model)
    first, second = agent.start("x"), agent.start("x")

    assert not model.requests
    assert not first.done
    assert len({first.id, second.id, first.conversation_id, second.conversation_id}) == 4
    assert (await first).conversation_id == first.conversation_id
    assert (await second).run_id == second.id


async def test_the_caller_may_name_the_run() -> None:
    """B7: and finds the name in the result, the events and the journal."""
    store = MemoryStore()
    run = Agent("a", ScriptedModel(["ok"])).start("x", run_id="mine", conversation="c", store=store)
    events = [event async for event in run]

    assert {event.run_id for event in events} == {"mine"}
    assert (await store.head("c")).run_id == (await run).run_id == "mine"


async def test_what_the_caller_changes_later() -> None:
    """S9, B15: the parts, the tools, the requirements and the observers are those of the start."""

    class Watching:
        """Counts."""

        seen = 0

        def on_event(self, event: object) -> None:
            """Count."""
            self.seen += 1

    watching = Watching()
    said: list[Any] = ["one", "two"]
    tools: list[Any] = [add]
    requirements, observers = ["Be short."], [watching]
    model = ScriptedModel([ADDING, "ok"])
    agent = Agent("a", model, tools=tools)
    run = agent.start(said, requirements=requirements, observers=observers)
    for changed in (said, tools, requirements, observers):
        changed.clear()

    result = await run

    assert result.messages[0].text == "onetwo"
    assert (result.output, len(model.requests[0].tools)) == ("ok", 1)
    assert "Be short." in model.requests[0].system
    assert watching.seen > 0


@pytest.mark.xfail(reason="state= is read, and metadata= copied, only when the run takes a step")
async def test_state_and_metadata_that_the_caller_changes_later() -> None:
    """S9, B15: a dict of state, and what is inside metadata, are those of the start, too."""
    store = MemoryStore()
    state: dict[str, Any] = {"session::k": [1]}
    metadata: dict[str, Any] = {"tags": ["a"]}
    run = Agent("a", ScriptedModel(["ok"]), store=store).start(
        "x", conversation="c", state=state, metadata=metadata
    )
    state["session::k"].append(2)
    state["session::new"] = 3
    metadata["tags"].append("b")

    result = await run
    began = (await store.read("c"))[0].entries[0]

    assert result.state.snapshot() == {"session::k": [1]}
    assert isinstance(began, RunBegan)
    assert began.metadata == {"tags": ["a"]}


async def test_nothing_to_say_is_an_error_at_once() -> None:
    """B15: from `start` itself, not from the run."""
    agent = Agent("a", ScriptedModel(["ok"]))

    with pytest.raises(InvalidInput, match="nothing to say"):
        agent.start(None)
    with pytest.raises(InvalidInput, match="nothing to say"):
        agent.start("")


async def test_a_conversation_is_rendered_anew_for_each_run() -> None:
    """B20, W9: other instructions hold from the next run on, and none of them is stored."""
    store = MemoryStore()
    model = ScriptedModel(["a", "b"])
    agent = Agent("a", model, instructions="Old.", store=store)

    await agent.run("1", conversation="c")
    result = await agent.replace(instructions="New.").run("2", conversation="c")

    assert [request.system for request in model.requests] == ["Old.", "New."]
    assert [message.role for message in result.messages] == ["user", "assistant"] * 2
    told = str(await store.read("c"))
    assert "Old." not in told
    assert "New." not in told


@both_ways
async def test_settings_hold_for_every_call(streamed: bool) -> None:
    """B24: those of the run over those of the agent; also for the forced answer."""
    call = ("c", "add", '{"a": 1, "b": 1}')
    answers = (saying(None, call, streamed=streamed), saying("ok", streamed=streamed))
    async with provider(*answers) as line:
        settings = ModelSettings(seed=1, temperature=0.5, tool_choice="required")
        agent = Agent("a", line.model, tools=[add], settings=settings, limits=Limits(max_turns=1))
        await ask(agent, "x", streamed=streamed, settings=ModelSettings(temperature=0.1))

    first, second = line.requests
    assert [(body["seed"], body["temperature"]) for body in (first, second)] == [(1, 0.1)] * 2
    assert first["tool_choice"] == "required"
    assert "tool_choice" not in second


async def test_a_model_streams_only_for_somebody() -> None:
    """B26, C25: `run` asks for a whole reply, a watched run for a stream."""
    answers = (saying("a", streamed=False), saying("b", streamed=True))
    async with provider(*answers) as line:
        agent = Agent("a", line.model)
        await agent.run("x")
        await watch(agent)

    assert [body.get("stream", False) for body in line.requests] == [False, True]


async def test_the_final_answer_keeps_what_belongs_to_it() -> None:
    """B19, W25: the reasoning stays a part of its own, the answer is only the text."""
    spent = Usage(input_tokens=3, output_tokens=2, requests=1)
    model = ScriptedModel([reply(Reasoning("hm", signature="s"), "ok", usage=spent)])

    result = await Agent("a", model).run("x")

    assert result.output == "ok"
    assert result.messages[-1].parts[0] == Reasoning("hm", signature="s")
    assert result.usage == spent


async def test_the_context_tells_who_runs() -> None:
    """B33, B99, B100: metadata is the caller's, and overrides none of the run's own facts."""
    seen: list[Any] = []

    @tool
    async def who(ctx: RunContext[str]) -> str:
        """Tell."""
        seen.append((ctx.run_id, ctx.conversation_id, ctx.agent, ctx.deps, ctx.call_id, ctx.tool))
        seen.append(dict(ctx.metadata))
        return "ok"

    metadata = {"run_id": "forged", "tenant": "acme"}
    result = await Agent("me", ScriptedModel([calls(("c1", "who", {})), "ok"]), tools=[who]).run(
        "x", metadata=metadata, deps="live"
    )

    assert seen[0] == (result.run_id, result.conversation_id, "me", "live", "c1", "who")
    assert seen[1] == metadata


async def endings(agent: Agent, store: MemoryStore, *, cancel: bool = False) -> tuple[Any, Any]:
    """Run in a stored conversation; return the last event, and the journal's last entry then."""
    run = agent.start("x", conversation="c", store=store)
    last = entry = None
    async for event in run:
        last = event
        if cancel and isinstance(event, ToolStarted):
            await run.cancel("enough")
        if isinstance(event, TERMINAL):
            entry = (await store.read("c"))[-1].entries[-1]
    return last, entry


@pytest.mark.parametrize("way", ["answer", "paused", "cancelled", "failed"])
async def test_the_end_is_stored_before_it_is_told(way: str) -> None:
    """S68, B30: the terminal event and what the journal has are one outcome, for each way out."""

    @tool
    async def asks() -> Interrupt:
        """Ask."""
        return Interrupt("human")

    @tool
    async def blocks() -> str:
        """Block."""
        await FakeClock.forever()
        return "never"

    scripts: dict[str, list[Any]] = {
        "answer": ["ok"],
        "paused": [calls(("1", "asks", {}))],
        "cancelled": [calls(("1", "blocks", {}))],
        "failed": [raises(AuthenticationFailed("no"))],
    }
    agent = Agent("a", ScriptedModel(scripts[way]), tools=[asks, blocks])
    last, entry = await endings(agent, MemoryStore(), cancel=way == "cancelled")

    if way == "paused":
        assert isinstance(last, RunPaused)
        assert isinstance(entry, RunSuspended)
        assert last.reason == entry.reason == "human"
    else:
        assert isinstance(last, RunFinished)
        assert isinstance(entry, RunEnded)
        assert last.stop_reason == entry.stop_reason == way
        assert last.usage == entry.usage
        assert (last.error, entry.error) == (("no", "no") if way == "failed" else (None, None))


async def test_a_cancelled_caller_still_settles() -> None:
    """B30: the end is written although the task that ran it was cancelled."""
    store = MemoryStore()
    entered = asyncio.Event()

    async def answer(request: object) -> str:
        entered.set()
        await FakeClock.forever()
        return "never"

    agent = Agent("a", FunctionModel(answer), store=store)
    caller = asyncio.ensure_future(agent.run("x", conversation="c"))
    await entered.wait()
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller

    entry = (await store.read("c"))[-1].entries[-1]
    assert isinstance(entry, RunEnded)
    assert entry.stop_reason == "cancelled"


async def test_the_terminal_event_has_the_counts() -> None:
    """B29, B177, B266: usage with tokens and calls, and turns; the same as in the result."""
    spent = Usage(input_tokens=5, cache_read_tokens=2, output_tokens=1, requests=1)
    asked = calls(("c", "add", {"a": 1, "b": 1}), usage=spent)
    run = Agent("a", ScriptedModel([asked, reply("ok", usage=spent)]), tools=[add]).start("x")
    events = [event async for event in run]
    result = await run

    last = events[-1]
    assert isinstance(last, RunFinished)
    assert (last.usage, last.turns) == (result.usage, result.turns)
    assert (last.usage.cache_read_tokens, last.usage.tool_calls) == (4, 1)
    told = [event.usage for event in events if isinstance(event, ModelFinished)]
    assert told[0] + told[1] == Usage(10, 4, 0, 2, requests=2)


async def test_one_observer_sees_what_a_stream_sees() -> None:
    """B166, B171, B172: there is one kind of event, for whoever listens."""
    seen: list[str] = []

    class Watching:
        """Takes notes."""

        def on_event(self, event: Any) -> None:
            """Take a note."""
            seen.append(event.type)

    agent = Agent("a", ScriptedModel([ADDING, "ok"]), tools=[add])
    streamed = kinds_of(await watch(agent, observers=[Watching()]))

    assert streamed[-1] == "run.finished"
    assert seen == streamed


async def test_events_of_calls_tell_their_stage() -> None:
    """S17, B61: lookup, arguments, execution and time, each in its own call; the others run."""

    @tool
    async def breaks() -> str:
        """Break."""
        raise RuntimeError("oops")

    @tool(timeout=0.001)
    async def hangs() -> str:
        """Hang."""
        await FakeClock.forever()
        return "never"

    asked = reply(
        *calls(("1", "nope", {}), ("2", "add", {"a": "x"}), ("3", "breaks", {})).message.parts,
        *calls(("4", "hangs", {}), ("5", "add", {"a": 1, "b": 2})).message.parts,
    )
    events = await watch(Agent("a", ScriptedModel([asked, "ok"]), tools=[add, breaks, hangs]))

    finished = {e.call_id: e.stage for e in events if isinstance(e, ToolFinished)}
    assert finished == {
        "1": "lookup",
        "2": "arguments",
        "3": "execution",
        "4": "timeout",
        "5": None,
    }


async def test_several_interrupts_are_one_pause() -> None:
    """B69: the first reason counts, the batch is whole, and the limit does not come in between."""

    @tool
    async def asks(reason: str) -> Interrupt:
        """Ask."""
        return Interrupt(reason)

    asked = calls(("1", "asks", {"reason": "one"}), ("2", "asks", {"reason": "two"}))
    model = ScriptedModel([asked, "never"])
    run = Agent("a", model, tools=[asks], limits=Limits(max_turns=1)).start("x")
    events = [event async for event in run]
    result = await run

    assert (result.stop_reason, result.reason, len(model.requests)) == ("paused", "one", 1)
    assert [found.text for found in result.tool_results] == ["one", "two"]
    assert sum(isinstance(event, RunPaused) for event in events) == 1


async def test_a_changed_tool_keeps_the_rest() -> None:
    """B71: another name, and interrupting, around the same function and schema."""
    changed = add.replace(name="plus", interrupt=True)
    model = ScriptedModel([calls(("c", "plus", {"a": 1, "b": 2}))])

    result = await Agent("a", model, tools=[changed]).run("x")

    assert (changed.parameters, changed.description) == (add.parameters, add.description)
    assert (result.stop_reason, result.tool_results[0].value) == ("paused", 3)
    assert not add.interrupt


@pytest.mark.parametrize(
    "deep",
    [
        False,
        pytest.param(
            True, marks=pytest.mark.xfail(reason="events share lists and dicts inside arguments")
        ),
    ],
)
async def test_what_watchers_do_to_arguments_changes_no_call(deep: bool) -> None:
    """B73: an event has a copy, however deep, of what the tool gets."""
    got: list[Any] = []
    told = asyncio.Event()

    class Meddles:
        """Changes what it is shown."""

        def on_event(self, event: Any) -> None:
            """Change it."""
            if isinstance(event, ToolStarted):
                event.arguments["n"] = 99
                if deep:
                    event.arguments["items"].append("forged")
                told.set()

    async def take(arguments: dict[str, Any]) -> str:
        """Wait until the watcher had its turn."""
        await told.wait()
        got.append(arguments)
        return "ok"

    taking = Tool.from_schema("take", "Take.", {"properties": {"items": {}, "n": {}}}, take)
    model = ScriptedModel([calls(("c", "take", {"items": ["a"], "n": 1})), "ok"])
    result = await Agent("a", model, tools=[taking]).run("x", observers=[Meddles()])

    assert got == [{"items": ["a"], "n": 1}]
    assert result.messages[1].tool_calls[0].arguments == {"items": ["a"], "n": 1}


async def test_one_state_for_several_runs() -> None:
    """B97, B98: a State of the caller goes from run to run, its values as they were."""

    @tool
    async def count(ctx: RunContext) -> int:
        """Count."""
        number = ctx.state.session.get("n") + 1
        ctx.state.session.set("n", number)
        return number

    state = State()
    state.set("session::n", 2**70)
    for _ in range(2):
        model = ScriptedModel([calls(("c", "count", {})), "ok"])
        result = await Agent("a", model, tools=[count]).run("x", state=state)
        assert result.state is state

    assert state.get("session::n") == 2**70 + 2


async def test_every_failed_run_tells_its_kind() -> None:
    """B277-B279: the error that ended it comes out as itself, with what there was."""

    class Broken(AuthenticationFailed):
        """One of the caller's own."""

    class Mine:
        """A model that raises it."""

        async def complete(self, request: ModelRequest) -> ModelReply:
            """Raise."""
            raise Broken("mine")

    with pytest.raises(AuthenticationFailed) as caught:
        await Agent("a", Mine()).run("x")

    assert type(caught.value) is Broken
    assert caught.value.result.messages == [Message.user("x")]
