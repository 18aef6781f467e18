"""A tool in a process of its own does all that one in a thread does, and can be killed."""

from __future__ import annotations

import asyncio
import functools
import os
from typing import Any

import pytest

from tests.tools import elsewhere, hanging, seen
from tests.tools.apart import apart, becomes, gone, is_alive, result_of
from tests.tools.elsewhere import Counter, Math, Person, Point
from tests.tools.hanging import HANGS
from tests.tools.parts import asked, results_of, run_calls
from treadle import (
    Agent,
    Image,
    Text,
    Tool,
    ToolAborted,
    ToolProgress,
)
from treadle.testing import ScriptedModel, calls
from treadle.tools.processes import PROCESSES, ToolProcesses
from treadle.tools.timing import CallExpired
from treadle.tools.worker_process import ProcessDied

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("all_gone")]


# --- what can be called -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("made", "arguments", "text"),
    [
        (elsewhere.add, {"a": 1, "b": 2}, "3"),
        (elsewhere.wait_and_add, {"a": 1, "b": 2}, "3"),
        (elsewhere.wrapped, {"number": 1}, "8"),
        (Math.inner, {"number": 1}, "3"),
        (Math.outer, {"number": 1}, "5"),
        (apart(Math.plain), {"number": 1}, "2"),
        (apart(Math.of_class), {"number": 2}, "6"),
        (apart(Math(7).bound), {"number": 2}, "14"),
        (apart(functools.partial(Math(7).bound), name="p"), {"number": 3}, "21"),
    ],
)
async def test_what_can_be_imported_can_be_called(
    made: Tool, arguments: dict[str, Any], text: str
) -> None:
    """Functions, sync or not, methods of all kinds, partials."""
    result = await result_of(made, **arguments)

    assert (result.text, result.is_error) == (text, False)
    assert (await result_of(elsewhere.where)).value != os.getpid()


async def test_one_process_serves_many_calls() -> None:
    """One after another they meet the same process, and what a module or an instance keeps."""
    counter = Tool.from_schema("count", "Count.", None, Counter(10), isolation="process")
    first, second = [(await result_of(counter, by=2)).value for _ in range(2)]
    third, fourth = [(await result_of(apart(elsewhere.keep), number=n)).value for n in (1, 2)]

    assert first[0] == second[0] == third[0] == fourth[0]
    assert (first[1], second[1]) == (12, 14)
    assert (third[1], fourth[1]) == ([1], [1, 2])


async def test_what_a_tool_returns() -> None:
    """Parts, typed values and None come back in their own types."""
    give = apart(elsewhere.give)
    parts = await result_of(give, what="parts")

    assert parts.parts == (Text("see"), Image.from_bytes(b"\x89PNG....", "image/png"))
    assert (await result_of(give, what="none")).text == "null"
    assert (await PROCESSES.run(elsewhere.give, ("person",), {})) == Person(name="Ann")
    assert (await PROCESSES.run(elsewhere.give, ("point",), {})) == Point(1, 2)


async def test_what_a_tool_asks_of_the_loop() -> None:
    """Control values are obeyed."""
    give = apart(elsewhere.give)
    chain = await run_calls([give, elsewhere.add], asked("1", "give", what="next"))
    pause = await run_calls([give], asked("1", "give", what="interrupt"))
    finish = await run_calls([give], asked("1", "give", what="finish"))

    assert [found.text for found in chain.tool_results] == ["first", "3"]
    assert pause.stop_reason == "paused"
    assert finish.output == {"done": True}


@pytest.mark.parametrize(
    ("what", "text"),
    [
        ("lock", "It ran, but its result, of type 'lock', cannot leave its process: cannot pickle"),
        ("lambda", "It ran, but its result, of type 'function', cannot leave its process: what"),
        ("large", "It ran, but its result is too large: 6815"),
    ],
)
async def test_a_result_that_cannot_leave(what: str, text: str) -> None:
    """It is an error of this call alone, and not tried again."""
    result = await result_of(apart(elsewhere.give, retries=2), what=what)

    assert (result.is_error, result.text[: len(text)]) == (True, text)
    assert (await result_of(elsewhere.add, a=1, b=2)).text == "3"


