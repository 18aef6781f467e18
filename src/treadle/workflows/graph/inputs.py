"""What a node of a graph is told, and what a run that begins writes of its input."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from treadle.agent.history import own_parts
from treadle.agent.stage import Stage
from treadle.errors import ToolError
from treadle.messages import Message, Thread, UserPart
from treadle.ports.runnable import Runnable
from treadle.state import State, StateWrite
from treadle.values import json_text
from treadle.workflows.graph.context import MISSING, GraphView, WalkFacts
from treadle.workflows.graph.functions import answer
from treadle.workflows.graph.nodes import FunctionNode, RunnableNode
from treadle.workflows.graph.places import Places


def said_to(
    node: RunnableNode, stage: Stage, facts: WalkFacts, view: GraphView[Any], *, spoke: bool
) -> tuple[Message | None, Thread | None]:
    """Return what a node is told, and the conversation before it if that is the run's input.

    `spoke` is whether a node of its walk has given an output.
    """
    if node.input is not None:
        value = answer(node.input, view)
        if value is None or value == []:
            raise ToolError(f"input= of {node.id!r} gave {value!r}, and there is nothing to say")
        if isinstance(value, list | tuple) and _are_parts(cast("Any", value), texts=True):
            return Message("user", own_parts(cast("Any", value))), None
    elif facts.item is not MISSING and not spoke:
        value = facts.item
    elif facts.places.current in facts.state:
        value = facts.state.get(facts.places.current)
    else:
        said, thread = stage.input, stage.work.thread
        before = thread[: len(thread) - (said is not None)]
        return said, Thread(before) if before else None
    return _message(value), None


def _message(value: Any) -> Message:
    """Return a value as what a node is told.

    Raises:
        ToolError: there is nothing to say.
    """
    if isinstance(value, str | UserPart) or _are_parts(value):
        parts = own_parts(value)
    else:
        parts = own_parts(json_text(value))
    if not parts:
        raise ToolError("there is nothing to say: the text is empty")
    return Message("user", parts)


def _are_parts(value: Any, *, texts: bool = False) -> bool:
    """Whether a value is a list of media and texts; such as has nothing but `texts` is a value."""
    if not isinstance(value, list | tuple):
        return False
    items = cast("list[Any]", value)
    return all(isinstance(item, str | UserPart) for item in items) and (
        texts or any(isinstance(item, UserPart) for item in items)
    )


def foreign(node: RunnableNode, said: Message | None) -> FunctionNode:
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
