"""A provider that says that a request is too long."""

from __future__ import annotations

from typing import Any

import pytest

from tests.agent.test_compaction import agent_of, events_of
from treadle import (
    Agent,
    Compaction,
    ContextCompacted,
    ContextOverflow,
    ContextTooSmall,
    ModelRequest,
)
from treadle.testing import FunctionModel, calls


async def test_a_provider_that_refuses_is_asked_once_more_with_less() -> None:
    """S66, W51: an overflow error compacts, and the call is made again, once."""
    refused = 0

    def answer(request: ModelRequest) -> Any:
        nonlocal refused
        if not request.tools:
            return '{"summary": "looked"}'
        if len(request.messages) > 12:
            refused += 1
            raise ContextOverflow("too long", provider="p", model="m")
        number = sum(1 for m in request.messages if m.tool_calls) + refused * 100
        return calls((f"c{number}", "look", {"number": number})) if refused < 2 else "done"

    result, events = await events_of(agent_of(answer, compaction=Compaction(window=100_000)))
    assert result.output == "done"
    assert refused == 2
    assert len([e for e in events if isinstance(e, ContextCompacted)]) == 2


async def test_an_overflow_that_nothing_helps_is_one_clear_error() -> None:
    def answer(_: ModelRequest) -> Any:
        raise ContextOverflow("too long", provider="p", model="m")

    with pytest.raises(ContextTooSmall, match="nothing more can leave"):
        await agent_of(answer, compaction=Compaction(window=100_000)).run("go")
    with pytest.raises(ContextOverflow, match="too long"):
        await Agent("a", model=FunctionModel(answer)).run("go")
