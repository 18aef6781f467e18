"""The loop: turns, answers, limits, and what every way out leaves behind."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest

from treadle import (
    Agent,
    AuthenticationFailed,
    ContentFiltered,
    IncompleteReply,
    LimitReached,
    Limits,
    Message,
    ModelSettings,
    NoModel,
    Overloaded,
    Price,
    Reasoning,
    Retry,
    RunContext,
    RunFailed,
    Text,
    ToolCall,
    Usage,
    tool,
)
from treadle.errors import ConfigError, InvalidInput, UnknownModel
from treadle.testing import FunctionModel, ScriptedModel, calls, calls_raw, chunks, raises, reply
from treadle.testing.clock import FakeClock


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def roles(messages: list[Message]) -> list[str]:
    """The roles of a history, in order."""
    return [message.role for message in messages]


def quick(attempts: int = 3) -> Retry:
    """A retry policy that waits on a fake clock."""
    return Retry(attempts=attempts, clock=FakeClock(), jitter=0)


async def test_a_plain_answer() -> None:
    """S1: one call, no tools, a history of two messages."""
    model = ScriptedModel(["hi"])

    result = await Agent("a", model, instructions="Be kind.").run("x")

    assert result.output == "hi"
    assert (len(model.requests), result.usage.tool_calls, result.turns) == (1, 0, 1)
    assert roles(result.messages) == ["user", "assistant"]
    assert model.requests[0].system == "Be kind."
    assert result.stop_reason == "answer"


async def test_a_tool_call_and_its_answer() -> None:
    """S2: the tool gets typed arguments, the next request its result, and counters add up."""
    usage = Usage(input_tokens=10, output_tokens=2, requests=1)
    model = ScriptedModel(
        [calls(("c1", "add", {"a": 1, "b": 2}), usage=usage), reply("3", usage=usage)]
    )

    result = await Agent("a", model, tools=[add]).run("1+2?")

    assert result.output == "3"
    assert roles(model.requests[1].messages) == ["user", "assistant", "tool"]
    assert model.requests[1].messages[-1].tool_results[0].text == "3"
    assert result.usage == Usage(input_tokens=20, output_tokens=4, requests=2, tool_calls=1)
    assert [r.value for r in result.tool_results] == [3]


async def test_no_model() -> None:
    """S3: a typed error, before anything happens."""
    with pytest.raises(NoModel, match="has no model"):
        await Agent("a").run("x")


@pytest.mark.parametrize("name", ["nobody:x", "gpt", ""])
async def test_an_unknown_model_string(name: str) -> None:
    """The error names the string and what is installed."""
    with pytest.raises(UnknownModel, match="openai:"):
        await Agent("a", name).run("x")


async def test_the_limit_as_an_error() -> None:
    """S4: exactly three rounds, then the limit error with the partial history."""
    model = FunctionModel(lambda request: calls(("c", "add", {"a": 1, "b": 1})))

    with pytest.raises(LimitReached) as caught:
        await Agent("a", model, tools=[add], limits=Limits(max_turns=3), on_limit="error").run("x")

    assert len(model.requests) == 3
    assert len(caught.value.result.messages) == 7  # type-checked as object on purpose


async def test_the_limit_as_an_answer() -> None:
    """S5: one more call without tools; its instruction is not kept."""
    model = ScriptedModel([calls(("c", "add", {"a": 1, "b": 1})), "two"])

    result = await Agent("a", model, tools=[add], limits=Limits(max_turns=1)).run(
        "x", requirements=["Be short.", "  "]
    )

    assert (result.output, result.stop_reason, result.turns) == ("two", "limit", 2)
    assert model.requests[1].tools == ()
    assert "1. Be short." in model.requests[1].messages[-1].text
    assert roles(result.messages) == ["user", "assistant", "tool", "assistant"]
    assert "- Be short." in model.requests[0].system


async def test_a_forced_answer_that_fails() -> None:
    """S6: the run fails and no error text is kept as an answer."""
    model = ScriptedModel(
        [calls(("c", "add", {"a": 1, "b": 1})), raises(AuthenticationFailed("no"))]
    )

    with pytest.raises(AuthenticationFailed) as caught:
        await Agent("a", model, tools=[add], limits=Limits(max_turns=1)).run("x")

    assert roles(caught.value.result.messages) == ["user", "assistant", "tool"]


async def test_the_limit_as_a_pause() -> None:
    """The run pauses with a valid history, and the next one goes on from it."""
    model = ScriptedModel([calls(("c", "add", {"a": 1, "b": 1})), "two"])
    agent = Agent("a", model, tools=[add], limits=Limits(max_turns=1), on_limit="pause")

    paused = await agent.run("x")
    result = await agent.run("go on", history=paused.messages)

    assert (paused.stop_reason, result.output) == ("paused", "two")


async def test_a_follow_up_sees_both_turns() -> None:
    """S7: history goes back in, the system prompt is there once."""
    model = ScriptedModel(["one", "two"])
    agent = Agent("a", model, instructions="System.")

    first = await agent.run("1")
    second = await agent.run("2", history=first.messages)

    assert [m.text for m in model.requests[1].messages] == ["1", "one", "2"]
    assert [m.text for m in second.messages] == ["1", "one", "2", "two"]
    assert [m.text for m in first.messages] == ["1", "one"], "the first result is not changed"


async def test_a_system_message_in_the_history_replaces_the_instructions() -> None:
    """C4: it becomes this run's system prompt and is not part of the history."""
    model = ScriptedModel(["ok"])

    result = await Agent("a", model, instructions="Mine.").run(
        "x", history=[Message.system("Theirs.")]
    )

    assert model.requests[0].system == "Theirs."
    assert roles(result.messages) == ["user", "assistant"]


