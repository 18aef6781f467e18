"""What tools, instructions and middleware may see of the run they work in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Generic

from treadle.errors import ConfigError, ToolError
from treadle.limits import Budget
from treadle.plan import Plan, to_plain
from treadle.ports.artefacts import Artefacts
from treadle.ports.background import Background
from treadle.ports.children import Children
from treadle.ports.plans import plan_owner, read_plan
from treadle.state.scoped import Scope, ScopedState, State, StateWrite, WriteGuard
from treadle.usage import NOTHING, Usage
from treadle.values import clean

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    DepsT = TypeVar("DepsT", default=Any)
else:
    from typing import TypeVar

    DepsT = TypeVar("DepsT")


class RunFacts:
    """What all contexts of one run share. `report` is how progress reaches the events.

    `artefacts` are set where long outputs are kept, `children` where agents are run for calls,
    `background` where they work in it. `path` is that of a child run, and `tell_plan` tells
    watchers of a plan.
    """

    __slots__ = (
        "agent",
        "artefacts",
        "background",
        "budget",
        "children",
        "conversation_id",
        "deps",
        "metadata",
        "path",
        "report",
        "run_id",
        "state",
        "tell_plan",
    )

    def __init__(
        self,
        *,
        run_id: str,
        conversation_id: str,
        agent: str,
        deps: Any,
        metadata: Mapping[str, Any],
        budget: Budget,
        state: State,
        report: Callable[[str, str, Any], None],
    ) -> None:
        self.run_id = run_id
        self.conversation_id = conversation_id
        self.agent = agent
        self.deps = deps
        self.metadata = metadata
        self.budget = budget
        self.state = state
        self.report = report
        self.artefacts: Artefacts | None = None
        self.children: Children | None = None
        self.path = ""
        self.tell_plan: Callable[[Plan], None] | None = None
        self.background: Background | None = None

    def within(self, state: State) -> RunFacts:
        """Return the same for a part of the run that has a state of its own."""
        if state is self.state:
            return self
        found = RunFacts(
            run_id=self.run_id,
            conversation_id=self.conversation_id,
            agent=self.agent,
            deps=self.deps,
            metadata=self.metadata,
            budget=self.budget,
            state=state,
            report=self.report,
        )
        found.artefacts, found.children, found.background = (
            self.artefacts,
            self.children,
            self.background,
        )
        found.path, found.tell_plan = self.path, self.tell_plan
        return found


class RunContext(Generic[DepsT]):
    """The run as one call sees it. Everything here is for reading, but `state` and the methods.

    In a tool, `call_id` and `tool` name the call and `attempt` counts its tries from 1; elsewhere
    they are "" and 1. `cancelled` turns true when nobody waits for the call any more. `answers`
    are what a call that raised `AskApproval` has been told, the oldest first. `guard` keeps
    parallel calls from writing the same state.
    """

    __slots__ = (
        "_added",
        "_advice",
        "_closed",
        "_facts",
        "_state",
        "answers",
        "attempt",
        "call_id",
        "cancelled",
        "guard",
        "tool",
    )

    def __init__(
        self,
        facts: RunFacts,
        *,
        call_id: str = "",
        tool: str = "",
        attempt: int = 1,
        guard: WriteGuard | None = None,
    ) -> None:
        self._facts = facts
        self.guard = guard
        self._state: ScopedState | None = None
        self._added: Usage = NOTHING
        self._advice: tuple[str, ...] = ()
        self._closed = False
        self.call_id = call_id
        self.tool = tool
        self.attempt = attempt
        self.answers: tuple[dict[str, Any], ...] = ()
        self.cancelled = False

    @property
    def run_id(self) -> str:
        """The run's ID."""
        return self._facts.run_id

    @property
    def conversation_id(self) -> str:
        """The conversation's ID."""
        return self._facts.conversation_id

    @property
    def agent(self) -> str:
        """The name of the agent that runs."""
        return self._facts.agent

    @property
    def deps(self) -> DepsT:
        """What the caller passed as `deps=`: live objects, never stored."""
        return self._facts.deps

    @property
    def metadata(self) -> Mapping[str, Any]:
        """What the caller passed as `metadata=`: JSON values, stored with the run."""
        return self._facts.metadata

    @property
    def usage(self) -> Usage:
        """What the run has used so far."""
        return self._facts.budget.usage

    @property
    def idempotency_key(self) -> str:
        """A key for this very call, the same however often it is tried."""
        return f"{self._facts.run_id}:{self.call_id}"

    @property
    def answer(self) -> dict[str, Any] | None:
        """The newest answer, {} for a plain yes; None when the call has not asked anything yet."""
        return self.answers[-1] if self.answers else None

    @property
    def state(self) -> ScopedState:
        """The state, seen from this agent's scope; writes are stored with the call."""
        if self._state is None:
            scope = Scope.agent(self._facts.agent)
            self._state = ScopedState(
                self._facts.state, scope, guard=self.guard, owner=self.call_id
            )
            if self._closed:
                self._state.close()
        return self._state

    @property
    def artefacts(self) -> Artefacts:
        """The conversation's outputs that were too long for the model.

        Raises:
            ToolError: this run keeps none.
        """
        found = self._facts.artefacts
        if found is None:
            raise ToolError("No outputs are kept here.")
        return found

    @property
    def plan(self) -> Plan | None:
        """The agent's plan as it stands, None where it has none.

        Raises:
            PlanInvalid: something else was written where it is kept.
        """
        return read_plan(self._facts.state, self._facts.agent, self._facts.path)

    def put_plan(self, plan: Plan | None) -> None:
        """Let this be the agent's plan, or let it have none; it is stored with the call."""
        facts = self._facts
        owner = plan_owner(facts.agent, facts.path)
        if plan is None:
            self.state.plans.delete(owner)
            return
        self.state.plans.set(owner, to_plain(plan))
        if facts.tell_plan is not None:
            facts.tell_plan(plan)

    @property
    def background(self) -> Background:
        """The agents that work in the background of this run.

        Raises:
            ToolError: none may.
        """
        found = self._facts.background
        if found is None:
            raise ToolError("No agents may work in the background here.")
        return found

    @property
    def writes(self) -> tuple[StateWrite, ...]:
        """What was written to the state through this context."""
        return self._state.writes if self._state is not None else ()

    def close(self) -> None:
        """The call has its result: a thread that still runs must not change the state any more."""
        self.cancelled = self._closed = True
        if self._state is not None:
            self._state.close()

    def again(self, attempt: int) -> RunContext[DepsT]:
        """Return the context of the call's next try."""
        following: RunContext[DepsT] = RunContext(
            self._facts, call_id=self.call_id, tool=self.tool, attempt=attempt, guard=self.guard
        )
        following.answers = self.answers
        return following

    @property
    def touched(self) -> bool:
        """Whether state was looked at, usage added or advice given through this context."""
        return self._state is not None or self._added is not NOTHING or bool(self._advice)

    @property
    def added_usage(self) -> Usage:
        """What was added with `add_usage`."""
        return self._added

    def add_usage(self, usage: Usage) -> None:
        """Count what this call used itself (a model it asked, for example) in the run's usage."""
        self._added = self._added + usage

    def advise(self, text: str) -> None:
        """Tell the model something after the results of this turn, in a user message.

        It is told once, however often it is given; blank text is left out. After an answer there
        is nobody left to be told.

        Raises:
            ConfigError: it is no text.
        """
        given: Any = text
        if not isinstance(given, str):
            raise ConfigError(f"advise({given!r:.60}): advice is a text.")
        text = clean(given).strip()
        if text and text not in self._advice:
            self._advice = (*self._advice, text)

    @property
    def advice(self) -> tuple[str, ...]:
        """What was given with `advise` and is not told yet."""
        return self._advice

    def take_advice(self) -> tuple[str, ...]:
        """Return the same, which is being told now."""
        given, self._advice = self._advice, ()
        return given

    def report(self, progress: Any) -> None:
        """Tell watchers how far this call is: any JSON value. Also from a worker thread."""
        self._facts.report(self.call_id, self.tool, progress)
