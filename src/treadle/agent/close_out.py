"""Tell a model what is left of its limits when that is little, and keep enough for an answer."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator
from decimal import Decimal

from msgspec import Struct

from treadle.agent.reserve import most_cost
from treadle.agent.work import Work
from treadle.limits import UNLIMITED, Budget
from treadle.messages import Thread
from treadle.models.estimate import estimate_input
from treadle.ports.model import ModelRequest
from treadle.usage import NO_MONEY, NOTHING, Usage

EARLIEST = 4
"""A run with fewer turns or calls behind it is not told: its limit is meant tightly."""
ANSWER_TOKENS = 500
"""What an answer is thought to take at least, where something is kept for one."""
LEAST_SECONDS = 1.0


class CloseOut:
    """Looks after each turn how much of a run's limits is left, here and above.

    `told` is whether its model has been told, which happens once, and `told_after` how many turns
    it had taken then. `last` is what its last reply used.
    """

    __slots__ = ("_work", "last", "told", "told_after")

    def __init__(self, work: Work, *, told: bool) -> None:
        self._work = work
        self.told = told or not work.setup.limits.close_out
        self.told_after = 0
        self.last: Usage = NOTHING

    def note(self) -> str:
        """Return what the model is to be told after this turn, "" for nothing."""
        work, budget = self._work, self._work.budget
        counts = budget.counts_spending or budget.counts_calls or work.timed
        if self.told or (budget.turns < EARLIEST and not counts):
            return ""
        left = [*self._turns(), *self._calls(), *self._spending(), *self._seconds()]
        if not left or not budget.turns_left():
            return ""
        self.told, self.told_after = True, budget.turns
        return (
            f"Little is left in this run: {', '.join(left)}. Close out: do only what is still "
            "needed, and then answer."
        )

    def must_answer(self) -> bool:
        """Whether the budget, after another ordinary turn, could not pay for an answer any more.

        It never is before the model has been told and has had a turn to answer by itself.
        """
        setup, budget = self._work.setup, self._work.budget
        if not (self.told and setup.limits.close_out and budget.counts_spending):
            return False
        if budget.turns <= self.told_after:
            return False
        return setup.on_limit == "answer" and self._needs().exceed(_levels(budget), turns=1)

    def _turns(self) -> Iterator[str]:
        budget = self._work.budget
        left = budget.turns_left()
        if left != UNLIMITED and budget.turns >= EARLIEST and left <= max(1, budget.turns // 9):
            yield _count(left, "turn")

    def _calls(self) -> Iterator[str]:
        budget = self._work.budget
        left, used = budget.tool_calls_left(), budget.tool_calls
        if left is not None and used >= EARLIEST and left <= max(1, used // 9):
            yield _count(left, "tool call")

    def _spending(self) -> Iterator[str]:
        """Yield what is left of tokens and money: a tenth, or little more than one more turn."""
        budget = self._work.budget
        spent = _levels(budget) if budget.counts_spending else []
        if not any(level.is_half_spent for level in spent):
            return
        needs = self._needs()
        if needs.exceed(spent, turns=0, answer=False):  # nobody will be asked any more
            return
        for level in spent:
            if level.tokens_are_few(needs):
                yield f"about {_round(int(level.tokens)):,} tokens"
                break
        for level in spent:
            if level.money_is_little(needs):
                yield f"about {level.share_of_money} % of the money"
                break

    def _seconds(self) -> Iterator[str]:
        left = self._work.seconds_left()
        if left is not None and LEAST_SECONDS <= left <= _seconds_used(self._work) / 9:
            yield f"about {_round(int(left))} seconds"

    def _needs(self) -> _Needs:
        """Return what the next calls may take: by the last one, and by how long the history is."""
        work = self._work
        settings, price = work.setup.settings, work.setup.profile.price
        asked = ModelRequest(
            messages=work.thread, system=work.system, tools=work.specs, settings=settings
        )
        given = estimate_input(asked)
        if work.answers is not None:  # they are not part of the thread yet
            given += estimate_input(ModelRequest(messages=Thread(work.answers.closing)))
        answer, free = given + ANSWER_TOKENS, price is None or work.budget.cost_left() is None
        cost = NO_MONEY if price is None or free else most_cost(price, given, ANSWER_TOKENS)
        least = NO_MONEY if price is None or free else most_cost(price, given, 0)
        last = self.last
        return _Needs(last.total_tokens or answer, last.cost or cost, answer, cost, given, least)


class _Needs(Struct, frozen=True):
    """What a turn like the last one takes, and an answer: at most, or its input alone."""

    turn_tokens: int
    turn_cost: Decimal
    answer_tokens: int
    answer_cost: Decimal
    input_tokens: int
    input_cost: Decimal

    def tokens(self, turns: int) -> int:
        """Return the tokens of so many turns and an answer."""
        return turns * self.turn_tokens + self.answer_tokens

    def cost(self, turns: int) -> Decimal:
        """Return the money for so many turns and an answer."""
        return turns * self.turn_cost + self.answer_cost

    def exceed(self, levels: Iterable[_Level], *, turns: int, answer: bool = True) -> bool:
        """Whether one of the levels has less left than so many turns and an answer take."""
        tokens = self.tokens(turns) if answer else self.input_tokens
        cost = self.cost(turns) if answer else self.input_cost
        return any(level.tokens < tokens or level.cost < cost for level in levels)


class _Level:
    """One budget, of the run or of one above it: what it has left, and what was used."""

    __slots__ = ("cost", "cost_used", "tokens", "tokens_used")

    def __init__(self, budget: Budget) -> None:
        limits, usage = budget.limits, budget.usage
        self.tokens_used, self.cost_used = usage.total_tokens, usage.cost
        self.tokens: float = math.inf
        self.cost = Decimal("Infinity")
        if limits.max_tokens is not None:
            self.tokens = limits.max_tokens - self.tokens_used - budget.reserved_tokens
        if limits.max_cost is not None:
            self.cost = limits.max_cost - self.cost_used - budget.reserved_cost

    @property
    def is_half_spent(self) -> bool:
        return self.tokens <= self.tokens_used or self.cost <= self.cost_used

    def tokens_are_few(self, needs: _Needs) -> bool:
        few = max(needs.tokens(2), self.tokens_used / 9)
        return self.tokens <= self.tokens_used and self.tokens < few

    def money_is_little(self, needs: _Needs) -> bool:
        little = max(needs.cost(2), self.cost_used / 9)
        return self.cost <= self.cost_used and self.cost < little

    @property
    def share_of_money(self) -> int:
        return int(self.cost * 100 / (self.cost + self.cost_used))


def _levels(budget: Budget) -> list[_Level]:
    """Return the levels whose tokens or money are limited, from here up."""
    found: list[_Level] = []
    each: Budget | None = budget
    while each is not None:
        if each.limits.counts_spending:
            found.append(_Level(each))
        each = each.parent
    return found


def was_told(work: Work) -> bool:
    """Whether the journal knows that the model was told, before this process took over."""
    recorder, run_id = work.recorder, work.start.run_id
    record = None if recorder is None else recorder.view.runs.get(run_id)
    return record is not None and record.told


def _seconds_used(work: Work) -> float:
    """Return how long the run whose deadline comes first has taken."""
    used, first = 0.0, math.inf
    each: Work | None = work
    while each is not None:
        deadline = each.setup.limits.deadline
        passed = time.perf_counter() - each.began
        if deadline is not None and deadline.total_seconds() - passed < first:
            used, first = passed, deadline.total_seconds() - passed
        each = None if each.origin is None else each.origin.above
    return used


def _count(number: int, thing: str) -> str:
    return f"{number or 'no'} {thing}{'' if number == 1 else 's'}"


def _round(number: int) -> int:
    """Return about the number, in two digits."""
    step = 10 ** max(0, len(str(number)) - 2)
    return number // step * step
