"""What a run may use, and the tree of budgets that is spent."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import force_setattr, replace

from treadle.errors import ConfigError
from treadle.usage import NO_MONEY, NOTHING, Usage

LimitName = Literal[
    "max_turns",
    "max_tool_calls",
    "max_tokens",
    "max_cost",
    "deadline",
    "max_depth",
    "max_repeats",
]


class Limits(Struct, frozen=True, kw_only=True):
    """What one run may use. None means no limit.

    ```python
    from datetime import timedelta

    from treadle import Limits

    limits = Limits(max_tokens=50_000, deadline=timedelta(minutes=5))
    print(limits.max_turns, limits.max_tool_calls)
    #> 10 None
    ```

    `max_turns` and `max_tool_calls` are counted; reaching one obeys the agent's `on_limit`.
    `max_tokens` (input plus output), `max_cost` and `deadline` (from the start of the run) stop
    the run. Tokens and money are reserved before each call, so a call that could exceed them is
    not made. `max_cost` may be given as an int or float; it becomes a `Decimal`. `max_depth` is how
    deep agents may ask agents in this run. All limits hold for a run with its child runs, but the
    turns: those of an agent are its own, those of a swarm, a graph or a plan are of all its agents.

    `max_repeats` is for how many turns in a row a model may make the same calls with the same
    results before its run stops; after half of them it is told so. With `close_out`, a model is
    told once what is left when that is little, and answers while the budget lasts: see
    `docs/guide/runs.md`.

    Raises:
        ConfigError: a limit is zero or negative, or is not what it has to be.
    """

    max_turns: int | None = 10
    max_tool_calls: int | None = None
    max_tokens: int | None = None
    max_cost: Decimal | None = None
    deadline: timedelta | None = None
    max_depth: int = 5
    max_repeats: int | None = 5
    close_out: bool = True

    def __post_init__(self) -> None:
        given: Any = self.max_cost
        if isinstance(given, int | float) and not isinstance(given, bool):
            force_setattr(self, "max_cost", Decimal(str(given)))
        if type(self.close_out) is not bool:
            raise ConfigError(f"Limits(close_out={self.close_out!r:.60}): give True or False.")
        for name, kind, least in _RULES:
            value: Any = getattr(self, name)
            if value is None and name != "max_depth":
                continue
            if not isinstance(value, kind) or isinstance(value, bool):
                raise ConfigError(
                    f"Limits({name}={value!r}): give a {kind.__name__}, or leave it out."
                )
            if isinstance(value, Decimal) and not value.is_finite():
                raise ConfigError(f"Limits({name}={value!r}) is no amount.")
            if value < least:
                raise ConfigError(f"Limits({name}={value!r}) is too little; leave it out for none.")

    @property
    def counts_spending(self) -> bool:
        """Whether tokens or money are limited, so that calls are estimated beforehand."""
        return self.max_tokens is not None or self.max_cost is not None


_RULES: tuple[tuple[LimitName, type, Any], ...] = (
    ("max_turns", int, 1),
    ("max_tool_calls", int, 0),
    ("max_tokens", int, 1),
    ("max_cost", Decimal, Decimal("0.000000001")),
    ("deadline", timedelta, timedelta(microseconds=1)),
    ("max_depth", int, 0),
    ("max_repeats", int, 2),
)
"""What each limit is, and the least that it can be."""


UNLIMITED = 2**62
"""Stands for the number of turns that are left where they are not limited."""


class Budget:
    """What a run has used and may still use; a child's use counts in every ancestor too.

    `counts_spending` is whether tokens or money are limited here or above, `counts_calls` whether
    tool calls are, `shares_turns` whether the turns of a flow are. The budget of a `flow`
    counts the turns of all its steps, which are no deeper than it is itself.
    """

    __slots__ = (
        "counts_calls",
        "counts_spending",
        "flow",
        "limits",
        "parent",
        "reserved_calls",
        "reserved_cost",
        "reserved_tokens",
        "shares_turns",
        "spent",
        "tool_calls",
        "turns",
    )

    def __init__(self, limits: Limits, parent: Budget | None = None, *, flow: bool = False) -> None:
        self.limits = limits
        self.parent = parent
        self.flow = flow
        self.counts_spending: bool = limits.counts_spending or (
            parent is not None and parent.counts_spending
        )
        self.counts_calls: bool = limits.max_tool_calls is not None or (
            parent is not None and parent.counts_calls
        )
        self.shares_turns: bool = (flow and limits.max_turns is not None) or (
            parent is not None and parent.shares_turns
        )
        self.turns = 0
        self.tool_calls = 0
        self.reserved_calls = 0
        self.reserved_tokens = 0
        self.reserved_cost = NO_MONEY
        self.spent = NOTHING

    @property
    def usage(self) -> Usage:
        """What was used so far."""
        return replace(self.spent, tool_calls=self.tool_calls)

    def turns_left(self) -> int:
        """Return how many more model calls may be made."""
        most = self.limits.max_turns
        left = UNLIMITED if most is None else most - self.turns
        if self.shares_turns and self.parent is not None:
            left = min(left, self.parent.shared_turns_left())
        return left if left > 0 else 0

    def shared_turns_left(self) -> int:
        """Return how many more model calls the steps of flows from here on up may make."""
        above = UNLIMITED if self.parent is None else self.parent.shared_turns_left()
        most = self.limits.max_turns
        return min(max(0, most - self.turns), above) if self.flow and most is not None else above

    def most_turns(self) -> int | None:
        """Return the limit of turns that is reached first, here or above."""
        own, above = self.limits.max_turns, self.parent
        while above is not None:
            most = above.limits.max_turns
            if above.flow and most is not None and above.turns >= most:
                return most
            above = above.parent
        return own

    def count_turn(self, number: int = 1) -> None:
        """Count a turn, here and in flows above; a negative number takes it back."""
        self.turns += number
        above = self.parent
        while above is not None:
            if above.flow:
                above.turns += number
            above = above.parent

    def tool_calls_left(self) -> int | None:
        """Return how many more tool calls may run, or None when they are not limited."""
        if not self.counts_calls:
            return None
        own = None
        if self.limits.max_tool_calls is not None:
            own = max(0, self.limits.max_tool_calls - self.tool_calls - self.reserved_calls)
        above = self.parent.tool_calls_left() if self.parent else None
        return own if above is None else above if own is None else min(own, above)

    def most_tool_calls(self) -> int | None:
        """Return the limit of tool calls that is reached first, here or above."""
        own, above = self.limits.max_tool_calls, self.parent
        if above is None or (own is not None and self.tool_calls_left() != above.tool_calls_left()):
            return own
        return above.most_tool_calls() if above.tool_calls_left() is not None else own

    def depth_left(self) -> int:
        """Return how deep child runs may be nested in this one."""
        own, above = self.limits.max_depth, self.parent
        return own if above is None else min(own, above.depth_left() - (not above.flow))

    def tokens_left(self) -> int | None:
        """Return how many tokens may still be reserved, or None when they are not limited."""
        own = None
        if self.limits.max_tokens is not None:
            own = self.limits.max_tokens - self.usage.total_tokens - self.reserved_tokens
        above = self.parent.tokens_left() if self.parent else None
        return own if above is None else above if own is None else min(own, above)

    def cost_left(self) -> Decimal | None:
        """Return how much money may still be reserved, or None when it is not limited."""
        own = None
        if self.limits.max_cost is not None:
            own = self.limits.max_cost - self.usage.cost - self.reserved_cost
        above = self.parent.cost_left() if self.parent else None
        return own if above is None else above if own is None else min(own, above)

    def reserve(self, tokens: int, cost: Decimal) -> bool:
        """Set aside what a call may use at most, or return False and set nothing aside."""
        tokens_left, cost_left = self.tokens_left(), self.cost_left()
        if (tokens_left is not None and tokens > tokens_left) or (
            cost_left is not None and cost > cost_left
        ):
            return False
        self.hold(tokens, cost)
        return True

    def release(self, tokens: int, cost: Decimal) -> None:
        """Give back what was set aside."""
        self.hold(-tokens, -cost)

    def spend(self, usage: Usage) -> None:
        """Count what was used, here and above."""
        each: Budget | None = self
        while each is not None:
            each.spent = usage if each.spent is NOTHING else each.spent + usage
            each.tool_calls += usage.tool_calls
            each = each.parent

    def count_call(self) -> None:
        """Count a tool call, here and above."""
        each: Budget | None = self
        while each is not None:
            each.tool_calls += 1
            each = each.parent

    def hold_calls(self, number: int) -> None:
        """Set aside tool calls that are about to run, here and above; negative gives them back."""
        self.reserved_calls += number
        if self.parent is not None:
            self.parent.hold_calls(number)

    def restore(self, usage: Usage, turns: int, tool_calls: int) -> None:
        """Go on with what was used before; those above go on with it by themselves."""
        self.spent = replace(usage, tool_calls=0)
        self.turns, self.tool_calls = turns, tool_calls

    def hold(self, tokens: int, cost: Decimal) -> None:
        """Change what is set aside, here and above."""
        self.reserved_tokens += tokens
        self.reserved_cost += cost
        if self.parent is not None:
            self.parent.hold(tokens, cost)
