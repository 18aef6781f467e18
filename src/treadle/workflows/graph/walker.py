"""Walks through a graph: of the run, and of each parallel branch, from node to node."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from treadle.agent.ending import Ending
from treadle.agent.history import own_parts
from treadle.agent.result import AnyResult
from treadle.agent.stage import Stage
from treadle.agent.steps import Step, paused_together, side_by_side
from treadle.errors import DefinitionChanged, RunError, ToolError, TreadleError
from treadle.events import EdgeTaken, NodeFinished, NodeStarted
from treadle.ids import new_span_id
from treadle.messages import Message, Thread, UserPart
from treadle.ports.children import ChildPaused, Delegate, Pause
from treadle.ports.runnable import Runnable
from treadle.state import Branch, State, StateWrite, merge
from treadle.state.typed import TypedView
from treadle.values import Plain, json_text, pack, unpack
from treadle.workflows.graph.context import MISSING, GraphView, NodeOutcome, WalkFacts
from treadle.workflows.graph.edges import END, START
from treadle.workflows.graph.functions import answer
from treadle.workflows.graph.layout import Home, Layout
from treadle.workflows.graph.nodes import (
    FanOutNode,
    FunctionNode,
    MapNode,
    RouterNode,
    RunnableNode,
    SplitNode,
    WorkNode,
)
from treadle.workflows.graph.places import Places
from treadle.workflows.graph.records import Came, step_end, steps_of
from treadle.workflows.graph.result import NodeStep
from treadle.workflows.graph.visits import Stopped, ask, call_function, failed, failure
from treadle.workflows.graph.walk import (
    choose_branches,
    choose_route,
    first_step,
    items_of,
    next_step,
)


class Course:
    """What all walks of one run share; `visits` counts how many nodes they have begun."""

    __slots__ = (
        "delegates",
        "layout",
        "max_steps",
        "name",
        "places",
        "renamed",
        "typed",
        "visits",
    )

    def __init__(
        self,
        name: str,
        layout: Layout,
        delegates: Mapping[str, Delegate],
        *,
        max_steps: int,
        typed: TypedView[Any] | None,
        places: Places,
        renamed: Mapping[str, str],
    ) -> None:
        self.name = name
        self.layout = layout
        self.delegates = delegates
        self.max_steps = max_steps
        self.typed = typed
        self.places = places
        self.renamed = renamed
        self.visits = 0

    def count(self) -> None:
        """Count that a node begins.

        Raises:
            Stopped: there were enough.
        """
        if self.visits >= self.max_steps:
            reason = f"The graph made all of its {self.max_steps} steps (max_steps)."
            raise Stopped(Ending(stop_reason="limit", reason=reason))
        self.visits += 1


class Walker:
    """One walk: where it is `at`, and the visits it made; those of branches come after theirs.

    `spoke` is whether a node of this walk has given an output. `parent` is the span of the node
    that opened it.
    """

    __slots__ = (
        "_branches",
        "_last",
        "_steps",
        "at",
        "course",
        "facts",
        "home",
        "parent",
        "spoke",
        "stage",
        "view",
    )

    def __init__(
        self,
        course: Course,
        stage: Stage,
        *,
        home: Home = (),
        at: str = "",
        item: Any = MISSING,
        parent: str = "",
    ) -> None:
        self.course, self.stage, self.home = course, stage, home
        self.facts = WalkFacts(
            stage.work.facts.within(stage.state),
            course.layout.nodes.keys(),
            stage.state,
            typed=course.typed,
            item=item,
            places=course.places,
        )
        self.view: GraphView[Any] = GraphView(self.facts)
        self.at = at
        self.parent = parent
        self.spoke = False
        self._last = START
        self._steps: list[NodeStep] = []
        self._branches: Sequence[Walker] = ()
        if course.renamed:
            self._move_outputs()
        if stage.steps:
            self._recall()
        opened = stage.open
        if opened:
            self.at = course.renamed.get(opened[0], opened[0])

    @property
    def steps(self) -> list[NodeStep]:
        """The visits so far, with those of branches that are under way."""
        return [*self._steps, *(step for each in self._branches for step in each.steps)]

    @property
    def ends(self) -> tuple[str, str]:
        """Where the walk is over."""
        return END, self.course.layout.join_of(self.home) or END

    async def go(self) -> None:
        """Walk to the end.

        Raises:
            ChildPaused: it waits for somebody.
            TreadleError: a node failed, and no edge is for that; or no edge leads on.
            Stopped: it stopped without an answer.
        """
        if not self.at:
            self._begin()
        ends, nodes = self.ends, self.course.layout.nodes
        while self.at not in ends:
            node = nodes.get(self.at)
            if node is None:
                raise self._gone()
            self.course.count()
            began = time.perf_counter()
            match node:
                case RouterNode():
                    step = self._step(node.id)
                    self._tell_started(node.id, step)
                    came = self._routed(node)
                case FanOutNode() | MapNode():
                    step, came = await self._split(node)
                case _:
                    step = self._step(node.id)
                    came = await self._visit(node, step)
            self._over(node.id, step, came, time.perf_counter() - began)
            if came.pause is not None:
                raise ChildPaused(came.pause)

    def _begin(self) -> None:
        """Find the first node, or where to go after one whose edges failed."""
        last = self._last
        if last == START:
            self.at = first_step(self.course.layout, self.view).target
        else:
            outcome = self.facts.outcomes[last]
            taken = next_step(self.course.layout, last, outcome, self.view, self.home)
            self.at = END if taken is None else taken.target
        self._tell_edge(last)

    def _gone(self) -> Exception:
        if self.at in self.stage.open or any(step.next == self.at for step in self._steps):
            return DefinitionChanged(
                f"The run is at node {self.at!r}, which graph {self.course.name!r} does not have "
                "any more. Resume it with the graph as it was, or with a function on_change= that "
                f"returns what the node is called now: {{{self.at!r}: 'new name'}}."
            )
        return RunError(f"Graph {self.course.name!r} has no node {self.at!r}.")

    def _step(self, node: str) -> Step:
        """Return the step of a node: the open one, under whatever name it began, or a new one."""
        return self._spanned(self.stage.begin(self._label(node)))

    def _label(self, node: str) -> str:
        renamed = self.course.renamed
        if not renamed:
            return node
        return next((each for each in self.stage.open if renamed.get(each) == node), node)

    def _spanned(self, step: Step) -> Step:
        if self.stage.work.bus.live:
            step.span = new_span_id()
        return step

    def _tell_started(self, node: str, step: Step) -> None:
        if step.span:
            self.stage.tell(NodeStarted, step.span, self.parent, node, step.attempt)

    async def _visit(self, node: WorkNode, step: Step) -> Came:
        begins = partial(self._tell_started, node.id, step) if step.span else None
        if isinstance(node, FunctionNode):
            return await call_function(self.stage, self.facts, node, step, begins)
        try:
            said, history = self._said(node)
        except Exception as error:  # noqa: BLE001 a function of the user's may raise anything
            return failed(f"it cannot be told its input: {type(error).__name__}: {error}", error)
        delegate = self.course.delegates.get(node.id)
        if delegate is None:
            foreign = _foreign(node, said)
            return await call_function(self.stage, self.facts, foreign, step, begins)
        required = self.stage.work.start.requirements
        if required and not self.course.layout.answers(node.id):
            required = ()

        def run(before: AnyResult | None) -> Awaitable[AnyResult]:
            if before is not None:
                return self.stage.run_again(step, delegate, before, required)
            return self.stage.run(step, delegate, said, history=history, requirements=required)

        return await ask(run, node, step, self.course.places.output(node.id), begins)

    def _said(self, node: RunnableNode) -> tuple[Message | None, Thread | None]:
        """Return what a node is told, and the conversation before it if that is the run's input."""
        facts = self.facts
        if node.input is not None:
            value = answer(node.input, self.view)
        elif facts.item is not MISSING and not self.spoke:
            value = facts.item
        elif facts.places.current in facts.state:
            value = facts.state.get(facts.places.current)
        else:
            said, thread = self.stage.input, self.stage.work.thread
            before = thread[: len(thread) - (said is not None)]
            return said, Thread(before) if before else None
        return _message(value), None

    def _routed(self, node: RouterNode) -> Came:
        try:
            chosen = choose_route(node, self.view)
        except TreadleError as error:
            return failed(str(error), error)
        return Came(chosen=chosen, output=chosen)

    async def _split(self, node: SplitNode) -> tuple[Step, Came]:
        """Walk all branches of a fan-out or a map, side by side, and bring them together."""
        stage, label = self.stage, self._label(node.id)
        chosen: list[Plain] = []
        try:
            if label not in stage.open:
                chosen = self._chosen(node)
            (scope,) = await stage.scopes(label, [None])
            if scope.step is None:
                raise AssertionError("a scope within a run has a step")
            if not scope.open:
                chosen = chosen or self._chosen(node)
        except TreadleError as error:
            return self._step(node.id), failed(str(error), error)
        self._tell_started(node.id, self._spanned(scope.step))
        found = scope.open
        opened = await scope.scopes("branch", [] if found else chosen, branch=True)
        self._branches = [self._branch(node, each, scope.step.span) for each in opened]
        outcomes = await side_by_side([each.go for each in self._branches], node.limit)
        problem = _problem(outcomes)
        if isinstance(problem, ChildPaused | Stopped):
            raise problem
        came = Came(inner=[step for each in self._branches for step in each.steps])
        try:
            if problem is not None:
                raise problem
            came.writes = self._merged(node)
        except TreadleError as error:
            came.ok, came.error, came.cause = False, str(error), error
        else:
            came.output = self._joined(node)
        return scope.step, came

    def _chosen(self, node: SplitNode) -> list[Plain]:
        """Return what each branch is opened with: its first node, and the item of a map."""
        if isinstance(node, FanOutNode):
            return [[first] for first in choose_branches(node, self.view)]
        items = items_of(node, self.view)
        return [
            [node.node, pack(item, f"item {number} of map {node.id!r}")]
            for number, item in enumerate(items)
        ]

    def _branch(self, node: SplitNode, scope: Stage, parent: str) -> Walker:
        data: Any = scope.data
        first = self.course.renamed.get(data[0], data[0])
        item = unpack(data[1]) if len(data) > 1 else self.facts.item
        home = (*self.home, (node.id, first))
        return Walker(self.course, scope, home=home, at=first, item=item, parent=parent)

    def _merged(self, node: SplitNode) -> tuple[StateWrite, ...]:
        """Return what the branches wrote that is not theirs alone.

        Raises:
            BranchConflict: two left different values in one key.
        """
        places = self.course.places
        named: list[tuple[str, Branch]] = []
        for number, each in enumerate(self._branches):
            state = each.stage.state
            if not isinstance(state, Branch):
                raise AssertionError("a branch has a state of its own")
            private = {places.current, places.input}
            if isinstance(node, MapNode):
                private |= {key for key in state.written if key.startswith(places.all_nodes)}
            else:
                self.facts.outcomes.update(each.facts.outcomes)
            state.forget(private)
            first = each.home[-1][1]
            named.append((f"{first}[{number}]" if isinstance(node, MapNode) else first, state))
        return merge(self.stage.state, named)

    def _joined(self, node: SplitNode) -> Plain:
        """Return what the branches came to: by first node, or in the order of the items."""
        current = self.course.places.current
        came = [each.stage.state.get(current) if each.spoke else None for each in self._branches]
        if isinstance(node, MapNode):
            return pack(came)
        firsts = (each.home[-1][1] for each in self._branches)
        return pack(dict(zip(firsts, came, strict=True)))

    def _over(self, node: str, step: Step, came: Came, seconds: float) -> None:
        """Let a visit be over: decide where to go, and note both, or fail.

        Raises:
            TreadleError: the node failed, and no edge is for that; or no edge leads on.
            Stopped: what it ran stopped, and no edge is for that.
        """
        facts, before = self.facts, self.facts.outcomes.get(node)
        outcome = NodeOutcome(
            ok=came.ok,
            tool_called=came.tool_calls > 0,
            error=came.error,
            chosen=came.chosen,
            visits=1 if before is None else before.visits + 1,
        )
        came.writes = (*came.writes, *self._outcome_writes(node, came))
        facts.state.apply(came.writes)
        facts.outcomes[node] = outcome
        problem: Exception | None = None
        target = END if came.ends else ""
        if not came.ends:
            try:
                taken = next_step(self.course.layout, node, outcome, self.view, self.home)
            except TreadleError as error:
                problem = error
            else:
                target, problem = (
                    ("", failure(node, came)) if taken is None else (taken.target, None)
                )
        if target == END and not self.home:
            came.writes = (*came.writes, *facts.places.forgotten(facts.state))
        self._note(node, step, came, target, seconds)
        if problem is None or came.ok:  # one that failed goes on where it was
            self.stage.end(step, step_end(came, target, seconds))
        if step.span:
            self.stage.tell(NodeFinished, step.span, self.parent, node, seconds, came.error or None)
        self.at = target
        if problem is not None:
            raise problem
        self._tell_edge(node)

    def _note(self, node: str, step: Step, came: Came, target: str, seconds: float) -> None:
        self._branches = ()
        self._steps.append(
            NodeStep(
                node=node,
                ok=came.ok,
                output=None if came.output is UNSET else came.output,
                error=came.error,
                next=target,
                branch=self.stage.path if self.home else "",
                usage=came.spent,
                tool_calls=came.tool_calls,
                turns=came.turns,
                seconds=seconds,
            )
        )
        self._steps += came.inner

    def _outcome_writes(self, node: str, came: Came) -> tuple[StateWrite, ...]:
        """Return what a node's end changes in the state beside what it wrote itself."""
        places, key = self.course.places, self.course.places.output(node)
        if came.output is UNSET:
            return (StateWrite(key, deleted=True),) if key in self.facts.state else ()
        if came.chosen:
            return (StateWrite(key, came.output),)
        self.spoke = True
        return StateWrite(key, came.output), StateWrite(places.current, came.output)

    def _tell_edge(self, source: str) -> None:
        if self.stage.work.bus.live:
            self.stage.tell(EdgeTaken, new_span_id(), self.parent, source, self.at)

    def _recall(self) -> None:
        """Take in the visits that the journal, or this process, knows of."""
        course, outcomes = self.course, self.facts.outcomes
        branch = self.stage.path if self.home else ""
        for ended in self.stage.steps:
            self.spoke |= any(write.key == course.places.current for write in ended.writes)
        for step, inner in steps_of(self.stage.steps, course.places, course.renamed, branch):
            self.at = step.next
            if step.node == START:  # where a walk was begun that did not begin there
                continue
            self._last = step.node
            self._steps += (step, *inner)
            split = course.layout.nodes.get(step.node)
            for each in (*inner, step) if isinstance(split, FanOutNode) else (step,):
                before = outcomes.get(each.node)
                outcomes[each.node] = NodeOutcome(
                    ok=each.ok,
                    tool_called=each.tool_calls > 0,
                    error=each.error,
                    chosen=each.next if isinstance(split, RouterNode) else "",
                    visits=1 if before is None else before.visits + 1,
                )
        course.visits += len(self._steps)

    def _move_outputs(self) -> None:
        """Let nodes that have other names now have their outputs under these."""
        places, state = self.course.places, self.facts.state
        writes: list[StateWrite] = []
        for old, new in self.course.renamed.items():
            found = state.write_of(places.output(old))
            if not found.deleted:
                writes += (replace(found, key=places.output(new)), replace(found, deleted=True))
        state.apply(writes)


