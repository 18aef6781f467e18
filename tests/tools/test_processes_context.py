"""A call in a process of its own sees the run, its state and its surroundings as in a thread."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from typing import Any

import pytest

from tests.tools import elsewhere, hanging, seen
from tests.tools.apart import apart, result_of
from tests.tools.elsewhere import Point
from tests.tools.parts import asked, results_of, run_calls
from treadle import (
    Agent,
    State,
    ToolProgress,
    tool,
)
from treadle.testing import ScriptedModel, calls
from treadle.tools.processes import ToolProcesses
from treadle.tools.timing import CallExpired
from treadle.tools.worker_process import ProcessDied

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("all_gone")]


async def test_the_context() -> None:
    """IDs, attempt, key, metadata and usage are those of the call."""
    result = await run_calls(
        [apart(seen.look)], asked("c1", "look"), metadata={"user": 7}, conversation="conv"
    )
    told: Any = results_of(result)[0].value

    assert told == {
        "run": result.run_id,
        "conversation": "conv",
        "agent": "a",
        "call": "c1",
        "tool": "look",
        "key": f"{result.run_id}:c1",
        "attempt": 1,
        "metadata": {"user": 7},
        "cancelled": False,
        "requests": 1,
    }


@pytest.mark.parametrize("what", ["deps", "artefacts"])
async def test_live_objects_are_not_there(what: str) -> None:
    """The error says what to do."""
    result = await run_calls([apart(seen.touch)], asked("1", "touch", what=what), deps="d")

    text = results_of(result)[0].text
    assert text.startswith(f"Tool 'touch' failed: ConfigError: ctx.{what} is not to be had in")


async def test_progress_and_usage() -> None:
    """Progress is there while the call runs; usage is the run's."""
    run = Agent(
        "a", ScriptedModel([calls(asked("1", "use")), "done"]), tools=[apart(seen.use)]
    ).start("x")
    progress = [event.progress async for event in run if isinstance(event, ToolProgress)]
    result = await run

    assert progress == [{"step": 0}, {"step": 1}, {"step": 2}]
    assert result.usage.requests == 3
    assert result.usage.input_tokens >= 7


async def test_the_state() -> None:
    """Every word of it means what it means in a thread, which gives the same answers."""
    answers: list[Any] = []
    for made in (apart(seen.work_on_state), tool(seen.work_on_state)):
        state = State({"agent::a::old": 1})
        result = await run_calls([made], asked("1", "work_on_state"), state=state)
        answers.append((results_of(result)[0].value, result.state.snapshot()))

    assert answers[0] == answers[1]
    assert answers[0][0][:4] == [{"n": 1}, Point(1, 2), [1], "default"]


async def test_parallel_writes_conflict() -> None:
    """The second call that writes a key is told, unless the key has a reducer."""
    write = apart(seen.write, parallel=True)
    both = asked("1", "write", key="k", value=[1]), asked("2", "write", key="k", value=[2])
    clash = results_of(await run_calls([write], *both))

    assert sorted(found.is_error for found in clash) == [False, True]
    assert any("was already written by the parallel call" in found.text for found in clash)
    state = State(reducers={"session::k": lambda old, new: sorted(old + new)})
    merged = await run_calls([write], *both, state=state)
    assert merged.state.get("session::k") == [1, 2]


@pytest.mark.parametrize("made", [seen.write_lock, seen.report_lock])
async def test_what_cannot_be_given_to_the_run(made: Any) -> None:
    """A value that cannot be stored or shown is an error where it is given."""
    assert (await result_of(apart(made))).is_error


async def test_the_context_ends_with_its_call() -> None:
    """A thread that is left behind is told, and the channel stays in order."""
    ask_later = apart(seen.ask_later)
    left = await run_calls([ask_later], asked("1", "ask_later", tell=False))
    told = await result_of(ask_later, tell=True)

    assert left.state.get("agent::a::late") is None
    assert "used after its call had ended" in told.text


async def test_threads_of_a_tool_share_the_context() -> None:
    """Each gets its own answer."""
    assert (await result_of(apart(seen.from_many_threads), count=20)).text == "20"


async def test_a_tool_that_forks() -> None:
    """Its child can neither speak for it nor take calls."""
    assert (await result_of(apart(seen.fork_and_return))).text == "0"
    assert (await result_of(elsewhere.add, a=1, b=2)).text == "3"


async def test_what_it_prints(capfd: pytest.CaptureFixture[str]) -> None:
    """All goes to standard error, also past Python; the channel has descriptors of its own."""
    processes = ToolProcesses()

    assert await processes.run(seen.say, ("hello",), {}) == "said"
    assert len(await processes.run(seen.descriptors, (), {})) == 5
    await asyncio.to_thread(processes.close)
    captured = capfd.readouterr()
    assert captured.out == ""
    assert captured.err.count("hello") == 2
    assert "raw out" in captured.err


async def test_no_descriptor_is_left() -> None:
    """Calls, deaths and ends leave as many descriptors as there were."""
    before = len(os.listdir("/proc/self/fd"))
    processes = ToolProcesses()
    for function, arguments in ((elsewhere.keep, (1,)), (elsewhere.die, ("exit",))):
        with suppress(ProcessDied):
            await processes.run(function, arguments, {})
    with pytest.raises(CallExpired):
        await processes.run(hanging.sleep, (), {}, timeout=0.01)
    await asyncio.to_thread(processes.close)

    assert len(os.listdir("/proc/self/fd")) == before
