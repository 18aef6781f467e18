"""A small flow: an agent, a function, branches of agents, and an agent that answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from treadle import Agent, RunResult, State
from treadle.agent.ending import Ending
from treadle.agent.flow_setup import FLOW_LIMITS, flow_setup
from treadle.agent.setup import RunSetup, definitions_of
from treadle.agent.stage import Stage
from treadle.agent.startable import Startable
from treadle.agent.steps import StepEnd, paused_together, side_by_side
from treadle.control import AskApproval
from treadle.limits import Limits
from treadle.messages import Message
from treadle.ports.children import ChildPaused, Delegate
from treadle.ports.store import Store
from treadle.state.scoped import Scope, ScopedState


@dataclass(slots=True, kw_only=True)
class RelayResult(RunResult[str]):
    """What a relay came to, with the steps that it took."""

    took: list[str] = field(default_factory=list[str])


@dataclass(frozen=True, slots=True)
class Relay(Startable[str, RelayResult]):
    """Runs `first`, the function, each of `branches` at once, and `last`, which answers."""

    name: str
    first: Agent[Any, str]
    branches: tuple[Agent[Any, str], ...]
    last: Agent[Any, str]
    did: list[str] = field(default_factory=list[str])
    store: Store | None = None
    limits: Limits = FLOW_LIMITS
    asks: bool = False

    def _setup(self, options: Any) -> RunSetup:
        return flow_setup(self.name, _Relaying(self), options, limits=self.limits)


class _Relaying:
    def __init__(self, relay: Relay) -> None:
        self.relay = relay

    @property
    def delegates(self) -> Mapping[str, Delegate]:
        """The agents, by name."""
        agents = (self.relay.first, *self.relay.branches, self.relay.last)
        return {agent.name: agent.delegate for agent in agents}

    def definition(self, above: tuple[object, ...]) -> dict[str, str]:
        """A short hash of each thing of each agent."""
        return definitions_of(self.delegates, above)

    def extras(self, stage: Stage) -> tuple[type[RelayResult], dict[str, Any]]:
        """The steps."""
        return RelayResult, {"took": [ended.step for ended in stage.steps]}

    async def run(self, stage: Stage) -> Ending:
        """Take the steps that are not over."""
        relay, done = self.relay, {ended.step: ended for ended in stage.steps}
        if "first#1" not in done:
            step = stage.begin("first")
            result = await stage.run(step, relay.first.delegate, stage.input)
            stage.end(step, StepEnd(output=result.output))
        if "note#1" not in done:
            await self._note(stage)
        if "all#1" not in done:
            await self._all(stage)
        step = stage.begin("last")
        said = Message.user(" ".join(map(str, stage.state.snapshot().values())))
        result = await stage.run(step, relay.last.delegate, said)
        stage.end(step, StepEnd(output=result.output), adopts=result.messages)
        return Ending(stop_reason="answer", output=result.output)

    async def _note(self, stage: Stage) -> None:
        step = stage.begin("note")
        await stage.call(step, "note")
        ctx = stage.context(step, "note")
        if self.relay.asks and ctx.answer is None:
            raise await stage.ask(step, ctx, AskApproval("May it be noted?"))
        self.relay.did.append(f"{ctx.idempotency_key} {step.attempt}")
        state = ScopedState(stage.state, Scope.node("note"))
        state.set("noted", str(stage.steps[-1].output))
        stage.end(step, StepEnd(writes=state.writes))

    async def _all(self, stage: Stage) -> None:
        (scope,) = await stage.scopes("all", [None])
        scopes = await scope.scopes("branch", [agent.name for agent in self.relay.branches])

        async def one(branch: Stage, agent: Agent[Any, str]) -> str:
            if branch.steps:
                return str(branch.steps[0].output)
            step = branch.begin(agent.name)
            result = await branch.run(step, agent.delegate, Message.user("branch"))
            branch.end(step, StepEnd(output=result.output))
            return result.output

        pairs = zip(scopes, self.relay.branches, strict=True)
        outcomes = await side_by_side(
            [lambda branch=branch, agent=agent: one(branch, agent) for branch, agent in pairs]
        )
        paused: ChildPaused | None = paused_together(outcomes)
        if paused is not None:
            raise paused
        for outcome in outcomes:
            if isinstance(outcome, Exception):
                raise outcome
        merged = State({"session::all": [str(each) for each in outcomes]})
        if scope.step is not None:
            writes = tuple(merged.write_of(key) for key in merged.packed())
            stage.state.apply(writes)
            stage.end(scope.step, StepEnd(writes=writes))