def _problem(outcomes: Iterable[object]) -> Exception | None:
    """Return what keeps a join from being reached: somebody is asked first, then what failed."""
    errors = [each for each in outcomes if isinstance(each, Exception)]
    paused = paused_together(errors)
    failures = [each for each in errors if not isinstance(each, ChildPaused | Stopped)]
    if paused is None:
        return next(iter((*failures, *errors)), None)
    if failures:
        told = "; ".join(str(each) for each in failures)
        return ChildPaused(Pause(f"{paused.pause.reason} Besides: {told}", paused.pause.pending))
    return paused


def _message(value: object) -> Message:
    """Return a value as what a node is told.

    Raises:
        ToolError: there is nothing to say.
    """
    if isinstance(value, str | UserPart) or (
        isinstance(value, list | tuple) and value and all(isinstance(p, UserPart) for p in value)
    ):
        parts = own_parts(value)
    else:
        parts = own_parts(json_text(value))
    if not parts:
        raise ToolError("there is nothing to say: the text is empty")
    return Message("user", parts)


def _foreign(node: RunnableNode, said: Message | None) -> FunctionNode:
    """Return a function that runs what is none of Treadle's own, in a run that is not nested."""
    work: Runnable = node.work

    async def run(_: object) -> Any:
        run = work.start("" if said is None else said.text)
        outcome = await run.result()
        if outcome.stop_reason not in ("answer", "limit"):
            raise ToolError(f"{work.name} stopped without an answer: {outcome.stop_reason}")
        return outcome.output

    return FunctionNode(
        id=node.id, work=run, is_async=True, retries=node.retries, timeout=node.timeout
    )


def begun(state: State, places: Places, nodes: Iterable[str], said: str) -> tuple[StateWrite, ...]:
    """Return what a run that begins writes: its input; nothing is left of a run before."""
    old = [key for key in (places.current, *map(places.output, nodes)) if key in state]
    return (
        StateWrite(places.input, said),
        *(StateWrite(key, deleted=True) for key in old),
    )