# --- how a call fails ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "text"),
    [
        ("key", "Tool 'fail' failed: KeyError: 'lost'"),
        ("odd", "Tool 'fail' failed: Odd: odd 4"),
        ("unportable", "Tool 'fail' failed: RuntimeError: Unportable: cannot leave"),
        ("tool", "text for the model"),
        ("exit", "Tool 'fail' failed: RuntimeError: raised SystemExit(3)"),
        ("interrupt", "Tool 'fail' failed: RuntimeError: raised KeyboardInterrupt()"),
        ("cancel", "Tool 'fail' failed: RuntimeError: raised CancelledError()"),
        ("stop", "Tool 'fail' failed: RuntimeError: raised StopIteration(1)"),
        ("pipe", "Tool 'fail' failed: BrokenPipeError: the function's own"),
        ("eof", "Tool 'fail' failed: EOFError: the function's own"),
        ("time", "Tool 'fail' failed: TimeoutError: the function's own"),
        ("group", "Tool 'fail' failed: ExceptionGroup: two (2 sub-exceptions)"),
    ],
)
async def test_what_a_tool_raises(how: str, text: str) -> None:
    """Every exception is the call's error, in the words that a thread gives it; nothing dies."""
    before = (await result_of(elsewhere.where)).text
    result = await result_of(apart(elsewhere.fail), how=how)

    assert (result.is_error, result.text) == (True, text)
    assert (await result_of(elsewhere.where)).text == before


@pytest.mark.parametrize(
    ("how", "text"),
    [("long", "Tool 'fail' failed: ValueError: xxx"), ("too long", "It ran, but its error is too")],
)
async def test_a_long_error(how: str, text: str) -> None:
    """It comes through as a result of its size would, and is told from one."""
    result = await result_of(apart(elsewhere.fail), how=how)

    assert (result.is_error, result.text[: len(text)]) == (True, text)


async def test_abort_stops_the_run() -> None:
    """ToolAbort is what it is; the traceback in the worker is a note on it."""
    with pytest.raises(ToolAborted, match="stop it") as caught:
        await run_calls([apart(elsewhere.fail)], asked("1", "fail", how="abort"))

    assert caught.value.__cause__ is not None
    assert "elsewhere.py" in caught.value.__cause__.__notes__[0]


async def test_an_exception_is_tried_again() -> None:
    """`retries` counts exceptions and deaths, and the context counts tries."""
    assert (await result_of(apart(elsewhere.attempt_until, retries=2), needed=3)).text == "3"
    assert (await result_of(apart(elsewhere.die_until, retries=1), needed=2)).text == "2"


@pytest.mark.parametrize(
    ("how", "text"),
    [
        ("exit", "its process ended with exit code 3 while it ran."),
        ("zero", "its process ended with exit code 0 while it ran."),
        ("segv", "its process was ended by signal 11 (SIGSEGV) while it ran."),
        ("abort", "its process was ended by signal 6 (SIGABRT) while it ran."),
        ("close", "its process closed the channel to its parent, or wrote to it, while it ran."),
        ("scribble", "its process closed the channel to its parent, or wrote to it, while it ran."),
        ("kill", "by signal 9 (SIGKILL), as happens when memory runs out, while it ran."),
    ],
)
async def test_a_process_that_dies(how: str, text: str) -> None:
    """Its call has an error that says how; a call beside it goes on, and the next one, too."""
    die = apart(elsewhere.die, parallel=True)
    beside = apart(hanging.hang_long.function, timeout=0.5, name="beside", parallel=True)
    result = await run_calls(
        [die, beside, elsewhere.add],
        asked("1", "die", how=how),
        asked("2", "beside", how="sleep"),
        asked("3", "add", a=1, b=2),
    )

    died, slept, added = results_of(result)
    assert died.is_error
    assert died.text.endswith(text), died.text
    assert "timed out after 0.5 s" in slept.text
    assert added.text == "3"


async def test_an_idle_process_that_was_killed_costs_nothing() -> None:
    """The next call runs in a new one."""
    pid = (await result_of(elsewhere.where)).value
    for each in PROCESSES.pids:
        os.kill(each, 9)
    again = (await result_of(elsewhere.where)).value

    assert again not in (None, pid)