async def test_arguments_changed_after_the_start() -> None:
    """S9: what the caller changes later has no effect."""
    model = ScriptedModel(["ok"])
    history = [Message.user("a"), Message.assistant("b")]
    metadata = {"k": 1}
    run = Agent("a", model).start("x", history=history, metadata=metadata)
    history.clear()
    metadata.clear()

    result = await run

    assert [m.text for m in result.messages] == ["a", "b", "x", "ok"]


async def test_a_passing_failure_is_tried_again() -> None:
    """S12: two retries, the run succeeds, failed attempts count as requests."""
    model = ScriptedModel([raises(Overloaded("busy")), raises(Overloaded("busy")), "hi"])
    run = Agent("a", model, retry=quick()).start("x")

    types = [event.type async for event in run]
    result = await run

    assert types.count("model.retried") == 2
    assert (result.output, result.usage.requests) == ("hi", 3)


async def test_a_lasting_failure_is_not_tried_again() -> None:
    """S12: a non-retryable error fails at once."""
    model = ScriptedModel([raises(AuthenticationFailed("no")), "hi"])

    with pytest.raises(AuthenticationFailed):
        await Agent("a", model, retry=quick()).run("x")

    assert len(model.requests) == 1


async def test_a_cost_budget_stops_before_the_call() -> None:
    """S13: the second call could exceed the budget, so it is not made."""
    usage = Usage(input_tokens=100_000, output_tokens=1_000, requests=1)
    model = ScriptedModel(
        [calls(("c", "add", {"a": 1, "b": 1}), usage=usage), "never"],
        price=Price(input=Decimal(10), output=Decimal(20)),
    )

    result = await Agent("a", model, tools=[add], limits=Limits(max_cost=Decimal("1.02"))).run("x")

    assert (result.stop_reason, len(model.requests)) == ("budget", 1)
    assert result.usage.cost == Decimal("1.02")
    assert roles(result.messages) == ["user", "assistant", "tool"]


async def test_a_cost_limit_needs_a_price() -> None:
    """A limit that cannot hold is refused in words."""
    with pytest.raises(ConfigError, match="has no price"):
        await Agent("a", ScriptedModel(["x"]), limits=Limits(max_cost=Decimal(1))).run("x")


async def test_a_token_budget_caps_the_output() -> None:
    """The request's output is capped to what is left, and a reply cut by that is a spent budget."""
    model = ScriptedModel([reply("half an ans", finish="length")])

    result = await Agent("a", model, limits=Limits(max_tokens=200)).run("x")

    assert result.stop_reason == "budget"
    assert 0 < (model.requests[0].settings.max_output_tokens or 0) < 200
    assert result.messages[-1].incomplete
    assert result.output == "half an ans"


async def test_a_deadline_stops_a_run() -> None:
    """The deadline cancels the model and leaves a result."""

    async def slow(request: object) -> str:
        await FakeClock.forever()
        return "never"

    result = await Agent(
        "a", FunctionModel(slow), limits=Limits(deadline=timedelta(milliseconds=20))
    ).run("x")

    assert result.stop_reason == "deadline"
    assert roles(result.messages) == ["user"]


async def test_a_retry_that_does_not_fit_the_deadline() -> None:
    """BS-66: it fails now, with the wait that was asked for."""
    model = ScriptedModel([raises(Overloaded("busy", retry_after=7.0)), "hi"])
    agent = Agent("a", model, retry=quick(), limits=Limits(deadline=timedelta(seconds=3)))

    with pytest.raises(Overloaded) as caught:
        await agent.run("x")

    assert (caught.value.retry_after, len(model.requests)) == (7.0, 1)


