"""What members do that follow no protocol: several handoffs, none, circles, nothing at all."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.agent.parts import add, check_answered
from tests.providers.openai.parts import OPENAI
from tests.workflows.desk import hands, last_result, member, says
from treadle import (
    Agent,
    Approve,
    Conversation,
    Deny,
    Finish,
    Handoff,
    Interrupt,
    MemoryStore,
    ModelRequest,
    OutputInvalid,
    RunContext,
    Swarm,
    tool,
)
from treadle.agent.output import OUTPUT_TOOL
from treadle.events import HandedOff
from treadle.journal import CallEnded
from treadle.providers.openai.chat_body import ChatEncoder
from treadle.testing import FunctionModel, ScriptedModel, assert_strict, calls, reply


@pytest.mark.parametrize("history", ["fresh", "full"])
async def test_a_handoff_beside_other_calls(history: Any) -> None:
    """BS-29: the other calls run, each call has one result, whoever speaks next."""
    did: list[int] = []

    @tool(name="add")
    async def plus(a: int, b: int) -> int:
        """Add two numbers."""
        did.append(a + b)
        return a + b

    both = calls(("c1", "add", {"a": 3, "b": 4}), ("c2", "transfer_to_bob", {}))
    bob = ScriptedModel(["hi", "hi again"])
    alice = ScriptedModel([both])
    agents = [Agent("alice", alice, tools=[plus]), Agent("bob", bob)]
    swarm, store = Swarm("s", agents=agents, history=history), MemoryStore()
    asked = "add 3 and 4, and let me talk to Bob"
    result = await swarm.run(asked, store=store, conversation="c")
    assert (did, result.output, result.agent) == ([7], "hi", "bob")
    for request in (*alice.requests, *bob.requests):
        assert_strict(ChatEncoder("gpt-5.2", OPENAI).body(request, stream=False))
    entries = [e for b in await store.read("c") for e in b.entries]
    ended = [e for e in entries if isinstance(e, CallEnded)]
    assert sorted(e.result.call_id for e in ended) == ["alice#1:c1", "alice#1:c2"]
    assert [r.text for r in result.tool_results] == ["7", "Handed over to bob."]
    reloaded = await Swarm("s", agents=agents, history=history).run(
        "Still there?", store=store, conversation="c"
    )
    assert (reloaded.agent, reloaded.output) == ("bob", "hi again")
    kept = await Conversation.open("c", store=store)
    check_answered(list(await kept.messages()))


async def test_a_call_beside_a_handoff_that_fails() -> None:
    """BS-29: it is recorded as what it is; the handoff happens."""

    @tool
    async def fail() -> str:
        """Fail."""
        raise ValueError("no")

    both = calls(("c1", "fail", {}), ("c2", "transfer_to_two", {}), ("c3", "nothing", {}))
    one = member("one", both, tools=[fail])
    result = await Swarm("s", agents=[one, member("two", says("hi"))], history="full").run("Go.")
    check_answered(list(result.messages))
    assert [r.is_error for r in result.messages[2].tool_results] == [True, False, True]
    assert result.output == "hi"


async def test_two_handoffs_in_one_reply() -> None:
    """BS-30: the first counts, the other is told so, one event, no failure of anybody."""
    two = calls(("c1", "transfer_to_cook", {}), ("c2", "transfer_to_shop", {}))
    agents = [member("host", two), member("cook", says("ok")), member("shop", says("no"))]
    store = MemoryStore()
    run = Swarm("s", agents=agents).start("Dinner.", store=store)
    events = [event async for event in run]
    result = await run
    assert (result.output, result.handoff_chain) == ("ok", ["host", "cook"])
    assert [e.target for e in events if isinstance(e, HandedOff)] == ["cook"]
    first, second = result.tool_results
    assert (first.text, first.is_error) == ("Handed over to cook.", False)
    assert second.text == "Not handed over: this reply hands over to cook already."
    assert not second.is_error
    assert [m.role for m in result.messages] == ["user", "assistant"]


async def test_the_first_is_the_first_in_the_reply() -> None:
    """BS-30: not the one that was quicker."""
    went = asyncio.Event()

    @tool
    async def slow(ctx: RunContext) -> Handoff:
        """Think, and hand over."""
        for _ in range(5):
            await asyncio.sleep(0.002)
        went.set()
        return Handoff("cook")

    two = calls(("c1", "slow", {}), ("c2", "transfer_to_shop", {}))
    agents = [
        member("host", two, tools=[slow]),
        member("cook", says("ok")),
        member("shop", says("no")),
    ]
    result = await Swarm("s", agents=agents).run("Dinner.")
    assert went.is_set()
    assert result.handoff_chain == ["host", "cook"]
    assert "Not handed over" in result.tool_results[1].text


async def test_tools_that_hand_over_in_their_order() -> None:
    """BS-30: tools of one's own, too, where they do not run side by side."""

    @tool(parallel=False)
    async def slow() -> Handoff:
        """Hand over to the cook."""
        await asyncio.sleep(0.005)
        return Handoff("cook")

    @tool(parallel=False)
    async def fast() -> Handoff:
        """Hand over to the shop."""
        return Handoff("shop")

    two = calls(("c1", "slow", {}), ("c2", "fast", {}))
    names = {"cook": "ok", "shop": "no"}
    agents = [member("host", two, tools=[slow, fast])]
    agents += [member(name, says(text)) for name, text in names.items()]
    result = await Swarm("s", agents=agents).run("Dinner.")
    assert result.handoff_chain == ["host", "cook"]
    assert "Not handed over" in result.tool_results[1].text


