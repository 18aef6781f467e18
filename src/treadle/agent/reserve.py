"""Set aside what a model call may use at most, so that no call can exceed a budget."""

from __future__ import annotations

from decimal import Decimal

from msgspec import Struct
from msgspec.structs import replace

from treadle.errors import ConfigError
from treadle.limits import Budget
from treadle.models.estimate import estimate_input
from treadle.ports.model import ModelProfile, ModelRequest, PromptCache
from treadle.usage import MILLION, Price

MOST_OUTPUT = 16_384
"""Output tokens allowed to a call when nobody said how many: what common models accept."""


FREE = Price(input=0, output=0)


class Reservation(Struct, frozen=True):
    """What was set aside for one call, and the request with its output capped to that."""

    request: ModelRequest
    tokens: int
    cost: Decimal
    capped: bool


def reserve(budget: Budget, request: ModelRequest, profile: ModelProfile) -> Reservation | None:
    """Set aside for one call, or return None when it could exceed the budget.

    Raises:
        ConfigError: money is limited and the model has no price.
    """
    estimate = estimate_input(request)
    given = profile.settings_for(request)
    wanted = given.max_output_tokens or min(MOST_OUTPUT, profile.max_output or MOST_OUTPUT)
    kept = given.prompt_cache
    output = min(wanted, _affordable(budget, estimate, profile, kept))
    if output < min(profile.min_output, wanted):
        return None
    tokens = estimate + output
    price = _price(profile).kept(kept) if _money_matters(budget) else FREE
    cost = most_cost(price, estimate, output)
    if not budget.reserve(tokens, cost):
        return None
    settings = replace(request.settings, max_output_tokens=output)
    return Reservation(replace(request, settings=settings), tokens, cost, output < wanted)


def _affordable(
    budget: Budget, estimate: int, profile: ModelProfile, kept: PromptCache | None
) -> int:
    """Return how many output tokens what is left pays for, after this input."""
    tokens_left, cost_left = budget.tokens_left(), budget.cost_left()
    most = MOST_OUTPUT if tokens_left is None else tokens_left - estimate
    if cost_left is not None:
        price = _price(profile).kept(kept)
        after_input = cost_left - most_cost(price, estimate, 0)
        per_token = Decimal(str(price.at(estimate).output)) / MILLION
        if after_input < 0:
            return 0
        if per_token:
            most = min(most, int(after_input / per_token))
    return most


def most_cost(price: Price, input_tokens: int, output_tokens: int) -> Decimal:
    """Return the most that a call can cost: nobody knows before what of it is cached."""
    due = price.at(input_tokens)
    output = Decimal(str(due.output)) * output_tokens
    return (due.most_input * input_tokens + output) / MILLION


def _money_matters(budget: Budget) -> bool:
    return budget.cost_left() is not None


def _price(profile: ModelProfile) -> Price:
    if profile.price is None:
        raise ConfigError(
            f"max_cost is set, but model {profile.name!r} has no price; "
            "give the model price=Price(input=..., output=...), in money per million tokens."
        )
    return profile.price
