"""What a run is to whoever begins it: one handle at once, with all it was given."""

from __future__ import annotations

from typing import Any

import pytest

from tests.scenarios.provider import ask, both_ways, provider, saying
from treadle import (
    Agent,
    ConfigError,
    InvalidInput,
    Limits,
    MemoryStore,
    Middleware,
    ModelReply,
    ModelRequest,
    ModelSettings,
    NoModel,
    Reasoning,
    RunContext,
    State,
    TreadleError,
    Usage,
    tool,
)
from treadle.testing import FunctionModel, ScriptedModel, calls, reply


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


async def test_without_a_model_nothing_is_stored() -> None:
    """S3, B1: the error comes before the conversation is begun."""
    store = MemoryStore()

    with pytest.raises(NoModel):
        await Agent("a", store=store).run("x", conversation="c")

    assert await store.list() == []


async def test_ten_turns_unless_said_otherwise() -> None:
    """B4, B34: and one more for the forced answer, which counts."""

    def answer(request: ModelRequest) -> ModelReply | str:
        made = calls(("c", "add", {"a": len(request.messages), "b": 1}))
        return made if request.tools else "enough"

    model = FunctionModel(answer)

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


async def test_a_changed_tool_keeps_the_rest() -> None:
    """B71: another name, and interrupting, around the same function and schema."""
    changed = add.replace(name="plus", interrupt=True)
    model = ScriptedModel([calls(("c", "plus", {"a": 1, "b": 2}))])

    result = await Agent("a", model, tools=[changed]).run("x")

    assert (changed.parameters, changed.description) == (add.parameters, add.description)
    assert (result.stop_reason, result.tool_results[0].value) == ("paused", 3)
    assert not add.interrupt


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


@pytest.mark.parametrize("own", ["its own", None])
async def test_a_model_of_one_run(own: str | None) -> None:
    """BS-64, B12: what one run is given is not there in the next, whoever asks first."""
    mine = FunctionModel(lambda request: "its own") if own else None
    agent = Agent("a", mine)

    borrowed = await agent.run("x", model=FunctionModel(lambda request: "borrowed"))

    assert borrowed.output == "borrowed"
    if own:
        assert (await agent.run("x")).output == own
    else:
        with pytest.raises(NoModel):
            await agent.run("x")


async def test_options_of_one_run() -> None:
    """B7, B12: everything that can be replaced for a run is as it was in the next one."""

    class Sign(Middleware):
        """Signs answers."""

        async def before_final(self, ctx: RunContext, output: Any) -> Any:
            """Sign."""
            return f"{output}!"

    model = FunctionModel(lambda request: '{"result": 1}')
    agent = Agent("a", model, instructions="Mine.", settings=ModelSettings(seed=1))
    before = repr(agent)
    first = await agent.run("x")
    await agent.run(
        "x",
        instructions="Other.",
        settings=ModelSettings(seed=2),
        middleware=[Sign()],
        output_type=int,
        limits=Limits(max_turns=3),
        requirements=["Be short."],
        max_parallel_tools=1,
    )
    last = await agent.run("x")

    one, two, three = model.requests[0], model.requests[1], model.requests[-1]
    assert (two.settings.seed, two.system.split()[0]) == (2, "Other.")
    assert one.settings is three.settings
    assert (one.system, one.tools, one.output) == (three.system, three.tools, three.output)
    assert first.output == last.output == '{"result": 1}'
    assert repr(agent) == before


@pytest.mark.parametrize("watched", [True, False])
@pytest.mark.parametrize("answer", ["some text", None, {"role": "assistant"}])
async def test_a_model_of_the_callers_that_answers_with_something_else(
    answer: Any, watched: bool
) -> None:
    """The message says what came, from which class, and what a model has to return."""

    class Mine:
        """A model that is none."""

        async def complete(self, request: ModelRequest) -> Any:
            """Return something else than a reply."""
            return answer

    run = Agent("a", Mine()).start("x") if watched else Agent("a", Mine()).run("x")
    with pytest.raises(TreadleError, match=rf"Mine.*{type(answer).__name__}.*ModelReply"):
        await run
