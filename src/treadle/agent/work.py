"""What a run has under way: the things that its turns share."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from treadle.agent.ask import Asker
from treadle.agent.bus import EventBus, NestedBus, Progress
from treadle.agent.calls import Answers, CallIds
from treadle.agent.context_use import NOTHING_LEFT
from treadle.agent.ending import Ending
from treadle.agent.inbox import Inbox
from treadle.agent.ledger import Ledger
from treadle.agent.mail import Mail
from treadle.agent.recorder import Recorder
from treadle.agent.saying import Saying
from treadle.agent.setup import RunSetup, RunStart
from treadle.agent.standing import Standing
from treadle.errors import TreadleError
from treadle.events import Event, PlanChanged
from treadle.ids import new_span_id
from treadle.limits import Budget
from treadle.messages import ToolResult
from treadle.ports.approval import PendingCall
from treadle.ports.children import ChildCall
from treadle.ports.context import RunContext, RunFacts
from treadle.ports.model import ToolSpec
from treadle.ports.store import Store
from treadle.prompts.render import render_instructions
from treadle.state.scoped import State
from treadle.tools.approval import NOTHING_HELD, Approvals
from treadle.tools.artefact import Shelf
from treadle.tools.execute import ToolRunner
from treadle.tools.registry import ToolRegistry

if TYPE_CHECKING:
    from treadle.skills.catalogue import Catalogue


class Origin(Struct, frozen=True):
    """Where a child run belongs: to the work above it, and to a call of that; and its path.

    A step of a flow has the `state` of its scope; one that `hears` takes in what steers the run.
    `resumes` is whether it can go on when it has failed, so that only an answer ends it. It may go
    on with the history above, as `inherits` says, or work in the `background`.
    """

    above: Work
    call: ChildCall
    path: str
    state: State | None = None
    hears: bool = False
    resumes: bool = False
    inherits: bool = False
    background: bool = False


class Work(Saying):
    """The thread, the budget, the state and the parts of one run, or of a child run in it.

    `answers` are the results of a reply whose calls are being run. `answers_by_tool` is whether
    typed output comes as a tool call. `stop` is how the run is to end early, and `task` the one
    that carries it out, whose caller had cancelled it `cancels` times before. `opened` is whether
    the run has begun. `written` is how many of the context's writes the journal has. `reads` is
    whether the model is offered to read long outputs. `waiting` has what stands for the results of
    calls that a paused run waits for. `of_skills` is what its instructions say of skills;
    `offered` are the tools without those of skills that were not loaded, which are `withheld`.
    `timed` is whether there is a deadline, here or above.
    """

    ctx: RunContext
    facts: RunFacts
    ids: CallIds
    asker: Asker
    runner: ToolRunner
    shelf: Shelf
    compacted = NOTHING_LEFT
    of_skills = ""
    offered: ToolRegistry
    withheld: frozenset[str] = frozenset()

    def __init__(self, setup: RunSetup, start: RunStart, origin: Origin | None = None) -> None:
        super().__init__(start, None if origin is None else origin.above)
        self.setup = setup
        self.start = start
        self.origin = origin
        above, self.path = (None, "") if origin is None else (origin.above, origin.path)
        self.bus: EventBus | NestedBus
        if origin is None:
            self.bus = EventBus(start.run_id, setup.agent)
        else:
            self.bus = NestedBus(origin.above.bus, setup.agent, origin.path, origin.call.span)
        self.span = new_span_id()
        self.began = time.perf_counter()
        self.timed = setup.limits.deadline is not None or (above is not None and above.timed)
        is_flow = setup.flow is not None
        self.budget = Budget(setup.limits, None if above is None else above.budget, flow=is_flow)
        self.thread = start.history
        self.state: State | None = None
        hears = origin is not None and origin.hears
        self.inbox = Inbox() if origin is None or not hears else origin.above.inbox
        passes = hears or (origin is not None and origin.background)
        self.mail = Mail(self.inbox, start, self.bus, self.span, passing=passes)
        self.recorder: Recorder | None = None
        if above is not None and above.recorder is not None:
            self.recorder = Recorder(above.recorder.ledger, self.path, hears=hears)
        elif above is None and start.store is not None and start.resumption is None:
            self.recorder = self.record_into(start.store)
        self.opened = False
        self.answers: Answers | None = None
        self.standing: Standing | None = None
        self.waiting: dict[str, ToolResult] = {}
        self.pending: list[PendingCall] = []
        self.task: asyncio.Task[Any] | None = None
        self.cancels = 0
        self.stop: Ending | None = None
        self.system = ""
        self.answers_by_tool = _answers_by_tool(setup)
        self.specs = self._specs_of(setup.registry)
        self.reads, self.written = False, 0
        self._timer: asyncio.TimerHandle | None = None

    def _specs_of(self, registry: ToolRegistry) -> tuple[ToolSpec, ...]:
        output = self.setup.output
        if output is None or not self.answers_by_tool:
            return registry.specs
        return (*registry.specs, output.tool_spec)

    def offer_reading(self) -> None:
        """Offer the tool that reads long outputs, from now on to the end of the conversation.

        Not from the beginning: it would cost every conversation its tokens, while a change of the
        tools costs one its prompt cache, once, where 10,000 tokens came anew anyway.
        """
        self.reads = True
        self._offer()

    def offer_skills(self, skills: Catalogue) -> None:
        """Offer the tools of the skills that were loaded by now, and those of no other skill."""
        self.withheld = skills.withheld(self.thread)
        self._offer()

    def _offer(self) -> None:
        self.offered = offered = self.setup.registry.without(self.withheld)
        registry = offered.reading if self.reads and len(offered) else offered
        self.runner.registry = registry
        self.specs = self._specs_of(registry)

    def record_into(self, store: Store) -> Recorder:
        """Return the recorder of this run in a store."""
        return Recorder(
            Ledger(store, self.start, self.inbox, lost=self._fail, cancelled=self._cancel)
        )

    async def render(self) -> None:
        """Render the system prompt."""
        given, requirements = self.setup.instructions, self.start.requirements
        planning = self.setup.planning
        skills = ""
        if self.setup.skills is not None:
            await self.setup.skills.read()
            self.of_skills = skills = self.setup.skills.prompt()
        if given is not None or requirements or planning or skills:
            self.system = await render_instructions(given, requirements, self.ctx, planning, skills)

    async def definition(self) -> dict[str, str]:
        """Return what the agent is made of now, its skills read again."""
        if self.setup.skills is not None:
            await self.setup.skills.read()
        return self.setup.definition

    def start_timer(self) -> None:
        """End the run when its deadline has come."""
        self.stop_timer()
        deadline = self.setup.limits.deadline
        if deadline is None:
            return
        left = deadline.total_seconds() - (time.perf_counter() - self.began)
        reason = f"The run took longer than {deadline.total_seconds():g} s."
        ending = Ending(stop_reason="deadline", reason=reason)
        self._timer = asyncio.get_running_loop().call_later(max(0.0, left), self.end_early, ending)

    def stop_timer(self) -> None:
        """There is no deadline any more."""
        if self._timer is not None:
            self._timer.cancel()

    @property
    def recorded(self) -> bool:
        """Whether the journal knows that the run is under way."""
        return self.recorder is not None and self.recorder.ledger.entered

    @property
    def interrupted(self) -> bool:
        """Whether the run is to end now, whatever swallowed its cancellation."""
        task = self.task
        return self.stop is not None or (task is not None and task.cancelling() > self.cancels)

    def end_early(self, ending: Ending) -> None:
        """End the run this way, as soon as what is under way lets go. The first to ask counts."""
        if self.stop is None:
            self.stop = ending
            if self.task is not None:  # else it has not taken its first step, and will look itself
                self.task.cancel()

    def _fail(self, error: TreadleError) -> None:
        self.end_early(Ending(stop_reason="failed", error=error))

    def _cancel(self, reason: str) -> None:
        self.end_early(Ending(stop_reason="cancelled", reason=reason))

    def tell(self, kind: type[Event], *fields: Any) -> None:
        """Emit an event of the run itself, when anybody listens."""
        if self.bus.live:
            self.bus.emit(kind, self.span, None, *fields)

    def seconds_left(self) -> float | None:
        """Return how long the run may still take, or None without a deadline here or above."""
        if not self.timed:
            return None
        deadline, passed = self.setup.limits.deadline, time.perf_counter() - self.began
        own = None if deadline is None else deadline.total_seconds() - passed
        above = None if self.origin is None else self.origin.above.seconds_left()
        return own if above is None else above if own is None else min(own, above)

    def build(self, state: State, metadata: Mapping[str, Any]) -> None:
        """Build the parts that work on the thread and this state."""
        setup, start = self.setup, self.start
        self.state = state
        if setup.reducers:
            state.add_reducers(setup.reducers)
        recorder = self.recorder
        view = None if recorder is None else recorder.view
        known = {} if view is None else view.artefacts
        store = None if recorder is None else recorder.ledger.store
        self.shelf = Shelf(store, start.conversation_id, known, setup.profile.window)
        progress = Progress(self.bus, self.span)
        facts = RunFacts(
            run_id=start.run_id,
            conversation_id=start.conversation_id,
            agent=setup.agent,
            deps=start.deps,
            metadata=metadata,
            budget=self.budget,
            state=state,
            report=progress,
        )
        self.facts = facts
        facts.artefacts = self.shelf
        facts.children = self.children
        facts.path = self.path
        facts.tell_plan = partial(progress.tell, PlanChanged)
        facts.background = self.background
        self.ctx = RunContext(facts)
        self.ids = CallIds(self.thread, self.path, () if view is None else view.spent_ids)
        self.asker = Asker(setup, self.bus, self.budget, self.ctx, parent_span=self.span)
        held = NOTHING_HELD if view is None else view.held
        self.runner = ToolRunner(
            setup.registry,
            facts,
            self.bus,
            parent_span=self.span,
            hooks=setup.hooks,
            journal=self.recorder,
            approvals=Approvals(setup.registry, setup.approval, held),
            handoffs=setup.handoffs,
        )
        self.offered = setup.registry
        if setup.skills is not None:
            self.offer_skills(setup.skills)
        if known:
            self.offer_reading()
        self.opened = True


def _answers_by_tool(setup: RunSetup) -> bool:
    """Whether typed output is asked for by a tool, because the model does not obey schemas."""
    if setup.output is None:
        return False
    profile = setup.profile
    return not (profile.native_output_with_tools if len(setup.registry) else profile.native_output)
