"""Agents as tools: what a child run gets, what it gives back, and what is seen of it."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pytest

from tests.agent.nested import USAGE, Tree, asking, playing, repeating
from tests.agent.parts import add, check_answered
from treadle import (
    Agent,
    ConfigError,
    Conversation,
    DefinitionChanged,
    Finish,
    InvalidTool,
    Limits,
    MemoryStore,
    Middleware,
    ModelRequest,
    Next,
    NoModel,
    RunContext,
    ToolAborted,
    ToolError,
    ToolResult,
    tool,
)
from treadle.events import AgentLeft
from treadle.journal import ChildBegan, ChildEnded
from treadle.testing import ScriptedModel, calls
from treadle.testing.scripted import last_text


def boss_of(*experts: Any, rounds: Any = None, **options: Any) -> Agent[Any, Any]:
    """An agent that asks each of these once, all at once, and repeats what it was told."""
    names = [each.name for each in experts]
    first = asking(*((f"c{n}", name) for n, name in enumerate(names, 1)), usage=USAGE)
    model = playing(*(rounds or (first, repeating)))
    return Agent("boss", model, tools=list(experts), **options)


@pytest.mark.parametrize("stored", [True, False])
async def test_a_child_run_sees_its_input_only(stored: bool) -> None:
    """Nothing of the parent's history; and its answer is the result of the call."""
    model = ScriptedModel(["forty-two"])
    expert = Agent("expert", model, instructions="You know it.")
    boss = boss_of(expert.as_tool(), store=MemoryStore() if stored else None)
    result = await boss.run("What is it?")

    assert (result.output, result.stop_reason, result.turns) == ("forty-two", "answer", 2)
    (asked,) = model.requests
    assert [message.text for message in asked.messages] == ["?"]
    assert asked.system == "You know it."
    assert [each.text for each in result.tool_results] == ["forty-two"]
    check_answered(list(result.messages))


async def test_usage_is_counted_once() -> None:
    """In the result, the journal and the events: of the child its own, of the run all of it."""
    tree, store = Tree(), MemoryStore()
    run = tree.boss.start("go", store=store, conversation="c")
    left = {event.path: event.usage async for event in run if isinstance(event, AgentLeft)}
    result = await run

    assert (result.usage.requests, result.usage.tool_calls) == (9, 6)
    assert result.usage.input_tokens == 90
    assert {path: (u.requests, u.tool_calls) for path, u in left.items()} == {
        "expert#1": (5, 3),
        "expert#1/critic#1": (2, 1),
        "writer#1": (2, 1),
    }
    conversation = await Conversation.open("c", store=store)
    entries = [entry for _, entry in await conversation.entries()]
    ended = {each.path: each.usage for each in entries if isinstance(each, ChildEnded)}
    assert ended == left
    (record,) = await conversation.runs()
    assert (record.usage, record.turns) == (result.usage, 2)


async def test_the_record_counts_as_it_goes() -> None:
    """At every revision the run's record has what was used so far, children included."""
    tree, store = Tree(), MemoryStore()
    await tree.boss.run("go", store=store, conversation="c")
    conversation = await Conversation.open("c", store=store)
    used: list[tuple[int, int]] = []
    for revision in range(1, conversation.head.revision):
        record = (await conversation.view(revision)).last_run
        assert record is not None
        used.append((record.usage.requests, record.tool_calls))

    assert used == sorted(used)
    assert used[-1] == (8, 6)


async def test_paths_are_numbered_by_name() -> None:
    """In the journal, under each parent; what a name holds makes no other path of it."""
    odd = Agent("a/b#1", playing("odd"))
    twice = Agent("twice", playing("two"))
    tools = [odd.as_tool("odd"), twice.as_tool()]
    first = asking(("c1", "twice"), ("c2", "odd"), ("c3", "twice"))
    store = MemoryStore()
    boss = Agent("boss", playing(first, asking(("c4", "twice")), "done"), tools=tools, store=store)
    await boss.run("go", conversation="c")
    await boss.run("again", conversation="c")

    entries = await (await Conversation.open("c", store=store)).entries()
    began = [(e.path, e.agent, e.call_id) for _, e in entries if isinstance(e, ChildBegan)]
    assert began == [
        ("twice#1", "twice", "c1"),
        ("a%2Fb%231#1", "a/b#1", "c2"),
        ("twice#2", "twice", "c3"),
        ("twice#3", "twice", "c4"),
    ]


