"""Replies that fail, break off, refuse, or ask for calls that cannot be run as they stand."""

from __future__ import annotations

import pytest

from tests.agent.parts import add, quick, roles, text_of
from treadle import (
    Agent,
    AuthenticationFailed,
    ContentFiltered,
    Conversation,
    Hosted,
    IncompleteReply,
    Limits,
    MemoryStore,
    Overloaded,
    Text,
    ToolCall,
    tool,
)
from treadle.events import ModelRetried, TextDelta
from treadle.ports.model import FinishReason
from treadle.testing import ScriptedModel, calls, calls_raw, chunks, raises, reply


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


async def test_broken_arguments_never_run() -> None:
    """BS-01: the model hears of it and the run goes on."""
    ran: list[str] = []

    @tool
    async def append_note(text: str) -> str:
        """Append."""
        ran.append(text)
        return "ok"

    raw = '{"text": "say "hi" 你好"}'
    model = ScriptedModel([calls_raw(("c1", "append_note", raw)), "ok"])

    result = await Agent("a", model, tools=[append_note]).run("x")

    answer = model.requests[1].messages[-1].tool_results[0]
    assert (ran, result.output) == ([], "ok")
    assert answer.is_error
    assert "append_note" in answer.text
    assert "at character 15" in answer.text
    assert result.messages[1].tool_calls[0].raw == raw


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


@pytest.mark.parametrize("streamed", [True, False])
async def test_truncated_arguments(streamed: bool) -> None:
    """BS-02: they are no JSON, so nothing runs and the model hears where they end."""
    ran: list[str] = []

    @tool
    async def greet(city: str) -> str:
        """Greet."""
        ran.append(city)
        return city

    model = ScriptedModel([calls_raw(("b", "greet", '{"city": "San Fra')), "ok"])
    run = Agent("a", model, tools=[greet]).start("x")
    if streamed:
        assert [event async for event in run]

    (problem,) = (await run).tool_results

    assert ran == []
    assert problem.is_error
    assert "San Fra" in problem.text


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

    result = await Agent("a", model, tools=[get_time, get_weather]).run("x")

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
    for request in model.requests[1:]:
        assert "truncated" in request.messages[-1].tool_results[0].text
    assert caught.value.result.usage.tool_calls == 0
    assert "max_output_tokens" in str(caught.value)


async def test_an_answer_that_was_cut_off_is_no_answer() -> None:
    """A text that hit the output limit fails the run and is kept as incomplete."""
    with pytest.raises(IncompleteReply) as caught:
        await Agent("a", ScriptedModel([reply("half", finish="length")])).run("x")

    assert caught.value.result.messages[-1].incomplete
    assert caught.value.partial == "half"


@pytest.mark.parametrize("finish", ["refusal", "content_filter"])
async def test_a_refusal_is_not_an_answer(finish: FinishReason) -> None:
    """BS-27: one model call, a typed error with the text, and the conversation goes on."""
    model = ScriptedModel([reply("No.", finish=finish), "fine"])
    agent = Agent("a", model, output_type=str, retry=quick())

    with pytest.raises(ContentFiltered) as caught:
        await agent.run("x")
    assert len(model.requests) == 1
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
    reset = next(n for n, event in enumerate(events) if isinstance(event, ModelRetried))
    assert (text_of(events[:reset]), text_of(events[reset:])) == ("Hello wor", "Hello world")
    assert result.output == "Hello world"
    assert [m.text for m in result.messages] == ["x", "Hello world"]
    assert result.usage.requests == 2


async def test_partial_text_is_kept_when_the_stream_fails_for_good() -> None:
    """BS-19: what was seen stays, marked, and the conversation can go on."""
    model = ScriptedModel([raises(AuthenticationFailed("no"), "Half "), "fine"])
    agent = Agent("a", model)
    run = agent.start("x")
    assert [event.text async for event in run if isinstance(event, TextDelta)] == ["Half "]

    with pytest.raises(AuthenticationFailed) as caught:
        await run

    kept = caught.value.result.messages[-1]
    assert (kept.text, kept.incomplete) == ("Half ", True)
    assert (await agent.run("y", history=caught.value.result.messages)).output == "fine"


async def test_what_a_retried_attempt_said_is_not_kept() -> None:
    """BS-22: only the last attempt's text was still standing when the stream failed for good."""
    lost = raises(IncompleteReply("dropped", retryable=True), "Hello wor")
    for after, kept in (((), []), (("He",), ["He"])):
        model = ScriptedModel([lost, raises(AuthenticationFailed("no"), *after)])
        run = Agent("a", model, retry=quick()).start("x")
        assert text_of([event async for event in run]) == "".join(["Hello wor", *after])

        with pytest.raises(AuthenticationFailed) as caught:
            await run

        assert [m.text for m in caught.value.result.messages] == ["x", *kept]


async def test_a_reply_that_pauses_is_sent_back_as_it_is() -> None:
    """The provider's own tools are still at work: nothing is said in between."""
    searching = Hosted("web_search", {"made_up": {"id": "1"}})
    model = ScriptedModel([reply("Looking.", searching, finish="pause"), "Found."])
    store = MemoryStore()
    result = await Agent("a", model, store=store).run("Look it up.", conversation="c")
    assert result.output == "Found."
    assert roles(model.requests[1].messages) == ["user", "assistant"]
    assert model.requests[1].messages[1].parts == (Text("Looking."), searching)
    assert (result.turns, roles(result.messages)) == (2, ["user", "assistant", "assistant"])
    conversation = await Conversation.open("c", store=store)
    assert list(await conversation.messages()) == list(result.messages)


async def test_pauses_without_end_are_turns_like_others() -> None:
    """Their number is limited."""
    model = ScriptedModel([reply("Looking.", finish="pause")] * 3 + ["Here."])
    result = await Agent("a", model, limits=Limits(max_turns=3)).run("Look it up.")
    assert (result.stop_reason, result.output, result.turns) == ("limit", "Here.", 4)
