"""Walks through a graph: of the run, and of each parallel branch, from node to node."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Sequence
from functools import partial
from typing import Any

from msgspec import UNSET

from treadle.agent.result import AnyResult
from treadle.agent.stage import Stage
from treadle.agent.steps import Step, side_by_side
from treadle.errors import TreadleError
from treadle.events import EdgeTaken, NodeFinished, NodeStarted
from treadle.ids import new_span_id
from treadle.ports.children import ChildPaused
from treadle.usage import NOTHING
from treadle.values import Plain, unpack
from treadle.workflows.graph.context import MISSING, GraphView, NodeOutcome, WalkFacts
from treadle.workflows.graph.course import Course
from treadle.workflows.graph.edges import END, START
from treadle.workflows.graph.inputs import foreign, said_to
from treadle.workflows.graph.layout import Home
from treadle.workflows.graph.nodes import (
    FanOutNode,
    FunctionNode,
    MapNode,
    RouterNode,
    SplitNode,
    WorkNode,
)
from treadle.workflows.graph.recall import move_outputs, recall
from treadle.workflows.graph.records import Came, node_step, outcome_writes, step_end
from treadle.workflows.graph.result import NodeStep
from treadle.workflows.graph.splits import BranchEnd, chosen_of, joined, merged, problem_of
from treadle.workflows.graph.visits import ask, call_function, failed, failure, is_lost
from treadle.workflows.graph.walk import choose_route, first_step, next_step


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
            stage.work.facts,
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
            move_outputs(course, self.facts)
        if stage.steps:
            found = recall(course, stage, self.facts, stage.path if home else "")
            self._steps, self._last = found.steps, found.last
            self.at, self.spoke = found.at, found.spoke
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
                going = self.at in self.stage.open or any(s.next == self.at for s in self._steps)
                raise self.course.gone(self.at, going=going)
            self.course.count()
            began = time.perf_counter()
            match node:
                case RouterNode():
                    step = self._step(node.id)
                    self._tell_started(node.id, step)
                    came = _routed(node, self.view)
                case FanOutNode() | MapNode():
                    step, came = await self._split(node)
                case _:
                    step = self._step(node.id)
                    came = await self._visit(node, step)
            self._over(node.id, step, came, time.perf_counter() - began)
            told = self.at in ends and node.id not in self.course.delegates
            if self.home and (told or came.pause is not None):
                await self.stage.save()  # siblings may take long until something else is written
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

    def _step(self, node: str) -> Step:
        """Return the step of a node: the open one, under whatever name it began, or a new one."""
        return _spanned(self.stage, self.stage.begin(self._label(node)))

    def _label(self, node: str) -> str:
        renamed = self.course.renamed
        if not renamed:
            return node
        return next((each for each in self.stage.open if renamed.get(each) == node), node)

    def _tell_started(self, node: str, step: Step) -> None:
        if step.span:
            self.stage.tell(NodeStarted, step.span, self.parent, node, step.attempt)

    async def _visit(self, node: WorkNode, step: Step) -> Came:
        begins = partial(self._tell_started, node.id, step) if step.span else None
        if isinstance(node, FunctionNode):
            return await call_function(self.stage, self.facts, node, step, begins)
        try:
            said, history = said_to(node, self.stage, self.facts, self.view, spoke=self.spoke)
        except (Exception, SystemExit) as error:  # noqa: BLE001 the border: it may raise anything
            cause = error if isinstance(error, Exception) else None
            return failed(f"it cannot be told its input: {type(error).__name__}: {error}", cause)
        delegate = self.course.delegates.get(node.id)
        if delegate is None:
            other = foreign(node, said)
            return await call_function(self.stage, self.facts, other, step, begins)
        required = self.stage.work.start.requirements
        if required and not self.course.layout.answers(node.id):
            required = ()

        def run(before: AnyResult | None) -> Awaitable[AnyResult]:
            if before is not None:
                return self.stage.run_again(step, delegate, before, required)
            return self.stage.run(step, delegate, said, history=history, requirements=required)

        return await ask(run, node, step, self.course.places.output(node.id), begins)

    async def _split(self, node: SplitNode) -> tuple[Step, Came]:
        """Walk all branches of a fan-out or a map, side by side, and bring them together."""
        stage, label = self.stage, self._label(node.id)
        chosen: list[Plain] = []
        try:
            if label not in stage.open:
                chosen = chosen_of(node, self.view)
            (scope,) = await stage.scopes(label, [None])
            if scope.step is None:
                raise AssertionError("a scope within a run has a step")
            if not scope.open:
                chosen = chosen or chosen_of(node, self.view)
        except TreadleError as error:
            if is_lost(error):
                raise
            return self._step(node.id), failed(str(error), error)
        self._tell_started(node.id, _spanned(stage, scope.step))
        found = scope.open
        opened = await scope.scopes("branch", [] if found else chosen, branch=True)
        self._branches = [self._branch(node, each, scope.step.span) for each in opened]
        outcomes = await side_by_side([each.go for each in self._branches], node.limit)
        return scope.step, self._joined(node, problem_of(outcomes))

    def _joined(self, node: SplitNode, problem: Exception | None) -> Came:
        """Return what branches that have ended came to together."""
        came = Came(inner=[step for each in self._branches for step in each.steps])
        try:
            if problem is not None:
                raise problem
            if isinstance(node, FanOutNode):
                for each in self._branches:
                    self.facts.outcomes.update(each.facts.outcomes)
            ends = [BranchEnd(e.home[-1][1], e.stage.state, e.spoke) for e in self._branches]
            came.writes = merged(node, self.stage.state, ends, self.course.places)
        except TreadleError as error:
            came.ok, came.error, came.cause = False, str(error), error
        else:
            came.output = joined(node, ends, self.course.places)
        return came

    def _branch(self, node: SplitNode, scope: Stage, parent: str) -> Walker:
        data: Any = scope.data
        first = self.course.renamed.get(data[0], data[0])
        item = unpack(data[1]) if len(data) > 1 else self.facts.item
        home = (*self.home, (node.id, first))
        return Walker(self.course, scope, home=home, at=first, item=item, parent=parent)

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
        came.writes = (*came.writes, *outcome_writes(came, node, facts))
        self.spoke = self.spoke or (came.output is not UNSET and not came.chosen)
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
        gone = facts.places.forgotten(facts.state) if target == END and not self.home else ()
        if not came.ok and problem is None:
            gone += facts.places.left_behind(facts.state, step.path)
        facts.state.apply(gone)
        came.writes += gone
        self._branches = ()
        branch = self.stage.path if self.home else ""
        self._steps += (node_step(came, node, target, branch, seconds), *came.inner)
        if problem is None or came.ok:
            self.stage.end(step, step_end(came, target, seconds))
        else:
            _failed(self.stage, came)
        if step.span:
            self.stage.tell(NodeFinished, step.span, self.parent, node, seconds, came.error or None)
        self.at = target
        if problem is not None:
            raise problem
        self._tell_edge(node)

    def _tell_edge(self, source: str) -> None:
        if self.stage.work.bus.live:
            self.stage.tell(EdgeTaken, new_span_id(), self.parent, source, self.at)


def _spanned(stage: Stage, step: Step) -> Step:
    if stage.work.bus.live:
        step.span = new_span_id()
    return step


def _failed(stage: Stage, came: Came) -> None:
    """Count what a visit used that is not over: it goes on where it was."""
    if came.usage is not NOTHING:
        stage.work.budget.spend(came.usage)


def _routed(node: RouterNode, view: GraphView[Any]) -> Came:
    try:
        chosen = choose_route(node, view)
    except TreadleError as error:
        return failed(str(error), error)
    return Came(chosen=chosen, output=chosen)
