"""Where plans are kept in the state: one for each agent, and one for each child run."""

from __future__ import annotations

from treadle.plan import Plan, from_plain
from treadle.state.scoped import Scope, State


def plan_owner(agent: str, path: str = "") -> str:
    """Return the key, in the scope of plans, of a child run's, or, without a path, of an agent's.

    Every path has a "#", which is escaped in a name, so that none can be another's.
    """
    return path or agent.replace("%", "%25").replace("/", "%2F").replace("#", "%23")


def has_plan(state: State, agent: str, path: str = "") -> bool:
    """Whether a child run, or, without a path, an agent has one."""
    return Scope.PLAN + plan_owner(agent, path) in state


def read_plan(state: State, agent: str, path: str = "") -> Plan | None:
    """Return the plan of a child run, or, without a path, of an agent; None where it has none.

    Raises:
        PlanInvalid: something else was written where it is kept.
    """
    plain = state.get(Scope.PLAN + plan_owner(agent, path))
    return None if plain is None else from_plain(plain)
