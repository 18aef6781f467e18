"""Parallel branches, whatever they write: time never matters, and a journal makes them again."""

from __future__ import annotations

from itertools import permutations
from operator import add
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec.json import decode, encode

from treadle.errors import TreadleError
from treadle.state import Branch, Scope, ScopedState, State, StateWrite, merge
from treadle.state.compare import same
from treadle.state.reducers import last_wins, union

GONE = object()
REDUCERS = {"sum": add, "log": add, "tags": union, "last": last_wins}
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "sum": st.integers(-3, 3),
    "log": st.lists(st.text("ab", max_size=1), max_size=2),
    "tags": st.sets(st.sampled_from("abc")),
    "last": st.sampled_from([1, 2, None]),
    "plain": st.sampled_from([0, 1, 1.0, True, "x", None]),
    "map": st.dictionaries(st.sampled_from(["a", "b", "$", 1]), st.integers(0, 2), max_size=3),
}
STEPS = st.lists(
    st.sampled_from(sorted(VALUES)).flatmap(
        lambda key: st.tuples(st.just(key), st.just(GONE) | VALUES[key])
    ),
    max_size=6,
)
START = st.fixed_dictionaries({}, optional=VALUES)


def carry_out(state: State, steps: list[tuple[str, Any]]) -> None:
    for key, value in steps:
        state.delete(key) if value is GONE else state.set(key, value)


def outcome(base: State, made: list[tuple[str, Branch]]) -> list[Any]:
    """Return what a merge comes to, packed, or the text of its conflict."""
    try:
        writes = merge(base, made)
    except TreadleError as error:
        return [str(error)]
    return [[write.key, write.deleted, write.value] for write in writes]


@given(START, st.lists(STEPS, min_size=1, max_size=3))
def test_time_never_matters(start: dict[str, Any], plans: list[list[tuple[str, Any]]]) -> None:
    """Branches that are carried out in any order merge to the same: values, or conflict."""
    base = State(start, reducers=REDUCERS)
    packed = base.packed()
    seen: list[Any] = []
    for order in permutations(range(len(plans))):
        made = [(str(number), base.branch()) for number in range(len(plans))]
        for number in order:
            carry_out(made[number][1], plans[number])
        seen.append(outcome(base, made))

    assert all(same(each, seen[0]) for each in seen)
    assert base.packed() == packed


@given(START, st.lists(STEPS, min_size=1, max_size=3), st.data())
def test_a_branch_is_built_again_from_its_journal(
    start: dict[str, Any], plans: list[list[tuple[str, Any]]], data: st.DataObject
) -> None:
    """Whatever was journaled, and after which step: it merges as the live branch does."""
    base = State(start, reducers=REDUCERS)
    live = [(str(number), base.branch()) for number in range(len(plans))]
    again: list[tuple[str, Branch]] = []
    for (name, branch), plan in zip(live, plans, strict=True):
        rebuilt = base.branch()
        for step in plan:
            view = ScopedState(branch, Scope.GLOBAL)
            view.delete(step[0]) if step[1] is GONE else view.set(*step)
            rebuilt.apply(decode(encode(view.writes), type=tuple[StateWrite, ...]))
        whole = base.branch()
        whole.apply(decode(encode(branch.writes), type=tuple[StateWrite, ...]))
        chosen = data.draw(st.sampled_from([rebuilt, whole]))
        assert chosen.snapshot() == branch.snapshot()
        again.append((name, chosen))

    assert same(outcome(base, again), outcome(base, live))


@given(START, st.lists(STEPS, min_size=1, max_size=3))
def test_disjoint_branches_are_what_one_after_another_is(
    start: dict[str, Any], plans: list[list[tuple[str, Any]]]
) -> None:
    """Branches that write different keys come to what one state does that takes all in turn."""
    base, single = State(start, reducers=REDUCERS), State(start, reducers=REDUCERS)
    made: list[tuple[str, Branch]] = []
    taken: set[str] = set()
    for number, plan in enumerate(plans):
        own = [step for step in plan if step[0] not in taken]
        taken |= {key for key, _ in own}
        branch = base.branch()
        carry_out(branch, own)
        carry_out(single, own)
        made.append((str(number), branch))

    base.apply(merge(base, made))
    assert base.snapshot() == single.snapshot()


@given(START, st.lists(STEPS, min_size=1, max_size=3))
def test_reduced_branches_are_what_one_after_another_is(
    start: dict[str, Any], plans: list[list[tuple[str, Any]]]
) -> None:
    """Sums and lists that several branches write come to what one state makes of all writes."""
    base, single = State(start, reducers=REDUCERS), State(start, reducers=REDUCERS)
    made: list[tuple[str, Branch]] = []
    for number, plan in enumerate(plans):
        own = [(key, value) for key, value in plan if key in ("sum", "log") and value is not GONE]
        branch = base.branch()
        carry_out(branch, own)
        carry_out(single, own)
        made.append((str(number), branch))

    base.apply(merge(base, made))
    assert base.snapshot() == single.snapshot()
