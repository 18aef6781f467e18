"""Where the run of a plan stands, as its journal tells it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Literal

from msgspec import UNSET, Struct, convert

from treadle.agent.stage import Stage
from treadle.events import PlanChanged
from treadle.journal import StateChanged, StepEnded
from treadle.plan import Plan, change_step, from_plain, to_plain
from treadle.ports.children import label_of
from treadle.ports.plans import plan_owner
from treadle.state import Scope, StateWrite
from treadle.usage import NOTHING, Usage
from treadle.values import pack, unpack
from treadle.workflows.plan_result import PlanResult, StepResult
from treadle.workflows.plan_texts import text_of

PLAN, ANSWER, STEP = "plan", "answer", "step:"
"""The labels of what the planner does, and of the steps of the plan, with their IDs after it."""


class Thought(Struct, frozen=True, omit_defaults=True):
    """What the journal keeps of what a planner did: how many messages that steer it knew."""

    heard: int = 0


class Tried(Struct, frozen=True, omit_defaults=True):
    """What the journal keeps of a step of the plan."""

    title: str
    status: Literal["completed", "blocked", "skipped"] = "completed"
    usage: Usage = NOTHING
    turns: int = 0


class PlanRecord:
    """The plan of one run, and what came of its steps so far."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.key = Scope.PLAN + plan_owner(stage.work.setup.agent, stage.path)

    @property
    def plan(self) -> Plan | None:
        """The plan as it stands, None before there is one."""
        if not any(label_of(each.step) == PLAN for each in self.stage.steps):
            return None
        return from_plain(self.stage.state.get(self.key))

    @property
    def results(self) -> dict[str, str]:
        """What the steps came to that succeeded, as a model reads it, by ID."""
        ended = _carried_out(self.stage.steps)
        return {id_of(each): text_of(output_of(each)) for each in ended if each.ok}

    @property
    def replans(self) -> int:
        """How often the plan was changed."""
        return replans_in(self.stage.steps)

    @property
    def has_news(self) -> bool:
        """Whether messages were taken in that the planner has not seen."""
        heard = len(self.stage.work.inbox.heard)
        return all(thought.heard < heard for thought in _thoughts(self.stage.steps))

    @property
    def answer(self) -> StepEnded | None:
        """The answer to all that was said, None while there is none."""
        last = self.stage.steps[-1] if self.stage.steps else None
        return last if last and label_of(last.step) == ANSWER and not self.has_news else None

    def reasons(self) -> list[str]:
        """Return why the plan has to change."""
        plan = self.plan
        if plan is None:
            return []
        failed = (step for step in plan.steps if step.status == "blocked")
        reasons = [f"step {step.id} failed: {step.notes.rstrip('.')}" for step in failed]
        return [*reasons, "user steering"] if self.has_news else reasons

    async def hear(self) -> None:
        """Make the messages that steer part of the history: the planner sees them next."""
        work = self.stage.work
        if work.inbox.waiting:
            await work.mail.take(work.thread)

    def thought(self) -> Thought:
        """Return what is to be kept of what a planner does now."""
        return Thought(len(self.stage.work.inbox.heard))

    def put(self, plan: Plan) -> StateWrite:
        """Let this be the plan, tell it, and return what is to be written of it."""
        write = StateWrite(self.key, pack(to_plain(plan), self.key))
        self.stage.state.apply((write,))
        self.stage.work.tell(PlanChanged, plan)
        return write

    def begin(self, id: str) -> None:
        """Let a step of the plan be in progress."""
        plan = self.plan
        step = None if plan is None else plan.step(id)
        if plan is not None and step is not None and step.status != "in_progress":
            self._hold(self.put(change_step(plan, id, status="in_progress")))

    def forget(self) -> None:
        """Let the run begin without the plan of the one before it in its conversation."""
        state = self.stage.state
        if self.key in state:
            state.delete(self.key)
            self._hold(StateWrite(self.key, deleted=True))

    def _hold(self, write: StateWrite) -> None:
        """Write it with whatever is written next."""
        recorder, run_id = self.stage.recorder, self.stage.work.start.run_id
        if recorder is not None:
            recorder.hold(StateChanged(run_id=run_id, at=datetime.now(UTC), writes=(write,)))


def extras_of(stage: Stage) -> tuple[type[PlanResult], dict[str, Any]]:
    """Return what the result of a run has more than others."""
    steps = [_result_of(each) for each in _carried_out(stage.steps)]
    return PlanResult, {"steps": steps, "replans": replans_in(stage.steps)}


def replans_in(steps: list[StepEnded]) -> int:
    """Return how often the plan was changed."""
    return max(0, sum(label_of(each.step) == PLAN for each in steps) - 1)


def id_of(ended: StepEnded) -> str:
    """Return the ID of a step of the plan."""
    return label_of(ended.step).removeprefix(STEP)


def output_of(ended: StepEnded) -> Any:
    """Return what a step came to, None without an output."""
    return None if ended.output is UNSET else unpack(ended.output)


def _carried_out(steps: list[StepEnded]) -> Iterator[StepEnded]:
    return (each for each in steps if label_of(each.step).startswith(STEP))


def _thoughts(steps: list[StepEnded]) -> Iterator[Thought]:
    ended = (each for each in steps if label_of(each.step) in (PLAN, ANSWER))
    return (convert(each.data, Thought) for each in ended)


def _result_of(ended: StepEnded) -> StepResult:
    tried = convert(ended.data, Tried)
    return StepResult(
        id=id_of(ended),
        description=tried.title,
        output=output_of(ended),
        status=tried.status,
        error=ended.error,
        usage=tried.usage,
        turns=tried.turns,
    )
