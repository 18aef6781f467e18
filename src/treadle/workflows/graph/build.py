"""A graph: nodes and edges, as the caller puts them together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, Self, get_args

from treadle.agent.setup import Input, check_kind
from treadle.errors import ConfigError, GraphInvalid
from treadle.limits import Limits
from treadle.ports.runnable import Runnable
from treadle.ports.store import Store
from treadle.state import Reducer, Scope
from treadle.state.typed import TypedView
from treadle.values import clean
from treadle.workflows.graph.check import problems_of
from treadle.workflows.graph.context import GraphView, NodeContext, StateT
from treadle.workflows.graph.drawing import drawn
from treadle.workflows.graph.edges import (
    END,
    START,
    Condition,
    Edge,
    Test,
    check_priority,
    condition,
)
from treadle.workflows.graph.functions import check_function
from treadle.workflows.graph.layout import Layout
from treadle.workflows.graph.nodes import (
    FanOutNode,
    FunctionNode,
    MapNode,
    Node,
    RouterNode,
    RunnableNode,
)

DEFAULT_LIMITS = Limits()


class Graph(Generic[StateT]):
    """Nodes and the edges between them: what runs after what is in your code, not in a model.

    ```python
    from treadle import END, START, Graph, NodeContext


    def shout(ctx: NodeContext) -> str:
        return ctx.input.upper()


    graph = Graph("greeting").add_node("shout", shout)
    graph.add_edge(START, "shout").add_edge("shout", END)
    print(graph.validate())
    #> []
    ```

    A node is an agent, or anything else that can be run, or a function of a `NodeContext`. After a
    node, its edges are tried by priority, the higher first, and in their order of definition; the
    first whose condition holds is taken. A node that fails ends the run, unless an edge is for
    that. Each method returns the graph.

    Args:
        name: What it is called.
        max_steps: How many visits of nodes a run may make, for graphs that go round in circles.
        state: A typed dict, dataclass, model or Struct with the keys of the graph's scope:
            ``ctx.data`` and ``ctx.update(...)`` have its types. ``Graph[MyState]("pipeline")`` says
            the same.
        reducers: For keys that several parallel branches write: ``{"items": add}``. A key without a
            scope is that of the graph, the session, or among the global keys.
        limits: What a whole run may use, that of its nodes included.
        store: Where conversations live, unless a run says so.
        description: What it is for, for agents that have it as a tool.

    Raises:
        ConfigError: an argument is not of its kind.
    """

    def __init__(
        self,
        name: str,
        *,
        max_steps: int = 50,
        state: type[StateT] | None = None,
        reducers: Mapping[str, Reducer] | None = None,
        limits: Limits = DEFAULT_LIMITS,
        store: Store | None = None,
        description: str = "",
    ) -> None:
        check_kind("name", name)
        if not name.strip():
            raise ConfigError("A graph needs a name.")
        check_kind("limits", limits)
        if store is not None:
            check_kind("store", store)
        self.name = name
        self.max_steps = _at_least("max_steps", max_steps, 1)
        self.limits = limits
        self.store = store
        self.description = description
        self._reducers = _own_reducers(reducers)
        self._typed: TypedView[StateT] | None = None if state is None else TypedView(state)
        self._nodes: dict[str, Node] = {}
        self._edges: list[Edge] = []
        self._finishes: list[str] = []
        self._repeated: list[str] = []
        self._layout: Layout | None = None

    def add_node(
        self,
        id: str,
        work: Runnable | Callable[[NodeContext[StateT]], object],
        *,
        input: Callable[[GraphView[StateT]], Input] | None = None,
        retries: int = 0,
        timeout: float | None = None,
    ) -> Self:
        """Add an agent, anything else that can be run, or a function of a `NodeContext`.

        Args:
            id: What it is called here: any text but START and END.
            work: What it does. What a function returns, or awaits, is the node's output; after None
                the newest output stays what it was.
            input: What an agent is told: text, parts, or a list of both. By default it is the
                newest output of a node, and for the first what the graph was given.
            retries: How often it is tried again when it fails.
            timeout: Seconds for one try.

        Raises:
            GraphInvalid: the ID cannot be one.
            ConfigError: an argument is not of its kind.
        """
        _check_id(id)
        _at_least("retries", retries, 0)
        _check_timeout(timeout)
        if isinstance(work, Runnable) and not isinstance(work, type):
            if input is not None:
                check_function(input, f"input= of node {id!r}", takes="the view")
            node = RunnableNode(id=id, work=work, input=input, retries=retries, timeout=timeout)
            return self._add(node)
        function = check_function(
            work,
            f"The work of node {id!r}, if nothing that can be run (an agent, a swarm, a graph),",
            takes="a NodeContext",
            can_wait=True,
        )
        if input is not None:
            raise ConfigError(
                f"Node {id!r} has input= and is a function, which reads what it needs from its "
                "context; leave it out."
            )
        return self._add(FunctionNode(id=id, work=function, retries=retries, timeout=timeout))

    def add_router(
        self, id: str, routes: Mapping[str, Test], *, default: str | None = None
    ) -> Self:
        """Add a node that goes to the first target whose predicate is true, else to `default`.

        Its output is the chosen node; what the next one is told stays what it was.

        Raises:
            GraphInvalid: the ID cannot be one.
            ConfigError: an argument is not of its kind, or there is nowhere to go.
        """
        _check_id(id)
        if not isinstance(routes, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] untyped callers
            raise ConfigError(
                f"The routes of router {id!r} are a dict of predicates, not {routes!r:.60}."
            )
        if not routes and default is None:
            raise ConfigError(f"Router {id!r} has nowhere to go: give it routes, or a default=.")
        for target, test in routes.items():
            _check_name(target, f"A target of router {id!r}")
            check_function(test, f"The predicate of {id!r} for {target!r}", takes="the view")
        if default is not None:
            _check_name(default, f"default= of router {id!r}")
        return self._add(RouterNode(id=id, routes=tuple(routes.items()), default=default))

    def add_fan_out(
        self,
        id: str,
        branches: Iterable[str],
        *,
        join: str,
        choose: Callable[[GraphView[StateT]], Iterable[str]] | None = None,
        all_required: bool = False,
        limit: int | None = None,
    ) -> Self:
        """Add a node that opens parallel branches, and goes on at `join` when all are done.

        A branch begins at one of the nodes `branches` and follows edges, until the join, a node
        that no edge leads on from, or END. It works on a state of its own; what it wrote is merged
        at the join, in the order of `branches`. The node's output is a dict of the newest output of
        each branch, by first node.

        Args:
            id: What it is called.
            branches: The first node of each branch.
            join: Where the walk goes on; may be END.
            choose: Names those of the branches that are opened this time; the join waits for these.
            all_required: Makes it an error to choose less than all.
            limit: How many branches run at a time; None for all.

        Raises:
            GraphInvalid: the ID cannot be one.
            ConfigError: an argument is not of its kind.
        """
        _check_id(id)
        if isinstance(branches, str) or not isinstance(branches, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance] untyped callers
            raise ConfigError(
                f"The branches of fan-out {id!r} are a list of nodes, not {branches!r:.60}."
            )
        first = tuple(branches)
        if not first:
            raise ConfigError(f"Fan-out {id!r} has no branches; name the first node of each.")
        for name in (*first, join):
            _check_name(name, f"A branch, or the join, of fan-out {id!r}")
        if len(set(first)) < len(first):
            twice = next(name for name in first if first.count(name) > 1)
            raise ConfigError(f"Fan-out {id!r} has two branches that begin with {twice!r}.")
        if choose is not None:
            check_function(choose, f"choose= of fan-out {id!r}", takes="the view")
        return self._add(
            FanOutNode(
                id=id,
                first=first,
                join=join,
                choose=choose,
                all_required=all_required,
                limit=None if limit is None else _at_least("limit", limit, 1),
            )
        )

    def add_map(
        self,
        id: str,
        *,
        over: Callable[[GraphView[StateT]], Iterable[object]],
        node: str,
        join: str,
        limit: int | None = None,
    ) -> Self:
        """Add a node that opens a parallel branch for each item, and goes on at `join`.

        Each branch begins at `node`; its functions find the item as ``s.item``, and an agent is
        told the item. The node's output is the list of the newest output of each branch, in the
        order of the items.

        Args:
            id: What it is called.
            over: Returns the items: values that can be stored.
            node: The first node of each branch.
            join: Where the walk goes on; may be END.
            limit: How many branches run at a time; None for all.

        Raises:
            GraphInvalid: the ID cannot be one.
            ConfigError: an argument is not of its kind.
        """
        _check_id(id)
        check_function(over, f"over= of map {id!r}", takes="the view")
        for name in (node, join):
            _check_name(name, f"The node, or the join, of map {id!r}")
        most = None if limit is None else _at_least("limit", limit, 1)
        return self._add(MapNode(id=id, over=over, node=node, join=join, limit=most))

    def add_edge(
        self,
        source: str,
        target: str | None = None,
        *,
        to: Callable[[GraphView[StateT]], str] | None = None,
        targets: Iterable[str] | None = None,
        when: Condition | Callable[[GraphView[StateT]], object] | None = None,
        priority: int = 0,
    ) -> Self:
        """Add a way from a node to another, or to the one that `to` names.

        Args:
            source: Where it begins; START for the beginning of a run.
            target: Where it leads; END for the end of a run.
            to: Names the node where it leads, instead of `target`.
            targets: The nodes that `to` may name; without them it may name any.
            when: `ON_SUCCESS`, `ON_FAILURE`, `ON_TOOL_CALL`, a predicate, or several with ``|`` and
                ``&``. Without a condition it is taken, unless the node failed.
            priority: The higher is tried first; equal ones in their order of definition.

        Raises:
            GraphInvalid: it begins at END or leads to START.
            ConfigError: an argument is not of its kind.
        """
        _check_name(source, "The source of an edge")
        if source == END or target == START:
            raise GraphInvalid(f"An edge cannot begin at END, nor lead to START: {source!r}.")
        if (target is None) == (to is None):
            raise ConfigError(
                f"The edge from {source!r} takes a target, or to=function, and not both."
            )
        if target is not None:
            _check_name(target, f"The target of the edge from {source!r}")
        if to is not None:
            check_function(to, f"to= of the edge from {source!r}", takes="the view")
        edge = Edge(
            source=source,
            target=target,
            to=to,
            targets=_own_targets(source, targets, dynamic=to is not None),
            when=None if when is None else condition(when),
            priority=check_priority(priority),
            place=len(self._edges),
        )
        self._edges.append(edge)
        self._layout = None
        return self

    def set_entry(self, node: str) -> Self:
        """Begin with this node, as ``add_edge(START, node)`` does.

        Raises:
            GraphInvalid: there is an entry already.
        """
        if any(edge.source == START for edge in self._edges):
            raise GraphInvalid(
                f"There is an entry already, so {node!r} cannot be another; for several, use "
                "add_edge(START, ..., when=...)."
            )
        return self.add_edge(START, node)

    def set_finish(self, *nodes: str) -> Self:
        """End after one of these nodes, when it succeeded and none of its edges is taken.

        Raises:
            ConfigError: no node is named.
        """
        if not nodes:
            raise ConfigError("set_finish(...) takes at least one node.")
        for node in nodes:
            _check_name(node, "A finish")
        self._finishes += nodes
        self._layout = None
        return self

    def validate(self) -> list[str]:
        """Return everything that keeps the graph from running, in words; none if it can run."""
        return problems_of(self.layout, self._repeated)

    def to_mermaid(self) -> str:
        """Return the graph as a Mermaid flowchart, which Markdown viewers draw."""
        return drawn(self.layout)

    @property
    def layout(self) -> Layout:
        """The graph as it stands: what is added later does not change it."""
        if self._layout is None:
            self._layout = Layout(self._nodes, self._edges, self._finishes)
        return self._layout

    @property
    def typed(self) -> TypedView[StateT] | None:
        """How the graph's scope is read as its `state` class; None without one."""
        if self._typed is None:
            of: tuple[Any, ...] = get_args(getattr(self, "__orig_class__", None))
            if of and of[0] is not Any and isinstance(of[0], type):
                self._typed = TypedView(of[0])
        return self._typed

    @property
    def reducers(self) -> dict[str, Reducer]:
        """What merges the writes of parallel branches, by whole keys."""
        typed = self.typed
        return (typed.reducers_in(Scope.GRAPH) if typed is not None else {}) | self._reducers

    def __repr__(self) -> str:
        """Show the name and how large it is."""
        return f"Graph({self.name!r}, {len(self._nodes)} nodes, {len(self._edges)} edges)"

    def check(self) -> None:
        """Refuse a graph that cannot run.

        Raises:
            GraphInvalid: with all that is wrong.
        """
        problems = self.validate()
        if problems:
            told = "".join(f"\n- {problem}" for problem in problems)
            raise GraphInvalid(f"Graph {self.name!r} cannot run:{told}", problems=problems)

    def _add(self, node: Node) -> Self:
        if node.id in self._nodes:
            self._repeated.append(node.id)
        else:
            self._nodes[node.id] = node
        self._layout = None
        return self


