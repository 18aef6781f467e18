"""Everything one run needs, resolved once: what the loop sees instead of the agent."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal, TypedDict

from msgspec import Struct
from msgspec.json import encode as encode_json

from treadle.agent.history import own_history, own_parts
from treadle.agent.inbox import OnSteer
from treadle.agent.lease import IfBusy
from treadle.agent.output import OutputType
from treadle.agent.stores import conversation_store
from treadle.errors import ConfigError, InvalidInput
from treadle.ids import check_id, new_stamp
from treadle.limits import Limits
from treadle.messages import Message, Thread, UserPart
from treadle.models.retry import Retry
from treadle.ports.approval import Decisions
from treadle.ports.middleware import Hooks, Middleware
from treadle.ports.model import Model, ModelDelta, ModelProfile, ModelRequest, ModelSettings
from treadle.ports.observer import Observer
from treadle.ports.store import Store
from treadle.prompts.render import Instructions
from treadle.state.scoped import State
from treadle.tools.policy import Rules
from treadle.tools.registry import ToolRegistry, short_hash
from treadle.values import Plain, pack, unpack

OnLimit = Literal["answer", "error", "pause"]
Input = str | UserPart | Iterable[str | UserPart]
NO_METADATA: Mapping[str, Any] = MappingProxyType({})


class RunOptions(TypedDict, total=False):
    """What every way of running takes beside the input.

    `conversation` continues (or begins) the conversation of that ID in `store`; `history` seeds a
    new one. `instructions`, `model`, `limits`, `output_type`, `middleware`, `max_parallel_tools`,
    `approval`, `planning` replace what the agent has; `settings` are laid over the agent's.
    `requirements` are listed in the system prompt and again when an answer is forced. `state` is a
    `State` or a dict of full keys. `metadata` holds JSON values that are stored with the run.
    `on_steer` says what becomes of messages that steer the run when it is about to answer: one more
    turn, the next run, or nothing. `if_busy` says what to do while another run owns the
    conversation.
    """

    conversation: str | None
    history: Sequence[Message] | None
    state: State | Mapping[str, Any] | None
    deps: Any
    model: Model | str | None
    limits: Limits | None
    store: Store | None
    run_id: str | None
    observers: Sequence[Observer]
    instructions: Instructions | None
    requirements: Sequence[str]
    output_type: Any
    settings: ModelSettings | None
    middleware: Sequence[Middleware]
    max_parallel_tools: int | None
    approval: Rules | None
    planning: bool | str | None
    metadata: Mapping[str, Any] | None
    on_steer: OnSteer
    if_busy: IfBusy


class ResumeOptions(TypedDict, total=False):
    """What resuming a run takes beside its ID: live objects, and what is laid over the agent.

    `decisions` are answers to calls that wait, by call ID. `on_change` says what to do when the
    agent is not what it was: refuse, go on, or as a function of the differences (in words) says by
    returning or raising. `if_busy="wait"` is the default: a dead owner's lease ends.
    """

    decisions: Decisions
    on_change: OnChange
    deps: Any
    model: Model | str | None
    limits: Limits | None
    store: Store | None
    observers: Sequence[Observer]
    instructions: Instructions | None
    requirements: Sequence[str]
    output_type: Any
    settings: ModelSettings | None
    middleware: Sequence[Middleware]
    max_parallel_tools: int | None
    approval: Rules | None
    planning: bool | str | None
    on_steer: OnSteer
    if_busy: IfBusy


OPTION_NAMES = frozenset(RunOptions.__annotations__)
RESUME_NAMES = frozenset(ResumeOptions.__annotations__)
OnChange = Literal["refuse", "accept"] | Callable[[Sequence[str]], object]
NO_DECISIONS: Decisions = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSetup:
    """What an agent is, resolved: models found, tools registered, output type understood.

    `planning` is how it is told to plan, "" for one that does not.
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
    _definition: list[dict[str, str]] = field(
        default_factory=list[dict[str, str]], init=False, repr=False, compare=False
    )

    @property
    def definition(self) -> dict[str, str]:
        """A short hash of each thing the agent is made of, so that a resume can compare."""
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
        for name, delegate in self.registry.delegates.items():
            nested = delegate.definition((*above, self))
            found |= {f"{thing} of {name}": digest for thing, digest in nested.items()}
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentDelegate:
    """The agent behind a tool: how to resolve it, and to check what it is given as `deps`."""

    name: str
    resolve: Callable[[], RunSetup]
    check_deps: Callable[[object], None]

    def definition(self, above: tuple[object, ...] = ()) -> dict[str, str]:
        """Return a short hash of each thing it is made of; nothing for one that is `above`."""
        setup = self.resolve()
        return {} if any(setup is each for each in above) else setup.definition_under(above)


