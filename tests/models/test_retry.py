"""When to ask again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle import AuthenticationFailed, ConfigError, Overloaded, Retry


@given(st.integers(1, 10_000), st.none() | st.floats(0, 1e6), st.floats(0, 1))
def test_waits_are_bounded(attempt: int, asked: float | None, luck: float) -> None:
    """Never negative, never shorter than asked for, never longer than the longest or that."""
    retry = Retry(random=lambda: luck)
    wait = retry.wait_after(attempt, Overloaded("busy", retry_after=asked))

    assert (asked or 0) <= wait <= max(30.0, asked or 0) * 1.1


def test_only_passing_failures_are_tried_again() -> None:
    """And only as often as allowed."""
    retry = Retry(attempts=2)

    assert retry.again(1, Overloaded("busy"))
    assert not retry.again(2, Overloaded("busy"))
    assert not retry.again(1, AuthenticationFailed("no"))


def test_a_policy_that_cannot_be() -> None:
    """Refused with its values."""
    with pytest.raises(ConfigError, match="attempts"):
        Retry(attempts=0)
