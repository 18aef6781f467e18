"""Child runs: agents that work inside a run, each for one of its calls."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from treadle.agent.context_use import left_in
from treadle.agent.result import AnyResult
from treadle.agent.setup import AgentDelegate, Resumption, RunSetup
from treadle.agent.sorting import tell_decided
from treadle.agent.standing import standing_of
from treadle.agent.work import Origin, Work
from treadle.errors import ConfigError, ToolError, TreadleError
from treadle.events import AgentEntered, StopReason
from treadle.journal import ChildBegan, ChildEnded
from treadle.messages import Message, Thread
from treadle.ports.children import ChildCall, ChildPaused, Delegate, Pause, label_of, step_name
from treadle.state.scoped import Scope, State, WriteGuard
from treadle.values import unpack

IN_PROCESS = Resumption()
"""How a child run goes on that failed in this process: with what its work has been given."""
EARLY = "(That is an early answer: a limit was reached before the work was done.)"


class ChildRuns:
    """Runs agents inside one run, for the calls of it that ask for them.

    A child run begins with nothing but its input, and writes into the journal of the run that it is
    in. When that is resumed, the same call goes on with the same child run.
    """

    __slots__ = ("_work",)

    def __init__(self, work: Work) -> None:
        self._work = work

    async def run(self, delegate: Delegate, said: str, call: ChildCall) -> object:
        """Begin a child run, or go on with the one that the call has begun; return its output.

        Raises:
            ChildPaused: it waits for somebody.
            ToolError: it has no answer; the text says why.
        """
        work, name, begun = self._work, delegate.name, self._begun(call.call_id)
        if begun is not None and isinstance(begun[1], ChildEnded):  # its call had no result yet
            ended = begun[1]
            output = "" if ended.output is UNSET else unpack(ended.output)
            return told(name, ended.stop_reason, output, ended.error or "")
        try:
            setup = resolved(work, delegate)
            step = next_step(work.entered, setup.agent) if begun is None else begun[0]
            origin = Origin(work, call, f"{work.path}/{step}" if work.path else step)
            goes_on = None if begun is None else Resumption()
            child = child_work(setup, origin, input=Message.user(said), resumption=goes_on)
            result = await carried_out(child)
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


def resolved(work: Work, delegate: Delegate) -> RunSetup:
    """Return the setup of a child run in this work.

    Raises:
        ConfigError: it cannot be run here.
        ToolError: no more runs may be nested.
    """
    if work.budget.depth_left() < (0 if work.budget.flow else 1):
        raise ToolError("no more runs may be nested here (see Limits.max_depth).")
    if not isinstance(delegate, AgentDelegate):
        raise ConfigError(f"{delegate!r:.60} cannot be run inside a run; only agents can.")
    if delegate.once and _works_for(work, delegate.name):
        raise ToolError(f"{delegate.name} waits for this answer; it cannot be asked now.")
    delegate.check_deps(work.start.deps)
    return delegate.resolve(work.setup.passes)


def _works_for(work: Work, name: str) -> bool:
    """Whether this is the work of an agent, or is done for it, inside of one flow."""
    each: Work | None = work
    while each is not None and each.setup.flow is None:
        if each.setup.agent == name:
            return True
        each = None if each.origin is None else each.origin.above
    return False


def child_work(
    setup: RunSetup,
    origin: Origin,
    *,
    input: Message | None,
    history: Thread | None = None,
    requirements: tuple[str, ...] = (),
    resumption: Resumption | None = None,
) -> Work:
    """Return the work of a child run, which begins with this, or goes on."""
    start = replace(
        origin.above.start,
        input=input,
        history=Thread() if history is None else history,
        state=None,
        requirements=requirements,
        resumption=resumption,
    )
    return Work(setup, start, origin)


async def carried_out(child: Work) -> AnyResult:
    """Run a child run to its end and return its result."""
    child.task = task = asyncio.current_task()
    child.cancels = task.cancelling() if task is not None else 0
    child.start_timer()
    above = child.origin.above if child.origin is not None else child
    try:
        return await above.carry_out(child)
    finally:
        child.stop_timer()


async def enter(work: Work, origin: Origin) -> None:
    """Begin a child run, or take it up where it was left."""
    start = work.start
    begins = start.resumption is None
    if begins:
        work.thread = Thread(start.history)
        if start.input is not None:
            work.thread.append(start.input)
    elif start.resumption is not IN_PROCESS:
        _restore(work)
    elif work.recorder is not None:
        work.entered = labels(work.recorder.view.entered)  # paths are never used again
    _build(work, origin)
    await work.render()
    await work.mail.open(work.recorder)
    if work.recorder is not None and begins:
        work.written = len(work.ctx.writes)
        await work.recorder.child_began(_entry(work, origin), work.ctx.writes)
    if work.bus.live:
        said = "" if start.input is None else start.input.text
        work.tell(AgentEntered, origin.call.call_id, said)
    if work.standing is not None:
        for entry in work.standing.decided.values():
            if entry.call_id not in work.standing.done:
                tell_decided(work, work.standing, entry)


def _build(work: Work, origin: Origin) -> None:
    """Build the parts of a child run on the state that it shares."""
    above = origin.above
    state = above.state if origin.state is None else origin.state
    if state is None:
        raise AssertionError("a run has begun when its calls run")
    work.build(state, above.ctx.metadata)
    work.shelf.texts = above.shelf.texts
    if origin.call.guard is not None:
        work.runner.outer = origin.call.guard, origin.call.call_id
        work.ctx.guard = WriteGuard(*work.runner.outer)
    _forget_plan(work, state)


def _entry(work: Work, origin: Origin) -> ChildBegan:
    """Return the entry that a child run begins."""
    start = work.start
    inherits = origin.inherits
    return ChildBegan(
        run_id=start.run_id,
        at=datetime.now(UTC),
        agent=work.setup.agent,
        call_id=origin.call.call_id,
        input=start.input,
        history=() if inherits else tuple(start.history),
        inherits=inherits,
        background=origin.background,
        flow=work.setup.flow is not None,
    )


def _forget_plan(work: Work, state: State) -> None:
    """Let a child run begin without the plan of one before, in another run, that had its path."""
    if work.start.resumption is None and Scope.PLAN + work.path in state:
        work.ctx.put_plan(None)


def next_step(entered: dict[str, int], label: str) -> str:
    """Return the last part of the path of the next step with this label, and count it."""
    number = entered[label] = entered.get(label, 0) + 1
    return step_name(label, number)


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
    work.tool_results, work.compacted = list(record.results), left_in(record)
    work.said, work.steps = record.input, view.steps
    if work.origin is not None and work.origin.background:
        work.inbox.waiting.update(view.mail.inbox)
    work.entered = labels(view.entered)
    if view.open is not None:
        work.standing = standing_of(view.open, work.rested.get(work.path, "running"))
    work.rested.pop(work.path, None)


def labels(entered: Mapping[str, int]) -> dict[str, int]:
    """Return how many steps have begun, by label, of what a view counts by name."""
    return {label_of(f"{name}#1"): number for name, number in entered.items()}


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
