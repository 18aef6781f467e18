"""When to ask again."""

from __future__ import annotations

from typing import Any

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


def test_waits_double_up_to_the_longest() -> None:
    """And what the provider asked for comes first where it is longer; a share of luck is added."""
    plain = Retry(jitter=0, longest_wait=5)
    lucky = Retry(jitter=0.1, random=lambda: 0.5)
    asked = Overloaded("busy", retry_after=7.0)

    waits = [plain.wait_after(attempt, Overloaded("busy")) for attempt in range(1, 7)]
    assert waits == [0.5, 1.0, 2.0, 4.0, 5.0, 5.0]
    assert (plain.wait_after(1, asked), plain.wait_after(20, asked)) == (7.0, 7.0)
    assert lucky.wait_after(1, Overloaded("busy")) == pytest.approx(0.525)


def test_only_passing_failures_are_tried_again() -> None:
    """And only as often as allowed."""
    retry = Retry(attempts=2)

    assert retry.again(1, Overloaded("busy"))
    assert not retry.again(2, Overloaded("busy"))
    assert not retry.again(1, AuthenticationFailed("no"))


@pytest.mark.parametrize("bad", ["attempts=0", "first_wait=-1", "longest_wait=-1", "jitter=-0.5"])
def test_a_policy_that_cannot_be(bad: str) -> None:
    """Refused with its values."""
    name, _, value = bad.partition("=")
    fields: dict[str, Any] = {name: float(value) if "." in value else int(value)}

    with pytest.raises(ConfigError, match=rf"{bad}\b.*(1|0) or more"):
        Retry(**fields)
