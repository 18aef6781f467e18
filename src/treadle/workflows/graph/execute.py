"""What carries out the run of a graph."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from weakref import WeakKeyDictionary

from treadle.agent.ending import Ending
from treadle.agent.result import AnyResult
from treadle.agent.setup import definitions_of
from treadle.agent.stage import Stage
from treadle.agent.startable import Startable
from treadle.agent.steps import StepEnd
from treadle.errors import TreadleError
from treadle.journal import MessageAdded, StateChanged
from treadle.messages import Message
from treadle.ports.children import Delegate, label_of
from treadle.state import Reducer, Scope, StateWrite
from treadle.state.typed import TypedView
from treadle.values import json_text
from treadle.workflows.graph.course import Course
from treadle.workflows.graph.edges import START
from treadle.workflows.graph.fingerprint import fingerprint
from treadle.workflows.graph.inputs import begun
from treadle.workflows.graph.layout import Layout
from treadle.workflows.graph.nodes import RunnableNode
from treadle.workflows.graph.places import OUTERMOST, Places
from treadle.workflows.graph.records import newest_output, steps_of
from treadle.workflows.graph.result import GraphResult, NodeStep
from treadle.workflows.graph.visits import Stopped, is_lost
from treadle.workflows.graph.walker import Walker


class GraphFlow:
    """Carries out the runs of a graph as it stands.

    `start_at` is where a run begins that does not at START. A node is a step of its name, the
    branches of a fan-out or a map are scopes in its step.
    """

    def __init__(
        self,
        name: str,
        layout: Layout,
        *,
        max_steps: int,
        typed: TypedView[Any] | None,
        reducers: Mapping[str, Reducer],
        start_at: str = "",
    ) -> None:
        self._name = name
        self.layout = layout
        self._max_steps = max_steps
        self._typed = typed
        self._reducers = reducers
        self._start_at = start_at
        self._walks: WeakKeyDictionary[Stage, Walker] = WeakKeyDictionary()
        self._delegates: dict[str, Delegate] = {}
        for node in layout.nodes.values():
            work: Any = node.work if isinstance(node, RunnableNode) else None
            if isinstance(work, Startable):
                self._delegates[node.id] = work.delegate

    @property
    def delegates(self) -> Mapping[str, Delegate]:
        """Who does the work of the nodes that can be run, by node."""
        return self._delegates

    def definition(self, above: tuple[object, ...]) -> dict[str, str]:
        """Return a short hash of each node and edge, and of what the nodes' agents are made of."""
        return fingerprint(self.layout) | definitions_of(self._delegates, above)

    async def run(self, stage: Stage) -> Ending:
        """Walk from where the run is to its end."""
        places = Places(stage.work.path) if stage.work.path else OUTERMOST
        if places.within:
            self._declare(stage, places)
        if not stage.steps and not stage.open:
            await self._begin(stage, places)
        walk = self._walks[stage] = Walker(self._course(stage, places), stage)
        try:
            await walk.go()
        except Stopped as stop:
            ending = stop.ending
            if ending.stop_reason == "limit":
                ending.output = newest_output(walk.steps, self.layout, walk.facts)
                _answer(stage, ending.output)
            if ending.stop_reason == "limit" or not _goes_on(stage):
                _forget(stage, places)
            return ending
        except TreadleError as error:
            if not _goes_on(stage) and not is_lost(error):
                _forget(stage, places)
            raise
        output = newest_output(walk.steps, self.layout, walk.facts)
        _answer(stage, output)
        return Ending(stop_reason="answer", output=output)

    def extras(self, stage: Stage) -> tuple[type[AnyResult], dict[str, Any]]:
        """Return the class of the result, and what it has of the walk."""
        walk = self._walks.get(stage)
        if walk is None:
            renamed = stage.work.renamed
            pairs = steps_of(_visits(stage), Places(stage.work.path), renamed)
            steps = [each for step, inner in pairs for each in (step, *inner)]
        else:
            steps = walk.steps
        return GraphResult, _told(steps)

    def _course(self, stage: Stage, places: Places) -> Course:
        return Course(
            self._name,
            self.layout,
            self._delegates,
            max_steps=self._max_steps,
            typed=self._typed,
            places=places,
            renamed=stage.work.renamed,
        )

    def _declare(self, stage: Stage, places: Places) -> None:
        """Give the keys of a graph in another run their reducers, also where it is resumed."""
        own = {
            places.within + key: reducer
            for key, reducer in self._reducers.items()
            if key.startswith(Scope.GRAPH)
        }
        stage.state.add_reducers(own)

    async def _begin(self, stage: Stage, places: Places) -> None:
        """Write the run's input into the state, and forget what nodes gave in a run before."""
        said = stage.input
        writes: tuple[StateWrite, ...] = ()
        if not self._start_at or said is not None or places.input not in stage.state:
            if said is None:  # what was said last, where only the history tells
                users = (m for m in reversed(stage.work.thread) if m.role == "user")
                said = next((m for m in users if not m.advice), None)
            nodes = () if self._start_at else self.layout.nodes
            text = "" if said is None else said.text
            writes = begun(stage.state, places, nodes, text)
            stage.state.apply(writes)
        if self._start_at:
            step = stage.begin(START)
            stage.end(step, StepEnd(writes=writes, to=self._start_at, data=[0.0]))
            await stage.save()
        else:
            _changed(stage, writes)


def _visits(stage: Stage) -> list[Any]:
    return [each for each in stage.steps if label_of(each.step) != START]


def _told(steps: list[NodeStep]) -> dict[str, Any]:
    return {
        "execution_path": [step.node for step in steps],
        "steps": steps,
        "success": all(step.ok for step in steps),
    }


def _goes_on(stage: Stage) -> bool:
    """Whether a run without an answer may go on: one for a call is over with the call."""
    origin = stage.work.origin
    return origin is None or origin.resumes


def _forget(stage: Stage, places: Places) -> None:
    """Leave nothing behind in the run that it is in."""
    writes = places.left_behind(stage.state, stage.work.path) if places.within else ()
    stage.state.apply(writes)
    if writes:
        _changed(stage, writes)


def _changed(stage: Stage, writes: tuple[StateWrite, ...]) -> None:
    if stage.recorder is not None:
        run_id, at = stage.work.start.run_id, datetime.now(UTC)
        stage.recorder.hold(StateChanged(run_id=run_id, at=at, writes=writes))


def _answer(stage: Stage, output: object) -> None:
    """Say the output: with the end of the run it becomes part of the conversation."""
    if output is None:
        return
    message = Message.assistant(json_text(output))
    if not message.parts:
        return
    stage.work.thread.append(message)
    if stage.recorder is not None:
        run_id, at = stage.work.start.run_id, datetime.now(UTC)
        stage.recorder.hold(MessageAdded(run_id=run_id, at=at, message=message))
