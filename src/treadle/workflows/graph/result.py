"""What a graph's run came to."""

from __future__ import annotations

from dataclasses import dataclass, field

from msgspec import Struct

from treadle.agent.result import OutputT, RunResult
from treadle.usage import NOTHING, Usage
from treadle.values import Plain


class NodeStep(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One visit of a node: how it ended, and where the walk went.

    `branch` is the path of the parallel branch that it was in, "" outside. `output` is in plain
    form; the last one of each node is in the state, in its own type. `next` is the node that came
    after it, "END", or "" where the walk failed.
    """

    node: str
    ok: bool = True
    output: Plain = None
    error: str = ""
    next: str = ""
    branch: str = ""
    usage: Usage = NOTHING
    tool_calls: int = 0
    turns: int = 0
    seconds: float = 0.0


@dataclass(slots=True, kw_only=True)
class GraphResult(RunResult[OutputT]):
    """What a graph's run came to; `output` is the newest output of a node, None without any.

    `execution_path` has the nodes as they were visited, those of parallel branches one branch
    after another in their order of definition. `success` is whether every one of them succeeded,
    also where a failure was dealt with.
    """

    execution_path: list[str] = field(default_factory=list[str])
    steps: list[NodeStep] = field(default_factory=list[NodeStep])
    success: bool = True

    @property
    def iterations(self) -> int:
        """How many visits of nodes there were."""
        return len(self.execution_path)

    @property
    def nodes_executed(self) -> list[str]:
        """The nodes that were visited, each once, in the order of their first visits."""
        return list(dict.fromkeys(self.execution_path))
