"""One scope of a flow: its steps, in the one journal of the run, done once whatever happens."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Protocol, cast

from msgspec import UNSET
from msgspec.structs import replace

from treadle.agent.approval import pending_call
from treadle.agent.children import IN_PROCESS, carried_out, child_work, labels, next_step, resolved
from treadle.agent.ending import Ending, storable
from treadle.agent.recorder import Recorder
from treadle.agent.result import AnyResult, RunResult
from treadle.agent.setup import FlowShape, Resumption
from treadle.agent.steps import DONE, Step, StepEnd
from treadle.agent.work import Origin, Work
from treadle.control import AskApproval
from treadle.errors import ToolError
from treadle.events import ApprovalRequested, Event
from treadle.fold import paths_in
from treadle.journal import ChildBegan, StepBegan, StepEnded
from treadle.messages import Message, Thread, ToolCall
from treadle.ports.children import ChildCall, ChildPaused, Delegate, Pause, label_of
from treadle.ports.context import RunContext, RunFacts
from treadle.state.scoped import State
from treadle.tools.approval import asked_midway, next_question
from treadle.usage import NOTHING
from treadle.values import Plain, clean, unpack
from treadle.view import ChildRun, View


class Flow(FlowShape, Protocol):
    """What carries out a run that is made of steps: a swarm, a graph, a plan."""

    async def run(self, stage: Stage) -> Ending:
        """Take the steps that are not done yet, and return how the run ends."""
        ...

    def extras(self, stage: Stage) -> tuple[type[AnyResult], dict[str, Any]]:
        """Return the class of the result, and what that has more than others."""
        ...


class Stage:
    """One scope of a flow, at its path: the flow itself, or one of its parallel branches.

    `steps` are those that are over, in their order; `state` is what they share. `data` is what the
    scope was opened with. What is done is in the journal with the next thing that begins, at the
    latest, so that a step costs one write.
    """

    def __init__(self, work: Work, step: Step | None = None, *, state: State | None = None) -> None:
        if work.state is None:
            raise AssertionError("a run has begun when its steps do")
        self.work = work
        self.step = step
        self.path = work.path if step is None else step.path
        self.state = work.state if state is None else state
        self.data: Plain = None
        self.hears = step is None and (work.origin is None or work.origin.hears)
        self.recorder = work.recorder
        if step is not None and work.recorder is not None:
            self.recorder = Recorder(work.recorder.ledger, self.path)
        self.steps = [] if step is not None else list(work.steps)
        self.entered: dict[str, int] = work.entered if step is None else {}
        self._facts: RunFacts | None = None
        self._found: dict[str, ChildRun] = {}
        view = self._view()
        if view is not None:
            self.steps = list(view.steps if step is not None or view.steps else work.steps)
            self.entered = labels(view.entered)
            for each in self.steps:  # nothing may have begun in one that is over
                label, number = label_of(each.step), int(each.step.rpartition("#")[2])
                self.entered[label] = max(number, self.entered.get(label, 0))
            self._found = dict(view.children)

    def _view(self) -> View | None:
        """Return what the journal knows of this scope, None where it begins."""
        if self.step is not None:
            return None if self.step.found is None else self.step.found.view
        resumption = self.work.start.resumption
        return None if resumption is None or self.recorder is None else self.recorder.view

    @property
    def input(self) -> Message | None:
        """What the run was asked."""
        return self.work.said

    @property
    def waiting(self) -> bool:
        """Whether messages wait that are worth another step."""
        return self.hears and self.work.mail.keeps_going

    @property
    def open(self) -> list[str]:
        """The labels of steps that were begun and are not over."""
        return [label_of(name) for name in self._found]

    def begin(self, label: str) -> Step:
        """Return the open step with this label, or the next one."""
        for name, found in self._found.items():
            if label_of(name) == label:
                return Step(name, self._path_of(name), found)
        name = next_step(self.entered, label)
        return Step(name, self._path_of(name))

    async def run(
        self,
        step: Step,
        delegate: Delegate,
        said: Message | None,
        *,
        history: Thread | None = None,
        inherits: bool = False,
        requirements: tuple[str, ...] = (),
    ) -> AnyResult:
        """Take a step that is a child run and return its result, whatever it stopped for.

        It begins with `history` and `said`, or goes on with the history of the flow where it
        `inherits`; one that was begun before goes on. An answer ends it; all else it can go on
        with, until `end` says that the step is over.

        Raises:
            ChildPaused: it waits for somebody.
            TreadleError: what ended it, with its `result`.
        """
        if step.found is not None and step.found.ended is not None:
            return _result_of(step.found, self)
        origin = replace(self._origin(step), inherits=inherits)
        child = child_work(
            resolved(self.work, delegate),
            origin,
            input=said,
            history=Thread(self.work.thread) if inherits else history,
            requirements=requirements,
            resumption=None if step.found is None else Resumption(),
        )
        return await self._carried_out(step, child)

    async def run_again(
        self, step: Step, delegate: Delegate, before: AnyResult, requirements: tuple[str, ...] = ()
    ) -> AnyResult:
        """Let a child run go on that has failed here, with all that it had said and used.

        Raises:
            ChildPaused: it waits for somebody.
            TreadleError: what ended it this time.
        """
        child = child_work(
            resolved(self.work, delegate),
            self._origin(step),
            input=None,
            requirements=requirements,
            resumption=IN_PROCESS,
        )
        child.thread = Thread(before.messages)
        child.budget.restore(before.usage, before.turns, before.usage.tool_calls)
        child.tool_results = list(before.tool_results)
        if child.setup.flow is not None:
            await _take_over(self, step, child)
        return await self._carried_out(step, child)

    def _origin(self, step: Step) -> Origin:
        return Origin(
            self.work,
            ChildCall("", step.span or self.work.span),
            step.path,
            state=self.state,
            hears=self.hears,
            resumes=True,
        )

    async def _carried_out(self, step: Step, child: Work) -> AnyResult:
        step.work = child
        result = await carried_out(child)
        if result.stop_reason == "paused":
            raise ChildPaused(Pause(result.reason, tuple(result.pending)))
        return result

    async def call(self, step: Step, node: str) -> None:
        """Write that a function begins that is a step: what it does may have an effect from now."""
        opened = None if step.found is None else step.found.view.open
        if opened is not None:
            step.attempt = max(step.attempt, opened.began.get(step.path, 0) + 1)
        if self.recorder is not None:
            began = StepBegan(
                run_id=self.work.start.run_id,
                at=_now(),
                path=step.path,
                node=node,
                attempt=step.attempt,
            )
            await self.recorder.ledger.append([began])

    def context(self, step: Step, node: str) -> RunContext:
        """Return what a function may see that is this step."""
        if self._facts is None:
            self._facts = self.work.facts.within(self.state)
        ctx = RunContext(self._facts, call_id=step.path, tool=node, attempt=step.attempt)
        ctx.answers = step.answers
        return ctx

    async def ask(self, step: Step, ctx: RunContext, question: AskApproval) -> ChildPaused:
        """Write that a function asks somebody; return what its flow is to raise.

        Raises:
            ToolError: it asks for what cannot be asked, or too often.
        """
        node = ctx.tool
        call = ToolCall(step.path, node, "{}")
        outcome = asked_midway(question, call, call, ctx, self.work.setup.registry)
        if outcome.asked is None:
            raise ToolError(outcome.result.text)
        number = next_question(step.asked)
        asked = replace(outcome.asked, path=step.path, question=number, usage=ctx.added_usage)
        if self.recorder is not None:
            await self.recorder.ledger.append([asked])
        told = (asked.key, node, dict[str, Any](), asked.reason, asked.schema)
        self.tell(ApprovalRequested, step.span, None, *told)
        pending = pending_call(call, asked, step.path)
        return ChildPaused(Pause(f"Somebody has to decide on {node}.", (pending,)))

    def end(self, step: Step, came: StepEnd = DONE, *, adopts: Thread | None = None) -> None:
        """Let a step be over, and say where the flow goes next: both or neither is remembered.

        `adopts` is the step's history where that is the flow's own from now on.
        """
        ended = StepEnded(
            run_id=self.work.start.run_id,
            at=_now(),
            step=step.name,
            output=UNSET if came.output is UNSET else storable(came.output),
            ok=came.ok,
            error=clean(came.error),
            usage=came.usage,
            writes=came.writes,
            to=came.to,
            data=came.data,
            adopts=adopts is not None,
        )
        self.steps.append(ended)
        self._found.pop(step.name, None)
        if adopts is not None:
            self.work.thread = adopts
        if came.usage is not NOTHING:
            self.work.budget.spend(came.usage)
        if self.recorder is not None:
            self.recorder.hold(ended)

    async def scopes(
        self, label: str, data: Sequence[Plain], *, branch: bool = False
    ) -> list[Stage]:
        """Open scopes in this one, one for each of `data`, in one write; or find them open.

        A `branch` has a state of its own; `treadle.state.branches.merge` brings them together.
        """
        steps = [
            Step(name, self._path_of(name), found)
            for name, found in self._found.items()
            if label_of(name) == label
        ]
        if not steps:
            names = [next_step(self.entered, label) for _ in data]
            steps = [Step(name, self._path_of(name)) for name in names]
            if self.recorder is not None:
                await self.recorder.ledger.append(
                    [
                        _opened(self, step, each, branch=branch)
                        for step, each in zip(steps, data, strict=True)
                    ]
                )
        return [
            _scope(self, step, each, branch=branch)
            for step, each in zip(steps, [*data, *([None] * len(steps))], strict=False)
        ]

    async def save(self) -> None:
        """Write what is done now, where nothing begins after it for a while."""
        if self.recorder is not None and self.recorder.ledger.held:
            await self.recorder.ledger.append([])

    def tell(self, kind: type[Event], span: str, parent: str | None, *fields: Any) -> None:
        """Emit an event of this scope, when anybody listens; its parent is the flow by default."""
        bus = self.work.bus
        if bus.live:
            origin = self.work.setup.agent, self.path
            bus.root.emit_of(origin, kind, span, parent or self.work.span, *fields)

    def _path_of(self, name: str) -> str:
        return f"{self.path}/{name}" if self.path else name


async def _take_over(stage: Stage, step: Step, child: Work) -> None:
    """Let a flow go on with the steps that it had taken when it failed here."""
    before = step.work
    if before is not None:
        child.steps, child.entered = list(before.steps), dict(before.entered)
    if stage.recorder is not None:
        await stage.save()
        within = f"{step.path}/"
        paths = (p for p in paths_in(stage.recorder.ledger.view) if p.startswith(within))
        child.rested.update(dict.fromkeys(paths, "failed"))


def _opened(stage: Stage, step: Step, data: Plain, *, branch: bool) -> ChildBegan:
    return ChildBegan(
        run_id=stage.work.start.run_id,
        at=_now(),
        path=step.path,
        agent=stage.work.setup.agent,
        branch=branch,
        flow=True,
        data=data,
    )


def _scope(stage: Stage, step: Step, data: Plain, *, branch: bool) -> Stage:
    found = step.found
    state = stage.state
    if branch:
        state = state.branch(None if found is None else found.base)
    if found is not None:
        data = found.data
        if branch:
            state.apply(found.view.written or ())
    scope = Stage(stage.work, step, state=state)
    scope.data = data
    return scope


def _result_of(found: ChildRun, stage: Stage) -> AnyResult:
    """Return the result of a child run that had answered before this process took over."""
    ended, start = found.ended, stage.work.start
    if ended is None:
        raise AssertionError("it has ended")
    record = found.view.runs[start.run_id]
    return RunResult(
        output="" if ended.output is UNSET else unpack(ended.output),
        messages=found.view.messages,
        stop_reason=ended.stop_reason,
        run_id=start.run_id,
        conversation_id=start.conversation_id,
        usage=ended.usage,
        turns=ended.turns,
        seconds=record.seconds,
        tool_results=list(record.results),
        state=stage.state,
    )


async def run_flow(work: Work) -> Ending:
    """Carry out a run that is made of steps."""
    return await cast(Flow, work.setup.flow).run(open_stage(work))


def open_stage(work: Work) -> Stage:
    """Return the outermost scope of a flow; its result has the flow's extras from now on."""
    flow, stage = cast(Flow, work.setup.flow), Stage(work)
    work.steps, work.entered = stage.steps, stage.entered
    work.extras = lambda: flow.extras(stage)
    return stage


def _now() -> datetime:
    return datetime.now(UTC)