async def test_broken_arguments_never_run() -> None:
    """BS-01: the model hears of it and the run goes on."""
    ran: list[str] = []

    @tool
    async def append_note(text: str) -> str:
        """Append."""
        ran.append(text)
        return "ok"

    model = ScriptedModel([calls_raw(("c1", "append_note", '{"text": "say "hi" 你好"}')), "ok"])

    result = await Agent("a", model, tools=[append_note]).run("x")

    answer = model.requests[1].messages[-1].tool_results[0]
    assert (ran, result.output) == ([], "ok")
    assert answer.is_error
    assert "append_note" in answer.text


@pytest.mark.parametrize("raw", ["", "  ", "null", "{}"])
@pytest.mark.parametrize("streamed", [True, False])
async def test_blank_arguments(raw: str, streamed: bool) -> None:
    """BS-02: blank means {}, for the tool's own validation to judge, streamed or not."""

    @tool
    async def ping() -> str:
        """Ping."""
        return "pong"

    @tool
    async def greet(city: str) -> str:
        """Greet."""
        return city

    model = ScriptedModel([calls_raw(("a", "ping", raw), ("b", "greet", raw)), "ok"])
    agent = Agent("a", model, tools=[ping, greet])

    if streamed:
        run = agent.start("x")
        assert [event async for event in run]
        result = await run
    else:
        result = await agent.run("x")

    pong, problem = result.tool_results
    assert pong.text == "pong"
    assert problem.is_error
    assert "city" in problem.text


async def test_an_unknown_tool() -> None:
    """BS-03: the call is answered with the nearest names, the other one runs."""

    @tool
    async def get_weather(city: str) -> str:
        """Weather."""
        return "sun"

    @tool
    async def get_time() -> str:
        """Time."""
        return "noon"

    model = ScriptedModel(
        [
            calls(("c1", "get_wether", {"city": "Oslo"}), ("c2", "get_time", {})),
            calls(("c3", "get_weather", {"city": "Oslo"})),
            "done",
        ]
    )

    result = await Agent("a", model, tools=[get_weather, get_time]).run("x")

    first, second = model.requests[1].messages[-1].tool_results
    assert (first.call_id, first.is_error, second.text) == ("c1", True, "noon")
    assert first.text.index("get_weather") < first.text.index("get_time")
    assert (result.output, len(model.requests)) == ("done", 3)


async def test_a_server_that_reuses_one_call_id() -> None:
    """BS-06: each call keeps its own result under its own ID."""
    model = ScriptedModel([calls(("x", "add", {"a": n, "b": 0})) for n in (1, 2, 3)] + ["done"])

    result = await Agent("a", model, tools=[add]).run("x")

    ids = [call.id for message in result.messages for call in message.tool_calls]
    answers = [found for message in result.messages for found in message.tool_results]
    assert len(set(ids)) == 3
    assert [answer.call_id for answer in answers] == ids
    assert [answer.text for answer in answers] == ["1", "2", "3"]
    assert {call.provider_id or call.id for m in result.messages for call in m.tool_calls} == {"x"}


async def test_calls_of_a_reply_that_was_cut_off_never_run() -> None:
    """BS-13: two hints, then a typed end, after exactly three model calls."""
    cut = reply(ToolCall("c1", "add", '{"a": 1, "b'), finish="length")
    model = ScriptedModel([cut, cut, cut])

    with pytest.raises(IncompleteReply) as caught:
        await Agent("a", model, tools=[add]).run("x")

    assert len(model.requests) == 3
    assert "truncated" in model.requests[1].messages[-1].tool_results[0].text
    assert caught.value.result.usage.tool_calls == 0


async def test_an_answer_that_was_cut_off_is_no_answer() -> None:
    """A text that hit the output limit fails the run and is kept as incomplete."""
    with pytest.raises(IncompleteReply) as caught:
        await Agent("a", ScriptedModel([reply("half", finish="length")])).run("x")

    assert caught.value.result.messages[-1].incomplete
    assert caught.value.partial == "half"


@pytest.mark.parametrize("finish", ["refusal", "content_filter"])
async def test_a_refusal_is_not_an_answer(finish: str) -> None:
    """BS-27: one model call, a typed error with the text, and the conversation goes on."""
    model = ScriptedModel([reply("No.", finish=finish), "fine"])
    agent = Agent("a", model, output_type=str, retry=quick())

    with pytest.raises(ContentFiltered) as caught:
        await agent.run("x")
    result = await agent.run("y", history=caught.value.result.messages)

    assert (caught.value.partial, result.output, len(model.requests)) == ("No.", "fine", 2)


