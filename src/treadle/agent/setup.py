"""Everything one run needs, resolved once: what the loop sees instead of the agent."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypedDict

from treadle.agent.output import OutputType
from treadle.errors import ConfigError, InvalidInput
from treadle.limits import Limits
from treadle.messages import Message, Thread
from treadle.models.retry import Retry
from treadle.ports.middleware import Hooks, Middleware
from treadle.ports.model import Model, ModelDelta, ModelProfile, ModelRequest, ModelSettings
from treadle.ports.observer import Observer
from treadle.ports.store import Store
from treadle.prompts.render import Instructions
from treadle.state.scoped import State
from treadle.tools.registry import ToolRegistry

OnLimit = Literal["answer", "error", "pause"]


class RunOptions(TypedDict, total=False):
    """What every way of running takes beside the input.

    `conversation` continues (or begins) the conversation of that ID in `store`; `history` seeds a
    new one. `instructions`, `model`, `limits`, `output_type`, `middleware`, `max_parallel_tools`
    replace what the agent has; `settings` are laid over the agent's. `requirements` are listed in
    the system prompt and again when an answer is forced. `state` is a `State` or a dict of full
    keys. `metadata` holds JSON values that are stored with the run.
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
    metadata: Mapping[str, Any] | None


OPTION_NAMES = frozenset(RunOptions.__annotations__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSetup:
    """What an agent is, resolved: models found, tools registered, output type understood."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStart:
    """What this one run begins with."""

    run_id: str
    conversation_id: str
    input: Message | None
    history: Thread
    state: State | Mapping[str, Any] | None
    deps: Any
    store: Store | None
    observers: tuple[Observer, ...]
    requirements: tuple[str, ...]
    metadata: Mapping[str, Any]


def check_options(options: Mapping[str, Any]) -> None:
    """Refuse what no run takes.

    Raises:
        ConfigError: an unknown option, with the nearest known names.
        InvalidInput: a history of something else than messages.
    """
    unknown = [name for name in options if name not in OPTION_NAMES]
    if unknown:
        raise ConfigError(
            f"A run has no option {unknown[0]!r}; it takes {', '.join(sorted(OPTION_NAMES))}."
        )
    parallel = options.get("max_parallel_tools")
    if parallel is not None and parallel < 1:
        raise ConfigError(f"max_parallel_tools={parallel}: at least one tool runs at a time.")
    for item in options.get("history") or ():
        if not isinstance(item, Message):
            raise InvalidInput(
                f"history holds Message objects, got {type(item).__name__}: {item!r:.60}."
            )
