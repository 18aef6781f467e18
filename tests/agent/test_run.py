"""The handle of a run, and what a run keeps apart, measures and leaves behind."""

from __future__ import annotations

import asyncio
import gc
import logging
import time
import weakref
from dataclasses import dataclass
from typing import Any

import pytest

from tests.agent.parts import types_of
from treadle import (
    Agent,
    AuthenticationFailed,
    Finish,
    MemoryStore,
    Message,
    ModelRequest,
    RunContext,
    RunFinished,
    tool,
)
from treadle.errors import ConfigError
from treadle.testing import FunctionModel, ScriptedModel, calls, raises


async def test_arguments_changed_after_the_start() -> None:
    """S9: what the caller changes later has no effect."""

    def instructions(ctx: RunContext) -> str:
        return f"{dict(ctx.metadata)}"

    model = ScriptedModel(["ok"])
    said, requirements = ["x"], ["Be short."]
    history = [Message.user("a"), Message.assistant("b")]
    metadata = {"k": 1}
    run = Agent("a", model, instructions=instructions).start(
        said, history=history, metadata=metadata, requirements=requirements
    )
    for given in (said, history, metadata, requirements):
        given.clear()

    result = await run

    assert [m.text for m in result.messages] == ["a", "b", "x", "ok"]
    assert "{'k': 1}" in model.requests[0].system
    assert "- Be short." in model.requests[0].system


async def test_a_state_changed_after_the_start() -> None:
    """S9: what the caller does to the dict later has no effect either."""
    state = {"session::k": 1}
    run = Agent("a", ScriptedModel(["ok"])).start("x", state=state)
    state.clear()

    assert (await run).state.get("session::k") == 1


async def test_metadata_changed_after_the_start() -> None:
    """S9: that holds for what is inside it too."""
    seen: list[object] = []

    def instructions(ctx: RunContext) -> str:
        seen.append(ctx.metadata["user"])
        return ""

    user = {"name": "ann"}
    agent = Agent("a", ScriptedModel(["ok"]), instructions=instructions)
    run = agent.start("x", metadata={"user": user})
    user["name"] = "bob"
    await run

    assert seen == [{"name": "ann"}]


async def test_a_failed_run_that_nobody_awaits_is_quiet(
    recwarn: pytest.WarningsRecorder, caplog: pytest.LogCaptureFixture
) -> None:
    """The terminal event has the error; no complaint about an exception never retrieved."""
    run = Agent("a", ScriptedModel([raises(AuthenticationFailed("no"))])).start("x")
    last = [event async for event in run][-1]
    assert isinstance(last, RunFinished)
    assert (last.stop_reason, last.error) == ("failed", "no")
    while not run.done:  # noqa: ASYNC110 to await it would be to ask for its error
        await asyncio.sleep(0)
    await asyncio.sleep(0)  # what is called when a task is done has been called
    with caplog.at_level(logging.DEBUG):
        del run
        gc.collect()

    assert not recwarn.list
    assert not caplog.records


@dataclass
class Large:
    """An output that can be referred to weakly."""

    text: str


async def test_finished_runs_leave_nothing_behind() -> None:
    """BS-68: agent, run, tool closure and result are free once dropped; no task is left."""
    refs: list[weakref.ref[Any]] = []
    store = MemoryStore()

    async def once(n: int) -> None:
        big = Large("x" * 1_000)
        refs.append(weakref.ref(big))

        async def keeps(a: int) -> int:
            """Keep something large."""
            return a + len(big.text)

        @tool
        async def ends() -> Finish:
            """End with something large."""
            made = Large("y" * 1_000)
            refs.append(weakref.ref(made))
            return Finish(made)

        script = [calls(("1", "keeps", {"a": 1})), calls(("2", "ends", {}))]
        failing = [raises(AuthenticationFailed("no"))]
        model = ScriptedModel(failing if n % 4 == 3 else script)
        agent = Agent("a", model, tools=[tool(keeps), ends])
        run = agent.start("x", conversation=f"c{n}", store=store) if n % 3 else agent.start("x")
        match n % 4:
            case 0:
                assert isinstance((await run).output, Large)
            case 1 | 3:
                await types_of(run)
            case _:
                await run.cancel()
        refs.extend((weakref.ref(agent), weakref.ref(run), weakref.ref(keeps)))

    for n in range(60):
        await once(n)
    await asyncio.sleep(0)
    gc.collect()

    assert [ref for ref in refs if ref() is not None] == []
    assert len(refs) == 60 * 4 + 30
    assert len(asyncio.all_tasks()) == 1


def test_start_needs_an_event_loop() -> None:
    """The error says what to call instead."""
    with pytest.raises(ConfigError, match="run_sync"):
        Agent("a", ScriptedModel(["x"])).start("x")


async def test_agents_are_shared_without_crossing() -> None:
    """S8, BS-64: fifty conversations at once see only their own word."""

    def parrot(request: ModelRequest) -> str:
        words = {message.text for message in request.messages if message.role == "user"}
        assert len(words) == 1
        return words.pop()

    agent = Agent("a", FunctionModel(parrot))
    before = repr(agent)

    async def talk(word: str) -> list[str]:
        history: list[Message] = []
        said: list[str] = []
        for _ in range(5):
            result = await agent.run(word, history=history)
            history = result.messages
            said.append(result.output)
        return said

    async with asyncio.TaskGroup() as group:
        talks = {word: group.create_task(talk(word)) for word in (f"word-{n}" for n in range(50))}

    assert all(task.result() == [word] * 5 for word, task in talks.items())
    assert repr(agent) == before


async def test_seconds_are_measured() -> None:
    """Wall-clock time of the run, in seconds."""
    started = time.perf_counter()
    result = await Agent("a", ScriptedModel(["hi"])).run("x")

    assert 0 < result.seconds <= time.perf_counter() - started
