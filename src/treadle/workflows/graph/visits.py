"""One visit of a node that does something: a function, or whatever can be run."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import Any

from treadle.agent.approval import pending_call
from treadle.agent.ending import Ending
from treadle.agent.result import AnyResult
from treadle.agent.stage import Stage
from treadle.agent.steps import Step
from treadle.agent.work import Work
from treadle.control import AskApproval, Finish, Handoff, Interrupt, Next
from treadle.errors import DeadEnd, NotStorable, RunFailed, StoreError, ToolError, TreadleError
from treadle.messages import ToolCall
from treadle.ports.children import ChildPaused, Pause
from treadle.state import Branch, State, StateWrite, merge
from treadle.tools.outcome import describe
from treadle.tools.threads import THREADS
from treadle.tools.timing import CallExpired, Within
from treadle.usage import NOTHING
from treadle.values import pack
from treadle.workflows.graph.context import NodeContext, WalkFacts
from treadle.workflows.graph.nodes import FunctionNode, RunnableNode
from treadle.workflows.graph.records import Came


class Stopped(Exception):
    """The walk has stopped without an answer, as what it ran has."""

    def __init__(self, ending: Ending) -> None:
        super().__init__(ending.reason)
        self.ending = ending


async def call_function(
    stage: Stage,
    facts: WalkFacts,
    node: FunctionNode,
    step: Step,
    begins: Callable[[], None] | None = None,
) -> Came:
    """Call a node's function, again while it fails and `retries` allows; each try `begins`.

    Raises:
        ChildPaused: it waits for somebody.
    """
    asked, decided = (None, None) if step.found is None else (step.asked, step.decided)
    if asked is not None and decided is None:
        waits = pending_call(ToolCall(step.path, node.id, "{}"), asked, step.path)
        raise ChildPaused(Pause(f"Somebody has to decide on {node.id}.", (waits,)))
    if decided is not None and decided.verdict == "deny":
        return failed(f"Somebody refused node {node.id!r}: {decided.reason or 'no reason given'}")
    left, spent = node.retries, NOTHING
    while True:
        await stage.call(step, node.id)
        if begins is not None:
            begins()
        came = await _called(stage, facts, node, step)
        if spent is not NOTHING:
            came.usage = came.spent = spent + came.usage
        if came.ok or not left:
            return came
        spent = came.usage
        left -= 1
        step.attempt += 1


async def _called(stage: Stage, facts: WalkFacts, node: FunctionNode, step: Step) -> Came:
    """Call it once, on a state of its own, of which nothing is left when it fails."""
    trial, path = facts.state.branch(), step.path
    ctx: NodeContext[Any] = NodeContext(
        facts.within(trial), node=node.id, step=path, attempt=step.attempt
    )
    if step.found is not None:
        ctx.answers = step.answers
    task = asyncio.current_task()
    before = task.cancelling() if task is not None else 0
    try:
        running = node.work(ctx) if node.is_async else _in_thread(node.work, ctx)
        if node.timeout is None:
            value = await running
        else:
            value = await Within(running, node.timeout)
        came = _returned(value, facts.places.output(node.id))
        came.writes = _writes(facts.state, trial, node.id)
    except AskApproval as question:
        asking = stage.context(step, node.id)
        asking.add_usage(ctx.added_usage)
        try:
            raise await stage.ask(step, asking, question)
        except ToolError as error:
            came = failed(str(error))
    except CallExpired:
        came = failed(f"it timed out after {node.timeout:g} s.")
    except asyncio.CancelledError:
        if task is None or task.cancelling() != before:
            raise
        came = failed("it was cancelled by something in it")
    except (Exception, SystemExit) as error:  # noqa: BLE001 the border: a function may raise anything
        came = failed(describe(error), error if isinstance(error, Exception) else None)
    finally:
        ctx.close()  # a thread that still runs must not change anything
    came.usage = came.spent = ctx.added_usage
    return came


async def _in_thread(function: Callable[[Any], Any], ctx: NodeContext[Any]) -> Any:
    value = await THREADS.run(lambda: function(ctx))
    return await value if isawaitable(value) else value


def _returned(value: object, key: str) -> Came:
    """Return what a value means that a function has returned.

    Raises:
        ToolError: it asks for what only tools can.
        NotStorable: it cannot be stored.
    """
    came = Came()
    if isinstance(value, Next):
        raise ToolError("a node cannot ask for a tool with Next; edges say what comes after it")
    if isinstance(value, Handoff):
        raise ToolError("a node cannot hand over with Handoff; edges say what comes after it")
    if isinstance(value, Interrupt):
        came.pause = Pause(value.reason)
        value = value.output
    elif isinstance(value, Finish):
        came.ends, value = True, value.output
    if value is not None:
        came.output = pack(value, key)
    return came


def _writes(state: State, trial: Branch, node: str) -> tuple[StateWrite, ...]:
    """Return what a function wrote, for the state it was branched from."""
    keys = trial.written
    if any(state.reduces(key) for key in keys):
        return merge(state, [(node, trial)])
    return tuple(trial.write_of(key) for key in keys)


def is_lost(error: object) -> bool:
    """Whether it ends the run: what happens cannot be stored any more, so nothing else may."""
    return isinstance(error, StoreError) and not isinstance(error, NotStorable)


def failed(error: str, cause: Exception | None = None) -> Came:
    """Return what a visit came to that failed."""
    return Came(ok=False, error=error, cause=cause)


async def ask(
    run: Callable[[AnyResult | None], Awaitable[AnyResult]],
    node: RunnableNode,
    step: Step,
    key: str,
    begins: Callable[[], None] | None = None,
) -> Came:
    """Run what a node has, again while it fails and `retries` allows, with what it came to before.

    `key` is where its output is kept.

    Raises:
        ChildPaused: it waits for somebody.
        StoreError: what happens cannot be stored.
    """
    before: AnyResult | None = None
    left = node.retries
    while True:
        if begins is not None:
            begins()
        came, before = await _asked(run(before), node, step, key)
        if came.ok or before is None or not left:
            return came
        left -= 1
        step.attempt += 1


async def _asked(
    running: Awaitable[AnyResult], node: RunnableNode, step: Step, key: str
) -> tuple[Came, AnyResult | None]:
    """Return what a run came to, and its result where it may be tried again."""
    late = False
    try:
        if node.timeout is None:
            result = await running
        else:
            result, late = await _within(node.timeout, running, step)
    except TreadleError as error:
        if is_lost(error):
            raise
        came, result, again = failed(str(error), error), error.result, error.result
    else:
        came, again = _answered(result, node, key), None
        if late:
            came, again = failed(f"it timed out after {node.timeout:g} s."), result
    if result is not None:
        came.spent, came.turns = result.usage, result.turns
        came.tool_calls = result.usage.tool_calls
    return came, again


def _answered(result: AnyResult, node: RunnableNode, key: str) -> Came:
    if result.stop_reason in ("answer", "limit"):
        try:
            return Came(output=pack(result.output, key))
        except NotStorable as error:
            return failed(str(error), error)
    why = f" ({result.reason})" if result.reason else ""
    text = f"Node {node.id!r} stopped without an answer: {result.stop_reason}{why}."
    return failed(text, Stopped(Ending(stop_reason=result.stop_reason, reason=text)))


async def _within(
    seconds: float, running: Awaitable[AnyResult], step: Step
) -> tuple[AnyResult, bool]:
    """End the run that is this step when its time is up; return its result, and whether it was."""
    late: list[bool] = []

    def expire() -> None:
        late.append(True)
        if isinstance(step.work, Work):
            step.work.end_early(Ending(stop_reason="deadline", reason="The node's time is up."))

    timer = asyncio.get_running_loop().call_later(seconds, expire)
    try:
        return await running, bool(late)
    finally:
        timer.cancel()


def failure(node: str, came: Came) -> Exception:
    """Return what a walk raises whose node has failed, where no edge is for that."""
    if isinstance(came.cause, Stopped | DeadEnd):
        return came.cause
    error = RunFailed(f"Node {node!r} failed: {came.error}")
    error.__cause__ = came.cause
    return error
