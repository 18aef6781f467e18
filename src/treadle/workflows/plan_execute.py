"""A planner and an executor: a plan is made, its steps are carried out, and answered from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field, fields
from typing import Any

from treadle.agent.agent import Agent
from treadle.agent.flow_setup import FLOW_LIMITS, FOR_ONE, PASSED, flow_setup
from treadle.agent.options import ResumeOptions, RunOptions, check_kind
from treadle.agent.setup import RunSetup
from treadle.agent.startable import Startable
from treadle.errors import ConfigError
from treadle.limits import Limits
from treadle.plan import MOST_STEPS
from treadle.ports.model import Model
from treadle.ports.store import Store
from treadle.state import Reducer, State
from treadle.workflows.plan_flow import PlanFlow, laid_under
from treadle.workflows.plan_result import PlanResult
from treadle.workflows.plan_work import OnFailure, PlanRules

_OVER_AGENTS = (*PASSED, "limits", *FOR_ONE)


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class PlanExecute(Startable[str, PlanResult]):
    """Plans a task, carries out the steps, and answers from what came of them. Immutable.

    ```python
    from treadle import Agent, PlanExecute
    from treadle.testing import ScriptedModel

    plan = '{"goal": "Tea", "steps": [{"id": "boil", "description": "Boil the water."}]}'
    planner = ScriptedModel([plan, "Tea is ready."])
    cook = Agent("cook", model=ScriptedModel(["The water boils."]))
    result = PlanExecute("kitchen", planner=planner, executor=cook).run_sync("Tea, please.")
    print(result.steps[0].output, "-", result.output)
    #> The water boils. - Tea is ready.
    ```

    The `planner` is an agent, or the model of one; without it the executor's model plans. It makes
    a plan of at most `max_steps` steps, is asked again for one that cannot be, and writes the
    answer at the end. The `executor` is an agent, or anything else that can be run; each step is a
    run of its own, which knows the goal, its step, and the results of the steps that it depends on.

    Steps that wait for no other run at the same time, at most `max_parallel_steps` of them. Each
    works on a branch of the state, which is merged when it ends: what it wrote to a key that
    another one has changed meanwhile is a conflict, and a failure of the step, unless `reducers`
    has one for the key.

    The plan changes at most `max_replans` times: when somebody steers the run, and when a step has
    failed, with `on_failure="replan"`. Beyond that messages reach the answer only, and a failed
    step fails the run, as it does with "fail" at once; a resume goes on with that step. With "skip"
    the others go on, and know that it has failed.

    Raises:
        ConfigError: there is nobody to plan, or an option is not of its kind.
    """

    name: str
    _: KW_ONLY
    executor: Startable[Any, Any]
    planner: Agent[Any, Any] | Model | str | None = None
    max_steps: int = 8
    max_replans: int = 2
    max_parallel_steps: int = 3
    on_failure: OnFailure = "replan"
    reducers: Mapping[str, Reducer] | None = None
    limits: Limits = FLOW_LIMITS
    store: Store | None = None
    description: str = ""
    _ready: list[RunSetup] = field(
        default_factory=list[RunSetup], init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        check_kind("name", self.name)
        if not self.name.strip():
            raise ConfigError("A plan and its executor need a name.")
        check_kind("limits", self.limits)
        check_kind("description", self.description)
        State(reducers=self.reducers)
        if self.store is not None:
            check_kind("store", self.store)
        for option, least in (("max_steps", 1), ("max_replans", 0), ("max_parallel_steps", 1)):
            _check_number(option, getattr(self, option), least)
        if self.on_failure not in ("replan", "fail", "skip"):
            raise ConfigError(f"on_failure={self.on_failure!r:.60} is none of replan, fail, skip.")
        self._check_agents()

    def _check_agents(self) -> None:
        executor: object = self.executor
        if not isinstance(executor, Startable):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigError(f"executor={executor!r:.60} cannot be run; agents can.")
        planner: object = self.planner
        if isinstance(planner, Startable) and not isinstance(planner, Agent):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigError(f"planner={planner!r:.60}: give an agent, or the model of one.")
        if planner is None and not isinstance(executor, Agent):
            raise ConfigError(f"{self.name!r} needs a planner=: an agent, or the model of one.")

    def replace(self, **changes: Any) -> PlanExecute:
        """Return a copy with these fields changed."""
        kept = {f.name: getattr(self, f.name) for f in fields(self) if f.init}
        unknown = [name for name in changes if name not in kept]
        if unknown:
            there = ", ".join(kept)
            raise ConfigError(f"PlanExecute has no field {unknown[0]!r}; it has {there}.")
        return PlanExecute(**(kept | changes))

    def _planner(self) -> Agent[Any, Any]:
        if isinstance(self.planner, Agent):
            return self.planner  # pyright: ignore[reportUnknownVariableType] (of any type)
        model = self.planner
        if model is None and isinstance(self.executor, Agent):
            model = self.executor.model  # pyright: ignore[reportUnknownMemberType]
        return Agent("planner", model)

    def _check_deps(self, deps: object) -> None:
        for agent in (self._planner(), self.executor):
            agent.delegate.check_deps(deps)

    def _setup(self, options: RunOptions | ResumeOptions) -> RunSetup:
        """Resolve the agents once; or anew, where options of a run are laid over them."""
        plain = all(options.get(name) is None for name in _OVER_AGENTS)
        if plain and self._ready:
            return self._ready[0]
        given: Any = {name: own for name in PASSED if (own := options.get(name)) is not None}
        rules = PlanRules(
            max_steps=self.max_steps,
            max_replans=self.max_replans,
            max_parallel_steps=self.max_parallel_steps,
            on_failure=self.on_failure,
        )
        flow = PlanFlow(laid_under(self._planner(), given), laid_under(self.executor, given), rules)
        for delegate in flow.delegates.values():
            delegate.definition()
        setup = flow_setup(self.name, flow, options, limits=self.limits, reducers=self.reducers)
        if plain:
            self._ready.append(setup)
        return setup


def _check_number(option: str, given: object, least: int) -> None:
    most = MOST_STEPS if option == "max_steps" else None
    number = given if isinstance(given, int) and not isinstance(given, bool) else -1
    if number >= least and (most is None or number <= most):
        return
    up_to = "on" if most is None else f"to {most}"
    raise ConfigError(f"{option}={given!r:.60}: give a whole number from {least} {up_to}.")
