"""Limits and budgets: never negative, and children never exceed parents."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle import ConfigError, Limits, Price, Usage
from treadle.limits import Budget


@pytest.mark.parametrize(
    "bad",
    [
        {"max_turns": 0},
        {"max_tokens": -1},
        {"max_cost": Decimal(0)},
        {"max_tool_calls": -1},
        {"deadline": timedelta(0)},
    ],
)
def test_a_limit_that_is_none(bad: dict[str, Any]) -> None:
    """Zero and less is refused, with the value."""
    with pytest.raises(ConfigError, match=next(iter(bad))) as caught:
        Limits(**bad)

    assert f"={next(iter(bad.values()))!r})" in str(caught.value)


@given(
    st.integers(1, 1_000),
    st.integers(1, 1_000),
    st.lists(st.tuples(st.booleans(), st.integers(0, 400)), max_size=20),
)
def test_reserving_never_exceeds_any_budget(
    own: int, above: int, asks: list[tuple[bool, int]]
) -> None:
    """What is reserved and spent stays within the child's and the parent's limit."""
    parent = Budget(Limits(max_tokens=above))
    child = Budget(Limits(max_tokens=own), parent)
    for settle, tokens in asks:
        if child.reserve(tokens, Decimal(0)) and settle:
            child.release(tokens, Decimal(0))
            child.spend(Usage(output_tokens=tokens))
        for budget, most in ((child, own), (parent, above)):
            assert 0 <= budget.usage.total_tokens + budget.reserved_tokens <= most


def test_a_child_spends_its_parents_budget() -> None:
    """Tool calls and money count in every ancestor, the tightest limit holds."""
    parent = Budget(Limits(max_tool_calls=3, max_cost=Decimal(1)))
    child = Budget(Limits(max_tool_calls=5), parent)
    child.spend(Usage(tool_calls=2, cost=Decimal("0.4")))

    assert (child.tool_calls_left(), child.cost_left()) == (1, Decimal("0.6"))
    assert parent.usage.cost == Decimal("0.4")
    assert child.counts_spending
    assert not child.reserve(0, Decimal("0.7"))
    assert child.reserve(0, Decimal("0.6"))


def test_prices() -> None:
    """Money per million tokens; cached input has its own price, or that of input."""
    usage = Usage(input_tokens=1_000_000, cache_read_tokens=400_000, output_tokens=500_000)

    assert Price(input=2, output=4).cost(usage) == Decimal(4)
    assert Price(input=2.0, output=4, cache_read=Decimal("0.5")).cost(usage) == Decimal("3.4")


def test_long_requests_have_a_price_of_their_own() -> None:
    """It holds for every token of a request whose input is longer than the bound."""
    price = Price(input=2, output=12, long_above=200_000, long=Price(input=4, output=18))

    assert price.cost(Usage(200_000, output_tokens=1_000_000)) == Decimal("12.4")
    assert price.cost(Usage(250_000, output_tokens=1_000_000)) == Decimal(19)
    with pytest.raises(ConfigError, match="give both"):
        Price(input=1, output=1, long_above=200_000)


def test_the_most_that_input_can_cost() -> None:
    """Whether it is read from a cache, written to one, or neither."""
    assert Price(input=2, output=9).most_input == 2
    assert Price(input=2, output=9, cache_write=2.5, cache_read=Decimal("0.2")).most_input == 2.5


def test_caches_that_last_have_a_price_of_their_own() -> None:
    """It holds where they are asked for, also for long requests."""
    long = Price(input=2, output=2, cache_write=3, cache_write_long=5)
    price = Price(input=1, output=1, cache_write=2, cache_write_long=4, long_above=9, long=long)
    written = Usage(8, cache_write_tokens=8)

    assert [price.kept(life).cost(written) * 1_000_000 for life in (None, "short", "long")] == [
        16,
        16,
        32,
    ]
    assert price.kept("long").cost(Usage(10, cache_write_tokens=10)) * 1_000_000 == 50
    assert price.kept("long").most_input == 4
    assert Price(input=1, output=1, cache_write=2).kept("long").most_input == 2


def test_usage_adds_up() -> None:
    """Field by field."""
    one = Usage(1, 2, 3, 4, 5, 6, 7, Decimal("0.1"))

    assert one + one == Usage(2, 4, 6, 8, 10, 12, 14, Decimal("0.2"))
    assert one.total_tokens == 5


@pytest.mark.parametrize("given", [None, 1, "no"])
def test_close_out_is_yes_or_no(given: Any) -> None:
    with pytest.raises(ConfigError, match=r"close_out=.*True or False"):
        Limits(close_out=given)
