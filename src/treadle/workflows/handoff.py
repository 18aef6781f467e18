"""Handing over: who may to whom, the tools for it, and what goes along."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any, Literal

from treadle.agent.options import RunOptions
from treadle.agent.setup import AgentDelegate, RunSetup
from treadle.agent.startable import Startable
from treadle.control import Handoff
from treadle.errors import ConfigError, DuplicateTool
from treadle.messages import Message, Part, Text
from treadle.state.flat import State, StateWrite
from treadle.state.scoped import Scope
from treadle.tools.names import safe_name
from treadle.tools.registry import ToolRegistry
from treadle.tools.tool import Tool

LIST = "list_available_agents"
Table = Mapping[str, Sequence[str]]
"""Whom each may turn to, by name."""
Promotion = Literal["all"] | Sequence[str]

_MESSAGE: dict[str, Any] = {
    "type": "object",
    "properties": {
        "message": {
            "type": "string",
            "description": "What it has to know: what is asked, what was found out, why it.",
        }
    },
    "additionalProperties": False,
}


class Consulted(AgentDelegate):
    """A member that another one asks; what it is made of, the swarm itself tells."""

    __slots__ = ()

    def definition(self, above: tuple[object, ...] = ()) -> dict[str, str]:  # noqa: ARG002
        """Return nothing more than the swarm does."""
        return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A member of a swarm under the options of a run.

    `base` is what it is by itself, `setup` what it is here. `targets` are those it may hand over
    to, `asks` those it may ask; `signals` are the names of the tools that tell it nothing new.
    """

    name: str
    base: RunSetup
    setup: RunSetup
    targets: tuple[str, ...]
    asks: tuple[str, ...]
    signals: frozenset[str]
    delegate: AgentDelegate


