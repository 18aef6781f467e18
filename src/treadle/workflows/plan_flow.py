"""How a plan is made, changed, and answered from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from msgspec import to_builtins

from treadle.agent.agent import Agent
from treadle.agent.ending import Ending
from treadle.agent.options import RunOptions
from treadle.agent.setup import AgentDelegate, RunSetup, definitions_of
from treadle.agent.stage import Stage
from treadle.agent.steps import StepEnd
from treadle.errors import OutputInvalid, PlanInvalid, RunFailed
from treadle.journal import MessageAdded
from treadle.messages import Message
from treadle.plan import Plan
from treadle.ports.children import Delegate
from treadle.tools.registry import ToolRegistry
from treadle.workflows.plan_record import ANSWER, PLAN, STEP, PlanRecord, extras_of, output_of
from treadle.workflows.plan_result import PlanResult
from treadle.workflows.plan_texts import first_plan, last_words, next_plan, tools_of
from treadle.workflows.plan_work import ANSWERS, PlanRules, PlanWork
from treadle.workflows.planning import PlanOutput, plan_of


@dataclass(frozen=True, slots=True)
class Planner:
    """The agent that makes plans and writes answers from what came of them."""

    agent: AgentDelegate

    def planning(self, output: PlanOutput) -> AgentDelegate:
        """Return it as it makes a plan, with this output."""
        agent = self.agent

        def resolve(given: RunOptions) -> RunSetup:
            return replace(agent.resolve(given), output=output)

        return replace(agent, resolve=resolve)

    @property
    def answering(self) -> AgentDelegate:
        """It as it writes the answer, without tools."""
        agent = self.agent

        def resolve(given: RunOptions) -> RunSetup:
            setup = agent.resolve(given)
            return replace(setup, output=None, registry=_NO_TOOLS, planning="", skills=None)

        return replace(agent, resolve=resolve)


class PlanFlow:
    """The flow of a plan: the planner plans, the executor works, and the planner answers."""

    def __init__(self, planner: AgentDelegate, executor: AgentDelegate, rules: PlanRules) -> None:
        self.planner = Planner(planner)
        self.executor = executor
        self.rules = rules

    @property
    def delegates(self) -> Mapping[str, Delegate]:
        """Who does the work, by label."""
        planning = self.planner.planning(PlanOutput(self.rules.max_steps))
        return {
            PLAN: planning,
            ANSWER: self.planner.answering,
            self.rules.label(self.executor): self.executor,
        }

    def definition(self, above: tuple[object, ...]) -> dict[str, str]:
        """Return what the planner and the executor are made of."""
        parts = {PLAN: self.delegates[PLAN], f"executor {self.executor.name}": self.executor}
        names = {f"executor {self.executor.name}": "", f"planner {self.planner.agent.name}": ""}
        return names | definitions_of(parts, above)

    def extras(self, stage: Stage) -> tuple[type[PlanResult], dict[str, Any]]:
        """Return what came of each step, and how often the plan was changed."""
        return extras_of(stage)

    async def run(self, stage: Stage) -> Ending:
        """Do one thing after another, until there is an answer."""
        stage.hears = False  # what steers the run is for the plan, and for no agent at work
        record, ending = PlanRecord(stage), None
        while ending is None:
            ending = await self._advance(stage, record)
        return ending

    async def _advance(self, stage: Stage, record: PlanRecord) -> Ending | None:
        """Do what comes next; return how the run ends, None when it goes on."""
        under_way, plan = stage.open, record.plan
        if plan is None:
            return await self._begin(stage, record)
        if PLAN in under_way:
            return await self._make_plan(stage, record)
        if ANSWER in under_way:
            return await self._answer(stage, record, plan)
        if any(label.startswith(STEP) for label in under_way):
            return await PlanWork(record, self.rules, self.executor).run()
        await record.hear()
        reasons = record.reasons()
        if reasons and record.replans < self.rules.max_replans:
            return await self._make_plan(stage, record)
        if plan.ready:
            return await PlanWork(record, self.rules, self.executor).run()
        if not plan.done:
            raise RunFailed(f"The plan cannot go on: {'; '.join(reasons)}.")
        if (answer := record.answer) is not None:
            return Ending(stop_reason="answer", output=output_of(answer))
        return await self._answer(stage, record, plan)

    async def _begin(self, stage: Stage, record: PlanRecord) -> Ending | None:
        if not stage.open:
            await record.hear()
            record.forget()
        return await self._make_plan(stage, record)

    async def _make_plan(self, stage: Stage, record: PlanRecord) -> Ending | None:
        """Let the planner make a plan, or another one."""
        before, most, reason = record.plan, self.rules.max_steps, "; ".join(record.reasons())
        told = self._told(stage, record, before, reason)
        step, output = stage.begin(PLAN), PlanOutput(most, before)
        try:
            result = await stage.run(
                step, self.planner.planning(output), Message.user(told), inherits=True
            )
        except OutputInvalid as error:
            raise PlanInvalid(output.problems or [str(error)]) from error
        if result.stop_reason not in ANSWERS:
            return Ending(stop_reason=result.stop_reason, reason=result.reason)
        plan, thought = plan_of(result.output, most, before, reason), record.thought()
        stage.end(step, StepEnd(writes=(record.put(plan),), data=to_builtins(thought)))
        return None

    def _told(self, stage: Stage, record: PlanRecord, before: Plan | None, reason: str) -> str:
        most, requirements = self.rules.max_steps, stage.work.start.requirements
        tools = tools_of(self.executor.resolve(stage.work.setup.passes))
        if before is None:
            return first_plan(tools, most, requirements)
        return next_plan(before, record.results, reason, tools, most, requirements)

    async def _answer(self, stage: Stage, record: PlanRecord, plan: Plan) -> Ending | None:
        """Let the planner write the answer; None when somebody has said something meanwhile."""
        work, step = stage.work, stage.begin(ANSWER)
        result = await stage.run(
            step,
            self.planner.answering,
            Message.user(last_words(plan, record.results)),
            inherits=True,
            requirements=work.start.requirements,
        )
        if result.stop_reason not in ANSWERS:
            return Ending(stop_reason=result.stop_reason, reason=result.reason)
        stage.end(step, StepEnd(output=result.output, data=to_builtins(record.thought())))
        _add(stage, result.messages[-1])
        if work.mail.keeps_going and result.stop_reason == "answer":
            return None
        return Ending(stop_reason=result.stop_reason, output=result.output)


def _add(stage: Stage, answer: Message) -> None:
    """Make the answer part of the history; a blank reply is no message."""
    if answer.role != "assistant":
        return
    stage.work.thread.append(answer)
    if stage.recorder is not None:
        run_id, at = stage.work.start.run_id, datetime.now(UTC)
        stage.recorder.hold(MessageAdded(run_id=run_id, at=at, message=answer))


def laid_under(agent: Agent[Any, Any] | Any, given: RunOptions) -> AgentDelegate:
    """Return what runs an agent inside a run, with these options where others say nothing."""
    delegate: AgentDelegate = agent.delegate
    if not given:
        return delegate

    def resolve(others: RunOptions) -> RunSetup:
        return delegate.resolve(given | others)

    return replace(delegate, resolve=resolve)


_NO_TOOLS = ToolRegistry(())
