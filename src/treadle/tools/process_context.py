"""The context of a call that runs in another process: it asks the one where the run is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from treadle.errors import ConfigError
from treadle.plan import Plan
from treadle.ports.artefacts import Artefacts
from treadle.ports.context import RunContext, RunFacts
from treadle.state.scope import Scope
from treadle.state.scoped import ScopedState
from treadle.usage import Usage

Ask = Callable[..., Any]
"""Asks the parent: takes what for, then the arguments; returns or raises what came of it there."""

STATE_WORDS = frozenset(
    ("get", "get_local", "__contains__", "set", "delete", "keys", "snapshot", "get_str")
)
CONTEXT_FACTS = ("run_id", "conversation_id", "agent")
CALL_FACTS = ("call_id", "tool", "attempt", "answers")


def facts_of(ctx: RunContext[Any]) -> dict[str, Any]:
    """Return what a worker has to know of a context from the start."""
    facts = {name: getattr(ctx, name) for name in (*CONTEXT_FACTS, *CALL_FACTS)}
    return {**facts, "metadata": dict(ctx.metadata)}


def answer(ctx: RunContext[Any] | None, what: str, arguments: tuple[Any, ...]) -> Any:
    """Do for a worker what it asks of the context: whatever holds in a thread, holds there."""
    if ctx is None:
        raise ConfigError(f"A worker process asked for {what!r} without a context.")
    match what, arguments:
        case "usage", ():
            return ctx.usage
        case "add_usage", (usage,):
            return ctx.add_usage(usage)
        case "advise", (text,):
            return ctx.advise(text)
        case "plan", ():
            return ctx.plan
        case "put_plan", (plan,):
            return ctx.put_plan(plan)
        case "report", (progress,):
            return ctx.report(progress)
        case ("state" | "session" | "root") as view, (str(word), *rest) if word in STATE_WORDS:
            state = ctx.state if view == "state" else getattr(ctx.state, view)
            return getattr(state, word)(*rest)
        case _:
            raise ConfigError(f"A worker process asked for {what!r}, which is not to be had.")


class DistantContext(RunContext[Any]):
    """A run as a call in a worker process sees it: without `deps` and `artefacts`, live objects."""

    __slots__ = ("_ask",)

    def __init__(self, facts: dict[str, Any], ask: Ask) -> None:
        here: Any = None  # the budget and the state are the parent's
        run = {name: facts[name] for name in CONTEXT_FACTS}
        super().__init__(
            RunFacts(
                **run,
                metadata=facts["metadata"],
                deps=None,
                budget=here,
                state=here,
                report=lambda _call, _tool, progress: ask("report", progress),
            )
        )
        for name in CALL_FACTS:
            setattr(self, name, facts[name])
        self._ask = ask

    @property
    def deps(self) -> Any:
        """Raise: they are live objects of another process.

        Raises:
            ConfigError: always.
        """
        raise self._elsewhere("deps")

    @property
    def artefacts(self) -> Artefacts:
        """Raise: they are read in the event loop of the run.

        Raises:
            ConfigError: always.
        """
        raise self._elsewhere("artefacts")

    @property
    def plan(self) -> Plan | None:
        """The agent's plan as it stands."""
        return self._ask("plan")

    def put_plan(self, plan: Plan | None) -> None:
        """Let this be the agent's plan."""
        self._ask("put_plan", plan)

    @property
    def usage(self) -> Usage:
        """What the run has used so far."""
        return self._ask("usage")

    @property
    def state(self) -> ScopedState:
        """The state of the run; each access asks for it."""
        return DistantState(self._ask, "state", Scope.agent(self.agent))

    def add_usage(self, usage: Usage) -> None:
        """Count what this call used itself in the run's usage."""
        self._ask("add_usage", usage)

    def advise(self, text: str) -> None:
        """Tell the model something after the results of this turn."""
        self._ask("advise", text)

    def _elsewhere(self, what: str) -> ConfigError:
        return ConfigError(
            f"ctx.{what} is not to be had in tool {self.tool!r}, which runs in a process of its "
            'own (isolation="process"). Give it what it needs as arguments, state or metadata, or '
            "open it there."
        )


class DistantState(ScopedState):
    """A view of a state that is in another process."""

    __slots__ = ("_ask", "_seen_as")

    def __init__(self, ask: Ask, seen_as: str, scope: Scope) -> None:
        here: Any = None
        super().__init__(here, scope)
        self._ask = ask
        self._seen_as = seen_as

    @property
    def session(self) -> ScopedState:
        """The session's scope."""
        return DistantState(self._ask, "session", Scope.SESSION)

    @property
    def root(self) -> ScopedState:
        """The whole map, by whole keys."""
        return DistantState(self._ask, "root", Scope.GLOBAL)

    def get(self, key: str, default: Any = None) -> Any:
        """Return a copy of the value, as in a thread."""
        value = self._ask(self._seen_as, "get", key, ...)  # nobody can store that one
        return default if value is ... else value

    def get_local(self, key: str, default: Any = None) -> Any:
        """Return a copy of the own value, as in a thread."""
        value = self._ask(self._seen_as, "get_local", key, ...)
        return default if value is ... else value

    def __contains__(self, key: object) -> bool:
        """Whether `get` finds a value, be it None."""
        return self._ask(self._seen_as, "__contains__", key)

    def set(self, key: str, value: object) -> None:
        """Store a copy of the value, as in a thread."""
        self._ask(self._seen_as, "set", key, value)

    def delete(self, key: str) -> None:
        """Remove the own value, as in a thread."""
        self._ask(self._seen_as, "delete", key)

    def keys(self, prefix: str = "") -> list[str]:
        """Return the own keys, as in a thread."""
        return self._ask(self._seen_as, "keys", prefix)

    def snapshot(self) -> dict[str, Any]:
        """Return a copy of the own keys and values."""
        return self._ask(self._seen_as, "snapshot")
