"""Near its limits a model is told once what is left, and an answer is kept enough for."""

from __future__ import annotations

import time
from datetime import timedelta
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest

from tests.agent.dying import Dying, die_after
from tests.agent.parts import roles
from treadle import (
    Agent,
    Conversation,
    Limits,
    MemoryStore,
    Message,
    ModelReply,
    ModelRequest,
    Price,
    RunResult,
    Usage,
    tool,
)
from treadle.agent.close_out import CloseOut
from treadle.journal import AdviceGiven
from treadle.limits import Budget
from treadle.ports.model import ModelProfile
from treadle.testing import FunctionModel, calls, reply

USAGE = Usage(input_tokens=900, output_tokens=100, requests=1)


@tool
async def look(n: int) -> str:
    """Look."""
    return f"saw {n}"


def busy(*, heeds: bool = False, usage: Usage = USAGE, each: int = 1) -> FunctionModel:
    """A model that looks on and on; one that heeds answers as soon as it is told to."""

    def answer(request: ModelRequest) -> ModelReply:
        turn = sum(message.role == "assistant" for message in request.messages)
        told = any(message.advice for message in request.messages)
        if not request.tools or (heeds and told):
            return reply(f"answer after {turn}", usage=usage)
        made = [(f"c{turn}.{n}", "look", {"n": turn * 10 + n}) for n in range(each)]
        return calls(*made, usage=usage)

    price = Price(input=1, output=1)
    return FunctionModel(answer, profile=ModelProfile(name="m", price=price))


def notes(result: RunResult[Any]) -> list[tuple[int, str]]:
    """After how many replies the model was told what, up to the close-out."""
    return [
        (roles(result.messages[:place]).count("assistant"), message.text.partition(" Close out")[0])
        for place, message in enumerate(result.messages)
        if message.advice
    ]


@pytest.mark.parametrize(
    ("limits", "each", "expected"),
    [
        (Limits(), 1, [(9, "Little is left in this run: 1 turn.")]),
        (Limits(max_turns=5), 1, [(4, "Little is left in this run: 1 turn.")]),
        (Limits(max_turns=4), 1, []),
        (Limits(max_turns=1), 1, []),
        (Limits(max_turns=50), 1, [(45, "Little is left in this run: 5 turns.")]),
        (Limits(close_out=False), 1, []),
        (Limits(max_turns=None, max_tool_calls=3), 1, []),
        (
            Limits(max_turns=None, max_tool_calls=8),
            1,
            [(7, "Little is left in this run: 1 tool call.")],
        ),
        (
            Limits(max_turns=None, max_tool_calls=8),
            4,
            [(2, "Little is left in this run: no tool calls.")],
        ),
        (
            Limits(max_turns=9, max_tool_calls=9),
            1,
            [(8, "Little is left in this run: 1 turn, 1 tool call.")],
        ),
    ],
)
async def test_told_once_when_turns_or_calls_are_few(
    limits: Limits, each: int, expected: list[tuple[int, str]]
) -> None:
    """A tenth, or the last one; never in runs that are short anyway."""
    result = await Agent("a", busy(each=each), tools=[look], limits=limits).run("x")

    assert notes(result) == expected
    assert result.stop_reason == "limit"


async def test_a_model_that_heeds_answers_by_itself() -> None:
    """That is what it is for: an answer within the limit instead of one that is forced."""
    result = await Agent("a", busy(heeds=True), tools=[look]).run("x")

    assert (result.stop_reason, result.output, result.turns) == ("answer", "answer after 9", 10)


async def test_an_answer_is_kept_enough_for() -> None:
    """Tokens: told before the end, then made to answer while that can be paid for."""
    limits = Limits(max_turns=None, max_tokens=20_000)
    result = await Agent("a", busy(), tools=[look], limits=limits).run("x")

    ((told, text),) = notes(result)
    assert "tokens." in text
    assert (result.stop_reason, result.output) == ("limit", f"answer after {result.turns - 1}")
    assert told < result.turns - 1, "it had a turn to answer by itself"
    assert result.usage.total_tokens <= 20_000
    assert roles(result.messages)[-2:] == ["tool", "assistant"]
    heeded = await Agent("a", busy(heeds=True), tools=[look], limits=limits).run("x")
    assert (heeded.stop_reason, heeded.turns) == ("answer", told + 1)


