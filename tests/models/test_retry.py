"""When to ask again."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle import Agent, AuthenticationFailed, BadReply, ConfigError, Overloaded, Retry
from treadle.testing import FakeClock, ScriptedModel, raises


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


def test_which_errors_is_up_to_the_caller() -> None:
    """A function decides instead of the errors."""
    retry = Retry(on=lambda error: isinstance(error, BadReply))

    assert retry.again(1, BadReply("nonsense"))
    assert not retry.again(1, Overloaded("busy"))
    assert not retry.again(3, BadReply("nonsense"))


@pytest.mark.parametrize(
    ("total", "spent", "wait"),
    [(8.0, 1.0, 7.0), (8.0, 1.1, None), (6.9, 0.0, None), (None, 1e9, 7.0), (0, 0, None)],
)
def test_no_wait_ends_after_the_total(
    total: float | None, spent: float, wait: float | None
) -> None:
    """It is not begun: whoever cannot be waited for is not waited for in part."""
    retry = Retry(total=total, jitter=0)

    assert retry.next_wait(1, Overloaded("busy", retry_after=7.0), spent) == wait


async def test_the_total_counts_from_the_first_attempt() -> None:
    """The waits of a run add up, and the error of the last attempt is raised."""
    clock = FakeClock()
    busy = [raises(Overloaded(f"busy {number}")) for number in range(9)]
    retry = Retry(attempts=9, first_wait=4, jitter=0, total=13, clock=clock)

    with pytest.raises(Overloaded, match="busy 2"):
        await Agent("a", ScriptedModel(busy), retry=retry).run("x")
    assert clock.sleeps == [4, 8]


async def test_a_server_that_asks_for_a_day_is_not_waited_for() -> None:
    """By default it fails at once and says when."""
    clock = FakeClock()
    model = ScriptedModel([raises(Overloaded("tomorrow", retry_after=86_400.0)), "hi"])

    with pytest.raises(Overloaded) as caught:
        await Agent("a", model, retry=Retry(clock=clock)).run("x")
    assert (caught.value.retry_after, clock.sleeps) == (86_400.0, [])


@pytest.mark.parametrize(
    "bad", ["attempts=0", "first_wait=-1", "longest_wait=-1", "jitter=-0.5", "total=-1"]
)
def test_a_policy_that_cannot_be(bad: str) -> None:
    """Refused with its values."""
    name, _, value = bad.partition("=")
    fields: dict[str, Any] = {name: float(value) if "." in value else int(value)}

    with pytest.raises(ConfigError, match=rf"{bad}\b.*(1|0) or more"):
        Retry(**fields)


def test_a_condition_that_is_none() -> None:
    """Refused with its value."""
    fields: dict[str, Any] = {"on": "always"}
    with pytest.raises(ConfigError, match=r"'always'.*function of the error"):
        Retry(**fields)
