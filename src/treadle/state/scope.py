"""Scopes: the prefixes that divide the one map of state."""

from __future__ import annotations

from typing import ClassVar, Self

from treadle.errors import ConfigError
from treadle.values import clean


class Scope(str):
    """A part of the state, as the prefix that its keys have: ``Scope.SESSION + "token"`` is a key.

    There are five: one for the whole session, one for the graph, one for each agent, one for each
    node, and the global one, which has no prefix. Build them with the names below. A name may hold
    any text: its colons are escaped, so that no two names can share a key. Plans are kept under
    `Scope.PLAN`, which is not for others.
    """

    __slots__ = ()

    GLOBAL: ClassVar[Scope]
    SESSION: ClassVar[Scope]
    GRAPH: ClassVar[Scope]
    PLAN: ClassVar[Scope]

    @classmethod
    def agent(cls, name: str) -> Self:
        """Return what is private to the tools of one agent."""
        return cls(f"agent::{_escaped(name, 'agent')}::")

    @classmethod
    def node(cls, node_id: str) -> Self:
        """Return what belongs to one node of a graph, such as its output."""
        return cls(f"node::{_escaped(node_id, 'node')}::")


Scope.GLOBAL = Scope("")
Scope.SESSION = Scope("session::")
Scope.GRAPH = Scope("graph::")
Scope.PLAN = Scope("plan::")


def _escaped(name: str, what: str) -> str:
    if type(name) is not str or not name or clean(name) is not name:
        raise ConfigError(
            f"{name!r} names no {what} scope; it takes a non-empty text without NUL characters."
        )
    return name.replace("%", "%25").replace(":", "%3A")
