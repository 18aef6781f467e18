"""Token counts and money as servers tell of them: what can be neither counts as unknown."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation

from treadle.usage import NO_MONEY, Usage

_MOST_TOKENS = 10**12
_LEAST_MONEY = Decimal("1e-18")
_MOST_MONEY = Decimal(10**9)
"""What is beyond these was not counted by anyone, and no store or sum should have to hold it."""


def tokens(value: object) -> int | None:
    """Return a count, 0 or more, of a number or its text; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        count = int(value)
    except (ValueError, OverflowError):
        return None
    return count if 0 <= count <= _MOST_TOKENS else None


def money(value: object) -> Decimal:
    """Return an amount, 0 or more; nothing for anything that is none."""
    if isinstance(value, bool) or not isinstance(value, Decimal | int | float | str):
        return NO_MONEY
    try:
        amount = Decimal(str(value))
    except (InvalidOperation, ValueError):
        return NO_MONEY
    if not amount.is_finite() or not _LEAST_MONEY <= amount <= _MOST_MONEY:
        return NO_MONEY
    return amount


def usage_from(
    *,
    prompt: object,
    read: object = None,
    written: object = None,
    output: object = None,
    reasoning: object = None,
    cost: object = None,
) -> Usage:
    """Return the usage of one request.

    What a cache had to do with is a part of the input: it never is more than all of it, or the
    rest would be less than nothing, and so would its price.
    """
    from_cache, into_cache = tokens(read) or 0, tokens(written) or 0
    return Usage(
        max(tokens(prompt) or 0, from_cache + into_cache),
        from_cache,
        into_cache,
        tokens(output) or 0,
        tokens(reasoning) or 0,
        1,  # request
        0,  # tool calls are counted where they are made
        money(cost),
    )
