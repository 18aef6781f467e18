"""Plans whose process dies at every append: the same outcome, and nothing is repeated."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.agent.parts import check_answered
from tests.agent.test_children_crashes import histories
from tests.workflows.dying import die_after, resume_and_die
from tests.workflows.kitchen import SIX, Kitchen, asked, draft
from treadle import (
    Conversation,
    MemoryStore,
    ModelRequest,
    PlanResult,
    RunContext,
    open_store,
    tool,
)
from treadle.journal import ChildBegan, ModelReplied, StepEnded
from treadle.testing import calls
from treadle.view import View


@pytest.fixture(params=["memory", "file", "sqlite"])
async def places(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Any]:
    """Return what opens new stores of a kind, which are closed at the end."""
    opened: list[Any] = []

    def place() -> Any:
        number = len(opened)
        url = {
            "memory": "memory:",
            "file": f"file:{tmp_path}/{number}",
            "sqlite": f"sqlite:///{tmp_path}/{number}.db",
        }[request.param]
        opened.append(open_store(url))
        return opened[-1]

    yield place
    for store in opened:
        await store.close()


def changing(request: ModelRequest) -> str:
    """Plan six steps, and another one in place of one that fails."""
    if asked(request).startswith("The plan has to change"):
        return draft({"buy": [], "serve": ["slice", "buy"]})
    return draft({**SIX, "serve": ["slice", "steal"], "steal": ["slice"]})


def cooks(step: str, request: ModelRequest) -> Any:
    """Refuse to steal."""
    return ValueError("we do not steal") if step == "steal" else None


def kitchen(kind: str) -> Kitchen:
    """Return a plan of six steps, or one that changes."""
    if kind == "six":
        return Kitchen(SIX)
    return Kitchen(changing, cooks=cooks)


def seen(result: PlanResult) -> dict[str, Any]:
    """Return what has to be the same, whatever happened on the way."""
    assert result.plan is not None
    return {
        "output": result.output,
        "stop": result.stop_reason,
        "messages": list(result.messages),
        "steps": {(s.id, s.status, str(s.output), s.turns) for s in result.steps},
        "plan": {(s.id, s.status, s.result) for s in result.plan.steps},
        "replans": result.replans,
        "requests": result.usage.requests,
        "tools": result.usage.tool_calls,
        "turns": result.turns,
    }


def marks(result: PlanResult) -> set[tuple[str, Any]]:
    """Return what the tool wrote to the state."""
    return {(key, value) for key, value in result.state.snapshot().items() if "done" in key}


async def check(store: Any, made: Kitchen, result: PlanResult, whole: PlanResult) -> None:
    """Compare the result with that of a run that nothing happened to, and look at the journal."""
    assert seen(result) == seen(whole)
    written, wanted = marks(result), marks(whole)
    assert written <= wanted
    assert len(wanted - written) <= 3, "what calls wrote whose outcome is unknown"
    keys = Counter(made.did)
    assert all(times == 1 for times in keys.values()), keys
    view = View()
    entries: list[Any] = []
    for batch in await store.read("c"):
        view.take_in(batch.revision, batch.entries)
        entries += batch.entries
        for each in histories(view):
            check_answered(list(each.messages))
    assert view.children == {}
    began = Counter(e.path for e in entries if isinstance(e, ChildBegan))
    assert set(began.values()) == {1}
    ended = Counter((e.path, e.step) for e in entries if isinstance(e, StepEnded))
    assert set(ended.values()) == {1}
    replied = sum(isinstance(e, ModelReplied) for e in entries)
    assert replied == whole.usage.requests
    again = await made.kitchen.resume("r", store=store)
    assert seen(again) == seen(whole)


@pytest.mark.e2e
@pytest.mark.parametrize("kind", ["six", "changing"])
async def test_after_a_crash_at_any_append(places: Any, kind: str) -> None:
    """J3, J4: what is over is not done again, what was under way goes on."""
    whole = await kitchen(kind).kitchen.run("Go.")
    appends, died = 0, True
    while died:
        appends += 1
        made, store = kitchen(kind), places()
        died = await die_after(appends, made.kitchen, store, conversation="c")
        asked_before = len(made.told)
        known = [e for b in await store.read("c") for e in b.entries if isinstance(e, ModelReplied)]
        result = await made.kitchen.resume("r", store=store)
        assert asked_before - len(known) <= 3 + (kind == "changing"), "one for each step at work"
        await check(store, made, result, whole)
    assert appends > 30


@pytest.mark.e2e
@pytest.mark.parametrize("second", [1, 2, 5])
async def test_after_two_crashes(second: int) -> None:
    """The process that took over dies, too."""
    whole = await kitchen("changing").kitchen.run("Go.")
    appends, died = 0, True
    while died:
        appends += 1
        made, store = kitchen("changing"), MemoryStore()
        died = await die_after(appends, made.kitchen, store, conversation="c")
        if died:
            await resume_and_die(second, made.kitchen, store)
        result = await made.kitchen.resume("r", store=store)
        await check(store, made, result, whole)


def seeded(store: MemoryStore) -> tuple[Kitchen, list[Any]]:
    """Return a plan of six steps that somebody steers, once, and the receipt of that."""
    receipts: list[Any] = []

    async def steer(step: str, request: ModelRequest) -> None:
        if step == "knead" and not receipts:
            receipts.append(None)
            conversation = await Conversation.open("c", store=store)
            receipts[0] = await conversation.steer("With seeds.")

    def plans(request: ModelRequest) -> str:
        changed = asked(request).startswith("The plan has to change")
        return draft({"seeds": []} if changed else SIX)

    return Kitchen(plans, cooks=steer), receipts


@pytest.mark.e2e
async def test_a_message_that_was_accepted_is_heard_after_a_crash() -> None:
    """J8: once, wherever the process died."""
    appends, died, heard = 0, True, 0
    while died:
        appends += 1
        store = MemoryStore()
        made, receipts = seeded(store)
        died = await die_after(appends, made.kitchen, store, conversation="c")
        result = await made.kitchen.resume("r", store=store)
        if receipts and receipts[0] is not None:
            heard += 1
            said = [message.text for message in result.messages]
            assert said == ["Go.", "With seeds.", result.output]
            assert "seeds" in [step.id for step in result.steps]
            assert result.replans == 1
            assert await receipts[0].refresh() == "applied"
        assert result.stop_reason == "answer"
        assert all(times == 1 for times in Counter(made.did).values())
    assert heard > 20


@pytest.mark.e2e
async def test_branches_are_built_again_as_they_began() -> None:
    """What others have merged meanwhile is a conflict after a crash, as it is without one."""

    def make() -> Kitchen:
        @tool(idempotent=True)
        async def write(ctx: RunContext, value: str) -> str:
            """Write."""
            ctx.state.session.set("shared", value)
            return value

        def cooking(step: str, request: ModelRequest) -> Any:
            turn = sum(m.role == "assistant" for m in request.messages)
            if turn == 0:
                return calls(("w", "write", {"value": step}))
            return calls((f"m{turn}", "mark", {"step": step})) if turn < int(step) else None

        return Kitchen({"2": [], "6": []}, cooks=cooking, tools=[write], on_failure="skip")

    whole = await make().kitchen.run("Go.")
    assert [s.status for s in whole.steps] == ["completed", "skipped"]
    appends, died = 0, True
    while died:
        appends += 1
        made, store = make(), MemoryStore()
        died = await die_after(appends, made.kitchen, store, conversation="c")
        result = await made.kitchen.resume("r", store=store)
        assert {s.status for s in result.steps} == {"completed", "skipped"}
