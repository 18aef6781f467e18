"""Graphs that have changed when a run goes on, and runs that go back to a node."""

from __future__ import annotations

from typing import Any

import pytest

from tests.workflows.graph.wired import Did, Function, forked, line, says
from treadle import (
    END,
    START,
    Agent,
    Approve,
    AskApproval,
    Conversation,
    DefinitionChanged,
    Graph,
    GraphInvalid,
    InvalidInput,
    MemoryStore,
    NodeContext,
    TreadleError,
)
from treadle.journal import StepEnded
from treadle.testing import ScriptedModel


def sure(ctx: NodeContext) -> str:
    """Ask, and then go on."""
    if ctx.answer is None:
        raise AskApproval("Sure?")
    return "sure"


def asking(*names: str, ask: str, did: Did | None = None, work: Function = sure) -> Graph[Any]:
    """A line of nodes, one of which asks."""
    graph = Graph("g")
    for name in names:
        graph.add_node(name, work if name == ask else (did or Did()).node("n"))
    return line(*names, graph=graph)


async def paused(graph: Graph[Any]) -> tuple[MemoryStore, dict[str, Any]]:
    """Run it until it waits."""
    store = MemoryStore()
    result = await graph.run("go", store=store, run_id="r", conversation="c")
    assert result.stop_reason == "paused"
    return store, {call.call_id: Approve() for call in result.pending}


async def refused(graph: Graph[Any], store: MemoryStore, decisions: Any) -> str:
    """Say why a resume of it is refused."""
    with pytest.raises(DefinitionChanged) as caught:
        await graph.resume("r", store=store, decisions=decisions)
    return str(caught.value)


async def test_a_node_was_added() -> None:
    """Refused in words; accepted, the run goes along the graph as it is now."""
    did = Did()
    store, yes = await paused(asking("a", "x", ask="x", did=did))
    now = asking("a", "x", "more", ask="x", did=did)
    told = await refused(now, store, yes)
    assert "node 'more'" in told
    assert "'x' → 'more'" in told
    result = await now.resume("r", store=store, decisions=yes, on_change="accept")
    assert result.execution_path == ["a", "x", "more"]
    assert did.names == ["n", "n"]


async def test_a_node_was_removed() -> None:
    """Refused in words; accepted if the run is not at it; else with an error that says so."""
    store, yes = await paused(asking("a", "x", "gone", ask="x"))
    now = asking("a", "x", ask="x")
    assert "node 'gone'" in await refused(now, store, yes)
    result = await now.resume("r", store=store, decisions=yes, on_change="accept")
    assert result.execution_path == ["a", "x"]

    store, yes = await paused(asking("a", "x", ask="x"))
    other = asking("a", "y", ask="y")
    with pytest.raises(DefinitionChanged, match=r"at node 'x'.*'g' does not have any more"):
        await other.resume("r", store=store, decisions=yes, on_change="accept")
    result = await asking("a", "x", ask="x").resume("r", store=store, decisions=yes)
    assert result.output == "sure", "it still waits for the graph that it began with"


async def test_a_node_was_renamed() -> None:
    """The words say so; a function says what the nodes are called, and outputs move along."""
    did = Did()
    store, yes = await paused(asking("a", "x", ask="x", did=did))

    def last(ctx: NodeContext) -> Any:
        if ctx.answer is None:
            raise AskApproval("Sure?")
        return [ctx.output("b"), ctx.visits("b"), ctx.success("b")]

    now = asking("b", "y", ask="y", did=did, work=last)
    told = await refused(now, store, yes)
    assert all(word in told for word in ("'a'", "'b'", "'x'", "'y'"))
    seen: list[Any] = []

    def moved(changes: Any) -> dict[str, str]:
        seen.extend(changes)
        return {"a": "b", "x": "y"}

    result = await now.resume("r", store=store, decisions=yes, on_change=moved)
    assert result.output == ["n", 1, True]
    assert result.execution_path == ["b", "y"]
    assert [step.next for step in result.steps] == ["y", END]
    assert did.names == ["n"]
    assert seen
    assert "node::a::output" not in result.state
    again = await now.resume("r", store=store, on_change=moved)
    assert again.output == result.output


