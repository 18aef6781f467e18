"""A process dies anywhere in a tree of agents: it goes on, and nothing is done twice."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from tests.agent.dying import Dying, die_after
from tests.agent.nested import Tree, asking, playing
from tests.agent.parts import Failing, check_answered
from treadle import (
    Agent,
    Conversation,
    Limits,
    MemoryStore,
    RunContext,
    StoreUnavailable,
    ToolAborted,
    tool,
)
from treadle.fold import fold, paths_in
from treadle.journal import CallEnded, ChildBegan, ChildEnded, ModelReplied
from treadle.ports.store import Batch
from treadle.testing import calls, raises
from treadle.testing.scripted import last_text
from treadle.tools.tool import OnUnknown
from treadle.view import View

APPENDS = 19
IDEMPOTENT = ("look", "judge")


def histories(view: View) -> list[View]:
    """A view, and those of the child runs in it."""
    found = [view]
    for child in view.children.values():
        found += histories(child.view)
    return found


@pytest.mark.parametrize("appends", range(1, APPENDS))
async def test_after_a_crash_at_any_append(appends: int) -> None:
    """J3, J4, J5: two children at once, one of which has a child; same end, nothing twice."""
    whole_tree, store = Tree(), MemoryStore()
    whole = await whole_tree.boss.run("go", store=store, run_id="r", conversation="c")
    assert (await store.head("c")).revision == APPENDS

    tree, store = Tree(), Dying()
    await die_after(appends, tree.boss, store, conversation="c")
    asked = Counter(tree.asked)
    replied = [e for b in await store.read("c") for e in b.entries if isinstance(e, ModelReplied)]
    result = await tree.boss.resume("r", store=store)

    check_answered(list(result.messages))
    assert result.stop_reason == "answer"
    assert sum(asked.values()) - len(replied) <= 2, "one for each of two that are at work"
    unknown = result.output != whole.output
    if not unknown:
        assert list(result.messages) == list(whole.messages)
        assert result.state.packed() == whole.state.packed()
    assert result.usage == whole.usage
    keys = Counter(key for name, _, key in tree.did if name not in IDEMPOTENT)
    assert all(times == 1 for times in keys.values())
    assert {key for _, _, key in tree.did} == {key for _, _, key in whole_tree.did}
    assert result.output.count("interrupted") == unknown
    _check_journal(await store.read("c"))


def _check_journal(batches: Sequence[Batch]) -> None:
    """Each reply, start and end stands there once, and every view is valid."""
    entries = [entry for batch in batches for entry in batch.entries]
    children = Counter(entry.path for entry in entries if isinstance(entry, ChildBegan))
    assert children == {"expert#1": 1, "writer#1": 1, "expert#1/critic#1": 1}
    assert children == Counter(entry.path for entry in entries if isinstance(entry, ChildEnded))
    ended = Counter(e.result.call_id for e in entries if isinstance(e, CallEnded))
    assert set(ended.values()) == {1}
    replies = Counter(entry.path for entry in entries if isinstance(entry, ModelReplied))
    assert replies == {"": 2, "expert#1": 3, "writer#1": 2, "expert#1/critic#1": 2}
    view = View()
    for batch in batches:
        view.take_in(batch.revision, batch.entries)
        for each in histories(view):
            check_answered(list(each.messages))
    assert view.children == {}


@pytest.mark.parametrize("first", range(1, APPENDS))
async def test_after_two_crashes(first: int) -> None:
    """J4: the process that took over dies, too."""
    whole = await Tree().boss.run("go")
    for second in range(1, APPENDS - first, 3):
        tree, store = Tree(), Dying()
        await die_after(first, tree.boss, store, conversation="c")
        store.left, store.dead, store.gone = second, asyncio.Event(), asyncio.Event()
        run = tree.boss.resume("r", store=store)
        dead = asyncio.ensure_future(store.dead.wait())
        task = asyncio.ensure_future(run.result())
        await asyncio.wait([task, dead], return_when=asyncio.FIRST_COMPLETED)
        dead.cancel()
        store.revive()
        await asyncio.wait([task], timeout=5)
        assert isinstance(task.exception(), Exception) or task.result().output
        result = await tree.boss.resume("r", store=store)

        assert result.usage == whole.usage
        assert result.stop_reason == "answer"
        keys = Counter(key for name, _, key in tree.did if name not in IDEMPOTENT)
        assert all(times == 1 for times in keys.values())


@pytest.mark.parametrize("policy", ["ask", "fail"])
async def test_an_interrupted_call_of_a_child_follows_its_policy(policy: OnUnknown) -> None:
    """J5: the run waits for somebody, or the child fails."""
    did: list[str] = []

    @tool(on_unknown=policy)
    async def pay(ctx: RunContext) -> str:
        """Pay."""
        did.append(ctx.idempotency_key)
        return "paid"

    def boss() -> Agent[None, str]:
        payer = Agent("payer", playing(calls(("p", "pay", {})), last_text), tools=[pay])
        return Agent("boss", playing(asking(("a", "payer")), last_text), tools=[payer])

    store = Dying()
    await die_after(4, boss(), store, conversation="c")
    assert did == ["r:payer#1:p"]
    result = await boss().resume("r", store=store)
    if policy == "fail":
        assert "payer failed" in result.output
        assert "unknown" in result.output
    else:
        (waits,) = result.pending
        assert (waits.call_id, waits.path) == ("payer#1:p", "payer#1")
        assert "unknown" in waits.reason
    assert did == ["r:payer#1:p"]


async def test_a_child_that_failed_the_run_does_so_once() -> None:
    """As a tool that did: on resume the model is told."""

    def broken(request: object) -> str:
        raise ValueError("no such planet")

    expert = Agent("expert", playing(broken)).as_tool(on_error="fail")
    boss = Agent("boss", playing(asking(("a", "expert")), last_text), tools=[expert])
    store = MemoryStore()
    with pytest.raises(ToolAborted):
        await boss.run("go", store=store, run_id="r")
    result = await boss.resume("r", store=store)
    assert "no such planet" in result.output


async def test_a_new_run_forgets_children_that_were_left() -> None:
    """Their calls get marked results, and numbers begin anew."""
    tree, store = Tree(), Dying()
    await die_after(6, tree.boss, store, conversation="c")
    view = fold((b.revision, b.entries) for b in await store.read("c"))
    assert sorted(paths_in(view)) == ["expert#1", "writer#1"]
    result = await tree.boss.run("another", store=store, conversation="c")

    check_answered(list(result.messages))
    (left,) = [m for m in result.messages if any(r.synthetic for r in m.tool_results)]
    assert {r.text for r in left.tool_results} == {
        "The call of 'expert' did not run to its end.",
        "The call of 'writer' did not run to its end.",
    }
    assert (await (await Conversation.open("c", store=store)).view()).children == {}


async def test_a_fork_leaves_children_behind() -> None:
    """The copy's run is over, and its history is valid."""
    tree, store = Tree(), Dying()
    await die_after(9, tree.boss, store, conversation="c")
    copy = await (await Conversation.open("c", store=store)).fork()

    check_answered(list(await copy.messages()))
    assert (await copy.view()).children == {}
    result = await tree.boss.run("go on", store=store, conversation=copy.id)
    assert result.stop_reason == "answer"