@pytest.mark.parametrize(
    ("options", "reason"),
    [({"on_limit": "error"}, "budget"), ({"on_limit": "pause"}, "budget"), ({}, "budget")],
)
async def test_nothing_is_forced_unless_asked_for(options: dict[str, Any], reason: str) -> None:
    """A spent budget just stops, where no answer is wanted or nothing is to be told."""
    limits = Limits(max_turns=None, max_tokens=20_000, close_out=bool(options))
    agent = Agent("a", busy(), tools=[look], limits=limits, **options)
    result = await agent.run("x")

    assert result.stop_reason == reason
    assert len(notes(result)) == bool(options)


async def test_money() -> None:
    """The same in money, told as a share: nobody knows the currency."""
    limits = Limits(max_turns=None, max_cost=Decimal("0.02"))
    result = await Agent("a", busy(), tools=[look], limits=limits).run("x")

    ((_, text),) = notes(result)
    assert "% of the money." in text
    assert (result.stop_reason, result.usage.cost <= Decimal("0.02")) == ("limit", True)


async def test_a_budget_that_is_small_from_the_start() -> None:
    """One that pays for one call is not talked about; else there is a turn after the note."""
    for most, told in ((1050, []), (1500, [1])):
        limits = Limits(max_tokens=most)
        result = await Agent("a", busy(), tools=[look], limits=limits).run("x")
        assert (result.stop_reason, [turn for turn, _ in notes(result)]) == ("budget", told)


async def test_a_child_is_told_of_the_budget_above() -> None:
    """Its own limits are wide; those of the run that it works for are not."""
    child = Agent("child", busy(heeds=True), tools=[look], limits=Limits(max_turns=None))

    def above(request: ModelRequest) -> ModelReply:
        if len(request.messages) < 2:
            return calls(("c", "child", {"input": "?"}))
        return reply(request.messages[2].tool_results[0].text)

    limits = Limits(max_tokens=20_000)
    profile = ModelProfile(name="m", price=Price(input=1, output=1))
    agent = Agent("a", FunctionModel(above, profile=profile), tools=[child], limits=limits)
    result = await agent.run("x")

    assert result.output.startswith("answer after ")
    assert result.usage.total_tokens <= 20_000


def clock(seconds: float, deadline: float, above: Any = None) -> Any:
    """The work of a run that has taken so long of its deadline."""
    limits = Limits(deadline=timedelta(seconds=deadline))
    left = deadline - seconds
    return SimpleNamespace(
        setup=SimpleNamespace(limits=limits),
        budget=Budget(limits),
        origin=None if above is None else SimpleNamespace(above=above),
        began=time.perf_counter() - seconds,
        timed=True,
        seconds_left=lambda: left if above is None else min(left, above.seconds_left()),
    )


def test_time() -> None:
    """A tenth of the deadline, of whichever run's comes first; too little to use is not told."""
    for seconds, deadline, expected in ((89, 100, ""), (92, 100, "8 seconds"), (99.5, 100, "")):
        note = CloseOut(clock(seconds, deadline), told=False).note()
        assert (expected in note, bool(note)) == (True, bool(expected))
    above = clock(95, 100)
    assert "5 seconds" in CloseOut(clock(1, 300, above), told=False).note()
    assert CloseOut(clock(1, 300, clock(1, 100)), told=False).note() == ""


@pytest.mark.parametrize("appends", range(1, 14, 2))
async def test_told_once_over_a_crash(appends: int) -> None:
    """The journal knows that the model was told; what the next process sees is the same."""
    limits = Limits(max_turns=6)
    agent, store = Agent("a", busy(), tools=[look], limits=limits), Dying()
    whole = await Agent("a", busy(), tools=[look], limits=limits).run("go")
    await die_after(appends, agent, store, conversation="c")
    result = await agent.resume("r", store=store)

    if not any(r.synthetic for m in result.messages for r in m.tool_results):
        assert list(result.messages) == list(whole.messages)
    assert len(notes(result)) == 1
    conversation = await Conversation.open("c", store=store)
    assert list(await conversation.messages()) == list(result.messages)
    assert (await conversation.view()).runs["r"].told
    given = [e for b in await store.read("c") for e in b.entries if isinstance(e, AdviceGiven)]
    assert [entry.about for entry in given] == ["limits"]


async def test_told_again_in_the_next_run_only() -> None:
    """A pause and a resume with more turns is one run, and the next run is another."""
    store = MemoryStore()
    agent = Agent("a", busy(), tools=[look], limits=Limits(max_turns=6), on_limit="pause")
    await agent.run("x", store=store, conversation="c", run_id="r")
    more = await agent.resume("r", store=store, limits=Limits(max_turns=12))
    assert len(notes(more)) == 1

    other = await agent.run("y", store=store, conversation="c")
    assert len(notes(other)) == 2
    assert Message.user("y") in other.messages
