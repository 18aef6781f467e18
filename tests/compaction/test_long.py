"""Long conversations of every kind, with facts planted in them: `make long` does 2,000 turns."""

from __future__ import annotations

import pytest

from benchmarks.long_conversations import KINDS, STRATEGIES, WINDOW, follow

pytestmark = pytest.mark.e2e


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("kind", KINDS)
async def test_they_stay_inside_the_window(kind: str, strategy: str) -> None:
    """Every request fits and is valid everywhere; a checkpoint loses no exact reference."""
    course = await follow(kind, strategy, 250, check_every=20, seed=3)
    assert course.problems == []
    assert 1 < course.compactions < 40
    assert course.largest <= WINDOW
    if strategy == "checkpoint":
        assert course.lost == 0
    if kind == "tools":
        assert course.yielded == set()
