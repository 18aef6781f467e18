"""Where in the state a graph keeps what is its own."""

from __future__ import annotations

from treadle.state import Scope, State, StateWrite


class Places:
    """The state keys of a graph, by the path of its run.

    Where the run is in another one, they are all below ``within::<path>::``, so that a graph in a
    graph, or one that several calls use at once, has a scope of its own.
    """

    __slots__ = ("_nodes", "_outputs", "current", "graph", "input", "within")

    def __init__(self, path: str = "") -> None:
        self.within = Scope(f"{_within(path)}::" if path else "")
        self.graph = Scope(self.within + Scope.GRAPH)
        self.input = self.graph + "input"
        self.current = self.graph + "current_output"
        self._nodes: dict[str, Scope] = {}
        self._outputs: dict[str, str] = {}

    def node(self, node: str) -> Scope:
        """Return the scope of a node."""
        found = self._nodes.get(node)
        if found is None:
            found = self._nodes[node] = Scope(self.within + Scope.node(node))
        return found

    def output(self, node: str) -> str:
        """Return the key of a node's output."""
        found = self._outputs.get(node)
        if found is None:
            found = self._outputs[node] = self.node(node) + "output"
        return found

    @property
    def all_nodes(self) -> str:
        """What the keys of all nodes begin with."""
        return self.within + "node::"

    def forgotten(self, state: State) -> tuple[StateWrite, ...]:
        """Return what removes all that a graph within another run has kept for itself."""
        if not self.within:
            return ()
        return tuple(StateWrite(key, deleted=True) for key in state.keys(self.within))

    @staticmethod
    def left_behind(state: State, path: str) -> tuple[StateWrite, ...]:
        """Return what removes all that graphs have kept in the run at this path, which failed."""
        begins = _within(path)
        keys = (key for end in ("::", "/") for key in state.keys(begins + end))
        return tuple(StateWrite(key, deleted=True) for key in keys)


def _within(path: str) -> str:
    return "within::" + path.replace("%", "%25").replace(":", "%3A")


OUTERMOST = Places()
"""Those of a graph that is no part of another run."""
