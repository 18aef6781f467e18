"""Graphs that chance made: kept or not, dying or not, they come to the same."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from tests.workflows.dying import die_after, resume_and_die
from tests.workflows.graph.test_run_crashes import journaled, seen
from tests.workflows.graph.wired import Did, Function, entries_of
from treadle import (
    END,
    ON_FAILURE,
    START,
    Approve,
    AskApproval,
    Graph,
    GraphResult,
    MemoryStore,
    NodeContext,
)
from treadle.journal import StepEnded


class Chance:
    """Makes the same graph of the same seed; what its nodes did is noted."""

    def __init__(self, seed: int, did: Did, *, asks: bool = False) -> None:
        self._random = random.Random(seed)  # noqa: S311
        self._asks = asks
        self._did = did
        self._number = 0

    def graph(self, depth: int = 2) -> Graph[Any]:
        """A line of parts, each a node, a loop, a detour, branches or a graph."""
        graph: Graph[Any] = Graph(self._name("g"), max_steps=500)
        previous = START
        for _ in range(self._random.randint(2, 4)):
            first, last = self._part(graph, depth)
            graph.add_edge(previous, first)
            previous = last
        return graph.add_edge(previous, END)

    def _name(self, kind: str) -> str:
        self._number += 1
        return f"{kind}{self._number}"

    def _work(self, name: str, *, fails: bool = False) -> Function:
        did = self._did
        asks = self._asks and self._random.random() < 0.4

        async def work(ctx: NodeContext) -> Any:
            if asks and ctx.answer is None:
                raise AskApproval(f"May {name} go on?")
            did.names.append(name)
            did.keys.append(ctx.idempotency_key)
            ctx.graph.set(f"by {name}", ctx.visits(name))
            if fails:
                raise ValueError(f"{name} fails")
            return [name, str(ctx.current_output)[-20:], sorted(ctx.outputs)[:3]]

        return work

    def _part(self, graph: Graph[Any], depth: int) -> tuple[str, str]:
        kinds = ["node", "agent", "loop", "mended", "routed"]
        kind = self._random.choice(kinds + ["split", "map", "graph"] * (depth > 0))
        name = self._name(kind)
        match kind:
            case "agent":
                asks = self._asks and self._random.random() < 0.4
                graph.add_node(name, self._did.agent(name, approval=asks))
            case "loop":
                times = self._random.randint(2, 3)
                graph.add_node(name, self._work(name))
                graph.add_edge(
                    name, name, when=lambda s, name=name: s.visits(name) % times != 0, priority=1
                )
            case "mended":
                return name, self._mended(graph, name)
            case "routed":
                return name, self._routed(graph, name)
            case "split":
                return name, self._split(graph, name, depth)
            case "map":
                return name, self._map(graph, name, depth)
            case "graph":
                graph.add_node(name, self.graph(depth - 1))
            case _:
                graph.add_node(name, self._work(name))
        return name, name

    def _mended(self, graph: Graph[Any], name: str) -> str:
        graph.add_node(name, self._work(name, fails=True), retries=self._random.randint(0, 1))
        mend, after = self._name("mend"), self._name("after")
        graph.add_node(mend, self._work(mend)).add_edge(name, mend, when=ON_FAILURE)
        graph.add_node(after, self._work(after)).add_edge(mend, after).add_edge(name, after)
        return after

    def _routed(self, graph: Graph[Any], name: str) -> str:
        left, right, after = (self._name(each) for each in ("left", "right", "after"))
        goes_left = self._random.random() < 0.5
        graph.add_router(name, {left: lambda s: goes_left}, default=right)
        graph.add_node(after, self._work(after))
        for each in (left, right):
            graph.add_node(each, self._work(each)).add_edge(each, after)
        return after

    def _split(self, graph: Graph[Any], name: str, depth: int) -> str:
        parts = [self._part(graph, depth - 1) for _ in range(self._random.randint(1, 3))]
        join = self._name("join")
        limit = self._random.choice([None, 1, 2])
        graph.add_fan_out(name, [first for first, _ in parts], join=join, limit=limit)
        for _, last in parts:
            graph.add_edge(last, join)
        graph.add_node(join, self._work(join))
        return join

    def _map(self, graph: Graph[Any], name: str, depth: int) -> str:
        first, last = self._part(graph, 0)
        join, items = self._name("join"), self._random.randint(0, 3)
        graph.add_map(name, over=lambda s: list(range(items)), node=first, join=join)
        graph.add_edge(last, join).add_node(join, self._work(join))
        return join


@pytest.mark.parametrize("seed", range(40))
async def test_the_same_whatever_happens(seed: int) -> None:
    """Without a store, with one, and with a process that dies, and dies again."""
    first = Did()
    bare = await Chance(seed, first).graph().run("Go.", run_id="r")
    store, did = MemoryStore(), Did()
    kept = await Chance(seed, did).graph().run("Go.", store=store, run_id="r", conversation="c")
    assert seen(kept) == seen(bare)
    assert Counter(did.keys) == Counter(first.keys)
    appends = (await store.head("c")).revision
    chance = random.Random(seed)  # noqa: S311
    for at in chance.sample(range(1, appends), min(3, appends - 1)):
        store, did = MemoryStore(), Did()
        assert await die_after(at, Chance(seed, did).graph(), store, conversation="c")
        done, before = await journaled(store), Counter(did.keys)
        await resume_and_die(chance.randint(1, 4), Chance(seed, did).graph(), store)
        result = await Chance(seed, did).graph().resume("r", store=store)
        assert seen(result) == seen(bare), f"died at {at}"
        after = Counter(did.keys)
        assert {key: after[key] for key in done} == {key: before[key] for key in done}
        ended = Counter(
            (e.path, e.step) for e in await entries_of(store) if isinstance(e, StepEnded)
        )
        assert set(ended.values()) == {1}


async def decided(seed: int, did: Did, store: MemoryStore, chance: random.Random | None) -> Any:
    """Say yes to all that waits at once, or by chance to some of it, until it has answered."""
    result: GraphResult[Any] = await Chance(seed, did, asks=True).graph().resume("r", store=store)
    while result.stop_reason == "paused":
        calls = [call.call_id for call in result.pending]
        assert len(set(calls)) == len(calls)
        if chance is not None:
            calls = chance.sample(calls, chance.randint(1, len(calls)))
        run = Chance(seed, did, asks=True).graph()
        decisions = {call: Approve() for call in calls}
        result = await run.resume("r", store=store, decisions=decisions)
    return result


@pytest.mark.parametrize("seed", range(30))
async def test_the_same_however_it_is_decided(seed: int) -> None:
    """All at once, one after another, and after a process that died."""
    outcomes: list[Any] = []
    for chance in (None, random.Random(seed), random.Random(seed + 1)):  # noqa: S311
        store, did = MemoryStore(), Did()
        graph = Chance(seed, did, asks=True).graph()
        if chance is None:
            await graph.run("Go.", store=store, run_id="r", conversation="c")
        else:
            await die_after(chance.randint(1, 12), graph, store, conversation="c")
        outcomes.append(seen(await decided(seed, did, store, chance)))
        ended = Counter(
            (e.path, e.step) for e in await entries_of(store) if isinstance(e, StepEnded)
        )
        assert set(ended.values()) == {1}
    assert outcomes[1] == outcomes[0]
    assert outcomes[2] == outcomes[0]
