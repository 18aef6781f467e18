"""What a graph's run came to, in numbers."""

from __future__ import annotations

from treadle import GraphResult
from treadle.messages import Thread


def test_the_path_counts_visits() -> None:
    """B129: nodes that were visited again count again, and are named once."""
    result = GraphResult(
        output="done",
        messages=Thread(),
        stop_reason="answer",
        run_id="run_1",
        conversation_id="conv_1",
        execution_path=["a", "b", "a"],
    )
    assert result.iterations == 3
    assert result.nodes_executed == ["a", "b"]
    assert result.success