async def test_a_dropped_stream_is_tried_again_and_replaced() -> None:
    """BS-20, BS-22: what the first attempt streamed is not part of the answer."""
    lost = raises(IncompleteReply("dropped", retryable=True), "Hello wor")
    model = ScriptedModel([lost, chunks(["Hello ", "world"])])
    run = Agent("a", model, retry=quick()).start("x")

    events = [event async for event in run]
    result = await run

    types = [event.type for event in events]
    assert types.index("text.delta") < types.index("model.retried") < len(types) - 1
    assert result.output == "Hello world"
    assert [m.text for m in result.messages] == ["x", "Hello world"]


async def test_partial_text_is_kept_when_the_stream_fails_for_good() -> None:
    """BS-19: what was seen stays, marked, and the conversation can go on."""
    model = ScriptedModel([raises(AuthenticationFailed("no"), "Half "), "fine"])
    run = Agent("a", model).start("x")
    assert [event async for event in run]

    with pytest.raises(AuthenticationFailed) as caught:
        await run

    kept = caught.value.result.messages[-1]
    assert (kept.text, kept.incomplete) == ("Half ", True)


async def test_blank_replies() -> None:
    """BS-25: a blank reply is no answer and is not kept; the model is asked again, twice at most."""
    model = ScriptedModel(
        [reply("", ToolCall.of("add", {"a": 1, "b": 2}, id="c")), reply("   "), "ok"]
    )

    result = await Agent("a", model, tools=[add]).run("x")

    assert result.output == "ok"
    assert all(part.text for m in result.messages for part in m.parts if isinstance(part, Text))

    for_ever = FunctionModel(lambda request: "")
    assert (await Agent("a", for_ever).run("x")).output == ""
    assert len(for_ever.requests) == 3


async def test_a_forced_tool_is_forced_once() -> None:
    """A tool choice holds for the first call of the run."""
    model = ScriptedModel([calls(("c", "add", {"a": 1, "b": 1})), "2"])
    agent = Agent(
        "a", model, tools=[add], settings=ModelSettings(tool_choice="required", temperature=0)
    )

    await agent.run("x")

    first, second = model.requests
    assert (first.settings.tool_choice, second.settings.tool_choice) == ("required", None)
    assert second.settings.temperature == 0


async def test_reasoning_stays_in_front_of_its_calls() -> None:
    """BS-23: parts keep their order and their signatures."""
    thought = Reasoning("hm", signature="sig-1")
    model = ScriptedModel([reply(thought, ToolCall.of("add", {"a": 1, "b": 2}, id="c")), "3"])

    await Agent("a", model, tools=[add]).run("x")

    assert model.requests[1].messages[1].parts[0] == thought


async def test_instructions_may_be_a_function_of_the_run() -> None:
    """They see deps, and may be async."""

    async def instructions(ctx: RunContext[dict[str, str]]) -> str:
        return f"You help {ctx.deps['user']}."

    model = ScriptedModel(["hi"])

    await Agent("a", model, instructions=instructions).run("x", deps={"user": "Ann"})

    assert model.requests[0].system == "You help Ann."


async def test_a_failure_of_ours_is_a_run_failure() -> None:
    """Whatever breaks inside becomes RunFailed, with the cause chained and the history there."""

    def broken(ctx: object) -> str:
        raise RuntimeError("oops")

    with pytest.raises(RunFailed, match="RuntimeError: oops") as caught:
        await Agent("a", ScriptedModel(["x"]), instructions=broken).run("x")

    assert isinstance(caught.value.__cause__, RuntimeError)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"input": ""}, "nothing to say"),
        ({"input": []}, "nothing to say"),
        ({"input": [object()]}, "Input items"),
        ({"input": "x", "history": ["text"]}, "Message objects"),
        ({"input": "x", "max_parallel_tools": 0}, "at least one"),
        ({"input": "x", "conversation": "a/b"}, "contains '/'"),
        ({"input": "x", "conversation": ""}, "is empty"),
        ({"input": "x", "colour": "red"}, "no option 'colour'"),
    ],
)
async def test_bad_input(bad: dict[str, object], message: str) -> None:
    """Each is refused with the value and what to do, before anything runs."""
    model = ScriptedModel(["x"])

    with pytest.raises((ConfigError, InvalidInput), match=message):
        await Agent("a", model).run(bad.pop("input"), **bad)

    assert model.requests == []
