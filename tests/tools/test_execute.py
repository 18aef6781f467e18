"""One call gets exactly one result, in time, whatever its tool does."""

from __future__ import annotations

import asyncio
import contextvars
import threading

from tests.tools.parts import asked, echo, results_of, run_calls
from treadle import (
    Agent,
    Limits,
    RunContext,
    ToolError,
    ToolProgress,
    tool,
)
from treadle.testing import ScriptedModel, calls


async def test_a_tool_that_raises_returns_nothing_or_hangs() -> None:
    """S22: each call has exactly one result and the run goes on."""

    @tool
    async def raises_() -> str:
        """Raise."""
        raise KeyError("lost")

    @tool
    async def nothing() -> None:
        """Return nothing."""

    @tool(timeout=0.01)
    async def hangs() -> str:
        """Hang."""
        await asyncio.get_running_loop().create_future()
        return "never"

    @tool
    async def leaves() -> str:
        """Leave the process."""
        raise SystemExit(3)

    names = ["raises_", "nothing", "hangs", "leaves"]
    result = await run_calls([raises_, nothing, hangs, leaves], *(asked(n, n) for n in names))

    raised, empty, hung, left = results_of(result)
    assert [found.call_id for found in results_of(result)] == names
    assert (raised.is_error, "KeyError: 'lost'" in raised.text) == (True, True)
    assert (empty.is_error, empty.text, empty.value) == (False, "null", None)
    assert (hung.is_error, "timed out after 0.01 s" in hung.text) == (True, True)
    assert left.is_error
    assert result.output == "done"


async def test_a_sync_tool_that_hangs_or_leaves() -> None:
    """A thread that does not come back costs its result, not the run; its context tells it."""
    let_go, left = threading.Event(), threading.Event()
    told: list[bool] = []

    @tool(timeout=0.02)
    def stuck(ctx: RunContext) -> str:
        """Hang until told."""
        let_go.wait(5)
        told.append(ctx.cancelled)
        left.set()
        return str(ctx.cancelled)

    @tool
    def leaves() -> str:
        """Leave the process."""
        raise SystemExit(3)

    result = await run_calls([stuck, leaves], asked("1", "stuck"), asked("2", "leaves"))
    let_go.set()

    hung, gone = results_of(result)
    assert "timed out" in hung.text
    assert "SystemExit" in gone.text
    assert await asyncio.to_thread(left.wait, 5)
    assert told == [True]


async def test_a_call_that_has_its_result_changes_no_state() -> None:
    """A thread that goes on after its timeout is refused the write."""
    let_go, refused = threading.Event(), threading.Event()

    @tool(timeout=0.02)
    def stuck(ctx: RunContext) -> str:
        """Write too late."""
        let_go.wait(5)
        try:
            ctx.state.set("late", 1)
        except ToolError:
            refused.set()
        return "late"

    result = await run_calls([stuck], asked("1", "stuck"))
    let_go.set()

    assert await asyncio.to_thread(refused.wait, 5)
    assert result.state.snapshot() == {}


async def test_retries_keep_one_idempotency_key() -> None:
    """An exception is tried again, a ToolError is not; the key stays, the attempt counts."""
    seen: list[tuple[str, int]] = []

    @tool(retries=2)
    async def flaky(ctx: RunContext) -> str:
        """Fail twice."""
        seen.append((ctx.idempotency_key, ctx.attempt))
        if len(seen) < 3:
            raise OSError("net")
        return "ok"

    @tool(retries=2)
    async def refuses(ctx: RunContext) -> str:
        """Refuse."""
        seen.append((ctx.idempotency_key, ctx.attempt))
        raise ToolError("no")

    result = await run_calls(
        [flaky, refuses], asked("1", "flaky"), asked("2", "refuses"), max_parallel_tools=1
    )

    assert [found.text for found in results_of(result)] == ["ok", "no"]
    assert [attempt for _, attempt in seen] == [1, 2, 3, 1]
    assert len({key for key, _ in seen[:3]}) == 1
    assert len({key for key, _ in seen}) == 2


async def test_an_attempt_that_timed_out_is_told_so() -> None:
    """While the next attempt is under way, the thread of the first still knows that it is out."""
    second_began, told = threading.Event(), threading.Event()
    seen: list[tuple[int, bool, bool]] = []

    @tool(timeout=0.05, retries=1)
    def slow(ctx: RunContext) -> str:
        """Take too long, once."""
        if ctx.attempt == 2:
            second_began.set()
            told.wait(5)
            return "ok"
        second_began.wait(5)
        try:
            ctx.state.set("late", 1)
        except ToolError:
            refused = True
        else:
            refused = False
        seen.append((ctx.attempt, ctx.cancelled, refused))
        told.set()
        return "late"

    result = await run_calls([slow], asked("1", "slow"))
    assert await asyncio.to_thread(told.wait, 5)

    assert seen == [(1, True, True)]
    assert results_of(result)[0].text == "ok"


async def test_sync_tools_run_in_threads_with_the_callers_context() -> None:
    """BS-12: the event loop goes on, and context variables are there."""
    tenant: contextvars.ContextVar[str] = contextvars.ContextVar("tenant", default="nobody")
    tenant.set("acme")
    barrier, knocked = threading.Barrier(2, timeout=5), threading.Event()

    @tool(parallel=True)
    def meet() -> str:
        """Meet the other one: impossible one after the other."""
        barrier.wait()
        assert knocked.wait(5), "the event loop stands still"
        return tenant.get()

    @tool
    async def knock() -> None:
        """Let the others go on."""
        knocked.set()

    result = await run_calls(
        [meet, knock], asked("1", "meet"), asked("2", "meet"), asked("3", "knock")
    )

    assert [found.text for found in results_of(result)][:2] == ["acme", "acme"]


async def test_a_sync_function_that_returns_an_awaitable() -> None:
    """It is awaited."""

    @tool
    def later(n: int) -> object:
        """Return a coroutine."""
        return asyncio.sleep(0, n + 1)

    assert results_of(await run_calls([later], asked("1", "later", n=1)))[0].value == 2


async def test_the_limit_of_tool_calls() -> None:
    """What is over it does not run, is answered, and the model must answer."""
    result = await run_calls(
        [echo],
        asked("1", "echo", text="a"),
        asked("2", "echo", text="b"),
        limits=Limits(max_tool_calls=1),
    )

    first, second = results_of(result)
    assert (first.text, second.is_error) == ("a", True)
    assert "limit of 1 tool calls" in second.text
    assert (result.stop_reason, result.usage.tool_calls) == ("limit", 1)
    assert (result.output, result.turns) == ("done", 2)


async def test_progress_reaches_the_events() -> None:
    """From the loop and from a thread."""

    @tool
    async def here(ctx: RunContext) -> str:
        """Report."""
        ctx.report({"done": 1})
        return "a"

    @tool
    def there(ctx: RunContext) -> str:
        """Report from a thread."""
        ctx.report({"done": 2})
        return "b"

    model = ScriptedModel([calls(("1", "here", {}), ("2", "there", {})), "done"])
    run = Agent("a", model, tools=[here, there]).start("x")
    seen = [event async for event in run if isinstance(event, ToolProgress)]

    assert [event.progress for event in seen] == [{"done": 1}, {"done": 2}]
    assert [(event.call_id, event.name) for event in seen] == [("1", "here"), ("2", "there")]