def _check_id(node: str) -> None:
    _check_name(node, "A node's ID")
    if node in (START, END):
        raise GraphInvalid(f"A node cannot be called {node!r}: START and END are reserved.")


def _check_name(name: object, what: str) -> None:
    if type(name) is not str or not name or clean(name) is not name:
        raise GraphInvalid(
            f"{what} is a non-empty text without NUL characters and lone surrogates, "
            f"not {name!r:.60}."
        )


def _at_least(name: str, value: object, least: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ConfigError(f"{name}={value!r:.60}: give a whole number from {least} on.")
    return value


def _check_timeout(timeout: object) -> None:
    number = isinstance(timeout, int | float) and not isinstance(timeout, bool)
    if timeout is not None and not (number and 0 < timeout < float("inf")):  # pyright: ignore[reportOperatorIssue] it is a number then
        raise ConfigError(f"timeout={timeout!r:.60}: give seconds above 0, or leave it out.")


def _own_targets(
    source: str, targets: Iterable[str] | None, *, dynamic: bool
) -> tuple[str, ...] | None:
    if targets is None:
        return None
    if not dynamic:
        raise ConfigError(f"The edge from {source!r} has targets= and no to= that could name them.")
    if isinstance(targets, str) or not isinstance(targets, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance] untyped callers
        raise ConfigError(f"targets= of the edge from {source!r} is a list, not {targets!r:.60}.")
    found = tuple(targets)
    if not found:
        raise ConfigError(f"targets= of the edge from {source!r} is empty; leave it out.")
    for name in found:
        _check_name(name, f"A target of the edge from {source!r}")
    return found


def _own_reducers(reducers: Mapping[str, Reducer] | None) -> dict[str, Reducer]:
    """Return them by whole keys."""
    found: dict[str, Reducer] = {}
    if reducers is not None and not isinstance(reducers, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] untyped callers
        raise ConfigError(f"reducers={reducers!r:.60}: give a dict of functions by key.")
    for key, reducer in (reducers or {}).items():
        _check_name(key, "A key of reducers=")
        if not callable(reducer):
            raise ConfigError(f"The reducer of state key {key!r} is not callable: {reducer!r:.60}.")
        scopes = (Scope.GLOBAL,) if "::" in key else (Scope.GRAPH, Scope.SESSION, Scope.GLOBAL)
        found |= {scope + key: reducer for scope in scopes}
    return found