class Resumption(Struct, frozen=True):
    """How a run goes on that has begun before."""

    decisions: Decisions = NO_DECISIONS
    on_change: OnChange = "refuse"


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


def check_options(
    options: Mapping[str, Any], names: Collection[str] = OPTION_NAMES, who: str = "A run"
) -> None:
    """Refuse what no run takes.

    Raises:
        ConfigError: an unknown option, or one that is not of its kind.
    """
    for name, value in options.items():
        if name not in names:
            known = ", ".join(sorted(names))
            raise ConfigError(f"{who} has no option {name!r}; it takes {known}.")
        if value is not None:
            check_kind(name, value)
    _check_items(options)


def _check_items(options: Mapping[str, Any]) -> None:
    for item in options.get("requirements") or ():
        if not isinstance(item, str):
            raise ConfigError(f"requirements are texts, got {item!r:.60}.")
    for observer in options.get("observers") or ():
        if not callable(getattr(observer, "on_event", None)):
            raise ConfigError(f"{observer!r:.60} is no observer: it has no on_event(event).")


_STORE = ("append", "read", "claim", "claim_and_append", "renew", "release", "find", "wait")
_KINDS: dict[str, type] = {
    "name": str,
    "limits": Limits,
    "settings": ModelSettings,
    "retry": Retry,
    "max_parallel_tools": int,
    "metadata": Mapping,
    "history": Sequence,
    "observers": Sequence,
    "requirements": Sequence,
    "tools": Iterable,
    "middleware": Iterable,
    "decisions": Mapping,
    "approval": Rules,
}
_CHOICES: dict[str, tuple[str, ...]] = {
    "on_steer": ("continue", "carry_over", "discard"),
    "if_busy": ("raise", "wait", "interrupt"),
    "on_change": ("refuse", "accept"),
}


def check_kind(name: str, value: object) -> None:
    """Refuse the value of an option or field that is not of its kind.

    Raises:
        ConfigError: with the value and the kind.
    """
    own = _OWN_CHECKS.get(name)
    if own is not None:
        own(value)
        return
    choices = _CHOICES.get(name)
    if choices is not None and value not in choices:
        if name == "on_change" and callable(value):
            return
        raise ConfigError(f"{name}={value!r:.60} is none of {', '.join(map(repr, choices))}.")
    kind = _KINDS.get(name)
    if kind is None:
        return
    wrong = not isinstance(value, kind) or (isinstance(value, str) and kind is not str)
    if wrong or isinstance(value, bool):
        raise ConfigError(f"{name}={value!r:.60}: give a {kind.__name__}.")
    if name == "max_parallel_tools" and isinstance(value, int) and value < 1:
        raise ConfigError(f"{name}={value}: at least one tool runs at a time.")


def _check_store(value: object) -> None:
    missing = [each for each in _STORE if not callable(getattr(value, each, None))]
    if missing:
        raise ConfigError(
            f"store={value!r:.60} is no store (it has no {missing[0]}); pass MemoryStore() or "
            "open_store(url)."
        )


def _check_state(value: object) -> None:
    if not isinstance(value, State | Mapping):
        raise ConfigError(f"state={value!r:.60}: give a State, or a dict of whole keys.")


def _check_planning(value: object) -> None:
    if not isinstance(value, bool) and not (isinstance(value, str) and value.strip()):
        raise ConfigError(
            f"planning={value!r:.60}: give True, False, or your own text on how to plan."
        )


_OWN_CHECKS: dict[str, Callable[[object], None]] = {
    "store": _check_store,
    "state": _check_state,
    "planning": _check_planning,
}
