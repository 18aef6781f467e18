"""Graphs that wait for somebody: in nodes, in agents of nodes, in branches, in graphs in graphs."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.agent.nested import asking, playing
from tests.workflows.desk import opened
from tests.workflows.graph.wired import (
    Did,
    Function,
    ended_in,
    forked,
    line,
    lone,
    says,
)
from treadle import (
    END,
    ON_FAILURE,
    START,
    Agent,
    Approve,
    AskApproval,
    Deny,
    Edit,
    Graph,
    Interrupt,
    InvalidInput,
    MemoryStore,
    NodeContext,
    RunFailed,
    Swarm,
    TreadleError,
)
from treadle.testing import reply


class Asking:
    """Nodes that ask before they go on, and note what they did."""

    def __init__(self) -> None:
        self.did: list[str] = []

    def node(self, name: str = "x", times: int = 1) -> Function:
        """A node that asks so often, and says what it was told."""

        def ask(ctx: NodeContext) -> Any:
            self.did.append(f"{name} {len(ctx.answers)}")
            if len(ctx.answers) < times:
                ctx.graph.set(f"half {name}", 1)
                raise AskApproval(f"{name}? ({len(ctx.answers)})")
            ctx.graph.set(f"by {name}", len(ctx.answers))
            return [dict(answer) for answer in ctx.answers]

        return ask


def yes(paused: Any) -> dict[str, Any]:
    """Say yes to all that waits."""
    return {call.call_id: Approve() for call in paused.pending}


def waits(paused: Any) -> list[tuple[str, str]]:
    """Who waits: the call, and its name."""
    return [(call.call_id, call.name) for call in paused.pending]


@pytest.mark.parametrize("url", ["memory:", "sqlite:///{}/s.db"])
async def test_a_function_asks(url: str, tmp_path: Any) -> None:
    """It is asked with the path of its step, and called again with the answer, anywhere."""
    async with opened(url.format(tmp_path)) as store:
        first, second = Asking(), Asking()

        def make(asks: Asking) -> Graph[Any]:
            made = Graph("g").add_node("a", says("a")).add_node("x", asks.node(times=2))
            return line("a", "x", graph=made)

        paused = await make(first).run("go", store=store, run_id="r", conversation="c")
        assert (paused.stop_reason, waits(paused)) == ("paused", [("x#1", "x")])
        assert "x? (0)" in paused.pending[0].reason
        assert paused.execution_path == ["a"]
        assert "graph::half x" not in paused.state
        with pytest.raises(InvalidInput, match="y#1"):
            await make(second).resume("r", store=store, decisions={"y#1": Approve()})
        again = await make(second).resume("r", store=store)
        assert waits(again) == waits(paused)
        more = await make(second).resume("r", store=store, decisions=yes(paused))
        assert (more.stop_reason, waits(more)) == ("paused", [("x#1#2", "x")])
        result = await make(second).resume("r", store=store, decisions=yes(more))
        assert result.output == [{}, {}]
        assert (first.did, second.did) == (["x 0"], ["x 1", "x 2"])
        assert result.execution_path == ["a", "x"]
        assert result.state.get("graph::by x") == 2


async def test_who_is_denied_has_failed() -> None:
    """The node fails with the reason; an edge for that leads on; without one the run fails."""
    asks, store = Asking(), MemoryStore()
    graph = (
        Graph("g")
        .add_node("x", asks.node(), retries=3)
        .add_node("told", lambda ctx: ctx.error("x"))
        .add_edge(START, "x")
        .add_edge("x", "told", when=ON_FAILURE)
        .add_edge("x", END)
        .add_edge("told", END)
    )
    paused = await graph.run("go", store=store, run_id="r")
    no = {call.call_id: Deny("not today") for call in paused.pending}
    result = await graph.resume("r", store=store, decisions=no)
    assert "not today" in str(result.output)
    assert (result.success, asks.did) == (False, ["x 0"])

    paused = await lone(asks.node()).run("go", store=store, run_id="q")
    with pytest.raises(RunFailed, match="not today"):
        await lone(asks.node()).resume("q", store=store, decisions=no)


async def test_all_branches_wait_at_once() -> None:
    """What can go on does first; each is decided by its path, one by one or all together."""
    did, asks, store = Did(), Asking(), MemoryStore()
    graph = forked(
        ("a", did.agent("ann", approval=True)),
        ("b", asks.node("b")),
        ("c", did.node("c")),
        ("d", did.agent("dan", approval=True)),
        limit=1,
    )
    graph.add_node("after b", did.node("after b")).add_edge("b", "after b").add_edge(
        "after b", "join"
    )
    paused = await graph.run("go", store=store, run_id="r", conversation="c")
    assert [name for _, name in waits(paused)] == ["mark", "b", "mark"]
    assert did.names == ["c"]
    ids = [call for call, _ in waits(paused)]
    assert len(set(ids)) == 3
    more = await graph.resume("r", store=store, decisions={ids[1]: Approve()})
    assert [call for call, _ in waits(more)] == [ids[0], ids[2]]
    assert did.names == ["c", "after b"]
    result = await graph.resume(
        "r", store=store, decisions={i: Approve() for i in (ids[0], ids[2])}
    )
    assert result.output == {"a": "ann did it", "b": "after b", "c": "c", "d": "dan did it"}
    assert set(Counter(did.keys).values()) == {1}
    assert sorted(did.names) == ["after b", "ann", "c", "dan"]
    assert asks.did == ["b 0", "b 1"]
    assert (result.state.get("session::by ann"), result.state.get("graph::by b")) == (1, 1)


async def test_a_map_waits_for_some_of_its_items() -> None:
    """The items that are over are not touched again; the order stays that of the items."""
    seen: list[Any] = []

    def ask(ctx: NodeContext) -> Any:
        seen.append(ctx.item)
        if ctx.item % 2 and ctx.answer is None:
            raise AskApproval(f"{ctx.item}?")
        return ctx.item * 10

    def make(items: list[int]) -> Graph[Any]:
        made = Graph("g").add_map("each", over=lambda s: items, node="x", join="end", limit=2)
        made.add_node("x", ask).add_node("end", lambda ctx: ctx.output("each"))
        return made.add_edge(START, "each").add_edge("end", END)

    store = MemoryStore()
    paused = await make([1, 2, 3, 4]).run("go", store=store, run_id="r")
    assert len(paused.pending) == 2
    result = await make([]).resume("r", store=store, decisions=yes(paused))
    assert result.output == [10, 20, 30, 40], "the items are those of the journal"
    assert Counter(seen) == {1: 2, 2: 1, 3: 2, 4: 1}


async def test_a_pause_in_a_graph_in_a_graph_in_a_branch() -> None:
    """Its call has the whole path; what is around it is not done again."""
    did, asks, store = Did(), Asking(), MemoryStore()
    deep = line(
        "n", "m", graph=Graph("deep").add_node("n", did.node("n")).add_node("m", asks.node("m"))
    )
    middle = line(
        "pre", "deep", graph=Graph("mid").add_node("pre", did.node("pre")).add_node("deep", deep)
    )
    graph = forked(("a", middle), ("b", did.node("b")))
    paused = await graph.run("go", store=store, run_id="r")
    (call,) = paused.pending
    assert call.call_id.endswith("a#1/deep#1/m#1")
    result = await graph.resume("r", store=store, decisions={call.call_id: Approve()})
    assert result.output == {"a": [{}], "b": "b"}
    assert sorted(did.names) == ["b", "n", "pre"]
    assert not [key for key in result.state.snapshot() if key.startswith("within::")]


async def test_a_pause_in_a_swarm_and_in_an_agent_that_is_a_tool() -> None:
    """Their calls have their paths."""
    did, store = Did(), MemoryStore()
    payer = did.agent("payer", approval=True)
    boss = Agent("boss", playing(asking(("q", "payer")), reply("asked")), tools=[payer.as_tool()])
    graph = Graph("g").add_node("team", Swarm("s", agents=[payer])).add_node("boss", boss)
    graph = line("team", "boss", graph=graph)
    paused = await graph.run("go", store=store, run_id="r")
    assert waits(paused) == [("team#1/payer#1:m", "mark")]
    paused = await graph.resume("r", store=store, decisions=yes(paused))
    assert [name for _, name in waits(paused)] == ["mark"]
    assert paused.pending[0].call_id.startswith("boss#1")
    result = await graph.resume("r", store=store, decisions=yes(paused))
    assert (result.output, did.names) == ("asked", ["payer", "payer"])


async def test_an_interrupt_in_a_branch() -> None:
    """The run pauses when all else is done; a resume goes on after the node."""
    did, store = Did(), MemoryStore()

    def stop(ctx: NodeContext) -> Interrupt:
        did.names.append("stop")
        return Interrupt("look", output="so far")

    def make() -> Graph[Any]:
        made = forked(("a", stop), ("b", did.agent("b")))
        return made.add_node("c", did.node("c")).add_edge("a", "c").add_edge("c", "join")

    paused = await make().run("go", store=store, run_id="r", conversation="c")
    assert (paused.stop_reason, paused.reason) == ("paused", "look")
    assert any(step.endswith("a#1") for step in await ended_in(store))
    result = await make().resume("r", store=store)
    assert result.output == {"a": "c", "b": "b did it"}
    assert sorted(did.names) == ["b", "c", "stop"]


async def test_a_pause_beside_a_failure() -> None:
    """Somebody is asked, and the failure is told of; a resume tries what failed again."""
    did, asks, store = Did(), Asking(), MemoryStore()
    graph = forked(("a", asks.node("a")), ("b", did.node("b", fail_first=1)), ("c", did.node("c")))
    paused = await graph.run("go", store=store, run_id="r")
    assert paused.stop_reason == "paused"
    assert "b does not work" in paused.reason
    result = await graph.resume("r", store=store, decisions=yes(paused))
    assert result.output == {"a": [{}], "b": "b", "c": "c"}
    assert did.names == ["b", "c", "b"]


async def test_a_run_without_a_store_pauses_too() -> None:
    """It says what it waits for; there is nothing to resume."""
    paused = await lone(Asking().node()).run("go")
    assert (paused.stop_reason, len(paused.pending)) == ("paused", 1)


async def test_decided_while_others_are_at_work() -> None:
    """Two handles cannot take the same decision: one goes on, the other is told that it is late."""
    asks, store = Asking(), MemoryStore()
    graph = lone(asks.node())
    paused = await graph.run("go", store=store, run_id="r")
    first, second = (
        graph.resume("r", store=store, decisions=yes(paused), if_busy="raise") for _ in range(2)
    )
    assert (await first).output == [{}]
    with pytest.raises(TreadleError):
        await second
    again = await graph.resume("r", store=store, decisions=yes(paused))
    assert again.output == [{}], "the same decision once more changes nothing"
    assert asks.did == ["x 0", "x 1"]


async def test_an_answer_reaches_the_node() -> None:
    """A question may have a schema; what somebody answers has to fit, and is `ctx.answer`."""
    store = MemoryStore()
    schema = {
        "type": "object",
        "properties": {"amount": {"type": "integer"}},
        "required": ["amount"],
    }

    def ask(ctx: NodeContext) -> Any:
        if ctx.answer is None:
            raise AskApproval("How much?", schema=schema)
        return ctx.answer["amount"] * 2

    graph = lone(ask)
    paused = await graph.run("go", store=store, run_id="r")
    assert paused.pending[0].schema == schema
    with pytest.raises(InvalidInput, match="amount"):
        await graph.resume("r", store=store, decisions={"x#1": Edit({"amount": "much"})})
    result = await graph.resume("r", store=store, decisions={"x#1": Edit({"amount": 5})})
    assert result.output == 10


async def test_asked_again_each_time_round() -> None:
    """A node in a cycle asks in each of its visits, with another path."""
    asks, store = Asking(), MemoryStore()
    graph = Graph("g").add_node("x", asks.node()).add_edge(START, "x")
    graph.add_edge("x", "x", when=lambda s: s.visits("x") < 3).add_edge("x", END)
    result = await graph.run("go", store=store, run_id="r")
    ids: list[str] = []
    while result.stop_reason == "paused":
        ids += [call.call_id for call in result.pending]
        result = await graph.resume("r", store=store, decisions=yes(result))
    assert ids == ["x#1", "x#2", "x#3"]
    assert result.execution_path == ["x"] * 3
    assert asks.did == ["x 0", "x 1"] * 3


async def test_a_failing_node_after_a_pause() -> None:
    """A function that was allowed and then fails has its retries, with its answers."""
    seen: list[int] = []
    store = MemoryStore()

    def node(ctx: NodeContext) -> str:
        if ctx.answer is None:
            raise AskApproval("Sure?")
        seen.append(ctx.attempt)
        if len(seen) < 3:
            raise ValueError("not yet")
        return "done"

    graph = lone(node, retries=2)
    paused = await graph.run("go", store=store, run_id="r")
    result = await graph.resume("r", store=store, decisions=yes(paused))
    assert (result.output, len(seen)) == ("done", 3)
    assert seen == sorted(set(seen))