@pytest.mark.parametrize("ends", ["typed", "early", "failed"])
async def test_a_child_that_had_ended_is_not_asked_again(ends: str) -> None:
    """J4: its call had no result when the process died; it gets what it would have had."""

    def boss() -> Agent[None, str]:
        answer: Any = '{"result": [1, 2]}' if ends == "typed" else "[1, 2]"
        if ends == "failed":
            answer = raises(ValueError("no such planet"))
        elif ends == "early":
            answer = calls(("1", "nothing", {}))
        rounds = (answer, "[1, 2]")
        kind = list[int] if ends == "typed" else str
        limits = Limits(max_turns=1)
        expert = Agent("expert", playing(*rounds), output_type=kind, limits=limits)
        return Agent("boss", playing(asking(("a", "expert")), last_text), tools=[expert])

    whole = await boss().run("go")
    store, agent = Dying(), boss()
    left = 6 if ends == "early" else 4
    await die_after(left, agent, store, conversation="c")
    view = fold((b.revision, b.entries) for b in await store.read("c"))
    (child,) = view.children.values()
    assert child.ended is not None
    assert len(child.view.messages) == 0, "what it has said is forgotten"
    fresh = boss()
    result = await fresh.resume("r", store=store)

    assert list(result.messages) == list(whole.messages)
    assert result.tool_results[0] == whole.tool_results[0]
    assert result.usage == whole.usage
    if ends == "typed":
        assert result.tool_results[0].value == [1, 2]


@pytest.mark.parametrize("works", range(1, APPENDS))
async def test_a_store_that_fails_fails_the_run(works: int) -> None:
    """Not only the child that was writing: nothing hangs, nothing goes on unwritten."""
    store = Failing(works, StoreUnavailable("the disk is full"))
    with pytest.raises(StoreUnavailable, match="the disk is full"):
        await Tree().boss.run("go", store=store)


async def test_forks_at_every_revision() -> None:
    """J9: whatever was under way there, the copy is a valid history that a new run goes on with."""
    tree, store = Tree(), MemoryStore()
    await tree.boss.run("go", store=store, conversation="c")
    conversation = await Conversation.open("c", store=store)
    for revision in range(1, APPENDS + 1):
        copy = await conversation.fork(revision=revision)
        assert (await copy.view()).children == {}
        again = Agent("boss", playing("I see."))
        result = await again.run("Well?", store=store, conversation=copy.id)
        check_answered(list(result.messages))
        assert result.output == "I see."


@pytest.mark.parametrize("appends", range(2, 20, 2))
async def test_numbers_go_on_after_a_crash(appends: int) -> None:
    """A path is one child run's for ever, in the run and in the child runs in it."""

    def boss() -> Agent[None, str]:
        inner = Agent("inner", playing("ok"))
        rounds = (asking(("m1", "inner")), asking(("m2", "inner")), "done")
        middle = Agent("middle", playing(*rounds), tools=[inner])
        return Agent(
            "boss",
            playing(asking(("a1", "middle")), asking(("a2", "middle")), "done"),
            tools=[middle],
        )

    store = Dying()
    await die_after(appends, boss(), store, conversation="c")
    await boss().resume("r", store=store)
    entries = [e for b in await store.read("c") for e in b.entries if isinstance(e, ChildBegan)]
    assert [(entry.path, entry.call_id) for entry in entries] == [
        ("middle#1", "a1"),
        ("middle#1/inner#1", "middle#1:m1"),
        ("middle#1/inner#2", "middle#1:m2"),
        ("middle#2", "a2"),
        ("middle#2/inner#1", "middle#2:m1"),
        ("middle#2/inner#2", "middle#2:m2"),
    ]
