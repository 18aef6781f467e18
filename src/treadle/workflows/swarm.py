"""A swarm: agents that hand a conversation over to each other, until one answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import KW_ONLY, dataclass, field, fields
from typing import Any, Generic, Literal

from treadle.agent.flow_setup import FLOW_LIMITS, FOR_ONE, PASSED, flow_setup, passed
from treadle.agent.options import ResumeOptions, RunOptions, check_kind
from treadle.agent.result import OutputT
from treadle.agent.setup import RunSetup
from treadle.agent.startable import Startable, subscriptable
from treadle.errors import ConfigError
from treadle.limits import Limits
from treadle.messages import Message
from treadle.ports.store import Store
from treadle.tools.tool import is_async_callable
from treadle.workflows.handoff import Promotion, Table, checked_table, team_of
from treadle.workflows.swarm_result import SwarmResult
from treadle.workflows.swarming import Rules, Swarming

History = Literal["fresh", "full"] | Callable[[Sequence[Message]], Sequence[Message]]
_OVER_TEAM = (*PASSED, "limits", *FOR_ONE)


@subscriptable
@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class Swarm(Startable[OutputT, SwarmResult[OutputT]], Generic[OutputT]):
    """Agents that hand a conversation over to each other, until one answers. Immutable.

    ```python
    from treadle import Agent, Swarm
    from treadle.testing import ScriptedModel, calls

    asks = calls(("c1", "transfer_to_billing", {"message": "INV-1 was charged twice."}))
    triage = Agent("triage", model=ScriptedModel([asks]))
    billing = Agent("billing", model=ScriptedModel(["It is paid back."]))
    swarm = Swarm("support", agents=[triage, billing])
    result = swarm.run_sync("I paid twice.")
    print(result.handoff_chain, result.output)
    #> ['triage', 'billing'] It is paid back.
    ```

    `agents` are the members, in order; `entry` is who begins, the first one unless it is named.
    Whatever can be run may be a member; one that is no agent answers, and hands over to nobody.

    `handoffs` says who may hand over to whom; without it everyone to everyone, and a member that is
    not in it to nobody. `consults` says who may ask whom and go on; without it, whom they may hand
    over to. After `max_handoffs` the next one ends the run, or fails it with `on_limit="error"`.

    A member that takes over begins with one message: what it was told, and what the user said. With
    `history="full"` it goes on with the messages of the one before; a function makes of those the
    messages that come before what it was told. `promote` names the state that moves from the
    member's own scope into the session when it hands over.

    The next run of a conversation begins with who answered last, and with those messages; with
    `start_at="entry"` with the entry.

    Raises:
        ConfigError: there is no member, two have one name, or an option names none.
    """

    name: str
    _: KW_ONLY
    agents: Sequence[Startable[OutputT, Any]]
    entry: str | None = None
    handoffs: Table | None = None
    consults: Table | None = None
    max_handoffs: int = 10
    on_limit: Literal["stop", "error"] = "stop"
    promote: Promotion = "all"
    history: History = "fresh"
    start_at: Literal["last", "entry"] = "last"
    limits: Limits = FLOW_LIMITS
    store: Store | None = None
    description: str = ""
    _ready: list[RunSetup] = field(
        default_factory=list[RunSetup], init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        check_kind("name", self.name)
        if not self.name.strip():
            raise ConfigError("A swarm needs a name.")
        check_kind("limits", self.limits)
        check_kind("description", self.description)
        if self.store is not None:
            check_kind("store", self.store)
        object.__setattr__(self, "agents", _members(self.name, self.agents))
        names = [agent.name for agent in self.agents]
        if self.entry is not None and self.entry not in names:
            raise ConfigError(
                f"entry={self.entry!r:.60} is no member of swarm {self.name!r}; there are {names}."
            )
        given = self.handoffs
        object.__setattr__(self, "handoffs", checked_table(given, names, "handoffs"))
        asked = given if self.consults is None else self.consults
        object.__setattr__(self, "consults", checked_table(asked, names, "consults"))
        self._check_options()

    def _check_options(self) -> None:
        most = self.max_handoffs
        if type(most) is not int or most < 1:
            raise ConfigError(f"max_handoffs={most!r:.60}: give a number from 1 on.")
        for option, value, allowed in (
            ("on_limit", self.on_limit, ("stop", "error")),
            ("start_at", self.start_at, ("last", "entry")),
        ):
            if value not in allowed:
                raise ConfigError(f"{option}={value!r:.60} is none of {allowed}.")
        if self.history not in ("fresh", "full") and not callable(self.history):
            raise ConfigError(
                f"history={self.history!r:.60} is none of 'fresh', 'full', and no function."
            )
        if callable(self.history) and is_async_callable(self.history):
            raise ConfigError(f"history={self.history!r:.60} is async; give a plain function.")
        if self.promote != "all" and not _lists_names(self.promote):
            raise ConfigError(f"promote={self.promote!r:.60}: give 'all', or a list of names.")

    def replace(self, **changes: Any) -> Swarm[OutputT]:
        """Return a copy with these fields changed."""
        kept = {f.name: getattr(self, f.name) for f in fields(self) if f.init}
        unknown = [name for name in changes if name not in kept]
        if unknown:
            raise ConfigError(f"A swarm has no field {unknown[0]!r}; it has {', '.join(kept)}.")
        return Swarm(**(kept | changes))

    def _check_deps(self, deps: object) -> None:
        for agent in self.agents:
            agent.delegate.check_deps(deps)

    def _setup(self, options: RunOptions | ResumeOptions) -> RunSetup:
        """Resolve the members once; or anew, where options of a run are laid over them."""
        plain = all(options.get(name) is None for name in _OVER_TEAM)
        if plain and self._ready:
            return self._ready[0]
        handoffs, consults = dict(self.handoffs or {}), dict(self.consults or {})
        team = team_of(self.name, self.agents, handoffs, consults, passed(options))
        rules = Rules(
            entry=self.entry or self.agents[0].name,
            starts_at_last=self.start_at == "last",
            most=self.max_handoffs,
            fails=self.on_limit == "error",
            promotes=self.promote,
            history=self.history,
        )
        setup = flow_setup(self.name, Swarming(team, rules), options, limits=self.limits)
        if plain:
            self._ready.append(setup)
        return setup


def _lists_names(given: object) -> bool:
    """Whether it is a collection of texts that can be looked at more than once."""
    if isinstance(given, str) or not isinstance(given, Sequence | Set):
        return False
    return all(isinstance(name, str) for name in given)  # pyright: ignore[reportUnknownVariableType]


def _members(swarm: str, given: object) -> tuple[Startable[Any, Any], ...]:
    """Return the members in their order.

    Raises:
        ConfigError: there is none, one cannot be run, or two have one name.
    """
    if isinstance(given, Mapping | set | frozenset) or not isinstance(given, Sequence):
        raise ConfigError(f"agents={given!r:.60}: give a list of agents; the first begins.")
    agents: list[Startable[Any, Any]] = []
    for agent in given:  # pyright: ignore[reportUnknownVariableType]
        if not isinstance(agent, Startable):
            raise ConfigError(f"{agent!r:.60} cannot be a member of swarm {swarm!r}; agents can.")
        agents.append(agent)  # pyright: ignore[reportUnknownArgumentType]
    if not agents:
        raise ConfigError(f"Swarm {swarm!r} needs a member.")
    names = [agent.name for agent in agents]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ConfigError(f"Swarm {swarm!r} has two members {twice!r}; rename one.")
    return tuple(agents)