async def test_a_branch_was_renamed() -> None:
    """What waits in a branch goes on under its new name, also where the run resumes twice."""

    def make(first: str, name: str) -> Graph[Any]:
        made = forked((first, says("1")), (name, sure))
        made.add_node("last", sure)
        return made.add_edge("join", "last", priority=1).add_edge("last", END)

    store, yes = await paused(make("a", "b"))

    def moved(_: Any) -> dict[str, str]:
        return {"b": "c", "a": "d"}

    rename: dict[str, Any] = {"on_change": moved}
    more = await make("d", "c").resume("r", store=store, decisions=yes, **rename)
    assert more.stop_reason == "paused"
    decisions = {call.call_id: Approve() for call in more.pending}
    result = await make("d", "c").resume("r", store=store, decisions=decisions, **rename)
    assert result.state.get("node::split::output") == {"d": "1", "c": "sure"}
    assert result.execution_path == ["split", "d", "c", "join", "last"]


async def test_what_does_not_matter() -> None:
    """Retries, timeouts, limits and the bodies of functions may change; an agent's tools not."""
    model = ScriptedModel(["one", "two"])

    def make(**options: Any) -> Graph[Any]:
        made = Graph("g").add_node("x", sure, **options).add_node("y", Agent("y", model))
        return line("x", "y", graph=made)

    store, yes = await paused(make())
    assert (
        await make(retries=3, timeout=9).resume("r", store=store, decisions=yes)
    ).output == "one"

    store, yes = await paused(make())
    changed = Graph("g").add_node("x", sure).add_node("y", Agent("z", model))
    assert "y" in await refused(line("x", "y", graph=changed), store, yes)


async def test_an_edge_was_changed() -> None:
    """The words name it; accepted, it is what counts."""

    def make(*, other: bool) -> Graph[Any]:
        made = Graph("g").add_node("x", sure).add_node("a", says("a")).add_node("b", says("b"))
        made.add_edge(START, "x").add_edge("a", END).add_edge("b", END)
        made.add_edge("x", "a", priority=0).add_edge("x", "b", priority=5 if other else -5)
        return made

    store, yes = await paused(make(other=False))
    assert "'x' → 'b'" in await refused(make(other=True), store, yes)
    result = await make(other=True).resume("r", store=store, decisions=yes, on_change="accept")
    assert result.output == "b"


def trip(tries: list[str]) -> Graph[Any]:
    """A graph of three nodes that note that they were called."""

    def node(name: str) -> Function:
        def run(ctx: NodeContext) -> str:
            tries.append(name)
            return f"{ctx.current_output}>{name}{tries.count(name)}"

        return run

    graph = Graph("trip")
    for name in "abc":
        graph.add_node(name, node(name))
    return line("a", "b", "c", graph=graph)


async def revisions(store: MemoryStore) -> dict[str, int]:
    """At which revision each node was over."""
    found: dict[str, int] = {}
    for batch in await store.read("c"):
        for entry in batch.entries:
            if isinstance(entry, StepEnded):
                found[entry.step.partition("#")[0]] = batch.revision
    return found


@pytest.mark.parametrize("node", ["a", "b", "c"])
async def test_back_to_any_node(node: str) -> None:
    """A fork at the revision before it, and the graph at it: the rest is done again, there."""
    tries: list[str] = []
    store = MemoryStore()
    graph = trip(tries)
    first = await graph.run("go", store=store, conversation="c")
    assert first.output == "go>a1>b1>c1"
    ended = await revisions(store)
    before = {"a": 1, "b": ended["a"], "c": ended["b"]}[node]
    conversation = await Conversation.open("c", store=store)
    branch = await conversation.fork(revision=before)
    tries.clear()
    path = list("abc"["abc".index(node) :])
    if node == "a":
        result = await graph.run("go", conversation=branch.id, store=store)
    else:
        result = await graph.at(node).run(conversation=branch.id, store=store)
    assert result.execution_path == path == tries
    assert str(result.output).endswith("c1")
    assert [m.text for m in await conversation.messages()] == ["go", "go>a1>b1>c1"]
    kept = await (await Conversation.open(branch.id, store=store)).messages()
    assert kept[-1].text == result.output