async def test_call_ids_are_unique_in_the_run() -> None:
    """Two children whose models use the same IDs: each call has a key of its own."""
    keys: list[str] = []

    @tool
    async def work(ctx: RunContext) -> str:
        """Work."""
        keys.append(ctx.idempotency_key)
        return "ok"

    expert = Agent(
        "expert", playing(calls(("1", "work", {})), calls(("1", "work", {})), "done"), tools=[work]
    )
    boss = Agent("boss", playing(asking(("1", "expert"), ("2", "expert")), "done"), tools=[expert])
    await boss.run("go", run_id="r")

    assert sorted(keys) == ["r:expert#1:1", "r:expert#1:1_2", "r:expert#2:1", "r:expert#2:1_2"]


@dataclass
class Finding:
    """A typed answer."""

    place: str
    price: Decimal


async def test_a_typed_answer_comes_back_as_it_was() -> None:
    """The result has the value; the model reads JSON."""
    expert = Agent("expert", playing('{"place": "Rome", "price": "9.50"}'), output_type=Finding)
    result = await boss_of(expert, store=MemoryStore()).run("go")

    assert result.tool_results[0].value == Finding("Rome", Decimal("9.50"))
    assert "9.50" in result.output


async def test_a_tool_of_the_child_finishes_the_child_only() -> None:
    """What it asks of the loop, it asks of its own."""

    @tool
    async def done() -> Finish:
        """Finish."""
        return Finish("that is all")

    expert = Agent("expert", playing(calls(("f", "done", {}))), tools=[done])
    result = await boss_of(expert).run("go")

    assert (result.output, result.stop_reason, result.turns) == ("that is all", "answer", 2)


async def test_deps_and_metadata_pass_through() -> None:
    """And the state is one: an agent's own scope is its own."""
    seen: list[Any] = []

    @tool
    async def look(ctx: RunContext[dict[str, int]]) -> str:
        """Look."""
        seen.append((ctx.deps, ctx.metadata["user"], ctx.agent, ctx.state.get("name")))
        ctx.state.set("name", "mine")
        ctx.state.session.set("shared", 1)
        return "ok"

    expert = Agent("expert", playing(calls(("l", "look", {})), "done"), tools=[look])
    store = MemoryStore()
    given = {"agent::boss::name": "the boss's", "agent::expert::name": "the expert's"}
    result = await boss_of(expert, store=store).run(
        "go", deps={"n": 1}, metadata={"user": "ann"}, state=given, conversation="c"
    )

    assert seen == [({"n": 1}, "ann", "expert", "the expert's")]
    assert result.state.get("agent::expert::name") == "mine"
    assert result.state.get("agent::boss::name") == "the boss's"
    kept = await (await Conversation.open("c", store=store)).state()
    assert kept.packed() == result.state.packed()
    assert kept.get("session::shared") == 1


async def test_parallel_children_do_not_write_the_same_key() -> None:
    """As parallel tools must not; one after the other they may."""

    @tool
    async def note(ctx: RunContext) -> str:
        """Note."""
        ctx.state.session.set("key", ctx.agent)
        return "noted"

    def experts() -> list[Agent[Any, Any]]:
        plan = (calls(("n", "note", {})), last_text)
        return [Agent(name, playing(*plan), tools=[note]) for name in ("one", "two")]

    both = await boss_of(*experts()).run("go")
    first, second = (each.text for each in both.tool_results)
    assert first == "noted"
    assert "was already written by the parallel call 'c1'" in second

    in_turn = await boss_of(*experts(), max_parallel_tools=1).run("go")
    assert [each.text for each in in_turn.tool_results] == ["noted", "noted"]
    assert in_turn.state.get("session::key") == "two"


async def test_a_child_that_fails_is_an_error_for_the_model() -> None:
    """With the reason; the run goes on, unless the tool says otherwise."""

    def broken(request: Any) -> str:
        raise ValueError("no such planet")

    expert = Agent("expert", playing(broken))
    result = await boss_of(expert, store=MemoryStore()).run("go")
    assert result.tool_results[0].is_error
    assert "expert failed" in result.output
    assert "no such planet" in result.output

    with pytest.raises(ToolAborted, match="no such planet"):
        await boss_of(expert.as_tool(on_error="fail")).run("go")


async def test_deps_of_the_wrong_kind() -> None:
    """The child says which it wants."""
    expert = Agent("expert", playing("42"), deps_type=int)
    result = await boss_of(expert).run("go", deps="text")

    assert "agent 'expert' wants int" in result.tool_results[0].text


async def test_an_agent_that_cannot_work_is_found_before_the_run() -> None:
    """However deep it is."""
    inner = Agent("inner", tools=[add])
    middle = Agent("middle", playing("x"), tools=[inner.as_tool()])
    boss = boss_of(middle)

    for _ in range(2):
        with pytest.raises(NoModel, match="inner"):
            boss.start("go")
    with pytest.raises(InvalidTool, match="name"):
        Agent("x", playing("x")).as_tool(" ")


