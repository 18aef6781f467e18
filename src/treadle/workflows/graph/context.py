"""What the functions of a graph see of its run, and what those of nodes may change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from typing import TYPE_CHECKING, Any, Generic

from msgspec import Struct

from treadle.errors import ConfigError
from treadle.ports.context import RunFacts
from treadle.state import Scope, ScopedState, State, StateWrite
from treadle.state.scoped import WriteLog
from treadle.state.typed import TypedView
from treadle.tools.names import nearest
from treadle.usage import NOTHING, Usage
from treadle.workflows.graph.places import OUTERMOST, Places

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    StateT = TypeVar("StateT", default=Any)
else:
    from typing import TypeVar

    StateT = TypeVar("StateT")

MISSING: Any = object()


class NodeOutcome(Struct, frozen=True, omit_defaults=True):
    """How a node ended the last time it ran; `chosen` is where a router goes.

    `visits` counts how often it has ended.
    """

    ok: bool = True
    tool_called: bool = False
    error: str = ""
    chosen: str = ""
    visits: int = 1


class WalkFacts:
    """What one walk through a graph has come to: of the run, or of one parallel branch.

    `nodes` are the IDs of all nodes. `item` is what a map gave the branch.
    """

    __slots__ = ("item", "nodes", "outcomes", "places", "run", "state", "typed")

    def __init__(
        self,
        run: RunFacts,
        nodes: Set[str],
        state: State,
        *,
        outcomes: dict[str, NodeOutcome] | None = None,
        typed: TypedView[Any] | None = None,
        item: Any = MISSING,
        places: Places = OUTERMOST,
    ) -> None:
        self.run = run
        self.nodes = nodes
        self.state = state
        self.outcomes: dict[str, NodeOutcome] = {} if outcomes is None else outcomes
        self.typed = typed
        self.item = item
        self.places = places

    def within(self, state: State) -> WalkFacts:
        """Return the same with another state, for one try of a node."""
        return WalkFacts(
            self.run,
            self.nodes,
            state,
            outcomes=self.outcomes,
            typed=self.typed,
            item=self.item,
            places=self.places,
        )


class Outputs(Mapping[str, Any]):
    """The outputs of the nodes that have one, by node."""

    __slots__ = ("_facts",)

    def __init__(self, facts: WalkFacts) -> None:
        self._facts = facts

    def __getitem__(self, node: str) -> Any:
        """Return a copy of the output."""
        if node not in self:
            raise KeyError(node)
        return self._facts.state.get(self._facts.places.output(node))

    def __contains__(self, node: object) -> bool:
        """Whether the node has an output."""
        if not isinstance(node, str) or node not in self._facts.nodes:
            return False
        return self._facts.places.output(node) in self._facts.state

    def __iter__(self) -> Iterator[str]:
        """Yield the nodes, oldest output first."""
        places = self._facts.places
        ids = {places.output(node): node for node in self._facts.nodes}
        return (ids[key] for key in self._facts.state.keys(places.all_nodes) if key in ids)

    def __len__(self) -> int:
        """Count them."""
        return sum(1 for _ in self)


class GraphView(Generic[StateT]):
    """A graph's run as predicates, inputs and other functions between the nodes see it: to read.

    ``s["topic"]`` and ``s.get("topic")`` find a key of the graph's scope, else the session's, else
    a global one; never what is private to an agent.
    """

    __slots__ = ("_facts",)

    def __init__(self, facts: WalkFacts) -> None:
        self._facts = facts

    @property
    def input(self) -> Any:
        """What the graph was given to begin with."""
        return self._facts.state.get(self._facts.places.input)

    @property
    def current_output(self) -> Any:
        """The newest output of a node; the graph's input before there is one."""
        state, key = self._facts.state, self._facts.places.current
        return state.get(key) if key in state else self.input

    @property
    def item(self) -> Any:
        """What this branch of a map works on.

        Raises:
            ConfigError: this is no branch of a map.
        """
        if self._facts.item is MISSING:
            raise ConfigError("There is no item here: only the branches of add_map(...) have one.")
        return self._facts.item

    @property
    def outputs(self) -> Mapping[str, Any]:
        """The outputs of the nodes that have one, by node."""
        return Outputs(self._facts)

    @property
    def values(self) -> StateT:
        """What the graph's scope holds, as an object of the graph's `state` class: a copy.

        Raises:
            ConfigError: the graph has no `state` class.
            StateInvalid: a key is absent that has no default, or its value is not of its type.
        """
        return self._typed("values").read(self._facts.state, self._facts.places.graph)

    @property
    def deps(self) -> Any:
        """What the caller passed as `deps=`: live objects, never stored."""
        return self._facts.run.deps

    @property
    def metadata(self) -> Mapping[str, Any]:
        """What the caller passed as `metadata=`: JSON values, stored with the run."""
        return self._facts.run.metadata

    @property
    def run_id(self) -> str:
        """The run's ID."""
        return self._facts.run.run_id

    @property
    def conversation_id(self) -> str:
        """The conversation's ID."""
        return self._facts.run.conversation_id

    def output(self, node: str) -> Any:
        """Return a copy of what the node gave when it ran last; None if it failed, or did not run.

        Raises:
            ConfigError: the graph has no such node.
        """
        return self._facts.state.get(self._facts.places.output(self._known(node)))

    def success(self, node: str) -> bool:
        """Whether the node has run, and succeeded the last time.

        Raises:
            ConfigError: the graph has no such node.
        """
        outcome = self._facts.outcomes.get(self._known(node))
        return outcome is not None and outcome.ok

    def tool_called(self, node: str) -> bool:
        """Whether the node called a tool the last time it ran.

        Raises:
            ConfigError: the graph has no such node.
        """
        outcome = self._facts.outcomes.get(self._known(node))
        return outcome is not None and outcome.tool_called

    def error(self, node: str) -> str:
        """Return why the node failed the last time it ran; "" if it did not.

        Raises:
            ConfigError: the graph has no such node.
        """
        outcome = self._facts.outcomes.get(self._known(node))
        return "" if outcome is None else outcome.error

    def visits(self, node: str) -> int:
        """Return how often the node has ended in this walk, for loops that count.

        Raises:
            ConfigError: the graph has no such node.
        """
        outcome = self._facts.outcomes.get(self._known(node))
        return 0 if outcome is None else outcome.visits

    def get(self, key: str, default: Any = None) -> Any:
        """Return a copy of the value: the graph's, else the session's, else the global one."""
        full = self._place(key)
        return default if full is None else self._facts.state.get(full)

    def __getitem__(self, key: str) -> Any:
        """Return what `get` finds.

        Raises:
            KeyError: it finds nothing.
        """
        full = self._place(key)
        if full is None:
            raise KeyError(f"No state key {key!r} in the graph, the session, or among global keys.")
        return self._facts.state.get(full)

    def __contains__(self, key: object) -> bool:
        """Whether `get` finds a value, be it None."""
        return isinstance(key, str) and self._place(key) is not None

    __iter__ = None
    """A view is no sequence of keys."""

    def _place(self, key: str) -> str | None:
        state = self._facts.state
        own = self._facts.places.graph + key
        if own in state:
            return own
        found = next((each for each in (_SESSION + key, key) if each in state), None)
        return None if found is not None and found.startswith("agent::") else found

    def _known(self, node: str) -> str:
        if node in self._facts.nodes:
            return node
        known = ", ".join(nearest(str(node), sorted(self._facts.nodes))[:5])
        raise ConfigError(f"The graph has no node {node!r}; nearest first, it has {known}.")

    def _typed(self, what: str) -> TypedView[StateT]:
        if self._facts.typed is None:
            raise ConfigError(
                f"There is no typed state to have {what!r} of: build it as Graph(..., state=Class)."
            )
        return self._facts.typed


