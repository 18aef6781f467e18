"""Child runs: agents that work inside a run, each for one of its calls."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from treadle.agent.result import AnyResult
from treadle.agent.setup import AgentDelegate, Resumption, RunSetup
from treadle.agent.sorting import tell_decided
from treadle.agent.standing import standing_of
from treadle.agent.work import Origin, Work
from treadle.errors import ConfigError, ToolError, TreadleError
from treadle.events import AgentEntered, StopReason
from treadle.journal import ChildEnded
from treadle.messages import Message, Thread
from treadle.ports.children import ChildCall, ChildPaused, Delegate, Pause
from treadle.state.scoped import Scope, State, WriteGuard
from treadle.values import unpack

EARLY = "(That is an early answer: a limit was reached before the work was done.)"


class ChildRuns:
    """Runs agents inside one run, for the calls of it that ask for them.

    A child run begins with nothing but its input, and writes into the journal of the run that it is
    in. When that is resumed, the same call goes on with the same child run.
    """

    __slots__ = ("_carry_out", "_work")

    def __init__(self, work: Work, carry_out: Callable[[Work], Awaitable[AnyResult]]) -> None:
        self._work = work
        self._carry_out = carry_out

    async def run(self, delegate: Delegate, said: str, call: ChildCall) -> object:
        """Begin a child run, or go on with the one that the call has begun; return its output.

        Raises:
            ChildPaused: it waits for somebody.
            ToolError: it has no answer; the text says why.
        """
        name, begun = delegate.name, self._begun(call.call_id)
        if begun is not None and isinstance(begun[1], ChildEnded):  # its call had no result yet
            ended = begun[1]
            output = "" if ended.output is UNSET else unpack(ended.output)
            return told(name, ended.stop_reason, output, ended.error or "")
        try:
            child = self._child(delegate, said, call, None if begun is None else begun[0])
            result = await self._carried_out(child)
        except TreadleError as error:
            raise ToolError(_failed(name, str(error))) from error
        if result.stop_reason == "paused":
            raise ChildPaused(Pause(result.reason, tuple(result.pending)))
        return told(name, result.stop_reason, result.output, result.reason)

    def _begun(self, call_id: str) -> tuple[str, ChildEnded | None] | None:
        """Return the name of the child run that a call has begun, and how it ended if it has."""
        recorder = self._work.recorder
        for name, child in () if recorder is None else recorder.view.children.items():
            if child.call_id == call_id:
                return name, child.ended
        return None

    def _child(self, delegate: Delegate, said: str, call: ChildCall, name: str | None) -> Work:
        """Return the work of a child run, which has begun under a name or begins here."""
        work = self._work
        if work.budget.depth_left() < 1:
            raise ToolError("no more runs may be nested here (see Limits.max_depth).")
        if not isinstance(delegate, AgentDelegate):
            raise ConfigError(f"{delegate!r:.60} cannot be run inside a run; only agents can.")
        setup: RunSetup = delegate.resolve()
        delegate.check_deps(work.start.deps)
        start = replace(
            work.start,
            input=Message.user(said),
            history=Thread(),
            state=None,
            requirements=(),
            resumption=None if name is None else Resumption(),
        )
        step = _next_step(work, setup.agent) if name is None else name
        path = f"{work.path}/{step}" if work.path else step
        return Work(setup, start, Origin(work, call, path))

    async def _carried_out(self, child: Work) -> AnyResult:
        child.task = task = asyncio.current_task()
        child.cancels = task.cancelling() if task is not None else 0
        child.start_timer()
        try:
            return await self._carry_out(child)
        finally:
            child.stop_timer()


async def enter(work: Work, origin: Origin) -> None:
    """Begin a child run, or take it up where it was left."""
    start, above = work.start, origin.above
    if start.resumption is None:
        work.thread = Thread(() if start.input is None else (start.input,))
    else:
        _restore(work)
    if above.state is None:
        raise AssertionError("a run has begun when its calls run")
    work.build(above.state, above.ctx.metadata)
    work.shelf.texts = above.shelf.texts
    if origin.call.guard is not None:
        work.runner.outer = origin.call.guard, origin.call.call_id
        work.ctx.guard = WriteGuard(*work.runner.outer)
    _forget_plan(work, above.state)
    await work.render()
    if work.recorder is not None and start.resumption is None and start.input is not None:
        work.written = len(work.ctx.writes)
        call_id = origin.call.call_id
        await work.recorder.child_began(work.setup.agent, call_id, start.input, work.ctx.writes)
    work.tell(AgentEntered, origin.call.call_id, "" if start.input is None else start.input.text)
    if work.standing is not None:
        for entry in work.standing.decided.values():
            if entry.call_id not in work.standing.done:
                tell_decided(work, work.standing, entry)


def _forget_plan(work: Work, state: State) -> None:
    """Let a child run begin without the plan of one before, in another run, that had its path."""
    if work.start.resumption is None and Scope.PLAN + work.path in state:
        work.ctx.put_plan(None)


def _next_step(work: Work, agent: str) -> str:
    """Return the last step of the path of the next child run of an agent."""
    name = agent.replace("%", "%25").replace("/", "%2F").replace("#", "%23")
    number = work.entered[name] = work.entered.get(name, 0) + 1
    return f"{name}#{number}"


def _restore(work: Work) -> None:
    """Let a child run go on with what the journal tells of it."""
    if work.recorder is None:
        raise AssertionError("without a journal no child run has begun before")
    view = work.recorder.view
    record = view.runs[work.start.run_id]
    work.thread = Thread(view.settled)
    work.budget.restore(record.usage, record.turns, record.tool_calls)
    work.began -= record.seconds
    work.start_timer()
    work.tool_results = list(record.results)
    work.entered = dict(view.entered)
    if view.open is not None:
        rested = work.path in work.rested
        work.standing = standing_of(view.open, "paused" if rested else "running")
    work.rested.discard(work.path)


def told(name: str, stop_reason: StopReason, output: Any, why: str) -> object:
    """Return what whoever asked an agent gets, when its run has stopped.

    Raises:
        ToolError: it has no answer; the text says why.
    """
    if stop_reason == "answer":
        return output
    if stop_reason == "limit":
        return f"{output}\n{EARLY}" if isinstance(output, str) else output
    if stop_reason == "failed":
        raise ToolError(_failed(name, why))
    reason = f": {why}" if why else ""
    so_far = f" So far: {output}" if output else ""
    raise ToolError(f"{name} stopped without an answer ({stop_reason}{reason}).{so_far}")


def _failed(name: str, why: str) -> str:
    return f"{name} failed: {why}"
