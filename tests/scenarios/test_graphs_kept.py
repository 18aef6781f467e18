"""Graphs that wait, whose process dies, that change, and what is told of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from tests.agent.dying import Dying, die_after
from tests.agent.nested import USAGE
from tests.agent.parts import check_answered
from tests.agent.test_children_crashes import histories
from treadle import (
    END,
    ON_FAILURE,
    START,
    Agent,
    Approve,
    AskApproval,
    Conversation,
    DefinitionChanged,
    Deny,
    Graph,
    GraphResult,
    Image,
    Limits,
    MemoryStore,
    ModelReply,
    ModelRequest,
    NodeContext,
    RunContext,
    RunFailed,
    Swarm,
    TreadleError,
    tool,
)
from treadle.events import AgentEntered, EdgeTaken, NodeFinished, NodeStarted
from treadle.journal import ChildBegan, ModelReplied, StepEnded
from treadle.testing import FunctionModel, ScriptedModel, calls, reply
from treadle.testing.scripted import last_text
from treadle.view import View


def says(text: str) -> Callable[[NodeContext], str]:
    """A node that says this."""

    def node(ctx: NodeContext) -> str:
        return text

    return node


async def test_somebody_is_asked_in_a_node_and_in_agents_of_two_branches() -> None:
    """All wait at once; decisions come from another handle; nothing is done twice."""
    did: list[str] = []

    @tool(approval=True)
    def pay(ctx: RunContext) -> str:
        """Pay."""
        did.append(ctx.idempotency_key)
        return "paid"

    def payer(name: str) -> Agent[Any, str]:
        def answer(request: ModelRequest) -> ModelReply:
            asked = any(message.role == "assistant" for message in request.messages)
            return reply(f"{name} paid") if asked else calls(("p", "pay", {}))

        return Agent(name, FunctionModel(answer), tools=[pay])

    def sure(ctx: NodeContext) -> str:
        if ctx.answer is None:
            raise AskApproval("Are you sure?")
        return "sure"

    graph = (
        Graph("g")
        .add_fan_out("split", ["a", "b"], join="sure")
        .add_node("a", payer("ann"))
        .add_node("b", payer("bob"))
        .add_node("sure", sure)
        .add_node("end", lambda ctx: sorted(ctx.output("split").values()))
        .add_edge(START, "split")
        .add_edge("sure", "end")
        .add_edge("end", END)
    )
    store = MemoryStore()
    paused = await graph.run("go", store=store, run_id="r", conversation="c")
    waiting = await (await Conversation.open("c", store=store)).pending()
    assert paused.stop_reason == "paused"
    assert sorted(each.path for each in waiting) == ["split#1/branch#1/a#1", "split#1/branch#2/b#1"]
    again = await graph.resume("r", store=store, decisions={w.call_id: Approve() for w in waiting})
    (asked,) = again.pending
    assert (again.stop_reason, asked.name, asked.reason) == ("paused", "sure", "Are you sure?")
    result = await graph.resume("r", store=store, decisions={asked.call_id: Approve()})
    assert (result.output, len(did)) == (["ann paid", "bob paid"], 2)

    paused = await graph.run("go", store=store, run_id="q", conversation="d")
    ids = {each.call_id: Approve() for each in paused.pending}
    paused = await graph.resume("q", store=store, decisions=ids)
    no = {paused.pending[0].call_id: Deny("not today")}
    with pytest.raises(RunFailed, match="not today"):
        await graph.resume("q", store=store, decisions=no)


def built(asked: list[str], did: list[str]) -> Graph[Any]:
    """A cycle, a fan-out of five with a join, a sub-graph and an error edge."""

    @tool(idempotent=True)
    async def mark(ctx: RunContext) -> str:
        """Mark."""
        did.append(ctx.idempotency_key)
        ctx.state.session.set(f"by {ctx.agent}", 1)
        return "marked"

    def agent(name: str) -> Agent[Any, str]:
        def answer(request: ModelRequest) -> ModelReply:
            turn = sum(message.role == "assistant" for message in request.messages)
            asked.append(f"{name} {turn}")
            if turn == 0:
                return calls(("m", "mark", {}), usage=USAGE)
            return reply(f"{name} did it", usage=USAGE)

        return Agent(name, FunctionModel(answer), tools=[mark])

    def once_more(ctx: NodeContext) -> int:
        return int(ctx.output("more") or 0) + 1

    def breaks(ctx: NodeContext) -> str:
        raise ValueError("it breaks")

    inner = (
        Graph("inner")
        .add_node("broken", breaks)
        .add_node("mended", agent("mender"))
        .add_edge(START, "broken")
        .add_edge("broken", "mended", when=ON_FAILURE)
        .add_edge("broken", END)
        .add_edge("mended", END)
    )
    graph = (
        Graph("outer")
        .add_node("more", once_more)
        .add_fan_out("five", [f"b{n}" for n in range(5)], join="joined")
        .add_node("joined", lambda ctx: sorted(map(str, ctx.output("five").values())))
        .add_node("inner", inner)
        .add_edge(START, "more")
        .add_edge("more", "more", when=lambda s: s.output("more") < 3)
        .add_edge("more", "five")
        .add_edge("joined", "inner")
        .add_edge("inner", END)
    )
    for number in range(5):
        graph.add_node(f"b{number}", agent(f"branch {number}"))
    return graph


async def whole(store: MemoryStore) -> GraphResult[Any]:
    """The run that no process dies in."""
    return await built([], []).run("go", store=store, run_id="r", conversation="c")


APPENDS = 35


@pytest.mark.parametrize("appends", range(1, APPENDS))
async def test_after_a_crash_at_any_append(appends: int) -> None:
    """S55: the same path, output, state, usage and turns, and nothing is done again."""
    before = MemoryStore()
    expected = await whole(before)
    assert (await before.head("c")).revision == APPENDS

    asked: list[str] = []
    did: list[str] = []
    graph, store = built(asked, did), Dying()
    await die_after(appends, graph, store, conversation="c")
    replied = [e for b in await store.read("c") for e in b.entries if isinstance(e, ModelReplied)]
    assert len(asked) - len(replied) <= 5, "one for each branch at work"
    result = await graph.resume("r", store=store)

    assert result.output == expected.output == "mender did it"
    assert result.execution_path == expected.execution_path
    assert result.state.packed() == expected.state.packed()
    assert (result.usage, result.turns) == (expected.usage, expected.turns)
    assert len(did) - len(set(did)) <= 5
    view, entries = View(), list[Any]()
    for batch in await store.read("c"):
        view.take_in(batch.revision, batch.entries)
        entries += batch.entries
        for each in histories(view):
            check_answered(list(each.messages))
    assert view.children == {}
    assert [message.role for message in view.messages] == ["user", "assistant"]
    ended = Counter((e.path, e.step) for e in entries if isinstance(e, StepEnded))
    assert set(ended.values()) == {1}
    began = Counter(e.path for e in entries if isinstance(e, ChildBegan))
    assert set(began.values()) == {1}


async def test_a_graph_that_has_changed() -> None:
    """Refused in words; accepted by name; migrated by a function."""

    def sure(ctx: NodeContext) -> str:
        if ctx.answer is None:
            raise AskApproval("Sure?")
        return "sure"

    def graph(name: str, *, more: bool = False) -> Graph[Any]:
        made = Graph("g").add_node(name, sure).add_edge(START, name)
        if more:
            return made.add_node("more", says("more")).add_edge(name, "more").add_edge("more", END)
        return made.add_edge(name, END)

    store = MemoryStore()
    paused = await graph("old").run("go", store=store, run_id="r", conversation="c")
    decisions = {paused.pending[0].call_id: Approve()}
    with pytest.raises(DefinitionChanged, match="more"):
        await graph("old", more=True).resume("r", store=store, decisions=decisions)
    with pytest.raises(DefinitionChanged, match="old"):
        await graph("new").resume("r", store=store, decisions=decisions)
    with pytest.raises(TreadleError, match="old"):
        await graph("new").resume("r", store=store, decisions=decisions, on_change="accept")
    branch = await (await Conversation.open("c", store=store)).fork(revision=1)
    assert branch.id != "c"
    renamed = graph("new").resume("r", store=store, on_change=lambda _: {"old": "new"})
    assert (await renamed).output == "sure"


async def test_spans_from_the_graph_to_the_tool() -> None:
    """S70: graph, node, swarm, agent, tool; each start has its end."""

    @tool
    def look() -> str:
        """Look."""
        return "seen"

    member = Agent("m", ScriptedModel([calls(("c", "look", {})), "found"]), tools=[look])
    graph = Graph("g").add_node("team", Swarm("s", agents=[member]))
    graph.add_edge(START, "team").add_edge("team", END)
    events = [event async for event in graph.stream("go")]

    by_span = {event.span_id: event for event in events}
    found = next(event for event in events if event.type == "tool.started")
    kinds: list[str] = []
    span: str | None = found.span_id
    parents = {event.span_id: event.parent_id for event in events}
    while span is not None and span in by_span:
        kinds.append(by_span[span].agent)
        span = parents[span]
    assert kinds[0] == "m"
    assert kinds[-1] == "g"
    assert "s" in kinds
    starts = [event.span_id for event in events if isinstance(event, NodeStarted)]
    assert starts == [event.span_id for event in events if isinstance(event, NodeFinished)]
    entered = [event.path for event in events if isinstance(event, AgentEntered)]
    assert entered == ["team#1", "team#1/m#1"]
    assert [(e.source, e.target) for e in events if isinstance(e, EdgeTaken)][-1] == ("team", END)


async def test_images_reach_the_first_agent_and_limits_hold_for_all() -> None:
    """The input goes on with all of its parts; the budget of the run is that of its nodes."""
    model = ScriptedModel(["a cat", "unused"])
    graph = Graph("g").add_node("see", Agent("see", model)).add_edge(START, "see")
    graph.add_edge("see", END)
    picture = Image.from_bytes(b"\x89PNG\r\n\x1a\n" + b"\0" * 20, "image/png")
    result = await graph.run(["What is this?", picture])
    assert picture in model.requests[0].messages[0].parts
    assert result.output == "a cat"
    with pytest.raises(TreadleError):
        await graph.run("again", limits=Limits(max_turns=1), model=ScriptedModel([]))


async def test_a_conversation_of_two_runs() -> None:
    """Its history is what the user said and what the graph answered; the next run begins anew."""
    store = MemoryStore()
    model = FunctionModel(lambda request: reply(f"heard {last_text(request)}"))
    graph = Graph("g").add_node("x", Agent("x", model)).add_edge(START, "x").add_edge("x", END)
    await graph.run("one", store=store, conversation="c")
    second = await graph.run("two", store=store, conversation="c")
    assert second.output == "heard two"
    texts = [message.text for message in second.messages]
    assert texts == ["one", "heard one", "two", "heard two"]
    kept = await (await Conversation.open("c", store=store)).messages()
    assert [message.text for message in kept] == texts


async def test_going_back_to_a_node() -> None:
    """A copy of an earlier revision, and the graph from that node on; the original stays."""
    store = MemoryStore()
    tries: list[str] = []

    def first(ctx: NodeContext) -> str:
        tries.append("first")
        return "one"

    def second(ctx: NodeContext) -> str:
        tries.append("second")
        return f"{ctx.input} {ctx.output('first')} {len(tries)}"

    graph = Graph("g").add_node("first", first).add_node("second", second)
    graph.add_edge(START, "first").add_edge("first", "second").add_edge("second", END)
    result = await graph.run("go", store=store, conversation="c")
    assert result.output == "go one 2"

    conversation = await Conversation.open("c", store=store)
    ended = next(
        batch.revision
        for batch in await store.read("c")
        for entry in batch.entries
        if isinstance(entry, StepEnded) and entry.step == "first#1"
    )
    branch = await conversation.fork(revision=ended)
    again = await graph.at("second").run(conversation=branch.id, store=store)
    assert again.output == "go one 3"
    assert again.execution_path == ["second"]
    assert tries == ["first", "second", "second"]
    assert [m.text for m in await conversation.messages()] == ["go", "go one 2"]
