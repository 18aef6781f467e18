"""What a run used: tokens, requests, tool calls and money."""

from __future__ import annotations

from decimal import Decimal
from math import inf

from msgspec import Struct
from msgspec.structs import replace

from treadle.errors import ConfigError

MILLION = Decimal(1_000_000)
NO_MONEY = Decimal(0)


class Usage(Struct, frozen=True, omit_defaults=True, gc=False):
    """Counts of one model reply, one run or any sum of them.

    `input_tokens` is everything the model read, `cache_read_tokens` and `cache_write_tokens` are
    parts of it; `reasoning_tokens` is a part of `output_tokens`. `requests` counts model calls
    (failed attempts too), `cost` is money in the currency of the prices given (0 without prices).
    """

    input_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0
    requests: int = 0
    tool_calls: int = 0
    cost: Decimal = NO_MONEY

    @property
    def total_tokens(self) -> int:
        """Input plus output tokens."""
        return self.input_tokens + self.output_tokens

    def __add__(self, other: Usage) -> Usage:
        """Return the sum, field by field."""
        return Usage(
            self.input_tokens + other.input_tokens,
            self.cache_read_tokens + other.cache_read_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
            self.output_tokens + other.output_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
            self.requests + other.requests,
            self.tool_calls + other.tool_calls,
            self.cost + other.cost,
        )


NOTHING = Usage()


class Price(Struct, frozen=True, kw_only=True):
    """Money per million tokens. Without a cache price, cached tokens cost what input costs.

    Some vendors charge more for long requests: `long` is the price of every token of a request
    whose input has more than `long_above` tokens. `cache_write_long` is the price of writing to a
    cache that lasts, with `prompt_cache="long"`.
    """

    input: Decimal | float | int
    output: Decimal | float | int
    cache_read: Decimal | float | int | None = None
    cache_write: Decimal | float | int | None = None
    cache_write_long: Decimal | float | int | None = None
    long_above: int | None = None
    long: Price | None = None

    def __post_init__(self) -> None:
        if (self.long_above is None) is not (self.long is None):
            raise ConfigError("Price(long_above=, long=): give both, or neither.")
        for name in ("input", "output", "cache_read", "cache_write", "cache_write_long"):
            value: object = getattr(self, name)
            if value is None and name.startswith("cache"):
                continue
            if isinstance(value, bool) or not isinstance(value, Decimal | float | int):
                raise ConfigError(f"Price({name}={value!r}): give money per million tokens.")
            if not 0 <= value < inf:
                raise ConfigError(f"Price({name}={value!r}): give an amount, 0 or more.")

    def at(self, input_tokens: int) -> Price:
        """Return the price of a request with so much input."""
        if self.long is None or self.long_above is None or input_tokens <= self.long_above:
            return self
        return self.long

    def kept(self, life: str | None) -> Price:
        """Return the price of requests whose prompts are kept so long: "short", "long" or None."""
        if life != "long" or self.cache_write_long is None:
            return self
        long = None if self.long is None else self.long.kept(life)
        return replace(self, cache_write=self.cache_write_long, long=long)

    @property
    def most_input(self) -> Decimal:
        """The most that a million input tokens cost, cached or not."""
        amounts = (self.input, self.cache_read, self.cache_write)
        return max(_exact(amount) for amount in amounts if amount is not None)

    def cost(self, usage: Usage) -> Decimal:
        """Return what the tokens of one request cost."""
        if self.long is not None and (price := self.at(usage.input_tokens)) is not self:
            return price.cost(usage)
        plain = usage.input_tokens - usage.cache_read_tokens - usage.cache_write_tokens
        read = self.input if self.cache_read is None else self.cache_read
        write = self.input if self.cache_write is None else self.cache_write
        return (
            _exact(self.input) * plain
            + _exact(read) * usage.cache_read_tokens
            + _exact(write) * usage.cache_write_tokens
            + _exact(self.output) * usage.output_tokens
        ) / MILLION


def _exact(amount: Decimal | float) -> Decimal:
    return amount if isinstance(amount, Decimal) else Decimal(str(amount))
