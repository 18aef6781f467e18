"""A graph: agents and functions in an order that the caller sets."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from typing import Any, TypeVar, get_args, get_origin

from treadle.agent.flow_setup import FLOW_LIMITS, flow_setup
from treadle.agent.options import ResumeOptions, RunOptions, check_kind
from treadle.agent.setup import RunSetup
from treadle.agent.startable import Startable
from treadle.errors import ConfigError, GraphInvalid
from treadle.limits import Limits
from treadle.ports.store import Store
from treadle.state import Reducer, Scope
from treadle.state.typed import TypedView
from treadle.workflows.graph.context import StateT
from treadle.workflows.graph.execute import GraphFlow
from treadle.workflows.graph.layout import Layout, told
from treadle.workflows.graph.making import at_least, check_name, own_reducers
from treadle.workflows.graph.result import GraphResult
from treadle.workflows.graph.wiring import Wiring


class Graph(Wiring[StateT], Startable[Any, GraphResult[Any]]):
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
            ``ctx.values`` and ``ctx.update(...)`` have its types. ``Graph[MyState]("g")`` says the
            same.
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
        limits: Limits = FLOW_LIMITS,
        store: Store | None = None,
        description: str = "",
    ) -> None:
        super().__init__()
        check_kind("name", name)
        if not name.strip():
            raise ConfigError("A graph needs a name.")
        check_kind("limits", limits)
        check_kind("description", description)
        if store is not None:
            check_kind("store", store)
        self.name = name
        self.max_steps = at_least("max_steps", max_steps, 1)
        self.limits = limits
        self.store = store
        self.description = description
        self._reducers = own_reducers(reducers)
        self._start_at = ""
        self._ready: list[tuple[Layout, RunSetup]] = []
        self._flow: GraphFlow | None = None
        self._typed: TypedView[StateT] | None = None if state is None else TypedView(state)

    @property
    def typed(self) -> TypedView[StateT] | None:
        """How the graph's scope is read as its `state` class; None without one."""
        if self._typed is None:
            kind: Any = self._state_class()
            if kind is not Any and not isinstance(kind, TypeVar):
                self._typed = TypedView(kind)
        return self._typed

    def _state_class(self) -> object:
        """Return what stands in the brackets, those of a class made of this one included."""
        bases = (base for each in type(self).__mro__ for base in vars(each).get(_BASES, ()))
        for written in (getattr(self, "__orig_class__", None), *bases):
            origin = get_origin(written)
            if isinstance(origin, type) and issubclass(origin, Graph):
                return get_args(written)[0]
        return Any

    @property
    def reducers(self) -> dict[str, Reducer]:
        """What merges the writes of parallel branches, by whole keys."""
        typed = self.typed
        return (typed.reducers_in(Scope.GRAPH) if typed is not None else {}) | self._reducers

    def at(self, node: str) -> Graph[StateT]:
        """Return the graph as it stands, to begin at another node: to go back in time.

        Its run keeps what is in the state of its conversation, the outputs of nodes included, and
        without an input also what the graph was asked.

        Raises:
            GraphInvalid: there is no such node, or it is in a parallel branch.
        """
        check_name(node, "The node to begin at")
        if node not in self.layout.nodes:
            known = ", ".join(map(repr, self.layout.nodes))
            raise GraphInvalid(f"There is no node {node!r} to begin at; there are {known}.")
        home = self.layout.homes.get(node)
        if home:
            raise GraphInvalid(
                f"A run cannot begin at node {node!r}, which is {told(home)}; begin it at "
                f"{home[0][0]!r}."
            )
        found = copy(self)
        found._begin_at(node)  # noqa: SLF001 a copy of this very graph
        return found

    def _begin_at(self, node: str) -> None:
        self._ready, self._flow, self._start_at = [], None, node
        self._nodes, self._edges = dict(self._nodes), list(self._edges)
        self._finishes, self._repeated = list(self._finishes), list(self._repeated)

    def _setup(self, options: RunOptions | ResumeOptions) -> RunSetup:
        """Return what carries it out, which stays the same while the graph does."""
        layout = self.layout
        if not options and self._ready and self._ready[0][0] is layout:
            return self._ready[0][1]
        self.check()
        reducers = self.reducers
        flow = self._flow
        if flow is None or flow.layout is not layout:
            flow = self._flow = GraphFlow(
                self.name,
                layout,
                max_steps=self.max_steps,
                typed=self.typed,
                reducers=reducers,
                start_at=self._start_at,
            )
        setup = flow_setup(self.name, flow, options, limits=self.limits, reducers=reducers)
        if not options and not any(isinstance(w, Wiring) for w in layout.works):
            self._ready[:] = [(layout, setup)]
        return setup

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
            listed = "".join(f"\n- {problem}" for problem in problems)
            raise GraphInvalid(f"Graph {self.name!r} cannot run:{listed}", problems=problems)


_BASES = "__orig_bases__"
