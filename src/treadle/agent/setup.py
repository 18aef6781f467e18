"""Everything one run needs, resolved once: what the loop sees instead of the agent."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, Protocol

from msgspec import Struct
from msgspec.json import encode as encode_json

from treadle.agent.history import own_history, own_parts
from treadle.agent.inbox import OnSteer
from treadle.agent.lease import IfBusy
from treadle.agent.options import (
    NO_DECISIONS,
    RESUME_NAMES,
    OnChange,
    ResumeOptions,
    RunOptions,
    check_options,
)
from treadle.agent.output import OutputType
from treadle.agent.stores import conversation_store
from treadle.compaction.policy import Compaction
from treadle.errors import InvalidInput
from treadle.ids import check_id, new_stamp
from treadle.limits import Limits
from treadle.messages import Message, Thread, UserPart
from treadle.models.retry import Retry
from treadle.ports.approval import Decisions
from treadle.ports.children import Delegate
from treadle.ports.middleware import Hooks
from treadle.ports.model import (
    Model,
    ModelDelta,
    ModelProfile,
    ModelRequest,
    ModelSettings,
)
from treadle.ports.observer import Observer
from treadle.ports.store import Store
from treadle.prompts.render import Instructions
from treadle.state.flat import Reducer, State
from treadle.tools.policy import Rules
from treadle.tools.registry import ToolRegistry, short_hash
from treadle.values import Plain, pack, unpack

if TYPE_CHECKING:
    from treadle.skills.catalogue import Catalogue

OnLimit = Literal["answer", "error", "pause"]
Input = str | UserPart | Iterable[str | UserPart]
NO_METADATA: Mapping[str, Any] = MappingProxyType({})


class FlowShape(Protocol):
    """What a run that is made of runs consists of; `agent.stage.Flow` carries one out."""

    @property
    def delegates(self) -> Mapping[str, Delegate]:
        """Who does the work of each step that is a child run, by the step's label."""
        ...

    def definition(self, above: tuple[object, ...]) -> dict[str, str]:
        """Return a short hash of each thing it is made of; of nothing that is `above`."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSetup:
    """What an agent is, resolved: models found, tools registered, output type understood.

    `planning` is how it is told to plan, "" for one that does not. Of its `skills` the registry has
    all tools, also those that are not offered yet.
    What is made of agents has a `flow` instead of a model and tools of its own. `passes` are the
    options of a run that are laid over all agents in it, `reducers` are for the state. `handoffs`
    are the members of a swarm that its calls may hand over to.
    """

    agent: str
    model: Model
    profile: ModelProfile
    stream: Callable[[ModelRequest], AsyncIterator[ModelDelta]] | None
    instructions: Instructions | None
    registry: ToolRegistry
    output: OutputType | None
    limits: Limits
    on_limit: OnLimit
    settings: ModelSettings
    hooks: Hooks
    retry: Retry
    max_parallel_tools: int
    approval: Rules | None = None
    planning: str = ""
    compaction: Compaction | None = None
    skills: Catalogue | None = None
    flow: FlowShape | None = None
    passes: RunOptions = field(default_factory=RunOptions)
    reducers: Mapping[str, Reducer] = field(default_factory=dict[str, Reducer])
    handoffs: tuple[str, ...] = ()
    _definition: list[dict[str, str]] = field(
        default_factory=list[dict[str, str]], init=False, repr=False, compare=False
    )

    @property
    def definition(self) -> dict[str, str]:
        """A short hash of each thing the agent is made of, so that a resume can compare."""
        if self.skills is not None:  # what was read of them changes
            return self.definition_under(())
        if not self._definition:
            self._definition.append(self.definition_under(()))
        return self._definition[0]

    def definition_under(self, above: tuple[object, ...]) -> dict[str, str]:
        """Return the same, with that of each agent that it may run; of none that is `above`."""
        found = {f"tool {name}": digest for name, digest in self.registry.definition.items()}
        if self.output is not None:
            found["output"] = short_hash(encode_json(self.output.schema, order="sorted"))
        if isinstance(self.instructions, str):
            found["instructions"] = short_hash(self.instructions.encode(errors="surrogatepass"))
        if self.skills is not None:
            found |= self.skills.given_definition if above else self.skills.definition
        found |= definitions_of(self.registry.delegates, (*above, self))
        if self.registry.background is not None:
            others = self.registry.background.agents.items()
            named = {f"delegate {name}": each for name, each in others}
            found |= definitions_of(named, (*above, self))
        if self.flow is not None:
            found |= self.flow.definition((*above, self))
        return found


def definitions_of(delegates: Mapping[str, Delegate], above: tuple[object, ...]) -> dict[str, str]:
    """Return a short hash of each thing that others, by name, are made of."""
    return {
        f"{thing} of {name}": digest
        for name, delegate in delegates.items()
        for thing, digest in delegate.definition(above).items()
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentDelegate:
    """The agent behind a tool or a step: how to resolve it under the options of a run.

    `check_deps` looks at what it is given as `deps`. One that is asked only `once` is not asked by
    whoever works for it already.
    """

    name: str
    resolve: Callable[[RunOptions], RunSetup]
    check_deps: Callable[[object], None]
    once: bool = False

    def definition(self, above: tuple[object, ...] = ()) -> dict[str, str]:
        """Return a short hash of each thing it is made of; nothing for one that is `above`."""
        setup = self.resolve(RunOptions())
        flow = setup.flow
        if any(setup is each or (flow and flow is getattr(each, "flow", None)) for each in above):
            return {}
        return setup.definition_under(above)


class Resumption(Struct, frozen=True):
    """How a run goes on that has begun before; `cancels` is why it ends at once, where it does."""

    decisions: Decisions = NO_DECISIONS
    on_change: OnChange = "refuse"
    cancels: str | None = None


class RunStart(Struct, frozen=True, kw_only=True):
    """What this one run begins with. `is_new` is whether its conversation begins with it."""

    run_id: str
    conversation_id: str
    input: Message | None
    history: Thread
    is_new: bool = False
    state: State | dict[str, Plain] | None = None
    deps: Any = None
    store: Store | None = None
    observers: tuple[Observer, ...] = ()
    requirements: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = NO_METADATA
    on_steer: OnSteer = "continue"
    if_busy: IfBusy = "raise"
    resumption: Resumption | None = None


def begin_run(
    input: Input | None, options: RunOptions, store: Store | None
) -> tuple[RunStart, str | None]:
    """Return what the run begins with, and the instructions that its history brought along.

    `store` is the agent's own, used when the options name none.

    Raises:
        InvalidInput: there is nothing to say.
        InvalidId: the conversation's or the run's ID cannot be one.
    """
    parts = () if input is None else own_parts(input)
    said = Message("user", parts) if parts else None
    stamp = new_stamp()
    if not options and said is not None:
        run_id, conversation = f"run_{stamp}", f"conv_{stamp}"
        return RunStart(
            run_id=run_id,
            conversation_id=conversation,
            input=said,
            history=Thread(),
            is_new=True,
            store=store,
        ), None
    check_options(options)
    thread, system = own_history(options.get("history") or ())
    conversation, run_id = options.get("conversation"), options.get("run_id")
    given = options.get("store")
    store = store if given is None else given
    if conversation is not None:
        check_id(conversation, "conversation")
        store = conversation_store() if store is None else store
    if said is None and not thread and conversation is None:
        raise InvalidInput("There is nothing to say: the input is empty and there is no history.")
    start = RunStart(
        run_id=f"run_{stamp}" if run_id is None else check_id(run_id, "run"),
        conversation_id=f"conv_{stamp}" if conversation is None else conversation,
        input=said,
        history=thread,
        is_new=conversation is None,
        state=_own_state(options.get("state")),
        deps=options.get("deps"),
        store=store,
        observers=tuple(options.get("observers") or ()),
        requirements=tuple(options.get("requirements") or ()),
        metadata=_own_metadata(options.get("metadata")),
        on_steer=options.get("on_steer") or "continue",
        if_busy=options.get("if_busy") or "raise",
    )
    return start, system


def resume_run(run_id: str, options: ResumeOptions, store: Store | None) -> RunStart:
    """Return what a run goes on with; the rest is in its conversation.

    Raises:
        InvalidId: the run's ID cannot be one.
        ConfigError: there is no store, or an option is not of its kind.
    """
    check_options(options, RESUME_NAMES, "Resuming a run")
    given = options.get("store")
    store = store if given is None else given
    return RunStart(
        run_id=check_id(run_id, "run"),
        conversation_id="",
        input=None,
        history=Thread(),
        deps=options.get("deps"),
        store=conversation_store() if store is None else store,
        observers=tuple(options.get("observers") or ()),
        requirements=tuple(options.get("requirements") or ()),
        on_steer=options.get("on_steer") or "continue",
        if_busy=options.get("if_busy") or "wait",
        resumption=Resumption(
            dict(options.get("decisions") or {}), options.get("on_change") or "refuse"
        ),
    )


def _own_state(given: State | Mapping[str, Any] | None) -> State | dict[str, Plain] | None:
    """Return a dict's values packed: what the caller does to it later has no effect."""
    return State(given).packed() if isinstance(given, Mapping) else given


def _own_metadata(given: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Return a copy of the run's metadata.

    Raises:
        NotStorable: it holds something else than values that can be stored.
    """
    if not given:
        return NO_METADATA
    return {name: unpack(pack(value, f"metadata[{name!r}]")) for name, value in given.items()}