async def test_input_is_checked() -> None:
    """As any tool's arguments are."""
    expert = Agent("expert", playing("42"))
    for arguments in ({}, {"input": ""}, {"input": 7}, {"input": "x", "more": 1}):
        rounds = (calls(("c1", "expert", arguments)), last_text)
        result = await boss_of(expert, rounds=rounds).run("go")
        assert result.tool_results[0].is_error, arguments


async def test_a_chain_does_not_go_through_an_agent() -> None:
    """A call is one child run, so it cannot be a link of another."""

    @tool
    async def first() -> Next:
        """First."""
        return Next("expert", {"input": "?"})

    expert = Agent("expert", playing("42"))
    model = playing(calls(("c1", "first", {})), last_text)
    result = await Agent("boss", model, tools=[first, expert]).run("go")

    assert "'expert' is an agent: call it by itself" in result.output


async def test_an_agent_may_be_given_as_a_tool() -> None:
    """It stands for `as_tool()`; one name is one tool."""
    expert = Agent("expert", playing("42"))
    (given,) = Agent("boss", playing("x"), tools=[expert]).tools
    assert given is expert
    as_tool = expert.as_tool("ask", "Ask away.", max_output=500)
    assert (as_tool.name, as_tool.description, as_tool.timeout) == ("ask", "Ask away.", None)
    with pytest.raises(ConfigError, match="defined twice"):
        boss_of(expert, expert.as_tool()).start("go")


async def test_the_tool_itself_asks_the_agent() -> None:
    """Where there is no run to be in, as in plain Python, it is a run of its own."""
    expert = Agent("expert", playing("42"))

    assert await expert.as_tool()({"input": "?"}) == "42"
    limits = Limits(max_turns=2)
    busy = Agent("busy", playing(calls(("1", "nothing", {}))), on_limit="pause", limits=limits)
    with pytest.raises(ToolError, match=r"busy stopped without an answer \(paused: The run"):
        await busy.as_tool()({"input": "?"})


async def test_depth_is_bounded() -> None:
    """An agent that asks itself gets an error at the fifth level, or where the limits say."""

    def wrapped(request: ModelRequest) -> str:
        return f"<{last_text(request)}>"

    rounds = (asking(("c", "again")), wrapped)
    for limits, depth in ((Limits(), 5), (Limits(max_depth=2), 2), (Limits(max_depth=0), 0)):
        model = playing(*rounds)
        agent = Agent("again", model, limits=limits)
        object.__setattr__(agent, "tools", (agent,))
        result = await agent.run("go", store=MemoryStore())

        assert result.output.count("<") == depth + 1
        assert "no more runs may be nested here (see Limits.max_depth)" in result.output
        assert len(model.requests) == 2 * (depth + 1)


async def test_a_changed_child_is_a_changed_agent() -> None:
    """J11: what the children are made of is part of the definition; their prompts only warn."""

    def boss(*tools: Any, prompt: str = "") -> Agent[Any, Any]:
        expert = Agent("expert", playing("42"), tools=tools, instructions=prompt or None)
        rounds = (asking(("c", "ask")), "done")
        return Agent("boss", playing(*rounds), tools=[expert.as_tool("ask")], on_limit="pause")

    store = MemoryStore()
    paused = await boss().run("go", store=store, limits=Limits(max_turns=1))
    with pytest.raises(DefinitionChanged, match="tool add of ask is new"):
        await boss(add).resume(paused.run_id, store=store)
    result = await boss(prompt="Be kind.").resume(paused.run_id, store=store)
    assert result.output == "done"


async def test_middleware_of_the_parent_is_around_the_call() -> None:
    """What it has decided stands for the child run."""

    class Instead(Middleware):
        async def before_tool(self, ctx: Any, call: Any, arguments: Any) -> Any:
            return ToolResult(call.id, call.name, (), packed="no need")

    model = ScriptedModel([])
    expert = Agent("expert", model)
    result = await boss_of(expert, middleware=[Instead()]).run("go")
    assert result.tool_results[0].value == "no need"
    assert model.requests == []


async def test_long_output_of_a_child_is_kept_whole() -> None:
    """In the conversation, or in the result; the child's own model may read on in it."""
    text = "\n".join(f"line {n}" for n in range(20_000))

    @tool
    async def dump() -> str:
        """Dump."""
        return text

    def expert() -> Agent[Any, Any]:
        return Agent("expert", playing(calls(("d", "dump", {})), "done"), tools=[dump])

    store = MemoryStore()
    await boss_of(expert(), store=store).run("go", conversation="c")
    conversation = await Conversation.open("c", store=store)
    (kept,) = await conversation.artefacts()
    assert await conversation.artefact(kept) == text
    result = await boss_of(expert()).run("go")
    assert list(result.artefacts.values()) == [text]