class NodeContext(GraphView[StateT]):
    """The run as one function node sees it: what a `GraphView` has, and what it may change.

    Its `state` is the node's own scope, `graph` that of the graph, `session` the session's: writes
    are stored with the node's end, all or none. `attempt` counts the tries from 1; `answers` are
    what a node that raised `AskApproval` has been told, the oldest first.

    ```python
    from treadle import NodeContext


    def count_words(ctx: NodeContext) -> int:
        ctx.graph.set("checked", True)
        return len(ctx.output("fetch").split())
    ```
    """

    __slots__ = ("_added", "_log", "answers", "attempt", "cancelled", "node", "step")

    def __init__(
        self,
        facts: WalkFacts,
        *,
        node: str,
        step: str,
        attempt: int = 1,
        answers: tuple[dict[str, Any], ...] = (),
    ) -> None:
        self._facts = facts
        self.answers = answers
        self.node = node
        self.step = step
        self.attempt = attempt
        self.cancelled = False
        self._added: Usage = NOTHING
        self._log = WriteLog()

    @property
    def state(self) -> ScopedState:
        """The state, seen from the node's own scope."""
        return self._scope(self._facts.places.node(self.node))

    @property
    def graph(self) -> ScopedState:
        """The graph's scope: its writes count as this node's."""
        return self._scope(self._facts.places.graph)

    @property
    def session(self) -> ScopedState:
        """The session's scope: its writes count as this node's."""
        return self._scope(Scope.SESSION)

    @property
    def answer(self) -> dict[str, Any] | None:
        """The newest answer, {} for a plain yes; None when the node has not asked anything yet."""
        return self.answers[-1] if self.answers else None

    @property
    def writes(self) -> tuple[StateWrite, ...]:
        """What was written to the state through this context."""
        return self.state.writes

    @property
    def usage(self) -> Usage:
        """What the run has used so far."""
        return self._facts.run.budget.usage

    @property
    def idempotency_key(self) -> str:
        """A key for this very visit of the node, the same however often it is tried."""
        return f"{self._facts.run.run_id}:{self.step}"

    @property
    def added_usage(self) -> Usage:
        """What was added with `add_usage`."""
        return self._added

    def update(self, **changes: object) -> None:
        """Set fields of the graph's typed state, each checked against its type; none if one fails.

        Raises:
            ConfigError: the graph has no `state` class.
            StateInvalid: there is no such field, or the value is not of its type.
            NotStorable: a value cannot be stored.
        """
        checked = self._typed("update").changes(**changes)
        trial = State()
        for name, value in checked.items():
            trial.set(name, value)
        for name, value in checked.items():
            self.graph.set(name, value)

    def add_usage(self, usage: Usage) -> None:
        """Count what the node used itself (a model it asked, for example) in the run's usage."""
        self._added = self._added + usage

    def report(self, progress: Any) -> None:
        """Tell watchers how far the node is: any JSON value. Also from a worker thread."""
        self._facts.run.report(self.step, self.node, progress)

    def close(self) -> None:
        """The node has ended: a thread that still runs must not change the state any more."""
        self.cancelled = True
        self._log.closed = True

    def _scope(self, scope: Scope) -> ScopedState:
        return ScopedState(self._facts.state, scope, owner=self.step, log=self._log)


_SESSION = str(Scope.SESSION)
