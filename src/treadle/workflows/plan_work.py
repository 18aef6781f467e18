"""The steps of a plan: those that are ready are carried out at the same time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Literal, cast

from msgspec import UNSET, to_builtins

from treadle.agent.ending import Ending
from treadle.agent.result import AnyResult
from treadle.agent.setup import AgentDelegate
from treadle.agent.stage import Stage
from treadle.agent.steps import Step, StepEnd, paused_together
from treadle.errors import ConfigError, StoreError, TreadleError
from treadle.events import NodeFinished, NodeStarted
from treadle.ids import new_span_id
from treadle.messages import Message, Text
from treadle.plan import Plan, PlanStep, change_step
from treadle.ports.children import ChildPaused
from treadle.state import Branch, StateWrite, merge
from treadle.workflows.plan_record import ANSWER, PLAN, STEP, PlanRecord, Tried
from treadle.workflows.plan_texts import EARLY, MOST_KEPT, shortened, step_task, text_of

ANSWERS = ("answer", "limit")
OnFailure = Literal["replan", "fail", "skip"]
Came = AnyResult | Exception


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRules:
    """How many steps a plan may have, how often it may change, and what a failed step leads to."""

    max_steps: int
    max_replans: int
    max_parallel_steps: int
    on_failure: OnFailure

    def label(self, executor: AgentDelegate) -> str:
        """Return the label of the executor in the scope of a step."""
        return f"{executor.name}." if executor.name in (PLAN, ANSWER) else executor.name


@dataclass(frozen=True, slots=True)
class _Try:
    """A step that is under way, in a scope of its own."""

    step: PlanStep
    scope: Stage


class PlanWork:
    """Carries out steps until none can begin, one has failed, or somebody steers the run.

    Each has a branch of the state of its own, which is merged when the step ends.
    """

    def __init__(self, record: PlanRecord, rules: PlanRules, executor: AgentDelegate) -> None:
        self._record = record
        self._stage = record.stage
        self._rules = rules
        self._executor = executor
        self._stopped: dict[str, Exception | Ending] = {}

    @property
    def _plan(self) -> Plan:
        return cast(Plan, self._record.plan)

    async def run(self) -> Ending | None:
        """Return how the run ends, None when it goes on.

        Raises:
            ChildPaused: steps wait for somebody.
            TreadleError: what a step failed with.
        """
        running: dict[asyncio.Task[Came], _Try] = {}
        async with asyncio.TaskGroup() as group:
            while True:
                under_way = {each.step.id for each in running.values()}
                for step in self._next(under_way):
                    begun = await self._begun(step)
                    if begun is None:
                        break
                    running[group.create_task(self._carry_out(begun))] = begun
                if not running:
                    break
                await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                for task in [task for task in running if task.done()]:
                    self._take_in(running.pop(task), task.result())
        return self._outcome()

    def _next(self, under_way: Collection[str]) -> list[PlanStep]:
        """Return the steps that begin now: first those that had begun before, in the plan's order.

        What waits for a decision takes no place.
        """
        plan = self._plan
        left = [s for s in plan.steps if s.id not in under_way and s.id not in self._stopped]
        begun = [step for step in left if step.status == "in_progress"]
        ready = [] if self._holds_back(plan) else [step for step in plan.ready if step in left]
        return [*begun, *ready][: max(0, self._rules.max_parallel_steps - len(under_way))]

    def _holds_back(self, plan: Plan) -> bool:
        """Whether no more steps begin, because the run ends or the plan changes."""
        if any(not isinstance(each, ChildPaused) for each in self._stopped.values()):
            return True
        failed = any(step.status == "blocked" for step in plan.steps)
        return self._may_replan and (failed or bool(self._stage.work.inbox.waiting))

    @property
    def _may_replan(self) -> bool:
        return self._record.replans < self._rules.max_replans

    async def _begun(self, step: PlanStep) -> _Try | None:
        """Begin a step, or note why it cannot begin."""
        self._record.begin(step.id)
        try:
            (scope,) = await self._stage.scopes(f"{STEP}{step.id}", [None], branch=True)
        except Exception as error:  # noqa: BLE001 it is raised when those under way have ended
            self._stopped[step.id] = error
            return None
        return _Try(step, scope)

    async def _carry_out(self, begun: _Try) -> Came:
        """Let the executor work; return its result, or what ended it."""
        scope, plan_step = begun.scope, begun.step
        label = scope.open[0] if scope.open else self._rules.label(self._executor)
        step, started = scope.begin(label), time.perf_counter()
        step.span = new_span_id()
        attempt = int(_step_of(scope).name.rpartition("#")[2])
        scope.tell(NodeStarted, step.span, None, plan_step.id, attempt)
        requirements = self._stage.work.start.requirements
        came: Came
        try:
            came = await scope.run(
                step, self._executor, self._task(plan_step), requirements=requirements
            )
        except Exception as error:  # noqa: BLE001 whoever began the step looks at it
            came = error
        if not isinstance(came, ChildPaused):
            seconds = time.perf_counter() - started
            scope.tell(NodeFinished, step.span, None, plan_step.id, seconds, _error_in(came))
        return came

    def _task(self, step: PlanStep) -> Message:
        """Return what the executor is told, with the media of what the run was asked."""
        said = self._stage.input
        media: Any = [p for p in said.parts if not isinstance(p, Text)] if said else []
        return Message.user(step_task(self._plan, step, self._record.results), *media)

    def _take_in(self, begun: _Try, came: Came) -> None:
        """End a step, or note why it cannot end now."""
        error, id = _error_in(came), begun.step.id
        if isinstance(came, ChildPaused):
            self._stopped[id] = came
        elif error is not None and (self._is_fatal(came) or not self._goes_on_after_failure):
            self._stopped[id] = came if isinstance(came, Exception) else _ending(id, came)
        elif error is not None:
            self._end(begun, came, error)
        else:
            try:
                base, branch = self._stage.state, cast(Branch, begun.scope.state)
                merged = merge(base, [(f"step {id}", branch)])
            except Exception as conflict:  # noqa: BLE001 reducers are the user's
                if not self._goes_on_after_failure:
                    self._stopped[id] = conflict
                    return
                self._end(begun, came, _error_in(conflict))
            else:
                self._end(begun, came, None, merged)

    @property
    def _goes_on_after_failure(self) -> bool:
        policy = self._rules.on_failure
        return policy == "skip" or (policy == "replan" and self._may_replan)

    def _is_fatal(self, came: Came) -> bool:
        """Whether a failure is the run's own, and no other plan would help."""
        if isinstance(came, Exception):
            return not isinstance(came, TreadleError) or isinstance(came, StoreError | ConfigError)
        if came.stop_reason == "budget":  # unless it is the executor's own
            return not self._executor.resolve(self._stage.work.setup.passes).limits.counts_spending
        return came.stop_reason == "cancelled"

    def _end(
        self, begun: _Try, came: Came, error: str | None, merged: tuple[StateWrite, ...] = ()
    ) -> None:
        """Let a step be over, with what it changed in the state and in the plan, in one write."""
        id, stage = begun.step.id, self._stage
        status = "completed"
        if error is not None:
            status = "skipped" if self._rules.on_failure == "skip" else "blocked"
        result = came.result if isinstance(came, TreadleError) else came
        result = None if isinstance(result, Exception) else result
        output = UNSET if error is not None or result is None else result.output
        text = "" if output is UNSET else shortened(text_of(output), MOST_KEPT)
        early = EARLY if result is not None and result.stop_reason == "limit" else ""
        changes: dict[str, Any] = {"status": status, "result": text, "notes": error or early}
        stage.state.apply(merged)
        write = self._record.put(change_step(self._plan, id, **changes))
        tried = Tried(begun.step.title, status)
        if result is not None:
            tried = Tried(begun.step.title, status, result.usage, result.turns)
        end = StepEnd(
            output=output,
            ok=error is None,
            error=error or "",
            writes=(*merged, write),
            data=to_builtins(tried),
        )
        stage.end(_step_of(begun.scope), end)

    def _outcome(self) -> Ending | None:
        """Return how the run ends, or raise: a failure counts before a pause."""
        order = {step.id: place for place, step in enumerate(self._plan.steps)}
        stopped = [self._stopped[id] for id in sorted(self._stopped, key=order.__getitem__)]
        for each in stopped:
            if isinstance(each, Ending):
                return each
            if not isinstance(each, ChildPaused):
                raise each
        paused = paused_together(stopped)
        if paused is not None:
            raise paused
        return None


def _step_of(scope: Stage) -> Step:
    return cast(Step, scope.step)


def _error_in(came: Came) -> str | None:
    """Return why a step has failed, None for one that has not."""
    if isinstance(came, Exception):
        return str(came) or type(came).__name__
    if came.stop_reason in ANSWERS:
        return None
    return f"It stopped without an answer ({came.stop_reason}): {came.reason}".rstrip(": ")


def _ending(id: str, result: AnyResult) -> Ending:
    reason = f"Step {id}: {result.reason}" if result.reason else f"Step {id} stopped."
    return Ending(stop_reason=result.stop_reason, reason=reason)