async def test_back_to_a_node_and_a_crash_there() -> None:
    """A run that began at a node goes on from where it was, also when it fails and is resumed."""
    store, did = MemoryStore(), Did()
    graph = Graph("g").add_node("a", did.node("a")).add_node("b", did.node("b"))
    graph = line("a", "b", "c", graph=graph.add_node("c", did.node("c", fail_first=2)))
    with pytest.raises(TreadleError):
        await graph.run("go", store=store, conversation="c", run_id="r")
    with pytest.raises(TreadleError):
        await graph.at("b").run("other", store=store, conversation="d", run_id="q")
    assert did.names == ["a", "b", "c", "b", "c"]
    result = await graph.at("b").resume("q", store=store)
    assert result.execution_path == ["b", "c"]
    assert did.names == ["a", "b", "c", "b", "c", "c"]
    assert result.messages[0].text == "other"


async def test_back_with_another_input_or_state() -> None:
    """What is given goes over what was there."""
    store, tries = MemoryStore(), list[str]()

    def tell(ctx: NodeContext) -> list[Any]:
        return [ctx.input, ctx.output("a"), ctx.get("topic"), ctx.current_output]

    graph = Graph("g").add_node("a", lambda ctx: tries.append("a") or "A").add_node("b", tell)
    graph = line("a", "b", graph=graph)
    result = await graph.run("go", store=store, conversation="c", state={"graph::topic": "x"})
    assert result.output == ["go", "A", "x", "A"]
    at = (await revisions(store))["a"]
    conversation = await Conversation.open("c", store=store)
    branch = await conversation.fork(revision=at)
    result = await graph.at("b").run("else", conversation=branch.id, store=store)
    assert result.output == ["else", "A", "x", "else"]
    assert tries == ["a"]


async def test_where_no_run_can_begin() -> None:
    """No such node, or one in a branch: the error says where instead."""
    graph = forked(("a", says("a")), ("b", says("b")))
    with pytest.raises(GraphInvalid, match="no node 'gone'"):
        graph.at("gone")
    with pytest.raises(GraphInvalid, match="begin it at 'split'"):
        graph.at("a")
    with pytest.raises(InvalidInput):
        await graph.run(store=MemoryStore(), conversation="new")
    result = await graph.at("join").run("go")
    assert result.execution_path == ["join"]


async def test_a_fork_of_a_run_that_waits() -> None:
    """The copy is not the run: it begins again at its node, and the original can be decided."""
    did = Did()
    graph = asking("a", "x", "b", ask="x", did=did)
    store, yes = await paused(graph)
    conversation = await Conversation.open("c", store=store)
    branch = await conversation.fork()
    waiting = await graph.at("x").run(conversation=branch.id, store=store, run_id="q")
    assert waiting.stop_reason == "paused"
    decisions = {call.call_id: Approve() for call in waiting.pending}
    other = await graph.at("x").resume("q", store=store, decisions=decisions)
    assert other.execution_path == ["x", "b"]
    result = await graph.resume("r", store=store, decisions=yes)
    assert result.execution_path == ["a", "x", "b"]
    assert did.names == ["n", "n", "n"]


async def test_a_fork_at_any_revision() -> None:
    """Whatever was under way there, the copy takes a new run, which begins anew."""
    did, store = Did(), MemoryStore()
    graph = forked(("a", did.agent("a")), ("b", did.node("b")))
    await graph.run("go", store=store, conversation="c")
    conversation = await Conversation.open("c", store=store)
    for revision in range(1, (await store.head("c")).revision + 1):
        branch = await conversation.fork(revision=revision)
        result = await graph.run("again", conversation=branch.id, store=store)
        assert result.output == {"a": "a did it", "b": "b"}
        assert result.execution_path == ["split", "a", "b", "join"]
        assert result.messages[-2].text == "again"
        later = await graph.at("join").run(conversation=branch.id, store=store)
        assert later.output == result.output
