"""What a walk through a graph had done before: by the journal, or in this process."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from treadle.agent.stage import Stage
from treadle.state import StateWrite
from treadle.workflows.graph.context import NodeOutcome, WalkFacts
from treadle.workflows.graph.course import Course
from treadle.workflows.graph.edges import START
from treadle.workflows.graph.nodes import FanOutNode, RouterNode
from treadle.workflows.graph.records import steps_of
from treadle.workflows.graph.result import NodeStep


class Recalled(Struct):
    """The visits of a walk so far, where it is `at`, and which was the `last` one.

    `spoke` is whether a node of it has given an output.
    """

    at: str = ""
    last: str = START
    steps: list[NodeStep] = []
    spoke: bool = False


def recall(course: Course, stage: Stage, facts: WalkFacts, branch: str) -> Recalled:
    """Return what a walk has done, in the branch at this path; its outcomes go into the facts."""
    found, outcomes = Recalled(), facts.outcomes
    found.spoke = any(
        write.key == course.places.current for ended in stage.steps for write in ended.writes
    )
    for step, inner in steps_of(stage.steps, course.places, course.renamed, branch):
        found.at = step.next
        if step.node == START:  # where a walk was begun that did not begin there
            continue
        found.last = step.node
        found.steps += (step, *inner)
        node = course.layout.nodes.get(step.node)
        for each in (*inner, step) if isinstance(node, FanOutNode) else (step,):
            before = outcomes.get(each.node)
            outcomes[each.node] = NodeOutcome(
                ok=each.ok,
                tool_called=each.tool_calls > 0,
                error=each.error,
                chosen=each.next if isinstance(node, RouterNode) else "",
                visits=1 if before is None else before.visits + 1,
            )
    course.visits += len(found.steps)
    return found


def move_outputs(course: Course, facts: WalkFacts) -> None:
    """Let nodes that have other names now have their outputs under these."""
    places, state = course.places, facts.state
    writes: list[StateWrite] = []
    for old, new in course.renamed.items():
        found = state.write_of(places.output(old))
        if not found.deleted:
            writes += (replace(found, key=places.output(new)), replace(found, deleted=True))
    state.apply(writes)
