"""What a visit of a node came to, and how the journal keeps it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

from msgspec import UNSET, Struct, UnsetType, convert, to_builtins
from msgspec.structs import replace

from treadle.agent.steps import StepEnd
from treadle.journal import StepEnded
from treadle.ports.children import Pause, label_of
from treadle.state import StateWrite
from treadle.usage import NOTHING, Usage
from treadle.values import Plain, unpack
from treadle.workflows.graph.context import WalkFacts
from treadle.workflows.graph.layout import Layout
from treadle.workflows.graph.nodes import RouterNode
from treadle.workflows.graph.places import Places
from treadle.workflows.graph.result import NodeStep


class Came(Struct, kw_only=True):
    """What a visit came to.

    `cause` is what made it fail. `usage` is what a function added itself, `spent` that with what
    runs in the node used. `inner` are the visits of the branches that it opened, `chosen` is where
    a router goes, and `ends` whether nothing comes after it. `pause` is for after it.
    """

    ok: bool = True
    error: str = ""
    cause: Exception | None = None
    output: Plain | UnsetType = UNSET
    writes: tuple[StateWrite, ...] = ()
    usage: Usage = NOTHING
    spent: Usage = NOTHING
    turns: int = 0
    tool_calls: int = 0
    inner: Sequence[NodeStep] = ()
    chosen: str = ""
    ends: bool = False
    pause: Pause | None = None


def outcome_writes(came: Came, node: str, facts: WalkFacts) -> tuple[StateWrite, ...]:
    """Return what the end of a node changes in the state beside what it wrote itself."""
    key = facts.places.output(node)
    if came.output is UNSET:
        return (StateWrite(key, deleted=True),) if key in facts.state else ()
    if came.chosen:
        return (StateWrite(key, came.output),)
    return StateWrite(key, came.output), StateWrite(facts.places.current, came.output)


def node_step(came: Came, node: str, target: str, branch: str, seconds: float) -> NodeStep:
    """Return how the result keeps it."""
    return NodeStep(
        node=node,
        ok=came.ok,
        output=None if came.output is UNSET else came.output,
        error=came.error,
        next=target,
        branch=branch,
        usage=came.spent,
        tool_calls=came.tool_calls,
        turns=came.turns,
        seconds=seconds,
    )


def newest_output(steps: Sequence[NodeStep], layout: Layout, facts: WalkFacts) -> Any:
    """Return the newest output of the main walk, also when the state has none of it any more."""
    if facts.places.current in facts.state:
        return facts.state.get(facts.places.current)
    given = (
        step.output
        for step in reversed(steps)
        if step.output is not None
        and not step.branch
        and not isinstance(layout.nodes.get(step.node), RouterNode)
    )
    return unpack(next(given, None))


def step_end(came: Came, to: str, seconds: float) -> StepEnd:
    """Return how the journal keeps it."""
    data: list[Plain] = [round(seconds, 6)]
    if came.turns or came.inner or came.tool_calls:
        spent = None if came.spent is NOTHING else to_builtins(came.spent)
        data += [came.turns, came.tool_calls, spent, [to_builtins(each) for each in came.inner]]
    return StepEnd(
        ok=came.ok, error=came.error, usage=came.usage, writes=came.writes, to=to, data=data
    )


def steps_of(
    ended: Iterable[StepEnded], places: Places, renamed: Mapping[str, str], branch: str = ""
) -> Iterator[tuple[NodeStep, list[NodeStep]]]:
    """Yield the visits that the journal tells of, each with those of the branches it opened."""
    for each in ended:
        label = label_of(each.step)
        told: list[Any] = [*cast("list[Any]", each.data), 0, 0, None, ()]
        seconds, turns, calls, spent, inner = told[:5]
        key = places.output(label)
        yield (
            NodeStep(
                node=renamed.get(label, label),
                ok=each.ok,
                output=next((write.value for write in each.writes if write.key == key), None),
                error=each.error,
                next=renamed.get(each.to, each.to),
                branch=branch,
                usage=each.usage if spent is None else convert(spent, Usage),
                tool_calls=calls,
                turns=turns,
                seconds=seconds,
            ),
            [_renamed(convert(found, NodeStep), renamed) for found in inner],
        )


def _renamed(step: NodeStep, renamed: Mapping[str, str]) -> NodeStep:
    if not renamed:
        return step
    node, after = renamed.get(step.node, step.node), renamed.get(step.next, step.next)
    return replace(step, node=node, next=after)
