"""What every way of running takes beside its input, and what is refused."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal, TypedDict

from treadle.agent.inbox import OnSteer
from treadle.agent.lease import IfBusy
from treadle.compaction.policy import Compaction
from treadle.errors import ConfigError
from treadle.limits import Limits
from treadle.messages import Message
from treadle.models.retry import Retry
from treadle.ports.approval import Decisions
from treadle.ports.middleware import Middleware
from treadle.ports.model import Model, ModelSettings
from treadle.ports.observer import Observer
from treadle.ports.store import Store
from treadle.prompts.render import Instructions
from treadle.skills.skill import Skills, check_skills
from treadle.state.scoped import State
from treadle.tools.policy import Rules


class RunOptions(TypedDict, total=False):
    """What every way of running takes beside the input.

    `conversation` continues (or begins) the conversation of that ID in `store`; `history` seeds a
    new one. `instructions`, `model`, `limits`, `output_type`, `middleware`, `max_parallel_tools`,
    `approval`, `planning`, `skills`, `compaction` replace what the agent has; `settings` are laid
    over its own.
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
    compaction: Compaction | None
    skills: Skills | None
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
    compaction: Compaction | None
    skills: Skills | None
    on_steer: OnSteer
    if_busy: IfBusy


OPTION_NAMES = frozenset(RunOptions.__annotations__)
RESUME_NAMES = frozenset(ResumeOptions.__annotations__)
OnChange = Literal["refuse", "accept"] | Callable[[Sequence[str]], object]
NO_DECISIONS: Decisions = MappingProxyType({})


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
    "description": str,
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
    "compaction": Compaction,
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
    "skills": check_skills,
}