@pytest.mark.parametrize("history", ["fresh", "full"])
async def test_back_and_forth(history: Any) -> None:
    """BS-31: A to B to A to B with nothing new ends early, with all that was said."""
    asked: list[str] = []

    def to(name: str) -> Any:
        def answer(request: ModelRequest) -> Any:
            asked.append(name)
            return hands(name)

        return FunctionModel(answer)

    swarm = Swarm("s", agents=[Agent("a", to("b")), Agent("b", to("a"))], history=history)
    store = MemoryStore()
    run = swarm.start("Go.", store=store, run_id="r")
    handed = [event async for event in run if isinstance(event, HandedOff)]
    result = await run
    assert result.stop_reason == "loop"
    assert result.reason == "b and others hand the conversation over in circles."
    assert (len(handed), len(asked)) == (3, 4)
    assert result.handoff_chain == ["a", "b", "a", "b"]
    assert [(s.agent, s.handed_to) for s in result.steps] == [("a", "b"), ("b", "a")] * 2
    check_answered(list(result.messages))
    again = await swarm.resume("r", store=store)
    assert (again.stop_reason, again.reason, len(asked)) == ("loop", result.reason, 4)
    assert (again.steps, again.handoff_chain) == (result.steps, result.handoff_chain)
    check_answered(list(again.messages))
    other = await swarm.run(
        "Again?", store=store, conversation=result.conversation_id, model=ScriptedModel(["Yes."])
    )
    assert (other.output, other.agent) == ("Yes.", "b")


async def test_three_in_a_circle() -> None:
    """BS-31: a circle of any size."""
    after = {"a": "b", "b": "c", "c": "a"}
    agents = [member(name, hands(to)) for name, to in after.items()]
    result = await Swarm("s", agents=agents).run("Go.")
    assert (result.stop_reason, result.handoff_chain) == ("loop", [*"abcab"])


@pytest.mark.parametrize("tells", [True, False])
async def test_what_is_new_is_no_circle(tells: bool) -> None:
    """BS-31: a tool that found something is a reason; what it costs is bounded by max_handoffs."""

    @tool
    async def look() -> str:
        """Look."""
        if not tells:
            raise ValueError("nothing")
        return "news"

    def to(name: str, other: str) -> Agent[Any, str]:
        return member(name, calls(("l", "look", {})), hands(other), tools=[look])

    result = await Swarm("s", agents=[to("a", "b"), to("b", "a")]).run("Go.")
    assert result.stop_reason == ("limit" if tells else "loop")
    assert len(result.steps) == (11 if tells else 4)
    check_answered(list(result.messages))


async def test_looking_who_is_there_is_nothing_new() -> None:
    """BS-31: the tools of the swarm tell nothing that was not known."""
    listing = calls(("l", "list_available_agents", {}))
    agents = [member("a", listing, hands("b")), member("b", listing, hands("a"))]
    assert (await Swarm("s", agents=agents).run("Go.")).stop_reason == "loop"


async def test_a_way_that_is_gone_twice_is_no_circle() -> None:
    """BS-31: one who hands out to several is not stopped."""
    rounds = iter([hands("b"), hands("c"), hands("d"), says("done")])
    one = Agent("a", FunctionModel(lambda request: next(rounds)))
    others = [member(name, hands("a", f"{name} did it")) for name in "bcd"]
    result = await Swarm("s", agents=[one, *others]).run("Go.")
    assert (result.output, result.handoff_chain) == ("done", [*"abacada"])


async def test_empty_replies() -> None:
    """BS-31: no answer and no call is an empty answer, asked again a few times, never a loop."""
    asked: list[str] = []

    def nothing(request: ModelRequest) -> Any:
        asked.append("")
        return reply("")

    agents = [member("a", hands("b")), Agent("b", FunctionModel(nothing))]
    result: Any = None
    try:
        result = await Swarm("s", agents=agents).run("Go.")
    except OutputInvalid as error:
        result = error.result
    assert len(asked) <= 3
    assert result.agent == "b"


