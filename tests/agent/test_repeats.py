"""A model that makes the same calls over and over is told so, and then stopped."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.agent.dying import Dying, die_after
from tests.agent.parts import roles
from treadle import (
    Agent,
    ConfigError,
    Conversation,
    InvalidTool,
    Limits,
    MemoryStore,
    Message,
    ModelReply,
    ModelRequest,
    Next,
    Tool,
    ToolCall,
    ToolResult,
    tool,
)
from treadle.agent.repeats import Repeats
from treadle.messages import Text
from treadle.testing import FunctionModel, calls, reply
from treadle.tools.registry import ToolRegistry

SAME = '{"q": 1, "deep": {"a": [1, 2], "b": null}}'
OTHERWISE = '{ "deep":{"b":null,"a":[1,2]},"q":1 }'


@tool
async def search(q: int, deep: dict[str, Any] | None = None) -> str:
    """Search."""
    return "nothing found"


@tool
async def think_of(q: int) -> str:
    """Think of it."""
    return f"thought of {q}"


def raw(request: ModelRequest, *texts: str, name: str = "search") -> ModelReply:
    """A reply that makes these calls, under new IDs."""
    turn = sum(message.role == "assistant" for message in request.messages)
    made = [ToolCall(f"c{turn}.{n}", name, text) for n, text in enumerate(texts)]
    return reply(*made)


def searching(*texts: str, answer_at: int = 100) -> FunctionModel:
    """A model that searches for the same in every turn, in turn in these words."""

    def answer(request: ModelRequest) -> ModelReply | str:
        turn = sum(message.role == "assistant" for message in request.messages)
        return "done" if turn == answer_at else raw(request, texts[turn % len(texts)])

    return FunctionModel(answer)


def nudges(messages: Any) -> list[int]:
    """After how many replies the model was told that it repeats itself."""
    found: list[int] = []
    for place, message in enumerate(messages):
        if message.advice and "in a row" in message.text:
            found.append(roles(messages[:place]).count("assistant"))
    return found


async def test_told_at_three_and_stopped_at_five() -> None:
    """However the arguments are written: it is the same call, with the same result."""
    model = searching(SAME, OTHERWISE)
    result = await Agent("a", model, tools=[search]).run("x")

    assert (result.stop_reason, result.turns, len(model.requests)) == ("loop", 5, 5)
    assert nudges(result.messages) == [3]
    assert "5 times in a row (search)" in result.reason
    assert roles(result.messages)[-1] == "tool"
    assert "3 times in a row (search)" in model.requests[3].messages[-1].text


async def test_an_answer_after_the_nudge() -> None:
    """Told once, the model may still answer."""
    result = await Agent("a", searching(SAME, answer_at=4), tools=[search]).run("x")

    assert (result.stop_reason, result.output, nudges(result.messages)) == ("answer", "done", [3])


@pytest.mark.parametrize(
    ("most", "told", "turns"), [(2, [], 2), (3, [2], 3), (4, [2], 4), (6, [3], 6), (None, [], 8)]
)
async def test_the_limit_is_yours(most: int | None, told: list[int], turns: int) -> None:
    """`Limits(max_repeats=)`: told after half of them, None for never."""
    limits = Limits(max_repeats=most, max_turns=None)
    agent = Agent("a", searching(SAME, answer_at=7), tools=[search], limits=limits)
    result = await agent.run("x")

    assert (nudges(result.messages), result.turns) == (told, turns)
    assert result.stop_reason == ("answer" if most is None else "loop")


@pytest.mark.parametrize("most", [0, 1, -3, "5", True])
def test_a_limit_that_cannot_be(most: Any) -> None:
    """One call is no repetition."""
    with pytest.raises(ConfigError, match="max_repeats"):
        Limits(max_repeats=most)


async def test_what_is_different_does_not_count() -> None:
    """Other arguments, or another result, begin anew."""
    seen: list[int] = []

    @tool
    async def poll(q: int) -> str:
        """Poll."""
        seen.append(q)
        return f"{len(seen)} % done"

    def answer(request: ModelRequest) -> ModelReply | str:
        turn = sum(message.role == "assistant" for message in request.messages)
        if turn < 8:
            return raw(request, '{"q": 1}', name="poll")
        return raw(request, f'{{"q": {turn}}}') if turn < 16 else "done"

    limits = Limits(max_turns=30)
    result = await Agent("a", FunctionModel(answer), tools=[poll, search], limits=limits).run("x")

    assert (result.stop_reason, nudges(result.messages)) == ("answer", [])


async def test_a_tool_that_is_repeatable_does_not_count() -> None:
    """By the decorator, and on objects with the tool protocol."""

    @tool(repeatable=True)
    async def waits() -> str:
        """Wait."""
        return "not yet"

    class Ready:
        name, description, repeatable = "waits", "Wait.", True

        def __init__(self) -> None:
            self.parameters: dict[str, Any] = {}

        async def execute(self, ctx: Any, arguments: dict[str, Any]) -> str:
            return "not yet"

    for each in (waits, Ready()):
        model = FunctionModel(
            lambda request: (
                raw(request, "{}", name="waits") if len(request.messages) < 16 else "done"
            )
        )
        result = await Agent("a", model, tools=[each]).run("x")
        assert (result.stop_reason, nudges(result.messages)) == ("answer", [])
    with pytest.raises(InvalidTool, match="repeatable"):
        Tool.from_schema("x", "X.", None, str, repeatable="yes")


async def test_the_calls_of_a_turn_are_a_set() -> None:
    """Another order is the same turn; one call more is another; a repeatable one is left out."""

    @tool(repeatable=True)
    async def clock() -> str:
        """Tell the time."""
        return "12:00"

    def answer(request: ModelRequest) -> ModelReply:
        turn = sum(message.role == "assistant" for message in request.messages)
        one, two = ("search", {"q": 1}), ("think_of", {"q": 2})
        made = [one, two] if turn % 2 else [two, one]
        if turn == 2:
            made.append(("think_of", {"q": 3}))
        if turn > 4:
            made.append(("clock", {}))
        return calls(*((f"c{turn}.{n}", name, given) for n, (name, given) in enumerate(made)))

    limits = Limits(max_turns=20)
    agent = Agent("a", FunctionModel(answer), tools=[search, think_of, clock], limits=limits)
    result = await agent.run("x")

    assert (result.stop_reason, nudges(result.messages), result.turns) == ("loop", [6], 8)
    assert "search" in result.reason
    assert "think_of" in result.reason
    assert "clock" not in result.reason


async def test_errors_and_chains_count_by_what_the_model_sees() -> None:
    """The same error again is the same result; so is the end of a chain."""

    @tool
    async def chain(q: int) -> Next:
        """Chain."""
        return Next("think_of", {"q": 1}, output=f"link {q}")

    for name, text in (("chain", '{"q": 1}'), ("nobody", "{}"), ("search", '{"q": "no"}')):
        model = FunctionModel(lambda request, text=text, name=name: raw(request, text, name=name))
        result = await Agent("a", model, tools=[chain, search, think_of]).run("x")
        assert (result.stop_reason, result.turns, nudges(result.messages)) == ("loop", 5, [3])


async def test_a_child_run_that_repeats_itself_stops_alone() -> None:
    """Who asked it is told why, and goes on."""
    child = Agent("child", searching(SAME), tools=[search])
    model = FunctionModel(
        lambda request: (
            raw(request, '{"input": "?"}', name="child") if len(request.messages) < 2 else "done"
        )
    )
    result = await Agent("a", model, tools=[child]).run("x")

    assert result.output == "done"
    (told,) = result.tool_results[-1:]
    assert told.is_error
    assert "loop: The model made the same call 5 times" in told.text


async def test_somebody_who_speaks_makes_it_begin_anew() -> None:
    """After a message of the user the same call may be meant."""
    done: list[str] = []

    @tool(name="search")
    async def steered(q: int, deep: dict[str, Any]) -> str:
        """Search."""
        done.append("search")
        if len(done) == 4:
            await run.steer("Search once more.")
        return "nothing found"

    run = Agent("a", searching(SAME, answer_at=8), tools=[steered]).start("x")
    result = await run

    assert (result.stop_reason, result.turns) == ("answer", 9)
    assert nudges(result.messages) == [3, 7]


@pytest.mark.parametrize("appends", range(1, 9))
async def test_the_count_goes_on_after_a_crash(appends: int) -> None:
    """It follows from the journal's messages: never told twice, never stopped late."""
    store = Dying()
    agent = Agent("a", searching(SAME), tools=[search])
    whole = await Agent("a", searching(SAME), tools=[search]).run("go")
    await die_after(appends, agent, store, conversation="c")
    result = await agent.resume("r", store=store)

    assert result.stop_reason == "loop"
    stored = await (await Conversation.open("c", store=store)).messages()
    assert list(stored) == list(result.messages)
    if not any(r.synthetic for m in result.messages for r in m.tool_results):
        assert list(result.messages) == list(whole.messages)
        assert (result.turns, nudges(result.messages)) == (5, [3])