# --- how a call is stopped ----------------------------------------------------------------------


@pytest.mark.parametrize("how", HANGS)
async def test_a_timeout_kills(how: str) -> None:
    """Whatever a function does, it is gone when the model hears of its timeout."""
    agent = Agent(
        "a",
        ScriptedModel([calls(asked("1", "hang", how=how)), "done"]),
        tools=[hanging.hang.replace(timeout=0.3)],
    )
    run = agent.start("x")
    pids = [int(str(event.progress)) async for event in run if isinstance(event, ToolProgress)]
    result = await run

    assert result.tool_results[0].text == "Tool 'hang' timed out after 0.3 s."
    assert len(pids) == 1
    assert not is_alive(pids[0])


@pytest.mark.parametrize("how", HANGS)
async def test_a_cancelled_run_kills(how: str) -> None:
    """It is gone when the run has ended."""
    model = ScriptedModel([calls(asked("1", "hang_long", how=how)), "done"])
    run = Agent("a", model, tools=[hanging.hang_long]).start("x")
    pid = 0
    async for event in run:
        if isinstance(event, ToolProgress):
            pid = int(str(event.progress))
            await run.cancel("enough")
    result = await run

    assert result.stop_reason == "cancelled"
    assert pid
    assert not is_alive(pid)


async def test_children_are_killed_with_it() -> None:
    """What the function began is gone, too, be it in a session of its own."""
    run = Agent(
        "a",
        ScriptedModel([calls(asked("1", "hang_with_children")), "done"]),
        tools=[elsewhere.hang_with_children],
    ).start("x")
    pids: list[int] = []
    async for event in run:
        if isinstance(event, ToolProgress):
            pids = [int(each) for each in str(event.progress).strip("[]").split(",")]
    await run

    assert len(pids) == 4
    assert await gone(pids)


async def test_state_of_a_killed_call_stands() -> None:
    """What it wrote before its timeout was written, as in a thread."""
    result = await run_calls(
        [apart(seen.write_and_hang, timeout=0.1)], asked("1", "write_and_hang")
    )

    assert "timed out" in results_of(result)[0].text
    assert result.state.get("agent::a::before") == 1


async def test_a_call_that_waits_for_its_turn_can_be_cancelled() -> None:
    """With one process, the second call waits; cancelled, it never runs."""
    processes = ToolProcesses(most=1)
    first = asyncio.ensure_future(processes.run(hanging.sleep, (), {}, timeout=1.0))
    await asyncio.sleep(0)
    second = asyncio.ensure_future(processes.run(elsewhere.keep, (99,), {}))
    third = asyncio.ensure_future(processes.run(elsewhere.keep, (1,), {}))
    await asyncio.sleep(0)
    second.cancel()

    with pytest.raises(CallExpired):
        await first
    assert (await third)[1] == [1]
    with pytest.raises(asyncio.CancelledError):
        await second
    await asyncio.to_thread(processes.close)


async def test_processes_are_bounded_and_end_when_idle() -> None:
    """Ten calls at once in at most three processes, which end after a while without work."""
    processes = ToolProcesses(most=3, idle_seconds=0.2)
    async with asyncio.TaskGroup() as tasks:
        made = [tasks.create_task(processes.run(elsewhere.keep, (n,), {})) for n in range(10)]
    pids = {each.result()[0] for each in made}

    assert 1 <= len(pids) <= 3
    assert set(processes.pids) <= pids
    assert await becomes(lambda: processes.pids == [])
    assert await gone(list(pids))
    assert (await processes.run(elsewhere.keep, (1,), {}))[1] == [1]
    await asyncio.to_thread(processes.close)


async def test_closing_ends_running_calls() -> None:
    """A call that runs then has an error, and none is left."""
    processes = ToolProcesses()
    running = asyncio.ensure_future(processes.run(hanging.spin, (), {}))
    assert await becomes(lambda: bool(processes.pids))
    pids = processes.pids
    await asyncio.to_thread(processes.close)

    with pytest.raises(ProcessDied):
        await running
    assert processes.pids == []
    assert await gone(pids)
