"""An agent: a model, instructions and tools, as immutable configuration."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field, fields, replace
from os import PathLike
from typing import TYPE_CHECKING, Any, Generic

from treadle.agent.fitting import window_of
from treadle.agent.options import ResumeOptions, RunOptions, check_kind
from treadle.agent.output import output_type
from treadle.agent.result import OutputT, RunResult
from treadle.agent.setup import Input, OnLimit, RunSetup, begin_run
from treadle.agent.startable import Startable, subscriptable
from treadle.agent.work import Work
from treadle.compaction.policy import Compaction
from treadle.errors import ConfigError, TreadleError
from treadle.limits import Limits
from treadle.models.resolve import resolve_model
from treadle.models.retry import Retry
from treadle.ports.context import DepsT
from treadle.ports.middleware import Hooks, Middleware
from treadle.ports.model import DEFAULT_SETTINGS, Model, ModelSettings, profile_of
from treadle.ports.store import Store
from treadle.ports.tool import ToolProtocol, ToolSource
from treadle.prompts.planning import PLANNING
from treadle.prompts.render import Instructions, rendered
from treadle.skills.skill import Skills
from treadle.tools.policy import Rules
from treadle.tools.registry import ToolRegistry
from treadle.tools.tool import Tool

if TYPE_CHECKING:
    from treadle.skills.catalogue import Catalogue

AnyTool = Tool | ToolProtocol | ToolSource | Callable[..., Any]

DEFAULT_LIMITS = Limits()
DEFAULT_RETRY = Retry()


@subscriptable
@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class Agent(Startable[OutputT, RunResult[OutputT]], Generic[DepsT, OutputT]):
    """A model, instructions and tools. Immutable: share it between tasks, threads and users.

    ```python
    from treadle import Agent
    from treadle.testing import ScriptedModel

    agent = Agent("greeter", model=ScriptedModel(["Hello, Ann."]), instructions="Be brief.")
    print(agent.run_sync("I am Ann.").output)
    #> Hello, Ann.
    ```

    `model` is an object or a "provider:model" string. `instructions` may be a `Prompt`, or a
    function of the run context. `output_type` is what the answer becomes: `str`, or any type that
    pydantic knows. `deps=` of a run must be of `deps_type` where one is given. `on_limit` says what
    happens when the turns or tool calls are used up: one more answer without tools, an error, or a
    pause.
    `approval` are rules for the calls of all tools, before what each tool's own `approval` says.
    `skills` are instructions that it reads when a task needs them; a list, or the folder of their
    folders, which each run reads anew.
    With `planning` it has tools to keep a plan, and is told how: by default, or by your own text.
    `compaction` keeps a long history inside the model's window.
    `description` is what models are told that may ask the agent, or hand over to it.

    Nothing is looked up until the first run, so that building an agent is cheap.
    """

    name: str
    model: Model | str | None = None
    _: KW_ONLY
    instructions: Instructions | None = None
    tools: Sequence[AnyTool] = ()
    skills: Skills = ()
    output_type: type[OutputT] | Any = str
    deps_type: type[DepsT] | None = None
    limits: Limits = DEFAULT_LIMITS
    on_limit: OnLimit = "answer"
    max_parallel_tools: int = 3
    settings: ModelSettings = DEFAULT_SETTINGS
    middleware: Sequence[Middleware] = ()
    retry: Retry = DEFAULT_RETRY
    store: Store | None = None
    approval: Rules | None = None
    planning: bool | str = False
    compaction: Compaction | None = None
    description: str = ""
    _ready: list[RunSetup] = field(
        default_factory=list[RunSetup], init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        check_kind("name", self.name)
        if not self.name.strip():
            raise ConfigError("An agent needs a name.")
        if self.on_limit not in ("answer", "error", "pause"):
            raise ConfigError(f"on_limit={self.on_limit!r} is none of 'answer', 'error', 'pause'.")
        for name in ("limits", "settings", "max_parallel_tools", "retry", "planning", "skills"):
            check_kind(name, getattr(self, name))
        check_kind("description", self.description)
        object.__setattr__(self, "instructions", rendered(self.instructions))
        for name in ("tools", "middleware"):
            given = getattr(self, name)
            if type(given) is not tuple:
                check_kind(name, () if given is None else given)
                object.__setattr__(self, name, tuple(given or ()))
        if not isinstance(self.skills, str | PathLike):
            object.__setattr__(self, "skills", tuple(self.skills))
        for name in ("store", "approval", "compaction"):
            if getattr(self, name) is not None:
                check_kind(name, getattr(self, name))

    def replace(self, **changes: Any) -> Agent[DepsT, OutputT]:
        """Return a copy with these fields changed."""
        kept = {f.name: getattr(self, f.name) for f in fields(self) if f.init}
        unknown = [name for name in changes if name not in kept]
        if unknown:
            raise ConfigError(f"An agent has no field {unknown[0]!r}; it has {', '.join(kept)}.")
        return Agent(**(kept | changes))

    def _begin(self, input: Input | None, options: RunOptions) -> Work:
        start, system = begin_run(input, options, self.store)
        if start.deps is not None:
            self._check_deps(start.deps)
        if self._ready and self.model is not None and SETUP_OPTIONS.isdisjoint(options):
            setup = self._ready[0]
        else:
            setup = self._setup(options)
        if system is not None and options.get("instructions") is None:
            setup = replace(setup, instructions=system)
        return Work(setup, start)

    def _check_deps(self, deps: object) -> None:
        kind: Any = self.deps_type
        if kind is None or deps is None:
            return
        try:
            fits = isinstance(deps, kind)
        except TypeError:  # a protocol or a generic, which only a type checker can look into
            return
        if not fits:
            raise ConfigError(f"deps={deps!r:.60}: agent {self.name!r} wants {kind.__name__}.")

    def _setup(self, options: RunOptions | ResumeOptions) -> RunSetup:
        """Resolve the agent once, and lay this run's options over it."""
        if not options and self._ready and self.model is not None:
            return self._ready[0]
        if not self._ready:
            own = self.model if self.model is not None else options.get("model")
            self._ready.append(self._resolve(own))
            try:
                check_delegates(self._ready[0].registry)
            except TreadleError:
                self._ready.clear()
                raise
        setup = self._overlaid(self._ready[0], options)
        if setup.compaction is not None:
            window_of(setup.compaction, setup)
        return setup

    def _overlaid(self, setup: RunSetup, options: RunOptions | ResumeOptions) -> RunSetup:
        """Lay the options of one run over what the agent is."""
        model = options.get("model")
        if model is not None:
            setup = replace(setup, **_model_fields(model, self.name))
        elif self.model is None:
            resolve_model(None, agent=self.name)
        given = {name: own for name in SETUP_OPTIONS if (own := options.get(name)) is not None}
        changes: dict[str, Any] = {
            name: rendered(given[name]) for name in REPLACED if name in given
        }
        if "output_type" in given:
            changes["output"] = output_type(given["output_type"])
        if "settings" in given:
            changes["settings"] = setup.settings.merged(options.get("settings"))
        if "middleware" in given:
            changes["hooks"] = Hooks(tuple(options.get("middleware") or ()))
        if "planning" in given or "skills" in given:
            changes |= self._equipped(setup, given)
        return replace(setup, **changes) if changes else setup

    def _equipped(self, setup: RunSetup, given: dict[str, Any]) -> dict[str, Any]:
        """Return the tools under the options of a run, and what they are told with."""
        skills, bare = setup.skills, setup.registry.bare
        if "skills" in given:
            base = bare if skills is None else skills.base
            skills = _catalogue(given["skills"], base)
            bare = base if skills is None else skills.registry
        planning = given.get("planning", self.planning)
        return {"skills": skills, **_planned(bare, planning, self.planning)}

    def _resolve(self, model: Model | str | None) -> RunSetup:
        own = ToolRegistry(self.tools)
        skills = _catalogue(self.skills, own)
        registry = own if skills is None else skills.registry
        return RunSetup(
            agent=self.name,
            **_model_fields(model, self.name),
            instructions=self.instructions,
            **_planned(registry, self.planning, self.planning),
            skills=skills,
            output=output_type(self.output_type),
            limits=self.limits,
            on_limit=self.on_limit,
            settings=self.settings,
            hooks=Hooks(tuple(self.middleware)),
            retry=self.retry,
            max_parallel_tools=self.max_parallel_tools,
            approval=self.approval,
            compaction=self.compaction,
        )


