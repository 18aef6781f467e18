"""A process dies anywhere in a run with agents in the background: all go on, nothing twice."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence

import pytest

from tests.agent.dying import Dying, die_after
from tests.agent.parts import Failing, check_answered
from tests.agent.test_children_crashes import histories
from tests.workflows.crews import Crewed
from treadle import MemoryStore, StoreUnavailable
from treadle.journal import CallEnded, ChildBegan, ChildEnded, ModelReplied
from treadle.ports.store import Batch
from treadle.view import View

APPENDS = 19


async def journal_length() -> int:
    """How many appends the run takes where nobody dies."""
    store = Dying()
    await Crewed().boss.run("go", store=store, run_id="r", conversation="c")
    return (await store.head("c")).revision


async def test_it_takes_so_many_appends() -> None:
    """Else not every one of them is tried below."""
    assert await journal_length() == APPENDS


@pytest.mark.parametrize("appends", range(1, APPENDS))
async def test_after_a_crash_at_any_append(appends: int) -> None:
    """J3, J4, J5: two agents at work beside the run; same end, nothing twice."""
    whole_crew = Crewed()
    whole = await whole_crew.boss.run("go", store=MemoryStore(), run_id="r")
    crew, store = Crewed(), Dying()
    await die_after(appends, crew.boss, store, conversation="c")
    asked = len(crew.asked)
    replied = [e for b in await store.read("c") for e in b.entries if isinstance(e, ModelReplied)]
    result = await crew.boss.resume("r", store=store)

    check_answered(list(result.messages))
    assert result.stop_reason == "answer"
    assert asked - len(replied) <= 3, "one for each of three that are at work"
    batches = await store.read("c")
    ended = [e for b in batches for e in b.entries if isinstance(e, CallEnded)]
    unknown = sum("took effect is unknown" in entry.result.text for entry in ended)
    assert unknown <= 2, "those of two serial tools"
    if not unknown:
        assert result.output == whole.output
        assert result.state.packed() == whole.state.packed()
    assert result.usage == whole.usage
    keys = Counter(key for name, _, key in crew.did if name == "add")
    assert set(keys.values()) <= {1}
    assert {key for _, _, key in crew.did} == {key for _, _, key in whole_crew.did}
    _check_journal(batches)


def _check_journal(batches: Sequence[Batch]) -> None:
    """Each reply, start and end stands there once, and every view is valid."""
    entries = [entry for batch in batches for entry in batch.entries]
    children = Counter(entry.path for entry in entries if isinstance(entry, ChildBegan))
    assert children == {"scout#1": 1, "coder#1": 1}
    assert children == Counter(entry.path for entry in entries if isinstance(entry, ChildEnded))
    ended = Counter(e.result.call_id for e in entries if isinstance(e, CallEnded))
    assert set(ended.values()) == {1}
    replies = Counter(entry.path for entry in entries if isinstance(entry, ModelReplied))
    assert replies == {"": 4, "scout#1": 2, "coder#1": 3}
    view = View()
    for batch in batches:
        view.take_in(batch.revision, batch.entries)
        for each in histories(view):
            check_answered(list(each.messages))


@pytest.mark.parametrize("first", range(1, APPENDS))
async def test_after_two_crashes(first: int) -> None:
    """J4: the process that took over dies, too."""
    whole = await Crewed().boss.run("go")
    for second in range(1, APPENDS - first, 3):
        crew, store = Crewed(), Dying()
        await die_after(first, crew.boss, store, conversation="c")
        store.left, store.dead, store.gone = second, asyncio.Event(), asyncio.Event()
        run = crew.boss.resume("r", store=store)
        dead = asyncio.ensure_future(store.dead.wait())
        task = asyncio.ensure_future(run.result())
        await asyncio.wait([task, dead], return_when=asyncio.FIRST_COMPLETED)
        dead.cancel()
        store.revive()
        await asyncio.wait([task], timeout=5)
        assert isinstance(task.exception(), Exception) or task.result().output
        result = await crew.boss.resume("r", store=store)

        assert result.usage == whole.usage
        assert result.stop_reason == "answer"
        keys = Counter(key for name, _, key in crew.did if name == "add")
        assert set(keys.values()) <= {1}


@pytest.mark.parametrize("works", range(1, APPENDS))
async def test_a_store_that_fails_fails_the_run(works: int) -> None:
    """Nothing hangs, nothing goes on unwritten."""
    store = Failing(works, StoreUnavailable("the disk is full"))
    with pytest.raises(StoreUnavailable, match="the disk is full"):
        await Crewed().boss.run("go", store=store)