async def test_a_run_that_was_stopped_goes_on_with_a_higher_limit() -> None:
    """As with every limit: as it was it stops again, with more it goes on."""
    store = MemoryStore()
    agent = Agent("a", searching(SAME, answer_at=6), tools=[search])
    stopped = await agent.run("x", store=store, conversation="c", run_id="r")
    again = await agent.resume("r", store=store)
    assert (stopped.stop_reason, again.stop_reason, again.turns) == ("loop", "loop", 5)

    more = await agent.resume("r", store=store, limits=Limits(max_repeats=20))
    assert (more.stop_reason, more.output, more.turns) == ("answer", "done", 7)


async def test_an_earlier_run_does_not_count() -> None:
    """What another run of the conversation did is not repeated by this one."""
    store = MemoryStore()
    agent = Agent("a", searching(SAME), tools=[search])
    for _ in range(2):
        result = await agent.run("x", store=store, conversation="c")
        assert (result.stop_reason, result.turns) == ("loop", 5)


arguments = st.dictionaries(
    st.sampled_from("abc"), st.none() | st.integers(0, 1) | st.text('x\\"é', max_size=1), max_size=3
)


@given(st.lists(st.lists(st.tuples(arguments, st.integers(0, 1)), min_size=1, max_size=3)))
def test_the_count_by_turns(turns: list[list[tuple[dict[str, Any], int]]]) -> None:
    """Counted turn by turn it is the number of equal sets at the end."""
    registry = ToolRegistry([search])
    repeats, history = Repeats(10**6, registry), list[Message]()
    for number, turn in enumerate(turns):
        made, results = list[ToolCall](), list[ToolResult]()
        for place, (given_, found) in enumerate(turn):
            text = json.dumps(given_, ensure_ascii=bool(place % 2), indent=number % 3 or None)
            made.append(ToolCall(f"{number}.{place}", "search", text))
            results.append(ToolResult(f"{number}.{place}", "search", (Text(str(found)),)))
        repeats.seen(made, {result.call_id: result for result in results})
        history += [Message("assistant", tuple(made)), Message("tool", tuple(results))]
    sets = [{(json.dumps(g, sort_keys=True), f) for g, f in turn} for turn in turns]
    expected = 0
    for each in reversed(sets):
        if each != sets[-1]:
            break
        expected += 1
    assert repeats.count == expected

    recalled = Repeats(10**6, registry)
    recalled.recall([Message.user("x"), *history], len(turns))
    assert recalled.count == expected