REPLACED = ("limits", "instructions", "max_parallel_tools", "approval", "compaction")
SETUP_OPTIONS = frozenset(
    ("model", "output_type", "settings", "middleware", "planning", "skills", *REPLACED)
)
"""The options of a run that are laid over what the agent has."""


def check_delegates(registry: ToolRegistry) -> None:
    """Find out before a run begins whether an agent that it may ask cannot work."""
    background = registry.background
    others = () if background is None else background.agents.values()
    for delegate in (*registry.delegates.values(), *others):
        delegate.definition()


def _model_fields(model: Model | str | None, agent: str) -> dict[str, Any]:
    found = resolve_model(model, agent=agent)
    stream = getattr(found, "stream", None)
    return {
        "model": found,
        "profile": profile_of(found),
        "stream": stream if callable(stream) else None,
    }


def _catalogue(given: Skills, base: ToolRegistry) -> Catalogue | None:
    if isinstance(given, Sequence) and not given:
        return None
    from treadle.skills.catalogue import Catalogue  # noqa: PLC0415 (few agents have skills)

    return Catalogue(given, base)


def _planned(bare: ToolRegistry, planning: Any, own: bool | str) -> dict[str, Any]:
    """Return the tools, and how the agent is told to plan; its own text stands for True."""
    if planning is False:
        return {"registry": bare, "planning": ""}
    told = own if planning is True else planning
    return {"registry": bare.planning, "planning": PLANNING if told in (True, False) else told}
