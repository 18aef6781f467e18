"""Advice: what middleware and tools tell the model after the results of a turn."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from tests.agent.dying import Dying, die_after
from tests.agent.parts import check_answered, roles
from tests.scenarios.any_model import Captured
from treadle import (
    Agent,
    Approve,
    ConfigError,
    Conversation,
    Finish,
    MemoryStore,
    Message,
    Middleware,
    ModelError,
    ModelReply,
    ModelRequest,
    RunContext,
    Swarm,
    ToolCall,
    ToolError,
    ToolResult,
    tool,
)
from treadle.journal import AdviceGiven, CallBegan, CallEnded, ModelReplied
from treadle.messages import Text, Thread
from treadle.providers import Anthropic, Gemini, OpenAI, OpenAIResponses
from treadle.testing import FunctionModel, ScriptedModel, assert_strict, calls, raises


@tool
async def look(what: str) -> str:
    """Look."""
    return f"saw {what}"


@tool(parallel=False)
async def put(what: str) -> str:
    """Put."""
    return f"put {what}"


class Adviser(Middleware):
    """Advises after each call, by its argument, and refuses what is secret."""

    async def before_tool(
        self, ctx: RunContext, call: ToolCall, arguments: dict[str, Any]
    ) -> ToolResult | None:
        if arguments["what"] == "secret":
            ctx.advise("Leave secrets alone.")
            raise ToolError("not allowed")
        return None

    async def after_tool(
        self, ctx: RunContext, call: ToolCall, result: ToolResult
    ) -> ToolResult | None:
        for text in (f"  Mind the {result.text}. \n", "Be careful.", " \t"):
            ctx.advise(text)
        return None


def texts(message: Message) -> list[str]:
    """The texts of a message, one by one."""
    return [part.text for part in message.parts if isinstance(part, Text)]


async def entries_of(store: MemoryStore, conversation: str = "c") -> list[Any]:
    """All entries of a conversation."""
    return [entry for batch in await store.read(conversation) for entry in batch.entries]


def looking() -> FunctionModel:
    """Two turns of parallel and serial calls, and an answer."""

    def answer(request: ModelRequest) -> ModelReply | str:
        turn = sum(message.role == "assistant" for message in request.messages)
        if turn < 2:
            made = [(f"{name}{turn}", name, {"what": f"{name} {turn}"}) for name in ("look", "put")]
            return calls(*made, ("s" + str(turn), "look", {"what": "secret"}))
        return "done"

    return FunctionModel(answer)


async def test_advice_comes_once_after_the_results() -> None:
    """S71: trimmed, said once, in the order of the calls, in one user message after them."""
    model = looking()
    result = await Agent("a", model, tools=[look, put], middleware=[Adviser()]).run("x")

    assert roles(result.messages) == [
        *("user", "assistant", "tool", "user", "assistant", "tool", "user", "assistant")
    ]
    advice = result.messages[3]
    assert advice.advice
    assert texts(advice) == [
        *("Mind the saw look 0.", "Be careful.", "Mind the put put 0.", "Leave secrets alone.")
    ]
    assert model.requests[1].messages[3] == advice
    assert [r.is_error for r in result.messages[2].tool_results] == [False, False, True]
    assert not any(m.advice for m in result.messages if m is not advice and m.role != "user")


@pytest.mark.parametrize("appends", range(1, 12))
async def test_advice_outlives_a_crash_at_any_append(appends: int) -> None:
    """What was advised beside a result is in the journal with it, in the same write."""
    agent = Agent("a", looking(), tools=[look, put], middleware=[Adviser()], max_parallel_tools=1)
    whole = await agent.replace(model=looking()).run("go", store=MemoryStore())
    store = Dying()
    await die_after(appends, agent, store, conversation="c")
    result = await agent.resume("r", store=store)

    check_answered(list(result.messages))
    assert result.output == "done"
    stored = await (await Conversation.open("c", store=store)).messages()
    assert list(stored) == list(result.messages)
    if not any(r.synthetic for m in result.messages for r in m.tool_results):
        assert list(result.messages) == list(whole.messages)
    for batch in await store.read("c"):
        for before, entry in zip(batch.entries, batch.entries[1:], strict=False):
            if isinstance(entry, AdviceGiven):
                assert isinstance(before, CallEnded)
                assert before.result.call_id == entry.call_id


@pytest.mark.parametrize("which", ["chat", "template", "messages", "responses", "gemini"])
async def test_every_provider_takes_a_history_with_advice(which: Any) -> None:
    """The strict checkers have nothing to say, with steering behind the advice as well."""
    model = looking()
    agent = Agent("a", model, tools=[look, put], middleware=[Adviser()])
    result = await agent.run("x")
    history = Thread([*result.messages[:4], Message.user("And hurry."), *result.messages[4:]])
    wire = Captured()
    clients: dict[str, tuple[Any, Any]] = {
        "chat": (OpenAI, "openai"),
        "template": (OpenAI, "template"),
        "messages": (Anthropic, "anthropic"),
        "responses": (OpenAIResponses, "openai_responses"),
        "gemini": (Gemini, "gemini"),
    }
    client, kind = clients[which]
    options = {"merge_roles": True} if which == "template" else {}
    asked = client("m", api_key="k", transport=wire, **options)
    for messages in (*(request.messages for request in model.requests), history[:-1]):
        request = ModelRequest(messages=Thread(messages), tools=model.requests[0].tools)
        with suppress(ModelError):  # the answer is in one protocol only; the request counts
            await asked.complete(request)
    assert len(wire.bodies) >= 4
    for body in wire.bodies:
        assert_strict(body, kind)
        assert b"Be careful." in body or body is wire.bodies[0]


class EveryTurn(Middleware):
    """Advises in the hooks around the model."""

    async def before_model(self, ctx: RunContext, request: ModelRequest) -> None:
        ctx.advise("before")

    async def after_model(self, ctx: RunContext, reply: ModelReply) -> None:
        ctx.advise("after")
        ctx.advise("before")

    async def before_final(self, ctx: RunContext, output: Any) -> Any:
        ctx.advise("too late")
        return output


class ByTool(Middleware):
    """Advises after each call, by the name of its tool."""

    async def after_tool(self, ctx: RunContext, call: ToolCall, result: ToolResult) -> None:
        ctx.advise(f"Mind {call.name}.")


def advise_from_afar(ctx: RunContext) -> str:
    """Advise."""
    ctx.advise("From afar.")
    return "ok"


async def test_advice_around_the_model_is_written_with_the_reply() -> None:
    """It comes after the results of the same turn; on the final step it is ignored."""
    store = MemoryStore()
    model = ScriptedModel([calls(("c", "look", {"what": "a"})), "done"])
    agent = Agent("a", model, tools=[look], middleware=[EveryTurn()])
    result = await agent.run("x", store=store, conversation="c")

    assert roles(result.messages) == ["user", "assistant", "tool", "user", "assistant"]
    assert texts(result.messages[3]) == ["before", "after"]
    (batch,) = [
        b.entries
        for b in await store.read("c")
        if any(isinstance(e, AdviceGiven) for e in b.entries)
    ]
    assert [type(entry) for entry in batch] == [ModelReplied, CallBegan, AdviceGiven]
    assert list(await (await Conversation.open("c", store=store)).messages()) == result.messages


async def test_advice_on_a_turn_without_calls_that_is_not_the_last() -> None:
    """A blank reply is asked for again: what was advised stands before the next turn."""
    store = MemoryStore()
    agent = Agent("a", ScriptedModel(["", "done"]), middleware=[EveryTurn()])
    result = await agent.run("x", store=store, conversation="c")

    assert roles(result.messages) == ["user", "user", "assistant"]
    assert result.messages[1].advice
    assert list(await (await Conversation.open("c", store=store)).messages()) == result.messages


async def test_advice_of_a_call_that_ends_the_run_is_ignored() -> None:
    """`Finish` is the last step: nobody is left to be told, in this process or the next."""

    @tool
    async def end(ctx: RunContext) -> Finish:
        """End."""
        ctx.advise("Do not.")
        return Finish("over")

    store = MemoryStore()
    model = ScriptedModel([calls(("c", "end", {}))])
    agent = Agent("a", model, tools=[end])
    result = await agent.run("x", store=store, conversation="c")

    assert (result.output, roles(result.messages)) == ("over", ["user", "assistant", "tool"])
    opened = await Conversation.open("c", store=store)
    assert list(await opened.messages()) == result.messages
    assert any(isinstance(entry, AdviceGiven) for entry in await entries_of(store))


async def test_a_tool_may_advise_and_a_retry_says_nothing_twice() -> None:
    """Tools have the same method; what each try says counts once."""

    @tool(retries=1)
    async def shaky(ctx: RunContext) -> str:
        """Shake."""
        ctx.advise("Shaky today.")
        if ctx.attempt == 1:
            raise OSError("no")
        ctx.advise("It worked.")
        return "ok"

    model = ScriptedModel([calls(("c", "shaky", {})), "done"])
    result = await Agent("a", model, tools=[shaky]).run("x")

    assert texts(result.messages[3]) == ["Shaky today.", "It worked."]


async def test_advice_while_another_call_waits_for_approval() -> None:
    """It stands behind all results, never between a call and its own, before and after a resume."""

    @tool(approval=True)
    async def pay(what: str) -> str:
        """Pay."""
        return f"paid {what}"

    store = MemoryStore()
    made = calls(("l", "look", {"what": "a"}), ("p", "pay", {"what": "b"}))
    agent = Agent("a", ScriptedModel([made, "done"]), tools=[look, pay], middleware=[Adviser()])
    paused = await agent.run("x", store=store, conversation="c", run_id="r")
    stored = await (await Conversation.open("c", store=store)).messages()
    result = await agent.resume("r", store=store, decisions={"p": Approve()})

    assert roles(paused.messages) == roles(stored) == ["user", "assistant", "tool", "user"]
    assert texts(result.messages[3]) == ["Mind the saw a.", "Be careful.", "Mind the paid b."]
    assert roles(result.messages) == ["user", "assistant", "tool", "user", "assistant"]
    assert list(await (await Conversation.open("c", store=store)).messages()) == result.messages


async def test_the_text_so_far_is_seen_through_advice() -> None:
    """What the model said last is the partial output, though advice followed it."""
    said = calls(("c", "look", {"what": "a"}))
    said = ModelReply(message=Message.assistant("I look.", *said.message.parts), usage=said.usage)
    agent = Agent(
        "a", ScriptedModel([said, raises(OSError("gone"))]), tools=[look], middleware=[Adviser()]
    )
    with pytest.raises(Exception, match="gone") as caught:
        await agent.run("x")
    assert caught.value.result.output == "I look."  # type: ignore[attr-defined]


async def test_advice_in_a_member_that_hands_over() -> None:
    """Beside a handoff nobody is left to be told; what was told before goes along once."""
    first = calls(("c", "look", {"what": "a"}))
    hands = calls(("d", "look", {"what": "b"}), ("h", "transfer_to_bob", {}))
    alice = Agent("alice", ScriptedModel([first, hands]), tools=[look], middleware=[ByTool()])
    bob = Agent("bob", ScriptedModel(["hi", "hi again"]))
    swarm, store = Swarm("s", agents=[alice, bob], history="full"), MemoryStore()
    result = await swarm.run("x", store=store, conversation="c")
    again = await swarm.run("y", store=store, conversation="c")

    for messages in (result.messages, again.messages):
        assert [texts(m) for m in messages if m.advice] == [["Mind look."]]
        check_answered(list(messages))


async def test_a_tool_in_a_process_advises() -> None:
    """The method is the same there."""
    model = ScriptedModel([calls(("c", "distant", {})), "done"])
    told = tool(isolation="process", name="distant")(advise_from_afar)
    result = await Agent("a", model, tools=[told]).run("x")

    assert texts(result.messages[3]) == ["From afar."]


@pytest.mark.parametrize("advice", [None, 5, ["be careful"], b"bytes"])
async def test_advice_that_is_no_text_is_refused(advice: Any) -> None:
    """With the value, and where it was given."""

    class Careless(Middleware):
        async def before_model(self, ctx: RunContext, request: ModelRequest) -> None:
            ctx.advise(advice)

    agent = Agent("a", ScriptedModel(["hi"]), middleware=[Careless()])
    with pytest.raises(ConfigError, match="advice is a text"):
        await agent.run("go")