async def test_a_handoff_with_wrong_arguments_can_be_mended() -> None:
    """The model is told; a message is not wanted, only possible."""
    wrong = calls(("h", "transfer_to_two", {"message": 3, "more": True}))

    def mends(request: ModelRequest) -> Any:
        return hands("two", last_result(request)[:12])

    one = member("one", wrong, mends)
    result = await Swarm("s", agents=[one, member("two", says("hi"))]).run("Go.")
    assert result.output == "hi"
    assert result.steps[0].turns == 2


async def test_a_member_that_does_not_exist() -> None:
    """B120: the model is told, and nobody else is asked."""
    one = member("one", calls(("h", "transfer_to_nobody", {})), says("so I answer"), tools=[add])
    result = await Swarm("s", agents=[one, member("two", says("no"))]).run("Go.")
    assert (result.output, result.handoff_chain) == ("so I answer", ["one"])


async def test_one_member() -> None:
    """It has nobody to turn to, and no tools for that."""
    model = ScriptedModel(["hi"])
    result = await Swarm("s", agents=[Agent("one", model)]).run("Go.")
    assert (result.output, model.requests[0].tools) == ("hi", ())


@pytest.mark.parametrize("approved", [True, False])
async def test_a_handoff_that_waits_for_somebody(approved: bool) -> None:
    """Approval holds for it like for any call; after a no its member goes on."""

    @tool(approval=True)
    async def escalate() -> Handoff:
        """Hand over to the boss."""
        return Handoff("boss", "urgent")

    def make() -> Swarm[str]:
        front = member("front", calls(("e", "escalate", {})), says("I stay."), tools=[escalate])
        return Swarm("s", agents=[front, member("boss", says("Boss here."))])

    store = MemoryStore()
    paused = await make().run("Go.", store=store, run_id="r")
    assert (paused.stop_reason, paused.handoff_chain) == ("paused", ["front"])
    decision = Approve() if approved else Deny("no")
    result = await make().resume("r", store=store, decisions={"front#1:e": decision})
    assert result.output == ("Boss here." if approved else "I stay.")
    assert result.handoff_chain == ["front", "boss"][: 1 + approved]


async def test_a_handoff_beside_a_call_that_waits() -> None:
    """It happens when the whole reply is done, in whatever process that is."""
    paid: list[str] = []

    @tool(approval=True)
    async def pay() -> str:
        """Pay."""
        paid.append("")
        return "paid"

    def make() -> Swarm[str]:
        both = calls(("p", "pay", {}), ("h", "transfer_to_two", {}))
        return Swarm("s", agents=[member("one", both, tools=[pay]), member("two", says("hi"))])

    store = MemoryStore()
    paused = await make().run("Go.", store=store, run_id="r")
    assert (paused.stop_reason, paused.agent, len(paused.pending)) == ("paused", "one", 1)
    result = await make().resume("r", store=store, decisions={"one#1:p": Approve()})
    assert (result.output, result.handoff_chain, len(paid)) == ("hi", ["one", "two"], 1)


@pytest.mark.parametrize("other", ["finish", "interrupt"])
async def test_a_handoff_beside_another_control(other: str) -> None:
    """An interrupt pauses first, and the handoff is not lost; else the first counts."""

    @tool
    async def stop() -> Any:
        """Stop."""
        return Finish("finished") if other == "finish" else Interrupt("look at this")

    both = calls(("h", "transfer_to_two", {}), ("s", "stop", {}))

    def make() -> Swarm[str]:
        return Swarm("s", agents=[member("one", both, tools=[stop]), member("two", says("hi"))])

    store = MemoryStore()
    result = await make().run("Go.", store=store, run_id="r")
    if other == "interrupt":
        assert (result.stop_reason, result.reason) == ("paused", "look at this")
        result = await make().resume("r", store=store)
    assert (result.output, result.handoff_chain) == ("hi", ["one", "two"])
    check_answered(list(result.messages))


async def test_a_handoff_beside_an_answer_of_its_type() -> None:
    """The handoff counts, and the answer is told that it did not; also one that cannot be."""
    for value in (1, "no number"):
        both = calls(("o", OUTPUT_TOOL, {"result": value}), ("h", "transfer_to_two", {}))
        one = member("one", both).replace(output_type=int)
        swarm = Swarm[Any]("s", agents=[one, member("two", says("hi"))], history="full")
        result = await swarm.run("Go.")
        assert (result.output, result.handoff_chain) == ("hi", ["one", "two"])
        check_answered(list(result.messages))
        told = {each.name: (each.is_error, each.text) for each in result.tool_results}
        assert told["transfer_to_two"] == (False, "Handed over to two.")
        failed, text = told[OUTPUT_TOOL]
        assert failed
        assert "hands the conversation over" in text