def checked_table(table: Table | None, names: Sequence[str], option: str) -> Table:
    """Return whom each member may turn to: everybody else without a table.

    Raises:
        ConfigError: the table names somebody who is no member, or one for itself.
    """
    if table is None:
        return {name: tuple(other for other in names if other != name) for name in names}
    if not isinstance(table, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigError(f"{option}={table!r:.60}: give a dict of member to list of members.")
    known = ", ".join(map(repr, names))
    for source, targets in table.items():
        if isinstance(targets, str) or not isinstance(targets, Sequence | Set):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigError(f"{option}: give a list for {source!r:.60}, not {targets!r:.60}.")
        for name in (source, *targets):
            if name not in names:
                raise ConfigError(
                    f"{option} names {name!r:.60}, who is no member; there are {known}."
                )
        if source in targets:
            raise ConfigError(f"{option}: {source!r} cannot turn to itself.")
    return {name: tuple(dict.fromkeys(table.get(name, ()))) for name in names}


def team_of(
    swarm: str,
    agents: Sequence[Startable[Any, Any]],
    handoffs: Table,
    consults: Table,
    passes: RunOptions,
) -> dict[str, Member]:
    """Return the members of a swarm by name, each with the tools that it has there.

    Raises:
        ConfigError: a member cannot run, or has a tool of that name itself.
    """
    by_name = {agent.name: agent for agent in agents}
    bases = {agent.name: agent.delegate.resolve(passes) for agent in agents}
    asked: dict[str, RunSetup] = {}

    transfers = {name: _transfer(agent) for name, agent in by_name.items()}
    questions = {name: _consult(agent, asked) for name, agent in by_name.items()}

    def tools_of(name: str, targets: Sequence[str]) -> list[Tool]:
        asks = consults[name]
        if not targets and not asks:
            return []
        found = [*(transfers[each] for each in targets), *(questions[each] for each in asks)]
        return [*found, _listing(by_name, targets, asks)]

    team: dict[str, Member] = {}
    for name, base in bases.items():
        targets = tuple(handoffs[name]) if base.flow is None else ()
        tools = tools_of(name, targets)
        asked[name] = _extended(swarm, base, tools_of(name, ()), ())
        setup = _extended(swarm, base, tools, targets)
        team[name] = Member(
            name=name,
            base=base,
            setup=setup,
            targets=targets,
            asks=tuple(consults[name]) if base.flow is None else (),
            signals=frozenset(safe_name(t.name) for t in tools if t.delegate is None),
            delegate=AgentDelegate(
                name=name,
                resolve=lambda _, setup=setup: setup,
                check_deps=by_name[name].delegate.check_deps,
            ),
        )
    return team


def _extended(
    swarm: str, setup: RunSetup, tools: Sequence[Tool], targets: tuple[str, ...]
) -> RunSetup:
    """Return the setup of a member with these tools; what is made of agents has none itself."""
    if not tools or setup.flow is not None:
        return setup
    registry = setup.registry
    own = [tool for name in registry.names() if (tool := registry.get(name)) is not None]
    try:
        registry = ToolRegistry([*own, *tools])
    except DuplicateTool as error:
        raise DuplicateTool(
            f"Member {setup.agent!r} of swarm {swarm!r} has a tool of its own that is called like "
            f"one of the swarm's. {error}"
        ) from error
    return replace(setup, registry=registry, handoffs=targets)


def _transfer(agent: Startable[Any, Any]) -> Tool:
    name = agent.name

    def transfer(arguments: dict[str, Any]) -> Handoff:
        return Handoff(name, arguments.get("message", ""))

    told = f"Hand the conversation over to {name}, who answers from then on instead of you."
    return Tool.from_schema(
        f"transfer_to_{name}",
        _told(told, agent),
        _MESSAGE,
        transfer,
        timeout=None,
        isolation="inline",
        idempotent=True,
    )


def _consult(agent: Startable[Any, Any], asked: Mapping[str, RunSetup]) -> Tool:
    name = agent.name
    told = f"Ask {name} something and go on with the answer: you stay in charge."
    consulted = Consulted(
        name=name,
        resolve=lambda _: asked[name],
        check_deps=agent.delegate.check_deps,
        once=True,
    )
    return agent.as_tool(f"consult_{name}", _told(told, agent)).replace(delegate=consulted)


def _told(told: str, agent: Startable[Any, Any]) -> str:
    return f"{told} {agent.description}" if agent.description else told


def _listing(
    agents: Mapping[str, Startable[Any, Any]], targets: Iterable[str], asks: Iterable[str]
) -> Tool:
    ways = [(name, "transfer_to_") for name in targets] + [(name, "consult_") for name in asks]
    lines: list[str] = []
    for name in dict.fromkeys(name for name, _ in ways):
        tools = ", ".join(safe_name(f"{way}{name}") for each, way in ways if each == name)
        about = f": {agents[name].description}" if agents[name].description else ""
        lines.append(f"{name} ({tools}){about}")
    text = "\n".join(lines)

    def listed(_: dict[str, Any]) -> str:
        return text

    told = "List the agents that the conversation can be handed over to, or that can be asked."
    return Tool.from_schema(
        LIST, told, None, listed, timeout=None, isolation="inline", idempotent=True
    )


def told_by(source: str, message: str, *said: Message) -> Message:
    """Return what a member is told that takes over: by whom, and what the user had `said`."""
    words = f": {message}" if message else "."
    parts: list[Part] = [Text(f"{source} has handed this conversation over to you{words}")]
    for place, each in enumerate(said):
        parts += [Text("\nThen:\n" if place else "\nThe user said:\n"), *each.parts]
    return Message("user", tuple(parts))


def promote(state: State, member: str, names: Promotion) -> tuple[StateWrite, ...]:
    """Move what is private to a member into the session, all of it or what has these names.

    Returns what was written. The values keep their types; those in the session are written over,
    or merged by the key's reducer.
    """
    scope, writes = Scope.agent(member), list[StateWrite]()
    for key in state.keys(scope):
        name = key.removeprefix(scope)
        if names == "all" or name in names:
            shared = Scope.SESSION + name
            state.put(shared, state.find(key))
            state.delete(key)
            writes += (state.write_of(shared), state.write_of(key))
    return tuple(writes)
